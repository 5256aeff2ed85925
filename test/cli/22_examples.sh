# The examples poll_loop, enqueue_in_tx, tenants and traced.
. "$(dirname "$0")/tap"
poll_loop=$build/examples/poll_loop in_tx=$build/examples/enqueue_in_tx tenants=$build/examples/tenants traced=$build/examples/traced

code 'poll_loop: without the schema of pgwork it says so' 1 "$poll_loop"
yes 'poll_loop: without the schema of pgwork it names the schema' grep -q '^PGW_ESCHEMA: ' "$tmp/err"
code 'enqueue_in_tx, too' 1 "$in_tx"
yes 'enqueue_in_tx: without the schema of pgwork it names the schema' grep -q '^PGW_ESCHEMA: ' "$tmp/err"
pgwork -q migrate

pgwork queue create poll_loop --retention 1d
other=$(pgwork enqueue default 1)
code 'poll_loop' 0 "$poll_loop"
id=$(sql "SELECT id FROM pgwork.job WHERE queue = 'poll_loop'")
is 'its job goes all the way' "$(grep -v '^other things' "$tmp/out" | tr '\n' '|')" "enqueued $id|claimed $id|completed|"
yes 'while other things happen' grep -q '^other things' "$tmp/out"
is 'poll_loop: the job is done' "$(sql "SELECT state || ' ' || attempt FROM pgwork.job WHERE id = $id")" 'done 1'
other="$other $(pgwork enqueue poll_loop 1)"
code 'poll_loop: where the job of another comes first' 0 "$poll_loop"
yes 'it goes on to its own' grep -q '^completed$' "$tmp/out"
yes 'the example prints what it requeued' grep -q '^of others, requeued: 1$' "$tmp/out"
is 'that is as it was, as is the one of another queue' \
    "$(sql "SELECT state, attempt FROM pgwork.job WHERE id IN ($(echo "$other" | tr ' ' ,))" | tr '\n' ' ')" 'ready|0 ready|0 '
pgwork -q claim poll_loop --lease 100ms >/dev/null # as by a run that was killed in the middle
reaped() { pgwork -q reap --once && [ "$(sql "SELECT state FROM pgwork.job WHERE id = ${other#* }")" = ready ]; }
yes 'the job of a dead run comes back' until_true 20 reaped
code 'poll_loop: where that one comes first, and alone' 0 "$poll_loop"
yes 'it goes on to its own' grep -q '^completed$' "$tmp/out"
is 'the requeued job is not charged' "$(sql "SELECT state, attempt FROM pgwork.job WHERE id = ${other#* }")" 'ready|1'

both() { sql "SELECT (SELECT count(*) FROM orders) || ' ' || count(*) FROM pgwork.job WHERE queue = 'mail'"; }
code 'enqueue_in_tx: rolled back' 0 "$in_tx" back
yes 'it says so' grep -q '^order and job [1-9][0-9]* never were$' "$tmp/out"
is 'after a rollback neither order nor job is there' "$(both)" '0 0'
code 'enqueue_in_tx: committed' 0 "$in_tx"
id=$(sql "SELECT id FROM pgwork.job WHERE queue = 'mail'")
is 'it says which job' "$(cat "$tmp/out")" "order and job $id are there"
is 'both are there' "$(both)" '1 1'
is 'the job is the receipt' "$(sql "SELECT state || ' ' || kind || ' ' || (payload->>'to') FROM pgwork.job WHERE id = $id")" 'ready receipt ada@example.org'
pgwork -q reap &
reaper=$! jobs_of_ours=$!
code 'tenants' 0 "$tenants" 60
is 'all jobs of all tenants are done' "$(grep -c '^big: 60 of 60 \|^middle: 12 of 12 \|^small: 3 of 3 ' "$tmp/out")" 3
yes 'the last tenant is served long before the first' awk '{ last[$1] = $NF } END { exit !(last["small:"] < 37 && last["middle:"] < last["big:"]) }' "$tmp/out"
yes 'the API is called as often as it allows' grep -q '^75 calls in ' "$tmp/out"
code 'tenants: once more' 0 "$tenants" 20
is 'begins anew' "$(grep -c '^big: 20 of 20 \|^middle: 4 of 4 \|^small: 1 of 1 ' "$tmp/out")" 3
kill $reaper
wait $reaper
code 'tenants: too few jobs' 2 "$tenants" 5
code 'traced' 0 "$traced" 2
is 'traced: a span for each enqueue and for each attempt' "$(grep -c '"kind":4' "$tmp/out") $(grep -c '"kind":5' "$tmp/out")" '2 4'
is 'a retry is a trace without a parent' "$(grep -c '"kind":5.*"code":0' "$tmp/out") $(grep '"kind":5.*"code":0' "$tmp/out" | grep -c '"parentSpanId":""')" '2 2'
for id in $(sed -n '/"kind":4/s/.*"traceId":"\([0-9a-f]*\)","spanId":"\([0-9a-f]*\)".*/\1_\2/p' "$tmp/out"); do
    is 'the first attempt is in the trace of its enqueue' "$(grep -c "\"traceId\":\"${id%_*}\",\"spanId\":\"[0-9a-f]*\",\"parentSpanId\":\"${id#*_}\"" "$tmp/out")" 1
    is 'a retry has a link to its enqueue' "$(grep -c "\"links\":\[{\"traceId\":\"${id%_*}\",\"spanId\":\"${id#*_}\"}\]" "$tmp/out")" 1
done
yes 'each span is JSON' sql "SELECT count(*) FROM regexp_split_to_table(\$spans\$$(cat "$tmp/out")\$spans\$, E'\\n') l WHERE l::json IS NOT NULL"
code 'traced: without a job' 2 "$traced" 0
env PGWORK_DSN="host=$tmp/nowhere" "$in_tx" 2>"$tmp/err"
is 'enqueue_in_tx: without a server' "$? $(grep -c "$tmp/nowhere" "$tmp/err")" '1 1'
exit 0
