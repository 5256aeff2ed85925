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
refused 'how many' 2 'is not the number of a rate: expected 1..1000000$' pgwork rate set api 0
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
refused 'a restart adds nothing to a rate' 75 'used up' pgwork rate take -n kept
code 'a rate of which nothing was taken' 0 pgwork rate set fresh 1 --per 365d --burst 2
code 'another one' 0 pgwork rate set soon 10
psql -qXc CHECKPOINT
pg_stop "$dir" immediate
pg_start "$dir"
refused 'after a crash the burst counts as used up' 75 'used up' pgwork rate take -n fresh
code 'a rate is refilled after a crash' 0 pgwork rate take -w 1m soon
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
yes 'a claim prints that the queue is held' grep -q 'queue "q" is held' "$tmp/err"
code 'work gets nothing' 0 pgwork work q --until-empty -- true
yes 'work prints that the queue is held' grep -q 'is held' "$tmp/err"
yes 'metrics tell it' sh -c "pgwork metrics | grep -q '^pgwork_queue_held{queue=\"q\"} 1'"
pgwork doctor >"$tmp/out" 2>&1
yes 'the doctor names it, and why' grep -q 'queue "q" is held until .*429 from the API' "$tmp/out"
yes 'the doctor does not call a held queue paused' sh -c "! grep -q 'is paused' '$tmp/out'"
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
is 'a handler that holds is charged no attempt' "$(psql -qXAtc "SELECT sum(attempt) FROM pgwork.job WHERE queue = 'api'")" 0


# ---- rates of queues and groups ----
code 'a rate of a queue' 0 pgwork queue rate api none
code 'create' 0 pgwork queue create calls
code 'a rate that never comes back' 0 pgwork queue rate calls 1 --per 365d --burst 3
code 'enqueue' 0 pgwork -q enqueue calls 1 2 3 4 5
is 'the burst is claimed' "$(pgwork claim calls -n 10 | wc -l)" 3
code 'no more than the burst is claimed' 1 pgwork claim calls -n 10
yes 'a claim prints when to come again' grep -q 'jobs wait for a rate, which lets the next one pass in 36[45]d' "$tmp/err"
is 'queue list has the rate' "$(pgwork queue list | sed -n 's/^calls .* \(1\/365d00h, burst 3\)$/\1/p')" '1/365d00h, burst 3'
is 'queue list --json, too' "$(pgwork --json queue list | grep '"calls"' | grep -o '"limit":.*"rate_burst":[0-9]*,"next_at":"20')" '"limit":null,"rate_n":1,"rate_per_ms":31536000000,"rate_burst":3,"next_at":"20'
refused 'how many' 2 'expected 1..1000000, or none' pgwork queue rate calls 0
refused 'how often' 2 'per' pgwork queue rate calls 1 --per 0s
refused 'of which queue' 1 'no queue "nope"' pgwork queue rate nope 1
code 'without its rate' 0 pgwork queue rate calls none
is 'the others are claimed' "$(pgwork claim calls -n 10 | wc -l)" 2

code 'a rate for each group' 0 pgwork groups set calls --rate 1 --per 365d --limit 5
code 'a group has a rate of its own' 0 pgwork groups set calls ann --rate 2 --per 365d
pgwork -q enqueue calls --group ann 1 2 3 >/dev/null && pgwork -q enqueue calls --group bob 1 2 3 >/dev/null
is 'each has its burst' "$(pgwork claim calls -n 10 | wc -l)" 3
is 'groups list has it' "$(pgwork groups list calls | tr -s ' ' | cut -d' ' -f1,2,9)" 'GROUP STATE RATE
ann rate 2/365d00h
bob rate 1/365d00h'
code 'groups list --json' 0 pgwork --json groups list calls
json 'groups list --json is JSON' "$tmp/out"
yes 'with the rate' grep -q '"rate_n":2,"rate_per_ms":31536000000,"rate_burst":2,"next_at":"20' "$tmp/out"
code 'none for a group' 0 pgwork groups set calls bob --rate none
is 'which is open then' "$(pgwork claim calls -n 10 | wc -l)" 2
refused 'a rate of groups' 2 'expected 1..1000000, or none' pgwork groups set calls --rate -1
refused 'a period without a rate' 2 'are for --rate' pgwork groups set calls --per 1s
refused 'a weight' 2 'meta.rate_weight' pgwork enqueue calls --meta '{"rate_weight": 0}' 1

# nobody but the rate can wake this worker up
pgwork -q queue create paced && pgwork -q queue rate paced 20 --burst 1
pgwork -q enqueue paced -J '{"n": 1}' '{"n": 2}' '{"n": 3}' '{"n": 4}' '{"n": 5}' >/dev/null
is 'work --until-empty waits for the rate' "$(timeout 60 pgwork -q -X poll.min_ms=3600000 -X poll.max_ms=3600000 work paced --until-empty -- echo '{n}' | sort | tr '\n' ' ')" '1 2 3 4 5 '
