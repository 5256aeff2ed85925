# ls, show, cancel, retry, dead, stats, doctor.
. "$(dirname "$0")/tap"
pgwork -q migrate
pgwork queue create q --retention 1d
state() { sql "SELECT state || ' ' || attempt FROM pgwork.job WHERE id = $1"; }

code 'ls of nothing' 1 pgwork ls
esc=$(printf '\033')
ready=$(pgwork enqueue q "secret ${esc}[31m payload")
delayed=$(pgwork enqueue q x --delay 1h -t tag)
dead=$(pgwork enqueue q x -p 0 -k die)
pgwork -q fail q $(pgwork claim q | cut -f1,2) --dead 2>/dev/null
: "the oldest was claimed first: whichever it was, one is dead"
one=$(sql "SELECT id FROM pgwork.job WHERE state = 'dead'")
code 'ls' 0 pgwork ls
is 'a line for each, and the heading' "$(wc -l <"$tmp/out")" 4
is 'no payload, nothing that a terminal would obey' "$(grep -c -e secret -e "$esc" "$tmp/out")" 0
code 'ls --json' 0 pgwork ls --json
json 'is JSON' "$tmp/out"
code 'ls -s' 0 pgwork ls q -s delayed --json
is 'only those' "$(sed 's/.*"id":\([0-9]*\).*/\1/' "$tmp/out")" "$delayed"
code 'ls -k' 0 pgwork ls -k die --json
is 'only of this kind' "$(sed 's/.*"id":\([0-9]*\).*/\1/' "$tmp/out")" "$dead"
code 'ls -n' 0 pgwork ls -n 1 --json
is 'only so many' "$(wc -l <"$tmp/out")" 1
rest=$(pgwork ls q --json | sed 's/.*"id":\([0-9]*\).*/\1/' | tr '\n' ' ')
is 'ls in the order of the ids' "$rest" "$ready $delayed $dead "
code 'a page of two' 0 pgwork ls q -n 2
is 'tells how to go on' "$(cat "$tmp/err")" "pgwork: there may be more: continue with --after $delayed"
code 'with -q' 0 pgwork -q ls q -n 2
is 'it does not' "$(cat "$tmp/err")" ''
code 'the next page' 0 pgwork ls q -n 2 --after "$delayed" --json
is 'is the last' "$(sed 's/.*"id":\([0-9]*\).*/\1/' "$tmp/out") $(cat "$tmp/err")" "$dead "
code 'no page follows the last one' 1 pgwork ls q --after "$dead"
refused 'behind no id' 2 '\-\-after' pgwork ls q --after -1
refused 'ls of a queue that is not there' 1 'no queue "none_such"' pgwork ls none_such
code 'ls of a queue where nothing is found' 1 pgwork ls q -k none_such
is 'says nothing' "$(cat "$tmp/out" "$tmp/err")" ''
refused 'dead list of a queue that is not there' 1 'no queue "none_such"' pgwork dead list none_such
refused 'ls of a state that is none' 2 . pgwork ls -s frob
yes 'ls into a pipe that closes' sh -c 'pgwork ls | head -n 1'
code 'ls into a full disk' 8 sh -c 'pgwork ls >/dev/full'

code 'show' 0 pgwork show "$delayed"
yes 'prints the state' grep -q '^state  *delayed$' "$tmp/out"
yes 'show prints when a job runs' grep -q '^run at  *20.*Z (in 59m' "$tmp/out"
yes 'show prints the tag' grep -q '^tag  *tag$' "$tmp/out"
code 'show -Q --json' 0 pgwork show -Q q --json "$ready" "$delayed"
json 'is JSON' "$tmp/out"
id=$(pgwork enqueue lines x)
pgwork claim lines | pgwork -q fail lines --dead -e "$(printf 'first line\n\nstate        done\033[31m\n.')"
code 'show of an error of many lines' 0 pgwork show "$id"
is 'prints line by line' "$(sed -n '/^error/,/ \.$/p' "$tmp/out" | sed 's/ *$//')" 'error        first line

             state        done\x1b[31m
             .'
pgwork -q queue drop lines --force
pgwork queue create kept --retention 1d
id=$(pgwork enqueue kept x)
pgwork -q work kept --once -- true
is 'of a finished job the attempts, not how many it might have had' "$(pgwork ls kept | awk 'NR == 2 { print $6 }') $(pgwork show "$id" | grep -c '^attempt  *1$') $(pgwork show "$id" --json | grep -c '"attempt":1,"max_attempts":null,')" '1 1 1'
pgwork -q queue drop kept --force
for far in '200000-01-01 00:00:00+00|200000-01-01T00:00:00.000000Z' '294247-01-09 04:00:54+00|294247-01-09T04:00:54.000000Z' \
    '0044-03-15 00:00:00+00 BC|-0043-03-15T00:00:00.000000Z'; do
    id=$(sql "SELECT id FROM pgwork.enqueue('far', expires_at => '${far%|*}')")
    is "the year of ${far%|*} is printed as ISO 8601 has it" "$(pgwork show "$id" | grep -E '^expires' | grep -o -E '[-0-9]+T[^ ]*')" "${far#*|}"
done
refused 'a run_at that is further away than a delay may be' 2 'argument run_at is .2099-01-31.*: expected a time up to .* (ten years from now)' pgwork enqueue far x --run-at 2099-01-31T12:00:00Z
pgwork -q queue drop far --force
refused 'show of none' 1 'job 999999 does not exist' pgwork show 999999
code 'show of one and none' 1 pgwork show "$delayed" 999999
refused 'show of no id' 2 'not a job id' pgwork show 0

code 'dead list' 0 pgwork dead list
code 'dead list --json' 0 pgwork dead list q --json
json 'is JSON' "$tmp/out"
code 'retry' 0 pgwork retry q "$one" "$one"
is 'of one that is named twice' "$(cat "$tmp/err")" 'pgwork: 1 of 1 dead letters made ready'
is 'is ready with a fresh count' "$(state "$one")" 'ready 0'
refused 'retry of one that is not dead' 1 '0 of 1' pgwork retry q "$one"
refused 'retry in no queue' 1 . pgwork retry none_such 1
code 'no dead letters' 1 pgwork dead list
for i in 1 2 3; do pgwork enqueue r $i -k k$i >/dev/null; done
pgwork claim r -n 3 | pgwork -q fail r --dead -e "$(printf 'first line\nlast line')"
code 'dead list prints the error' 0 pgwork dead list r
is 'in the order of the ids' "$(awk 'NR > 1 { print $3 }' "$tmp/out" | tr '\n' ' ')" 'k1 k2 k3 '
code 'dead list, a page of two' 0 pgwork dead list r -n 2 --json
last=$(sed -n '2s/.*"id":\([0-9]*\).*/\1/p' "$tmp/out")
is 'tells how to go on' "$(cat "$tmp/err")" "pgwork: there may be more: continue with --after $last"
code 'the next page' 0 pgwork dead list r -n 2 --after "$last" --json
is 'has the third' "$(grep -c '"kind":"k3"' "$tmp/out") $(wc -l <"$tmp/out")" '1 1'
code 'dead list prints the error' 0 pgwork dead list r
is 'by the last line' "$(grep -c 'last line$' "$tmp/out") $(grep -c 'first line' "$tmp/out")" '3 0'
code 'dead redrive -k' 0 pgwork dead redrive r -k k2 --json
is 'moves one' "$(cat "$tmp/out")" '{"moved":1}'
code 'dead redrive -n' 0 pgwork dead redrive r -n 1 --json
is 'moves one more' "$(cat "$tmp/out")" '{"moved":1}'
code 'dead purge --older-than' 1 pgwork dead purge r --older-than 1h
code 'dead purge of another' 1 pgwork dead purge r 1000000
code 'dead purge -k' 1 pgwork dead purge r -k none_such
refused 'dead purge of no id' 2 'r2d2' pgwork dead purge r r2d2
pgwork enqueue r 4 >/dev/null
pgwork claim r -n 1 --lease 10m >"$tmp/one"
pgwork -q fail r --dead <"$tmp/one"
refused 'dead purge of one, named twice, and of another' 1 '1 of 2 jobs are not dead letters of queue "r"' pgwork dead purge r --json "$(cut -f 1 "$tmp/one")" "$(cut -f 1 "$tmp/one")" 1000000
is 'deletes the one' "$(cat "$tmp/out")" '{"deleted":1}'
pgwork enqueue r 4 >/dev/null
pgwork claim r -n 1 --lease 10m >"$tmp/one"
pgwork -q fail r --dead <"$tmp/one"
code 'dead purge of one' 0 pgwork dead purge r --json "$(cut -f 1 "$tmp/one")"
is 'deletes that' "$(cat "$tmp/out")" '{"deleted":1}'
# shellcheck disable=SC2046  # words, of which there are none
refused 'dead purge of an empty list' 2 'expected ' pgwork dead purge r $(true)
refused 'dead purge of all, but not all' 2 'expected ' pgwork dead purge r --all -k k3
is 'deletes nothing' "$(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'r' AND state = 'dead'")" 1
code 'dead purge --all' 0 pgwork dead purge r --all --json
is 'deletes the last' "$(cat "$tmp/out")" '{"deleted":1}'
pgwork enqueue r 5 >/dev/null
pgwork claim r -n 1 --lease 10m | pgwork -q fail r --dead
code 'dead purge --older-than 0' 0 pgwork dead purge r --older-than 0 --json
is 'deletes all, too' "$(cat "$tmp/out")" '{"deleted":1}'
code 'dead redrive of nothing' 1 pgwork dead redrive r
refused 'dead redrive of no queue' 1 . pgwork dead redrive none_such

pgwork enqueue put_off 1 2 3 --delay 1h -k a >/dev/null
pgwork enqueue put_off 4 --delay 1h -k b >/dev/null
one=$(pgwork ls put_off --json | sed -n '1s/.*"id":\([0-9]*\).*/\1/p')
year=$(($(date +%Y) + 9))
code 'reschedule of one, named twice, later' 0 pgwork reschedule put_off "$one" "$one" --run-at $year-01-31T12:00:00Z --json
is 'moves it' "$(cat "$tmp/out") $(state "$one") $(sql "SELECT extract(year FROM run_at) FROM pgwork.job WHERE id = $one")" '{"moved":1} delayed 0 '$year
code 'reschedule of a kind, at most two' 0 pgwork reschedule put_off -k a -n 2
is 'says so' "$(cat "$tmp/err")" 'pgwork: rescheduled 2 delayed jobs'
refused 'reschedule of one that is ready' 1 'is not a delayed job of queue "put_off"' pgwork reschedule put_off "$one"
refused 'reschedule of an empty list' 2 'expected ' pgwork reschedule put_off
refused 'reschedule of all, but not all' 2 'expected ' pgwork reschedule put_off --all -k a
refused 'reschedule of some of these' 2 'not for ID' pgwork reschedule put_off "$one" 1000000 -n 1
refused 'reschedule with two times' 2 'not both' pgwork reschedule put_off --all --delay 1h --run-at $year-01-31T12:00:00Z
refused 'reschedule in no queue' 1 . pgwork reschedule none_such --all
code 'reschedule --all' 0 pgwork reschedule put_off --all --json
is 'moves the others' "$(cat "$tmp/out") $(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'put_off' AND state = 'ready'")" '{"moved":2} 4'
code 'reschedule of none' 1 pgwork reschedule put_off --all

code 'cancel' 0 pgwork cancel q "$delayed" --json
is 'tells' "$(cat "$tmp/out")" "{\"id\":$delayed,\"status\":\"cancelled\"}"
pgwork -q queue purge q
id=$(pgwork enqueue q run)
pgwork claim q >/dev/null
code 'cancel of a running one' 0 pgwork cancel q "$id" --json
is 'asks' "$(cat "$tmp/out")" "{\"id\":$id,\"status\":\"requested\"}"
refused 'cancel of none' 1 'does not exist' pgwork cancel q 999999
refused 'cancel in no queue' 1 "no queue .*none_such" pgwork cancel none_such "$id"
refused 'cancel without ids' 2 'missing' pgwork cancel q

code 'stats' 0 pgwork stats
code 'stats --json' 0 pgwork stats --json
json 'is JSON' "$tmp/out"
code 'stats of one queue' 0 pgwork stats q --json
is 'one line' "$(wc -l <"$tmp/out")" 1
pgwork enqueue counted 1 2 3 >/dev/null
is 'stats --at-most counts no further' "$(pgwork stats counted --at-most 2 --json | sed 's/.*"ready":\([0-9]*\).*/\1/')" 2
pgwork -q queue drop counted --force
refused 'stats of none' 1 'no queue' pgwork stats none_such
refused 'a number of updates without --watch' 2 'for --watch' pgwork stats -n 5
refused 'an interval without --watch' 2 'for --watch' pgwork stats -i 1s
code 'stats --watch' 0 pgwork stats --watch -i 100ms -n 3 --json
is 'stats --watch -n 3 prints three times' "$(grep -c '"queue":"q"' "$tmp/out")" 3
pgwork stats --watch -i 1h >"$tmp/watch" 2>"$tmp/err" &
p=$! jobs_of_ours=$!
until_true 10 test -s "$tmp/watch"
kill -TERM $p
wait $p
is 'stats --watch can be interrupted' $? 143

pgwork doctor --json >"$tmp/out" 2>"$tmp/err"
is 'doctor finds that no reaper runs' "$? $(grep -c '"grade":"bad","check":"reaper"' "$tmp/out")" '1 1'
json 'doctor --json is JSON' "$tmp/out"
pgwork -q reap --once
pgwork enqueue late x >/dev/null
pgwork claim late >/dev/null
sql "UPDATE pgwork.live_job SET lease_until = now() - interval '2 min' WHERE token IS NOT NULL; UPDATE pgwork.heartbeat SET at = now() - interval '40 s'"
code 'an expired lease that no reaper requeues is bad at once' 1 pgwork doctor
yes 'although a reaper was there a moment ago' grep -q '^note *reaper ' "$tmp/out"
pgwork queue drop late --force
sql "CREATE ROLE pgw_cli_plain LOGIN IN ROLE pgwork_worker" 2>/dev/null
PGWORK_DSN="host=$PGHOST port=$PGPORT user=pgw_cli_plain dbname=$PGDATABASE" pgwork doctor >"$tmp/out" 2>"$tmp/err"
is 'a plain worker sees which checks the doctor may not make' "$(grep -c '^note .*not checked: needs pgwork_viewer' "$tmp/out") $(grep -c '^BAD .*permission denied' "$tmp/out")" '5 0'
sql "DROP ROLE pgw_cli_plain; DELETE FROM pgwork.heartbeat"
pgwork enqueue slow x >/dev/null
sql "UPDATE pgwork.live_job SET created_at = now() - interval '2 h' WHERE token IS NULL"
pgwork doctor --json >"$tmp/out" 2>"$tmp/err"
yes 'the doctor reports ready jobs that no worker claims' grep -q '"grade":"bad","check":"ready jobs","text":"queue ..slow' "$tmp/out"
pgwork queue drop slow --force
pgwork -q reap --once
pgwork doctor --json >"$tmp/out" 2>"$tmp/err"
is 'the doctor reports no reaper as missing when one runs' "$(grep -c '"grade":"bad","check":"reaper"' "$tmp/out")" 0
name="-it's"
pgwork -q --schema jobs migrate
pgwork --schema jobs queue create -- "$name"
pgwork --schema jobs queue pause -- "$name"
pgwork -q --schema jobs cron add -- "$name" '0 6 * * *'
pgwork --schema jobs cron pause -- "$name"
pgwork --schema jobs doctor >"$tmp/out" 2>"$tmp/err"
sed -n 's/.*Run `\(.*\)` when the reason is gone\.$/\1/p' "$tmp/out" >"$tmp/advised"
is 'doctor knows what opens a queue and a schedule' "$(cut -d ' ' -f 1-5 "$tmp/advised" | sort | tr '\n' '|')" 'pgwork --schema jobs cron resume|pgwork --schema jobs queue resume|'
code 'as it is typed' 0 sh -e "$tmp/advised"
is 'both are open' "$(sql 'SELECT count(*) FROM (SELECT paused FROM jobs.queues UNION ALL SELECT paused FROM jobs.schedules) s WHERE NOT paused')" 2
sql 'DROP SCHEMA jobs CASCADE' >/dev/null 2>&1
pgwork doctor -q >"$tmp/out" 2>"$tmp/err"
is 'doctor -q leaves out what is well' "$(grep -c '^ok ' "$tmp/out")" 0
pgwork doctor -q --json >"$tmp/out" 2>"$tmp/err"
is 'with --json, too' "$(grep -c '"grade":"good"' "$tmp/out")" 0

# What is not seen but changes what is: a mark of direction, a blank without width, C1.
rlo=$(printf '\342\200\256') zwsp=$(printf '\342\200\213') csi=$(printf '\302\233')
unseen="rl${rlo}o${zwsp}x"
pgwork queue create "$unseen"
pgwork enqueue "$unseen" -J "{\"a\": \"b$rlo$csi\"}" >/dev/null
sql "SELECT pgwork.lock_acquire('l$rlo$csi')" >/dev/null 2>&1 || :
for words in "stats" "--json stats" "metrics --no-doctor" "ls $unseen" "--json ls $unseen" "claim $unseen --lease 100ms" \
    "claim none$unseen" "queue list" "--json queue list" "queue depth $unseen" "doctor" "locks" "none$unseen" \
    "ls $unseen --none$unseen" "-X holder=$unseen -X list" "enqueue $unseen -J {$rlo"; do
    pgwork $words >"$tmp/out" 2>&1
    is "no unseen character reaches the terminal: $(printf %s "$words" | LC_ALL=C tr -cd ' -~')" "$(test -s "$tmp/out" && LC_ALL=C grep -c "$rlo\|$zwsp\|$csi" "$tmp/out")" 0
done
yes 'unseen characters are escaped' sh -c 'pgwork stats | grep -qF "rl\u202eo\u200bx"'
is 'a program reads the unseen characters unchanged' "$(pgwork --json queue list | sed -n 's/.*"queue":"\(rl[^"]*\)".*/"\1"/p; s/.*"name":"\(rl[^"]*\)".*/"\1"/p' | sed "s/.*/SELECT ('&'::jsonb #>> '{}') = U\&'rl\\\\202eo\\\\200bx'/" | psql -XAtq)" t
exit 0
