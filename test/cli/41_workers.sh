# workers, metrics and demand: reports, counters, and the figure for autoscalers.
. "$(dirname "$0")/tap"
pgwork -q migrate
pgwork queue create q
pgwork queue create other
series() { pgwork metrics --no-doctor | grep "^pgwork_$1{queue=\"$2\"" | sed 's/.* //'; }
# a minute passes for the reapers
minute() { sql "UPDATE pgwork.report_sum SET at = at - interval '61 s'; SELECT pgwork.prune()" >/dev/null; }

code 'no worker' 1 pgwork workers
is 'prints a message' "$(cat "$tmp/err")" 'pgwork: no worker has reported within 30 s'
refused 'workers of a queue that is not there' 1 'no queue "none"' pgwork workers none

pgwork enqueue q 1 2 3 >/dev/null
pgwork -q work q --until-empty -- true
pgwork enqueue q 4 >/dev/null
pgwork -q work q --until-empty -- sh -c 'exit 65' 2>/dev/null
code 'a worker that has ended is not listed' 1 pgwork workers q
is 'the counts of an ended worker are kept' "$(series jobs_claimed_total q) $(series jobs_done_total q) $(series jobs_failed_total q) $(series jobs_dead_total q)" '4 3 0 1'
is 'each job waited, and ran' "$(series job_wait_seconds_count q) $(series job_run_seconds_count q) $(series job_run_seconds_bucket q | tail -n 1)" '4 4 4'
is 'a queue without workers has no histogram' "$(series jobs_claimed_total other) $(series job_wait_seconds_count other)" '0 '
pgwork -q reap --once
is 'a reaper adds up workers that have ended' "$(sql "SELECT count(*) FROM pgwork.worker_report") $(series jobs_done_total q)" '0 3'
is 'a reaper writes the row of the minute' "$(sql "SELECT claimed || ' ' || done || ' ' || dead || ' ' || (wait_p95_ms > 0) FROM pgwork.minutes WHERE queue = 'q'")" '4 3 1 true'

id=$(pgwork enqueue q slow)
sql "SELECT pgwork.enqueue('q', '1', delay_ms => 1)" >/dev/null
busy_worker q
until_true 30 count_is "SELECT count(*) FROM pgwork.workers WHERE ids = '{$id}'" 1
code 'a worker is listed' 0 pgwork workers
is 'with its queue, handlers and running jobs' "$(awk 'NR == 2 { print $1, $2, $5, $6 }' "$tmp/out")" 'me q 1 1'
code 'as JSON' 0 pgwork workers q --json
json 'that is JSON' "$tmp/out"
is 'with the jobs that it runs' "$(grep -o '"jobs":\[{"id":[0-9]*,"attempt":1,"since":"20' "$tmp/out")" "\"jobs\":[{\"id\":$id,\"attempt\":1,\"since\":\"20"
pgwork show "$id" >"$tmp/out"
is 'show tells since when, by whom and at which attempt it runs' "$(grep -c -e '^runs since  *20.* ago)$' -e '^holder  *me$' -e '^attempt  *1/10$' "$tmp/out")" 3
pgwork ls q -s leased >"$tmp/out"
is 'ls tells for how long' "$(awk 'NR == 2 { print ($10 ~ /^[0-9].*s$/), $11 }' "$tmp/out")" '1 me'
is 'metrics count it' "$(series workers q) $(series jobs_running q) $(series workers other)" '1 1 0'
kill -KILL $worker
wait $worker 2>/dev/null
minute
sql "UPDATE pgwork.worker_report SET at = at - interval '40 s'"
code 'a worker that was killed is not listed for long' 1 pgwork workers
minute
is 'what it did stays counted' "$(sql "SELECT count(*) FROM pgwork.worker_report") $(series jobs_claimed_total q)" '0 5'
is 'a minute without a change has no row' "$(sql "SELECT count(*) FROM pgwork.minutes WHERE queue = 'other'")" 0
touch "$tmp/go"

pgwork -q queue drop q --force
sql 'SELECT pgwork.prune()' >/dev/null
is 'a queue that is dropped takes its counts along' "$(sql "SELECT (SELECT count(*) FROM pgwork.total) + (SELECT count(*) FROM pgwork.minute)")" 0

pgwork enqueue other 1 2 3 >/dev/null
pgwork enqueue other 4 5 --delay 1h >/dev/null
pgwork -q claim other >/dev/null
is 'demand is what is ready or leased' "$(pgwork demand other) $(pgwork demand other --json)" '3 {"demand":3}'
is 'demand counts jobs that are due soon' "$(pgwork demand other --within 2h)" 5
is 'up to a bound' "$(pgwork demand other --at-most 2)" 2
is 'of no queue it is 0' "$(pgwork demand none)" 0
pgwork queue pause other
is 'of a paused queue it is what is leased' "$(pgwork demand other)" 1
refused 'demand of everything' 2 'QUEUE' pgwork demand
refused 'demand up to 0' 2 'at_most' pgwork demand other --at-most 0
exit 0
