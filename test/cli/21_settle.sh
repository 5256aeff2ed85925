# The example settle: what jobs write and their end are one transaction, so sums are exact whoever dies.
. "$(dirname "$0")/tap"
settle=$top/build/examples/settle
pgwork -q migrate
pgwork -q queue create payments --lease 1s --backoff 0s --max-attempts 1000
sql 'CREATE TABLE account (name text PRIMARY KEY, balance bigint NOT NULL)' >/dev/null
seq 1 2000 | sed 's/.*/{"to": "ada", "amount": &}/' | pgwork -q enqueue payments --json-lines

workers=
for w in 1 2 3; do
    "$settle" payments >"$tmp/$w" 2>"$tmp/$w.err" &
    workers="$workers $!"
done
"$settle" payments >"$tmp/killed" 2>&1 &
victim=$!
jobs_of_ours="$workers $victim"

waiting() { sql "SELECT ready + leased + delayed FROM pgwork.depth('payments')"; }
some_done() { [ "$(waiting)" -le 1500 ]; }
until_true 60 some_done
kill -KILL $victim
n=0 hit=0
while [ "$(waiting)" != 0 ] && [ $n -lt 600 ]; do
    n=$((n + 1))
    hit=$((hit + $(shoot)))
    pgwork -q reap --once >/dev/null 2>&1 || :
    sleep 0.1
done
yes 'sessions are ended' [ $hit -gt 0 ]
is 'all jobs are done' "$(waiting)" 0
is 'each took effect once' "$(sql 'SELECT balance FROM account')" 2001000
# shellcheck disable=SC2086  # several
{
    kill -TERM $workers
    all_well 'the workers end well' $workers
}
yes 'and say what they settled' grep -q '^[1-9][0-9]* settled, ' "$tmp/1"
exit 0
