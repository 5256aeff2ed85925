# Rates and holds, from the shell; a rate through a restart and a crash of the server.
. "$(dirname "$0")/tap"
. "$top/test/support/pg.sh"
dir=$(pg_mkdir)
trap 'pg_stop "$dir" immediate; rm -rf "$dir"; leave' EXIT
pg_create "$dir" && pg_start "$dir" || fail 'a server runs'
pg_env "$dir"
pgwork -q migrate

code 'no rates' 1 pgwork rate ls
code 'set' 0 pgwork rate set api 1 --per 365d --burst 3
code 'the burst' 0 pgwork rate take api -c 2
refused 'more than is left' 75 'rate "api" is used up: try again in [0-9]* ms' pgwork rate take -n api -c 2
refused 'a wait that cannot succeed ends at once' 75 'used up' pgwork rate take -w 1d api -c 2
refused 'with a code of our own' 9 'used up' pgwork rate run -E 9 -n api -c 2 -- true
refused 'more than the burst' 2 'has burst 3: cannot take 4' pgwork rate take api -c 4
is 'ls' "$(pgwork rate ls | tail -n 1 | tr -s ' ')" 'api 1 365d00h 3 1 -'
is 'the exit code is that of the command' "$(pgwork rate run api -- sh -c 'echo hi; exit 7'; echo $?)" 'hi
7'
refused 'a command that is not there takes nothing' 127 'cannot start' pgwork rate run api -- /no/such/thing
refused 'used up' 75 'used up' pgwork rate run -n api -- echo no
code 'another one' 0 pgwork rate set quick 20 --burst 1
code 'take' 0 pgwork rate take quick
code 'take waits' 0 pgwork rate take quick
code 'run waits' 0 pgwork rate run -w 1m quick -- true
code 'ls --json' 0 pgwork --json rate ls
json 'ls --json is JSON' "$tmp/out"
refused 'no such rate' 1 'no rate "nope".*' pgwork rate take nope
refused 'how many' 2 'is not a number of takes' pgwork rate set api 0
refused 'which' 2 'missing: NAME' pgwork rate take
refused 'to wait and not to' 2 'not both' pgwork rate take -n -w 1s api

# TERM ends one that waits
pgwork rate take api &
waits=$! jobs_of_ours="$jobs_of_ours $waits"
until [ "$(psql -qXAtc "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%rate_take%' AND state = 'idle'")" -gt 0 ]; do sleep 0.1; done
kill -TERM $waits
wait $waits
is 'TERM ends a wait' $? 143

code 'a rate that is kept' 0 pgwork rate set kept 1 --per 365d --burst 2
code 'one of two' 0 pgwork rate take kept
pg_stop "$dir" fast
pg_start "$dir"
code 'a restart keeps what is left' 0 pgwork rate take -n kept
refused 'and no more' 75 'used up' pgwork rate take -n kept
code 'a rate of which nothing was taken' 0 pgwork rate set fresh 1 --per 365d --burst 2
code 'another one' 0 pgwork rate set soon 10
psql -qXc CHECKPOINT
pg_stop "$dir" immediate
pg_start "$dir"
refused 'after a crash the burst counts as used up' 75 'used up' pgwork rate take -n fresh
code 'and comes back' 0 pgwork rate take -w 1m soon
code 'drop' 0 pgwork rate drop api quick kept fresh soon
code 'none is left' 1 pgwork rate ls

# ---- holds ----
pgwork -q enqueue q 1 2 >/dev/null
code 'hold' 0 pgwork queue hold q --for 1h --reason '429 from the API'
yes 'stats tells until when' sh -c "pgwork stats | grep -q '^q  *held until 20..-..-..T..:..:..Z  *2 '"
yes 'queue list tells until when' sh -c "pgwork queue list | grep -q '^q  *held until '"
is 'stats --json' "$(pgwork --json stats | grep -o '"state":"[a-z]*"')" '"state":"held"'
is 'queue list --json' "$(pgwork --json queue list | grep -o '"paused":false.*"hold_reason":"[^"]*"' | sed 's/T[^"]*//')" "\"paused\":false,\"draining\":false,\"held_until\":\"$(date -u -d '+1 hour' +%F)\",\"hold_reason\":\"429 from the API\""
code 'a claim gets nothing' 1 pgwork claim q
yes 'and prints the reason' grep -q 'queue "q" is held' "$tmp/err"
code 'work gets nothing' 0 pgwork work q --until-empty -- true
yes 'and tells why' grep -q 'is held' "$tmp/err"
yes 'metrics tell it' sh -c "pgwork metrics | grep -q '^pgwork_queue_held{queue=\"q\"} 1'"
pgwork doctor >"$tmp/out" 2>&1
yes 'the doctor names it, and why' grep -q 'queue "q" is held until .*429 from the API' "$tmp/out"
yes 'and does not call it paused' sh -c "! grep -q 'is paused' '$tmp/out'"
code 'pause' 0 pgwork queue pause q
code 'unhold' 0 pgwork queue unhold q
yes 'a pause outlasts the hold' sh -c "pgwork stats | grep -q '^q  *paused'"
code 'resume' 0 pgwork queue resume q
code 'unhold without a hold succeeds' 0 pgwork queue unhold q
code 'a hold that ends' 0 pgwork queue hold q --for 1ms
n=0
until pgwork -q claim q >/dev/null 2>&1; do
    n=$((n + 1))
    [ $n -lt 100 ] || break
    sleep 0.1
done
yes 'a claim ends it, without a reaper' test $n -lt 100
refused 'until when' 2 'for or --until' pgwork queue hold q
refused 'two times' 2 'for or --until' pgwork queue hold q --for 1s --until 2030-01-01T00:00:00Z
code 'until' 0 pgwork queue hold q --until "$(($(date +%Y) + 1))-01-01T00:00:00Z"
code 'drop' 0 pgwork queue drop q --force

# a command that is told to wait
pgwork -q enqueue api 1 2 3 >/dev/null
code 'work --hold' 0 timeout 60 pgwork work api -n 1 --later 1h --hold 69 -- sh -c 'echo "429 Too Many Requests" >&2; exit 69'
yes 'holds the queue' sh -c "pgwork stats | grep -q '^api  *held until .* 2  *0  *1 '"
is 'for the reason that it has reported' "$(psql -qXAtc 'SELECT reason FROM pgwork.queue_holds()')" '429 Too Many Requests'
is 'and no attempt is charged' "$(psql -qXAtc "SELECT sum(attempt) FROM pgwork.job WHERE queue = 'api'")" 0
