# Kinds: a command for each kind, limits and timeouts by kind, unlimited attempts, retention of dead letters.
. "$(dirname "$0")/tap"
pgwork -q migrate
done_by() { sql "SELECT coalesce(string_agg(kind || ' ' || (output->>'stdout'), ', ' ORDER BY id), 'none') FROM pgwork.job WHERE queue = '$1' AND state = 'done'"; }

pgwork queue create a --retention 1d
pgwork enqueue a -J '{"file": "x y"}' -k thumb >/dev/null
pgwork enqueue a -J '{"file": "z"}' -k 'a mail' >/dev/null
pgwork enqueue a -J '{"file": "w"}' >/dev/null
code 'a command for each kind' 0 pgwork work a --until-empty -k --kind 'thumb=printf <%s>  {file}' --kind '=printf none' -- printf 'other {kind}'
is 'runs for its kind, and that behind -- for all others' "$(done_by a)" 'thumb <x y>, a mail other a mail,  none'
pgwork queue create b --retention 1d --max-attempts 1
pgwork enqueue b -J '{}' -k odd >/dev/null
pgwork enqueue b -J '{}' -k true >/dev/null
code 'no command behind --' 0 pgwork work b --until-empty --kind true=true
is 'a job of another kind fails' "$(sql "SELECT string_agg(state || ' ' || coalesce(error, '-'), ', ' ORDER BY id) FROM pgwork.job WHERE queue = 'b'")" 'dead this worker has no handler for kind "odd", done -'

pgwork queue create c --retention 1d
for _ in 1 2 3; do pgwork enqueue c -J '{}' -k one >/dev/null; done
pgwork enqueue c -J '{}' -k many >/dev/null
pgwork -q reap 2>/dev/null &
r=$! jobs_of_ours=$!
pgwork -q work c -j4 --kind-jobs one=1 -- sh -c 'test "$PGWORK_KIND" = many || { mkdir "$1" || exit 65; sleep 0.3; rmdir "$1"; }' sh "$tmp/lock" 2>"$tmp/err" &
w=$!
jobs_of_ours="$r $w"
yes 'the limit of a kind' until_true 60 count_is "SELECT count(*) FROM pgwork.job WHERE queue = 'c' AND state = 'done' AND attempt = 1" 4
kill "$w"
wait "$w"
is 'no two of them ran at once' "$(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'c' AND state = 'dead'")" 0

pgwork queue create d --max-attempts 1
pgwork enqueue d -J '{}' -k slow >/dev/null
pgwork enqueue d -J '{}' -k own --meta '{"timeout_ms": 100}' >/dev/null
code 'timeouts of a kind and of a job' 0 pgwork work d --until-empty --kind-timeout slow=100ms --kind 'slow=sleep 60' -- sleep 60
is 'end their commands' "$(sql "SELECT string_agg(DISTINCT error, '|') FROM pgwork.job WHERE queue = 'd' AND state = 'dead'")" 'took too long, the command was stopped'

refused 'a kind without a command' 2 'kind "x" has no command' pgwork work a --kind y=true --kind-jobs x=1
refused 'a command without words' 2 '--kind is "x= ": expected KIND=COMMAND' pgwork work a --kind 'x= ' -- true
refused 'a kind twice' 2 'each KIND once' pgwork work a --kind x=true --kind x=false
refused 'a limit of 0' 2 '--kind-jobs is "x=0": expected KIND=N, with N from 1 to 1024' pgwork work a --kind-jobs x=0 -- true
refused 'a timeout that is none' 2 '--kind-timeout is "x=soon": expected KIND=TIME' pgwork work a --kind-timeout x=soon -- true
refused 'no command at all' 2 'no command: expected' pgwork work a --kind-jobs x=1
refused 'a place in a script' 2 'would run text of the payload' pgwork work a --kind 'x=sh -c {file}'
refused 'a command that is not there' 127 'cannot start not-there' pgwork work a --kind 'x=not-there'
refused 'a timeout of a job that is none' 2 'timeout_ms. is not a number of milliseconds: expected 1..2592000000' pgwork enqueue a x --meta '{"timeout_ms": "5s"}'

code 'unlimited attempts' 0 pgwork queue create u --max-attempts unlimited --backoff 0 --dead-retention 1h
is 'are listed' "$(pgwork queue list | awk '$1 == "u" { print $10 }')" unlimited
is 'JSON shows unlimited attempts and the retention of dead letters' "$(pgwork --json queue list | grep '"u"' | grep -o '"max_attempts":-1\|"dead_retention_ms":3600000' | tr '\n' ' ')" '"max_attempts":-1 "dead_retention_ms":3600000 '
id=$(pgwork enqueue u x)
code 'a failure' 0 pgwork work u --until-empty -- sh -c 'exit 3'
yes 'names no last attempt' grep -q "^pgwork: job $id, attempt 1: exit 3$" "$tmp/err"
refused 'a number of attempts that is none' 2 'from 1 to 1000, or unlimited' pgwork queue set u --max-attempts 0
id=$(pgwork enqueue a x --max-attempts unlimited)
is 'of one job' "$(sql "SELECT max_attempts FROM pgwork.job WHERE id = $id")" -1
code 'of the jobs of a schedule' 0 pgwork cron add s '0 0 1 1 *' -Q a --max-attempts unlimited
is 'is kept' "$(sql "SELECT max_attempts FROM pgwork.schedule WHERE name = 's'")" -1
code 'as a line' 0 pgwork enqueue a -F '{"payload": 1, "max_attempts": -1}'
id=$(pgwork enqueue u x)
pgwork -q work u --until-empty -- sh -c 'exit 65' 2>/dev/null
sql "UPDATE pgwork.dead_job SET died_at = died_at - interval '2 hours'" >/dev/null
yes 'a dead letter that is too old goes' until_true 60 count_is "SELECT count(*) FROM pgwork.dead_job d JOIN pgwork.queue q ON q.id = d.queue WHERE q.name = 'u'" 0
kill "$r"
wait "$r"
exit 0
