# claim, complete, fail, extend, release, snooze, for scripts.
. "$(dirname "$0")/tap"
pgwork -q migrate
pgwork queue create q --retention 1d --max-attempts 2 --backoff 0
state() { sql "SELECT state || ' ' || attempt FROM pgwork.job WHERE id = $1"; }
tab=$(printf '\t')
other=00000000-0000-0001-0000-000000000001

code 'nothing to claim' 1 pgwork claim q
is 'says nothing' "$(cat "$tmp/out" "$tmp/err")" ''
refused 'nothing in a queue that is not there' 1 'no queue "none_such" yet' pgwork claim q none_such
code 'a quiet claim of a missing queue finds nothing' 1 pgwork -q claim none_such
is 'says nothing' "$(cat "$tmp/out" "$tmp/err")" ''
sql 'CREATE ROLE pgw_cli_worker LOGIN IN ROLE pgwork_worker' 2>/dev/null
PGWORK_DSN="host=$PGHOST port=$PGPORT user=pgw_cli_worker dbname=$PGDATABASE" refused 'a role that may only work gets the same error' 1 'no queue "none_such" yet' pgwork claim none_such
sql 'DROP ROLE pgw_cli_worker' >/dev/null 2>&1
id=$(pgwork enqueue q x -k 'a \b')
pgwork claim q >"$tmp/claim"
IFS=$tab read -r got token queue attempt kind payload <"$tmp/claim"
is 'a claim' "$got $queue $attempt $kind $payload" "$id q 1 a \\b {\"line\": \"x\"}"
is 'is leased' "$(state "$id")" 'leased 1'
pgwork enqueue unkind y >/dev/null
pgwork claim unkind | { IFS=$tab read -r _ _ _ _ kind payload; echo "$kind $payload" >"$tmp/claim"; }
is 'a claim of a job without kind has as many columns' "$(cat "$tmp/claim")" '- {"line": "y"}'
pgwork enqueue odd -J '{"a": "\u009b31m \u007f é"}' >/dev/null
pgwork claim odd >"$tmp/claim"
pgwork -q fail odd --dead -e "$(printf 'e\302\233')" <"$tmp/claim"
pgwork ls odd --json >"$tmp/ls"
json 'ls --json is JSON' "$tmp/ls"
cat "$tmp/ls" >>"$tmp/claim"
is 'what a terminal would obey stands in no payload, nor error' "$(grep -c '{"a": "\\u009b31m \\u007f é"}' "$tmp/claim") $(grep -c '"error":"e\\u009b"' "$tmp/ls") $(tr -d '\177\233' <"$tmp/claim" | cmp -s - "$tmp/claim"; echo $?)" '2 1 0'
code 'a second claim finds nothing' 1 pgwork claim q
code 'extend' 0 pgwork extend q "$id" "$token" --lease 1h
is 'the lease is longer' "$(sql "SELECT lease_until > clock_timestamp() + interval '59 min' FROM pgwork.job WHERE id = $id")" t
refused 'complete with a foreign token' 1 'refused' pgwork complete q "$id" $other
yes 'the hint for a foreign token says where to look' grep -q '^hint: .*pgwork show' "$tmp/err"
is 'has no effect' "$(state "$id")" 'leased 1'
refused 'release with a foreign token' 1 'refused' pgwork release q "$id" $other
refused 'fail with a foreign token' 1 'refused' pgwork fail q "$id" $other
refused 'snooze with a foreign token' 1 'refused' pgwork snooze q "$id" $other
refused 'extend with a foreign token' 1 'refused' pgwork extend q "$id" $other
is 'none of them has' "$(state "$id")" 'leased 1'
refused 'in a queue that is not there' 1 'no queue' pgwork complete other "$id" "$token"
code 'release' 0 pgwork release q "$id" "$token"
is 'charges nothing' "$(state "$id")" 'ready 0'
refused 'the token is void now' 1 'refused' pgwork complete q "$id" "$token"

claim() { pgwork claim q --json >"$tmp/claim" && token=$(sed 's/.*"token":"\([^"]*\)".*/\1/' "$tmp/claim"); }
claim
json 'claim --json is JSON' "$tmp/claim"
code 'snooze' 0 pgwork snooze q "$id" "$token" --delay 1h
is 'waits, nothing charged' "$(state "$id")" 'delayed 0'
pgwork cancel -q q "$id"
id=$(pgwork enqueue q y)
claim
code 'fail' 0 pgwork fail q "$id" "$token" -e 'no luck' --retry 0
is 'is tried again' "$(state "$id")" 'ready 1'
is 'keeps its error' "$(pgwork show "$id" --json | sed 's/.*"error":"\([^"]*\)".*/\1/')" 'no luck'
claim
code 'fail for the last time' 0 pgwork fail q "$id" "$token" -e 'no luck again'
is 'is dead' "$(state "$id")" 'dead 2'
id=$(pgwork enqueue q z)
claim
code 'fail --dead' 0 pgwork fail q "$id" "$token" --dead --json
is 'tells' "$(cat "$tmp/out")" "{\"id\":$id,\"status\":\"ok\"}"
is 'is dead at once' "$(state "$id")" 'dead 1'
id=$(pgwork enqueue q 'done')
claim
refused 'an output that is not JSON' 2 'output is not valid JSON: expected a member name at column 2' pgwork complete q "$id" "$token" --output '{'
code 'complete with output' 0 pgwork complete q "$id" "$token" --output '{"a": "\u00e9"}'
is 'is kept' "$(sql "SELECT state || ' ' || output FROM pgwork.job WHERE id = $id")" 'done {"a": "é"}'
refused 'complete again' 1 'refused' pgwork complete q "$id" "$token"
pgwork complete q "$id" "$token" --json >"$tmp/out" 2>/dev/null
json 'refusals are JSON too' "$tmp/out"
is 'gone' "$(cat "$tmp/out")" "{\"id\":$id,\"status\":\"gone\"}"

pgwork enqueue q 1 2 3 4 5 >/dev/null
pgwork claim q -n 100 >"$tmp/claim"
is 'claim -n' "$(wc -l <"$tmp/claim")" 5
yes 'complete takes what claim printed' sh -c 'pgwork complete q <"$0"' "$tmp/claim"
is 'all of it' "$(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'q' AND state = 'done'")" 6
pgwork enqueue q 6 7 >/dev/null
pgwork claim q -n 2 | cut -f1,2 >"$tmp/claim"
{ echo; sed -n 1p "$tmp/claim"; echo "999999 $other"; sed -n 2p "$tmp/claim"; } >"$tmp/lines"
pgwork complete q --json <"$tmp/lines" >"$tmp/out" 2>/dev/null
is 'one refused in the middle ends with 1' $? 1
is 'the others are done although one is refused' "$(sed 's/.*"status":"\([^"]*\)".*/\1/' "$tmp/out" | tr '\n' ' ')" 'ok gone ok '

id=$(pgwork enqueue q c)
claim
pgwork -q cancel q "$id"
refused 'extend reports a cancel' 7 'cancelled' pgwork extend q "$id" "$token"
code 'a job with a cancel request can be finished' 0 pgwork complete q "$id" "$token"

# more than go to the server at once
pgwork queue create many
seq 10001 | pgwork -q enqueue many >/dev/null
{ pgwork claim many -n 10000; pgwork claim many; } | cut -f1,2 >"$tmp/lines"
first=$(head -n 1 "$tmp/lines" | cut -f1) last=$(tail -n 1 "$tmp/lines" | cut -f1)
pgwork -q cancel many "$first"
pgwork extend many --lease 1h --json <"$tmp/lines" >"$tmp/out" 2>"$tmp/err"
is 'a cancel among many: extend reports it' "$? $(grep -c '"cancel"' "$tmp/out")" '7 1'
is 'extend of many continues after a cancel' "$(wc -l <"$tmp/out") $(sql "SELECT lease_until > clock_timestamp() + interval '59 min' FROM pgwork.job WHERE id = $last")" '10001 t'
pgwork -q cancel many "$last"
{ echo "$first $other"; sed 1d "$tmp/lines"; } >"$tmp/some"
pgwork extend many --json <"$tmp/some" >"$tmp/out" 2>"$tmp/err"
is 'a refusal is reported before a cancel' "$? $(grep -c '"stale"' "$tmp/out") $(grep -c '"cancel"' "$tmp/out") $(wc -l <"$tmp/out")" '1 1 1 10001'
sql 'CREATE ROLE pgw_cli_loader LOGIN IN ROLE pgwork_producer' 2>/dev/null
PGWORK_DSN="host=$PGHOST port=$PGPORT user=pgw_cli_loader dbname=$PGDATABASE" pgwork extend many <"$tmp/lines" >"$tmp/out" 2>"$tmp/err"
is 'an error ends it, and says of how many' "$? $(grep -c '^pgwork: 1 jobs were not tried$' "$tmp/err")" '5 1'
sql 'DROP ROLE pgw_cli_loader' >/dev/null 2>&1

refused 'again, and never again' 2 'not both' pgwork fail q 1 $other --retry 1m --dead
refused 'an id without token' 2 'has no token' pgwork complete q 1
refused 'an id that is none' 2 'not a job id' pgwork complete q x $other
refused 'a negative id' 2 'not a job id' pgwork complete q -- -1 $other
refused 'an id over 64 bits' 2 'not a job id' pgwork complete q 9223372036854775808 $other
refused 'a token that is none' 2 'not a valid token' pgwork complete q 1 frob
refused 'no lines' 1 'no jobs on stdin' pgwork complete q
printf '1\n' >"$tmp/lines"
pgwork complete q <"$tmp/lines" >"$tmp/out" 2>"$tmp/err"
is 'a line without token' "$? $(grep -c 'no token' "$tmp/err")" '2 1'
refused 'a claim of too many' 2 '1 to 10000' pgwork claim q -n 10001

{ sleep 1; pgwork enqueue w late >/dev/null; } &
# at the end of the time it would look once more, and find the job in any case: so that is far away
code 'claim --wait' 0 timeout 60 pgwork claim w --wait 1h
yes 'has what came meanwhile' grep -q '"late"' "$tmp/out"
wait
code 'claim --wait for nothing' 1 pgwork claim w --wait 300ms
pgwork enqueue a 1 >/dev/null
pgwork enqueue b 2 -p 0 >/dev/null
is 'several queues' "$(pgwork claim a b -n 2 | cut -f3 | sort | tr '\n' ' ')" 'a b '
id=$(pgwork enqueue q full)
pgwork claim q >/dev/full 2>"$tmp/err"
is 'jobs that cannot be printed' "$? $(state "$id")" '8 ready 0'
pgwork claim q >&- 2>"$tmp/err"
is 'a claim with closed stdout requeues its jobs' "$? $(state "$id")" '8 ready 0'
head -c 300000 /dev/zero | tr '\0' x | pgwork -q enqueue long
mkfifo "$tmp/pipe"
pgwork claim long >"$tmp/pipe" 2>"$tmp/err" &
p=$! jobs_of_ours=$!
exec 3<"$tmp/pipe" # more than a pipe takes: it waits for its reader
until_true 20 count_is "SELECT count(*) FROM pgwork.job WHERE queue = 'long' AND state = 'leased'" 1
sleep 0.3
kill -TERM $p
sleep 0.3
kill -TERM $p
sleep 0.3
exec 3<&-
wait $p
is 'jobs whose reader goes away, at the second signal' "$? $(sql "SELECT state || ' ' || attempt FROM pgwork.job WHERE queue = 'long'")" '8 ready 0'
pgwork claim w --wait 1h >"$tmp/out" 2>"$tmp/err" &
p=$! jobs_of_ours=$!
sleep 0.5
kill -TERM $p
wait $p
is 'a wait can be interrupted' $? 143
exit 0
