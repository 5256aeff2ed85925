# bulk: one filter for lists and operations, dry runs, and the log.
. "$(dirname "$0")/tap"
pgwork -q migrate
states() { sql "SELECT string_agg(s, ' ' ORDER BY s) FROM (SELECT queue || '/' || state || '/' || count(*) AS s FROM pgwork.job GROUP BY queue, state) s"; }

pgwork queue create q --retention 1d
pgwork queue create r
seq 1 30 | pgwork enqueue q -k mail >/dev/null
for i in 1 2 3; do pgwork enqueue q $i -k sms -t red -t "n$i" --key "k$i" >/dev/null; done
seq 1 5 | pgwork enqueue q --delay 1h -k mail >/dev/null

is 'ls by tag' "$(pgwork ls q -t red --json | wc -l) $(pgwork ls -t n2 --json | grep -c '"key":"k2"')" '3 1'
is 'ls by key' "$(pgwork ls --key k3 --json | grep -o '"tags":[^]]*')" '"tags":["red","n3"'
code 'ls by what nothing has' 1 pgwork ls q -t none
is 'ls by age' "$(pgwork ls q --newer-than 1h --json -n 1000 | wc -l)" 38
code 'none is so old' 1 pgwork ls q --older-than 1h

code 'a dry run counts' 0 pgwork bulk move q -k sms --to r --dry-run
is 'a dry run prints how many' "$(cat "$tmp/err")" 'pgwork: would move 3 jobs'
is 'as JSON' "$(pgwork -q bulk move q -k sms --to r --dry-run --json)" '{"would":3,"more":false}'
is 'a dry run changes nothing' "$(states)" 'q/delayed/5 q/ready/33'
refused 'an operation without a filter' 2 'expected a filter, or --all' pgwork bulk move q --to r
refused 'on no queue' 1 'no queue "none"' pgwork bulk cancel none --all
refused 'a move to no queue' 1 'no queue "none"' pgwork bulk move q --all --to none
refused 'a move to nowhere' 2 'to' pgwork bulk move q --all
refused 'a purge without a state' 2 'state' pgwork bulk purge q --all
refused 'a state that a verb does not take' 2 'for redrive' pgwork bulk redrive q -s ready
refused 'a priority that is none' 2 '0 to 9\|0..9' pgwork bulk priority q --all -p 10

pgwork enqueue r held --key k1 >/dev/null
code 'a move' 0 pgwork bulk move q -k sms --to r
is 'moves jobs, except one whose key is taken there' "$(cat "$tmp/err") $(states)" 'pgwork: changed 2 jobs q/delayed/5 q/ready/31 r/ready/3'
is 'with their keys' "$(pgwork enqueue r again --key k2 --json 2>/dev/null | grep -o '"outcome":"[a-z]*"') $(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'r'")" '"outcome":"exists" 3'
is 'which can be claimed there' "$(pgwork -q claim r -n 10 | wc -l)" 3
code 'other priorities' 0 pgwork bulk priority q -k mail -s ready -n 4 -p 7
is 'for as many as were asked for' "$(sql "SELECT count(*) FROM pgwork.job WHERE priority = 7")" 4
is 'so the others come first' "$(pgwork claim q -n 1 | cut -f 1) $(sql "SELECT bool_and(l.id < r.id) FROM pgwork.job l, pgwork.job r WHERE l.priority = 7 AND r.priority = 0 AND r.kind = 'mail' AND r.queue = 'q'")" "$(sql "SELECT min(id) FROM pgwork.job WHERE queue = 'q' AND priority = 0") t"
code 'a cancel by holder' 0 pgwork bulk cancel q --holder "$(sql "SELECT holder FROM pgwork.job WHERE state = 'leased' AND queue = 'q'")" --json
is 'asks the holder' "$(cat "$tmp/out") $(sql "SELECT count(*) FROM pgwork.cancel_request")" '{"changed":1} 1'
code 'delayed jobs at once' 0 pgwork bulk reschedule q -s delayed
is 'are ready' "$(sql "SELECT count(*) FROM pgwork.job WHERE state = 'delayed'")" 0

sql "SELECT count(*) FROM (SELECT c.id, pgwork.fail('q', ARRAY[c.id], ARRAY[c.token], 'first' || chr(10) || 'host 10.0.0.' || c.id || ' did not answer after ' || c.id || ' ms', dead => true) FROM pgwork.claim('{q}', 6, 'w') c) s" >/dev/null
sql "SELECT count(*) FROM (SELECT c.id, pgwork.fail('q', ARRAY[c.id], ARRAY[c.token], 'no such user', dead => true) FROM pgwork.claim('{q}', 2, 'w') c) s" >/dev/null
code 'dead letters by error' 0 pgwork dead list q --by-error
is 'are counted by kind and error, numbers masked' "$(awk 'NR > 1 { n = $1; $1 = $2 = $3 = $4 = $5 = ""; sub(/^ */, ""); print n ": " $0 }' "$tmp/out" | tr '\n' ',')" \
    '6: host #.#.#.# did not answer after # ms,2: no such user,'
sort=$(pgwork dead list q --by-error --json | sed -n '1s/.*"error":"\([^"]*\)".*/\1/p')
code 'dead letters are redriven by kind and error' 0 pgwork bulk redrive q --error "$sort" --json
is 'those and no others' "$(cat "$tmp/out") $(sql "SELECT count(*) FROM pgwork.job WHERE state = 'dead'")" '{"changed":6} 2'
code 'dead letters of a text' 0 pgwork bulk purge q -s dead --error 'such user' --json
is 'are purged' "$(cat "$tmp/out")" '{"changed":2}'
code 'what is left' 0 pgwork -q bulk purge q -s ready
is 'is purged, and nothing else' "$(states)" 'q/leased/1 r/leased/3'
code 'once more finds nothing' 1 pgwork bulk purge q -s ready

code 'the log' 0 pgwork log
is 'shows role, operation, filter and number, the newest first' "$(awk 'NR == 3 { print $2, $3, $4, $5, $6, $7, $8, $9, $10 }' "$tmp/out")" \
    "$PGUSER purge 2 {\"error\": \"such user\", \"queue\": \"q\", \"state\":"
is 'the log has no dry run' "$(pgwork log --json | grep -c '"verb":"move"')" 1
pgwork log --json >"$tmp/log"
json 'the log as JSON' "$tmp/log"
sql "SET pgwork.person = 'ann'; SELECT pgwork.log_write('queue pause', '{\"queue\": \"q\"}')"
is 'other programs write to it, and name who acts' "$(pgwork log -n 1 --json | grep -o '"who":"[^"]*","verb":"[^"]*"')" "\"who\":\"$PGUSER (ann)\",\"verb\":\"queue pause\""
is 'a verb that is none is refused' "$(sql "SELECT pgwork.log_write('DROP', '{}')" 2>&1 | grep -c '^ERROR.*verb')" 1
is 'so is an entry that is too large' "$(sql "SELECT pgwork.log_write('note', jsonb_build_object('x', repeat('x', 9000)))" 2>&1 | grep -c '^ERROR.*8,000 bytes')" 1
is 'a viewer writes nothing' "$(sql "SET ROLE pgwork_viewer; SELECT pgwork.log_write('note', '{}')" 2>&1 | grep -c 'permission denied')" 1

# slices: more jobs than one takes, and a dry run that ends at its bound
sql "SELECT count(*) FROM pgwork.enqueue_many('many', ARRAY(SELECT to_jsonb(g) FROM generate_series(1, 10000) g), kinds => ARRAY(SELECT 'k' || g % 2 FROM generate_series(1, 10000) g))" >/dev/null
sql "SELECT count(*) FROM pgwork.enqueue_many('many', ARRAY(SELECT to_jsonb(g) FROM generate_series(1, 10000) g), kinds => ARRAY(SELECT 'k' || g % 2 FROM generate_series(1, 10000) g))" >/dev/null
code 'more than a slice' 0 pgwork bulk move many -k k1 --to r --json
is 'in one go' "$(cat "$tmp/out") $(sql "SELECT ready FROM pgwork.depth('many')")" '{"changed":10000} 10000'
is 'one row in the log' "$(pgwork log -n 1 --json | grep -o '"jobs":[0-9]*')" '"jobs":10000'
is 'all can be claimed' "$(sql "SELECT count(*) FROM pgwork.claim('{r}', 10000, 'w')") $(sql "SELECT count(*) FROM pgwork.claim('{many}', 10000, 'w')")" '10000 10000'
exit 0
