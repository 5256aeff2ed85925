# Jobs from arguments, files and pipes; bad lines; keys; operations.
. "$(dirname "$0")/tap"
pgwork -q migrate
jobs() { sql "SELECT count(*) FROM pgwork.job WHERE queue = '$1'"; }
payloads() { sql "SELECT payload FROM pgwork.job WHERE queue = '$1' ORDER BY id"; }

code 'one argument' 0 pgwork enqueue a 'x y'
is 'prints its id' "$(cat "$tmp/out")" "$(sql "SELECT id FROM pgwork.job WHERE queue = 'a'")"
is 'as a line' "$(payloads a)" '{"line": "x y"}'
code 'several arguments' 0 pgwork enqueue b x y z --json
json 'their JSON' "$tmp/out"
is 'three ids' "$(grep -c '"outcome":"new"' "$tmp/out")" 3
code 'JSON arguments' 0 pgwork enqueue c -J '{"a": [1, "\u00e9\ud83d\ude00"]}' '17' 'null'
is 'are the payload' "$(payloads c | tr '\n' ' ')" '{"a": [1, "é😀"]} 17 null '
code '--empty' 0 pgwork enqueue d --empty
is 'has no payload' "$(sql "SELECT payload IS NULL FROM pgwork.job WHERE queue = 'd'")" t
code '--member' 0 pgwork enqueue e --member 'fi"le' x
is 'names the member' "$(payloads e)" '{"fi\"le": "x"}'

printf 'one\n\ntwo \\ "quoted"\n\ttabs\nno newline at the end' >"$tmp/lines"
code 'a file' 0 pgwork enqueue f -f "$tmp/lines"
is 'one job a line, empty ones left out' "$(payloads f | tr '\n' '|')" \
    '{"line": "one"}|{"line": "two \\ \"quoted\""}|{"line": "\ttabs"}|{"line": "no newline at the end"}|'
yes 'stdin' sh -c 'printf "a\nb\n" | pgwork enqueue g'
yes 'stdin as -' sh -c 'printf "c\n" | pgwork enqueue g -f -'
is 'three jobs of stdin' "$(jobs g)" 3
yes 'NUL' sh -c 'printf "a\nb\000c\000" | pgwork enqueue -0 h'
is 'newlines inside' "$(payloads h | tr '\n' '|')" '{"line": "a\nb"}|{"line": "c"}|'
yes 'a lot' sh -c 'seq 1 30000 | pgwork --json enqueue i >"$0"' "$tmp/out"
is 'goes in' "$(cat "$tmp/out") $(jobs i)" '{"added":30000} 30000'
is 'in its order' "$(sql "SELECT string_agg(p, ' ') FROM (SELECT payload->>'line' AS p FROM pgwork.job WHERE queue = 'i' ORDER BY id LIMIT 3) s")" '1 2 3'
code 'no lines at all' 1 pgwork enqueue j
refused 'a file that is not there' 2 'cannot open' pgwork enqueue j -f "$tmp/none"
refused 'a folder' 2 'cannot read' pgwork enqueue j -f "$tmp"

for bad_line in 'not UTF-8:\303\050:not UTF-8 at column 1' 'NUL:a\000b:NUL byte' 'overlong UTF-8:\300\257:not UTF-8 at column 1' 'a surrogate:\355\240\200:not UTF-8 at column 1'; do
    name=${bad_line%%:*} rest=${bad_line#*:}
    printf "fine\\n${rest%%:*}\\nfine\\n" >"$tmp/lines"
    refused "a line with $name" 2 "line 2: .*${rest#*:}" pgwork enqueue j -f "$tmp/lines"
done
for bad_json in '{' '{"a":1,}' '[1 2]' '"\u0000"' '"\ud800"' '01' 'nul' "{'a':1}" '1 2' '"a	b"'; do
    printf '1\n%s\n' "$bad_json" >"$tmp/lines"
    refused "a line that is no JSON: $bad_json" 2 'line 2: not valid JSON: .* at column [0-9]*$' pgwork enqueue j -J -f "$tmp/lines"
done
awk 'BEGIN { for (i = 0; i < 2000; i++) printf "["; for (i = 0; i < 2000; i++) printf "]"; print "" }' >"$tmp/lines"
refused 'JSON that is nested too deeply' 2 'nested deeper than 1000 levels at column 1001' pgwork enqueue j -J -f "$tmp/lines"
printf '{"a": "\377"}\n' >"$tmp/lines"
refused 'a byte that is not UTF-8 is found where it stands' 2 'line 1: not valid JSON: not UTF-8 at column 8' pgwork enqueue j -J -f "$tmp/lines"
refused 'so is what is wrong in the second line of an argument, in characters' 2 'job 1: not valid JSON: expected ":" at line 2, column 5' pgwork enqueue j -J '{
"é" 1}'
refused 'a bad argument' 2 'job 2: not valid JSON: expected a value at column 1' pgwork enqueue j -J 1 '}'
is 'none of it has an effect' "$(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'j'")" 0
head -c 17000000 /dev/zero | tr '\0' x >"$tmp/lines"
refused 'a payload over 16 MB' 2 . pgwork enqueue j -f "$tmp/lines"
is 'has no effect either' "$(jobs j)" 0

year=$(($(date +%Y) + 9))
cat >"$tmp/lines" <<END
{"payload": {"n": 1}, "kind": "big", "priority": 1, "tags": ["x", "y"], "max_attempts": 2, "lease_ms": 5000}
{"payload": 2, "key": "k2", "delay_ms": 3600000}
{"run_at": "$year-01-01T00:00:00+01:00"}
{}
END
code '--full' 0 pgwork enqueue k -F -f "$tmp/lines" --kind other -p 7
is 'says everything' "$(sql "SELECT coalesce(payload::text, '-') || ' ' || kind || ' ' || priority || ' ' || coalesce(tags::text, '-') || ' ' || state || ' ' || coalesce(key, '-') || ' ' || max_attempts FROM pgwork.job WHERE queue = 'k' ORDER BY payload IS NULL, kind, run_at NULLS LAST" | tr '\n' '|')" \
    '{"n": 1} big 1 {x,y} ready - 2|2 other 7 - delayed k2 10|- other 7 - delayed - 10|- other 7 - ready - 10|'
is 'run_at with its zone' "$(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'k' AND run_at = '$year-01-01 00:00:00+01'")" 1
for bad_full in '[1]:not an object' '{"frob"|1}:unknown member: frob' '{"priority"|10}:0\.\.9' '{"priority"|"1"}:0\.\.9' \
    '{"tags"|["a",1]}:array of strings' '{"kind"|1}:kind is not a string' '{"run_at"|"soon"}:run_at' \
    '{"group"|1}:group is not a string' '{"expires_at"|"soon"}:expires_at' '{"meta"|[1]}:meta is not an object' \
    '{"ttl_ms"|0}:ttl_ms' '{"ttl_ms"|1,"expires_at"|"2100-01-01T00|00|00Z"}:not both' '{"delay_ms"|-1}:delay_ms' '{"delay_ms"|1e3}:delay_ms' '{"max_attempts"|0}:max_attempts' '{"lease_ms"|99}:lease_ms'; do
    echo "${bad_full%%:*}" | tr '|' ':' >"$tmp/lines"
    refused "--full with $(cat "$tmp/lines")" 2 "line 1: .*${bad_full#*:}" pgwork enqueue j -F -f "$tmp/lines"
done

code 'options' 0 pgwork enqueue l x -k kind -p 3 --delay 1h -t t1 -t t2 --max-attempts 4 --lease 7s
is 'reach the job' "$(sql "SELECT kind, priority, state, tags, max_attempts FROM pgwork.job WHERE queue = 'l'")" 'kind|3|delayed|{t1,t2}|4'
extras() { sed -n 's/^\(group\|expires\|meta\)  *\([^ ]*\).*/\1 \2/p'; }
code 'group, expiry and meta' 0 pgwork enqueue extra x --group ann --expires 2100-01-01T00:00:00Z --meta '{"t":[1]}'
is 'show prints them' "$(pgwork show "$(cat "$tmp/out")" | extras)" 'expires 2100-01-01T00:00:00.000000Z
group ann
meta {"t":'
is 'a job without them has no such lines' "$(pgwork show "$(pgwork enqueue extra y)" | extras)" ''
echo '{"group": "bob", "expires_at": "2100-01-01T00:00:00Z", "meta": {"t": 2}}' >"$tmp/lines"
code 'as members of --full' 0 pgwork enqueue extra -F -f "$tmp/lines" --group ann
is 'of this line alone' "$(pgwork --json ls extra | sed -n 's/.*"meta":\([^}]*}\).*"group":\("bob"\),"expires_at":\("[^"]*"\).*/\1 \2 \3/p')" '{"t": 2} "bob" "2100-01-01T00:00:00.000000Z"'
is 'a claim returns meta' "$(pgwork --json claim extra -n 9 | sed 's/.*"meta":\(null\|[^}]*}\).*/\1/' | tr '\n' ' ')" 'null {"t": [1]} {"t": 2} '
refused 'meta that is not an object' 2 'argument `meta` is not an object' pgwork enqueue extra x --meta '[]'
refused 'an empty group' 2 'argument `group` is empty' pgwork enqueue extra x --group ''
code '--run-at in the past is now' 0 pgwork enqueue l x --run-at 2001-01-01T00:00:00Z
refused '--run-at and --delay' 2 'not both' pgwork enqueue l x --run-at 2030-01-01T00:00:00Z --delay 1s
refused 'a priority of 10' 2 '0 to 9' pgwork enqueue l x -p 10
refused 'arguments and a file' 2 'not from two' pgwork enqueue l x -f "$tmp/lines"
refused '--expires and --ttl' 2 'not both' pgwork enqueue l x --expires 2100-01-01T00:00:00Z --ttl 1s
refused 'no time to live' 2 'enqueue: --ttl is "0"' pgwork enqueue l x --ttl 0
code 'a time to live' 0 pgwork enqueue live x --ttl 2h
echo '{"ttl_ms": 3600000, "delay_ms": 3600000}' >"$tmp/lines"
code 'as a member of --full' 0 pgwork enqueue live -F -f "$tmp/lines" --expires 2100-01-01T00:00:00Z
printf 'a\nb\n' >"$tmp/lines"
code 'of many' 0 pgwork enqueue live -f "$tmp/lines" --ttl 2h
is 'each expires two hours from now, as the reaper knows' "$(sql "SELECT count(*), count(*) FILTER (WHERE abs(extract(epoch FROM j.expires_at - now()) - 7200) < 600 AND j.expires_at = e.at) FROM pgwork.job j JOIN pgwork.expiring_job e USING (id) WHERE j.queue = 'live'")" '4|4'
code 'expired already' 0 pgwork enqueue late x --expires 2001-01-01T00:00:00Z
code 'it is not claimed' 1 pgwork claim late
code 'the reaper comes' 0 pgwork reap --once
is 'it is a dead letter' "$(pgwork --json dead list late | sed -n 's/.*"error":"\([^"]*\)".*/\1/p')" expired
code 'dropped by a queue that is set so' 0 pgwork queue set late --expired drop
pgwork enqueue late y --expires 2001-01-01T00:00:00Z >"$tmp/out"
sql "SELECT pgwork.reap()" >"$tmp/out" # `reap --once` twice at once reaps once
is 'nothing is left of it' "$(sql "SELECT ready, dead FROM pgwork.depth('late')")" '0|1'
refused 'expired is one of two words' 2 'dead or drop' pgwork queue set late --expired never
refused 'a delay of more than ten years' 2 'enqueue: --delay is "3651d"' pgwork enqueue l x --delay 3651d
refused 'a kind of 256 bytes' 2 '^pgwork: job 1: argument `kind` is longer' pgwork enqueue l x -k "$(printf '%256s' x | tr ' ' k)"
for shape in '' -J; do
    printf '1\n\n"%300s"\n' x >"$tmp/lines"
    refused "the line of a job that is refused $shape" 2 '^pgwork: line 3: argument `payload` has ' pgwork enqueue l $shape -f "$tmp/lines" -X payload.max_bytes=100
done
awk 'BEGIN { for (i = 1; i <= 10001; i++) print "{}"; printf "{\"kind\": \"%300s\"}\n", "x" }' >"$tmp/lines"
refused 'the line of a job that is refused --full' 2 '^pgwork: line 10002: argument `kind` is longer' pgwork enqueue lot -F -f "$tmp/lines"
pgwork queue create tiny --max-bytes 40 >/dev/null
{ printf '\n\n'; seq 10010 | sed 's/^/{"payload": /; s/$/}/'; printf '{"payload": "%60s"}\n' x; } >"$tmp/lines"
refused "the line of a job that the queue's own limit refuses --full" 2 '^pgwork: line 10013: payload and body have' pgwork enqueue tiny -F -f "$tmp/lines"
printf '\n{"key": "a"}\n\n{"key": "b"}\n{"key": "a"}\n' >"$tmp/lines"
refused 'the line of a job whose key is taken' 1 '^pgwork: line 5: .* unique key' pgwork enqueue tiny -F -f "$tmp/lines" --key-policy error
refused 'an empty queue' 2 . pgwork enqueue '' x
refused '33 tags' 2 . pgwork enqueue l x $(for i in $(seq 33); do echo "-t $i"; done)

id=$(pgwork enqueue m x --key K)
pgwork --json enqueue m y --key K >"$tmp/out" 2>/dev/null
is 'a key that is taken: skip' "$(cat "$tmp/out")" "{\"id\":$id,\"outcome\":\"exists\"}"
pgwork --json enqueue m y --key K --key-policy replace >"$tmp/out" 2>/dev/null
is 'replace' "$(cat "$tmp/out") $(payloads m)" "{\"id\":$id,\"outcome\":\"replaced\"} {\"line\": \"y\"}"
refused 'error' 1 . pgwork enqueue m z --key K --key-policy error
refused 'a policy that is none' 2 'skip, replace, delay or error' pgwork enqueue m z --key K --key-policy frob
refused 'a scope that is none' 2 'unfinished, ready or period' pgwork enqueue m z --key K --key-scope frob
refused 'a period without one' 2 'needs a period' pgwork enqueue m z --key K --key-scope period
refused 'a debounce without a latest time' 2 'needs a period' pgwork enqueue m z --key D --key-policy delay --delay 1s
refused 'a debounce without a delay' 2 '`delay_ms` is 0: expected 1..60000' pgwork enqueue m z --key D --key-policy delay --key-period 1m
refused 'a debounce with a scope' 2 'expected ready' pgwork enqueue m z --key D --key-policy delay --delay 1s --key-period 1m --key-scope period
refused 'what cannot be replaced' 2 'payload, kind, priority and time' pgwork enqueue m z --key D --key-policy replace --key-replace payload,frob
refused 'replaced by skip' 2 'for --key-policy replace and delay' pgwork enqueue m z --key D --key-replace kind
pgwork enqueue bounce 1 --key D --key-policy delay --delay 20m --key-period 1h >"$tmp/out"
pgwork enqueue bounce 2 --key D --key-policy delay --delay 40m --key-period 1h --key-replace kind,priority -k k -p 3 >"$tmp/out" 2>/dev/null
is 'debounce' "$(sql "SELECT payload ->> 'line', kind, priority, round(extract(epoch FROM run_at - created_at) / 60) FROM pgwork.job WHERE queue = 'bounce'")" '2|k|3|40'
refused 'a period for nothing' 2 'for --key-scope period' pgwork enqueue m z --key P --key-period 1h
code 'a period' 0 pgwork enqueue m z --key P --key-scope period --key-period 1h
refused 'a key for many' 2 'one job' pgwork enqueue m x y --key K

op=3f2504e0-4f89-41d3-9a0c-0305e82c3301
first=$(pgwork enqueue n x y --op $op)
is 'an operation repeated' "$(pgwork enqueue n x y --op $op 2>/dev/null) $(jobs n)" "$first 2"
refused 'an operation id that is none' 2 . pgwork enqueue n x --op frob
printf 'a\nb\n' | pgwork enqueue n --op 3f2504e0-4f89-41d3-9a0c-0305e82c3302 >"$tmp/out" 2>/dev/null
is 'an operation from stdin' "$(wc -l <"$tmp/out") $(jobs n)" '2 4'

printf 'a\000b\377' >"$tmp/body"
code 'a body' 0 pgwork enqueue o x --body "$tmp/body"
is 'has its bytes' "$(sql "SELECT body_bytes FROM pgwork.job WHERE queue = 'o'")" 4
is 'so many, as ls and show tell' "$(pgwork ls o --json | sed 's/.*"body_bytes":\([0-9]*\).*/\1/') $(pgwork show "$(sql "SELECT id FROM pgwork.job WHERE queue = 'o'")" | sed -n 's/^body  *//p')" '4 4 bytes'
is 'as a claim shows them' "$(pgwork claim o --json | sed 's/.*"body_base64":"\([^"]*\)".*/\1/' | base64 -d | od -An -tx1)" "$(od -An -tx1 "$tmp/body")"

{ seq 1 10001; printf '\303\050\n'; } >"$tmp/lines"
refused 'a bad line behind many: the owner' 2 'nothing was enqueued' pgwork enqueue lots -f "$tmp/lines"
sql 'CREATE ROLE pgw_cli_producer LOGIN IN ROLE pgwork_producer' 2>/dev/null
PGWORK_DSN="host=$PGHOST port=$PGPORT user=pgw_cli_producer dbname=$PGDATABASE" refused 'others send lots' 2 '10000 jobs before it' pgwork enqueue lots -f "$tmp/lines"
is 'which are in' "$(jobs lots)" 10000
{ printf '\n\n'; seq 10010; printf '%60s\n' x; } >"$tmp/lines"
PGWORK_DSN="host=$PGHOST port=$PGPORT user=pgw_cli_producer dbname=$PGDATABASE" refused "the line of a job that the queue's own limit refuses" 2 '^pgwork: line 10013: payload and body have' pgwork enqueue tiny -f "$tmp/lines"
sql "CREATE FUNCTION unsure() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RAISE EXCEPTION 'not known' USING ERRCODE = '40003'; END \$\$;
     CREATE TRIGGER unsure BEFORE INSERT ON pgwork.live_job FOR EACH ROW WHEN (NEW.payload->>'line' = '10001') EXECUTE FUNCTION unsure()" >/dev/null
seq 1 10001 >"$tmp/lines"
PGWORK_DSN="host=$PGHOST port=$PGPORT user=pgw_cli_producer dbname=$PGDATABASE" refused 'a batch with an unknown outcome' 6 '^pgwork: 10000 jobs before it were enqueued, those of the next batch: unknown$' pgwork enqueue lots -f "$tmp/lines"
code 'the outcome of one job is unknown' 6 pgwork enqueue lots 10001
yes 'it is not to be repeated blindly' grep -q '^hint: check with .pgwork ls. before you repeat it' "$tmp/err"
is 'nothing is said of jobs before it' "$(grep -c enqueued "$tmp/err")" 0
sql 'DROP FUNCTION unsure() CASCADE' >/dev/null 2>&1
sql "CREATE FUNCTION loud() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RAISE EXCEPTION E'red\\033[31m\\npgwork: well'; END \$\$;
     CREATE TRIGGER loud BEFORE INSERT ON pgwork.live_job FOR EACH ROW WHEN (NEW.payload->>'line' = 'loud') EXECUTE FUNCTION loud()" >/dev/null
refused 'an error that a terminal would obey' 8 'red\\x1b\[31m\\x0apgwork: well' pgwork enqueue lots loud
is 'is shown in one line' "$(grep -c '^pgwork: well' "$tmp/err")" 0
sql 'DROP FUNCTION loud() CASCADE' >/dev/null 2>&1
sql 'DROP ROLE pgw_cli_producer' >/dev/null 2>&1

# nobody reads the ids: more than a pipe holds
seq 1 20001 | sed 's/.*/{"payload": &}/' >"$tmp/lines"
{ pgwork enqueue piped -F -f "$tmp/lines"; echo $? >"$tmp/code"; } 2>"$tmp/err" | head -n 1 >/dev/null
is 'ids that cannot be written are an error' "$(cat "$tmp/code") $(grep -c 'cannot write to stdout' "$tmp/err")" '8 1'
is 'of jobs that are all there' "$(jobs piped)" 20001
mkfifo "$tmp/fifo"
pgwork enqueue halted -F -f "$tmp/fifo" >/dev/null 2>"$tmp/err" &
p=$! jobs_of_ours=$!
exec 9<>"$tmp/fifo"
head -n 10001 "$tmp/lines" >&9
yes 'a batch of an input that continues' until_true 20 count_is "SELECT count(*) FROM pgwork.job WHERE queue = 'halted'" 10000
kill -TERM $p
wait $p
is 'a signal ends it between two lots' "$? $(cat "$tmp/err")" '143 pgwork: 10000 jobs before it were enqueued'
exec 9>&-
is 'an interrupted enqueue has stored what it says' "$(jobs halted)" 10000
(exec pgwork enqueue halted_load <"$tmp/fifo" >/dev/null 2>"$tmp/err") &
p=$! jobs_of_ours=$!
exec 9<>"$tmp/fifo"
seq 20000 >&9
loading() { count_is "SELECT count(*) FROM pg_stat_activity WHERE query ~ E'^-- .*\\nCOPY ' AND state = 'active' AND datname = current_database()" 1; }
yes 'a load of an input that continues' until_true 20 loading
kill -TERM $p
wait $p
is 'a signal ends a load' "$? $(cat "$tmp/err")" '143 pgwork: nothing was enqueued'
exec 9>&-

pgwork enqueue when -F --delay 5m <<'END' >/dev/null
{"run_at": "2030-01-01T00:00:00Z"}
{"delay_ms": 0}
{}
END
is 'the time of a line replaces a default, either way' "$(sql "SELECT string_agg(CASE WHEN run_at = '2030-01-01Z' THEN 'then' WHEN state = 'ready' THEN 'now' ELSE 'later' END, ' ' ORDER BY id) FROM pgwork.job WHERE queue = 'when'")" 'then now later'
echo '{"run_at": "2030-01-01T00:00:00Z", "delay_ms": 1}' >"$tmp/lines"
refused 'run_at together with delay_ms is refused' 2 'not both' pgwork enqueue when -F -f "$tmp/lines"

# A lack of memory, at each of the last allocations: behind the commit nobody may say that nothing was enqueued.
if cc -shared -fPIC -o "$tmp/oom.so" "$top/test/cli/oom.c" 2>"$tmp/err"; then
    pgwork queue create scarce
    pgwork queue create scarcer
    seq 3 >"$tmp/three"
    starve() { # starve LAST QUEUE WORDS...: with the last so many
        last=$1 queue=$2
        shift
        LD_PRELOAD=$tmp/oom.so OOM_COUNT=1 pgwork enqueue "$@" >/dev/null 2>"$tmp/err"
        n=$(tail -n 1 "$tmp/err")
        i=$((n - last))
        while [ $i -lt "$n" ]; do
            i=$((i + 1))
            before=$(jobs "$queue") code=0
            LD_PRELOAD=$tmp/oom.so OOM_AT=$i pgwork enqueue "$@" >/dev/null 2>"$tmp/err" || code=$?
            if [ $code != 0 ] && [ $code != 6 ] && [ "$(jobs "$queue")" != "$before" ]; then echo "$i: $code $(cat "$tmp/err")"; fi
            if [ $code = 6 ] && grep -q 'nothing was' "$tmp/err"; then echo "$i: $(cat "$tmp/err")"; fi
        done
    }
    is 'without memory after the commit the outcome is unknown, or reported' "$(starve 16 scarce scarce a b c)" ''
    is 'also of a load' "$(starve 4 scarcer scarcer -f "$tmp/three")" ''
fi
exit 0
