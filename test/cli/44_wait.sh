# wait: until a job is over, with its output.
. "$(dirname "$0")/tap"
pgwork -q migrate
pgwork queue create q --retention 1d
pgwork queue create short

id=$(pgwork enqueue q 1)
pgwork wait "$id" --timeout 60s >"$tmp/waited" 2>"$tmp/why" &
waiter=$!
jobs_of_ours="$jobs_of_ours $waiter"
until_true 30 count_is "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'pgwork%' AND query LIKE '%job_list%'" 1
pgwork -q work q --once -k -- echo '{"a": 1}'
wait $waiter
is 'it ends when the job is done' "$? $(cat "$tmp/waited" "$tmp/why")" '0 {"exit": 0, "stdout": "{\"a\": 1}\n"}'
is 'at once when it was done before' "$(pgwork wait -Q q "$id" | grep -c '"exit": 0')" 1
is 'with all of it as JSON' "$(pgwork wait "$id" --json | grep -o '"state":"done"')" '"state":"done"'
id=$(pgwork enqueue q 2)
refused 'a job that is not over in time' 75 "job $id is not over yet" pgwork wait "$id" --timeout 100ms
pgwork -q claim q | pgwork -q fail q --dead -e no
refused 'a dead letter' 1 "job $id is a dead letter" pgwork wait "$id"
id=$(pgwork enqueue q 3)
pgwork -q cancel q "$id"
refused 'a job that was cancelled' 1 "job $id is cancelled" pgwork wait "$id"
refused 'a job that is not there' 1 'no such job' pgwork wait 999999
refused 'a job of another queue' 1 'no such job' pgwork wait -Q short "$id"
id=$(pgwork enqueue short 1)
pgwork wait "$id" --timeout 60s >"$tmp/waited" 2>"$tmp/why" &
waiter=$!
jobs_of_ours="$jobs_of_ours $waiter"
until_true 30 count_is "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'pgwork%' AND query LIKE '%job_list%'" 1
pgwork -q work short --once -- true
wait $waiter
is 'a job that is over and not kept' "$? $(grep -c "job $id is over, or never existed: its queue keeps no finished jobs" "$tmp/why")" '1 1'
pgwork enqueue q 4 >/dev/null
pgwork wait "$(sql "SELECT max(id) FROM pgwork.job")" --timeout 60s 2>/dev/null &
waiter=$!
jobs_of_ours="$jobs_of_ours $waiter"
until_true 30 heard $waiter
until_true 30 count_is "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'pgwork%' AND query LIKE '%job_list%'" 1
kill -TERM $waiter
wait $waiter
is 'a signal ends the wait' $? 143
exit 0
