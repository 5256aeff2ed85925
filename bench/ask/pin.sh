# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# enqueue, claim and complete by 100 in a steady state, 4 clients, while an old snapshot or a writing transaction stays open
# One long round each, unless --rounds says how many; --pin 1800 asks it as the targets are worded. Beside our queues runs their reaper, as
# beside any that is in use. The writer enqueues ten jobs of its own at its beginning; at its end it commits, and it is seen how long these
# wait (looked at every 20 ms). Each client enqueues and claims by turns, so the backlog stays as it is; and jobs count when they are gone,
# as everywhere. pin-SECONDS.tsv has throughput and size by the second, the rest too.
claim_scripts
pin_n=${batches:-100} pin_by='' # --batches: with one number, calls of so many jobs
if [ "$pin_n" != 100 ]; then pin_by=", batch $pin_n"; fi
after=$((smoke ? 1 : quick ? 1 : 6)) # the load goes on for a while when the pin is gone
rest=$((smoke ? 0 : pin_seconds >= 1800 ? 300 : pin_seconds / 6 + 1))
fifth=$(((pin_seconds + 4) / 5)) # of the time that it was held, the last
at() { printf '%s\t%s\t%s\t%s\t%s\n' "$@"; } # at WHO KIND SECOND WHAT VALUE: a point of a curve
curve="$out/pin-$pin_seconds.tsv"
# what --append asks for the same time adds to the curves
if [ ! -e "$curve" ]; then {
    at all all "$pin_seconds" event released
    at all all $((pin_seconds + after)) event 'load ends'
    at all all $((pin_seconds + after + rest)) event end
} >"$curve"; fi
echo "pin         ${rounds_asked:-1} of $pin_seconds s each" | tee -a "$out/server.txt"

# pin_own WHO: the writer's own jobs; pin_waiting WHO: how many of them wait. They are looked up one by one: a look at a whole
# table full of dead rows would take longer than what it is to measure.
pin_own() {
    echo 'CREATE TEMP TABLE own (id bigint)'
    case $1 in
    pgwork* | engine1*) echo "; INSERT INTO own SELECT id FROM $(schema_of "$1").enqueue_many('$(queue_of "$1")', array_fill('{}'::jsonb, ARRAY[10]))" ;;
    onetable) echo "; WITH i AS (INSERT INTO onetable.job (kind) SELECT 'own' FROM generate_series(1, 10) RETURNING id) INSERT INTO own SELECT id FROM i" ;;
    esac
}
pin_waiting() {
    case $1 in
    pgwork* | engine1*) echo "SELECT count(*) FROM $(schema_of "$1").live_job WHERE queue = (SELECT id FROM $(schema_of "$1").queue WHERE name = '$(queue_of "$1")') AND lane = 1" \
        "AND pos = ANY (ARRAY(SELECT id FROM own)) AND token IS NULL" ;;
    onetable) echo "SELECT count(*) FROM onetable.job WHERE id = ANY (ARRAY(SELECT id FROM own)) AND state = 0" ;;
    esac
}

# pin_hold WHO KIND: in the background for pin_seconds; the writer prints how many ms passed from its commit until its
# jobs were claimed, which includes the looking
pin_hold() {
    case $2 in
    no) return ;;
    snapshot) ph_begin='BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1;' ph_end='COMMIT;' ;;
    writer)
        ph_begin="BEGIN; $(pin_own "$1");"
        ph_end="COMMIT; DO \$\$ DECLARE t timestamptz := clock_timestamp(); BEGIN
            WHILE clock_timestamp() < t + interval '5 s' AND ($(pin_waiting "$1")) > 0 LOOP PERFORM pg_sleep(0.02); END LOOP;
            RAISE INFO 'claimed after % ms', extract(epoch FROM clock_timestamp() - t) * 1000; END \$\$;"
        ;;
    esac
    # its time begins when it is seen to be there: until then it waits for the file
    rm -f "$out/pin.held"
    { echo "$ph_begin"; until [ -e "$out/pin.held" ]; do sleep 0.02; done; sleep "$pin_seconds"; echo "$ph_end"; } |
        PGAPPNAME=pin PGOPTIONS=$settled psql -XqAt -v ON_ERROR_STOP=1 >/dev/null 2>"$out/pin.err" &
    holder=$!
    while kill -0 $holder 2>/dev/null &&
        [ "$(sql -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pin' AND state = 'idle in transaction'")" != 1 ]; do sleep 0.05; done
    : >"$out/pin.held"
    kill -0 $holder 2>/dev/null || { cat "$out/pin.err" >&2; return 1; }
}

# pin_watch WHO KIND: size, until it is killed
pin_watch() {
    pw_begin=$(now_ms)
    while :; do
        at "$1" "$2" "$(calc "($(now_ms) - $pw_begin) / 1000")" size "$(size_of "$1")"
        sleep 1
    done
}

# pin_pass WHO KIND: its points go to pin-pass.tsv; sets size_end, size_rest and per_call, and leaves $out/latency and $out/pin.err
pin_pass() {
    empty
    claims_of "$pin_n"
    fill_queue "$1" $((smoke ? 2000 : 100000))
    by_turns "pin.$1" "put.$1" "claim.$1"
    before=$(unfinished "$1")
    rm -f "$out"/log.* "$out/pin-pass.tsv"
    pin_hold "$1" "$2"
    pin_watch "$1" "$2" >>"$out/pin-pass.tsv" &
    loops=$!
    case $1 in
    pgwork*) pgwork reap >"$out/reap.txt" 2>&1 & loops="$loops $!" ;;
    engine1*) PGWORK_SCHEMA=engine1 "$engine1/build/pgwork" reap >"$out/reap.txt" 2>&1 & loops="$loops $!" ;;
    esac
    # shellcheck disable=SC2086  # words
    PGOPTIONS=$settled pgbench -n -M prepared -c 4 -j 2 -T $((pin_seconds + after)) -D n="$pin_n" -D turn=0 $nothing_claimed -D payload="$(payload 60)" \
        -f "$out/pin.$1.pgbench" --log --log-prefix="$out/log" >"$out/pin.txt" 2>&1 || { cat "$out/pin.txt" >&2; kill $loops; return 1; }
    # claims only, from here on: when each ended, and its ms
    cat "$out"/log.* | awk '{ e = $5 + $6 / 1e6; if (NR == 1 || e - $3 / 1e6 < begin) begin = e - $3 / 1e6 } seen[$1]++ % 2 { n++; end[n] = e; ms[n] = $3 / 1000 }
        END { for (i = 1; i <= n; i++) print end[i] - begin, ms[i] }' >"$out/claims"
    awk -v from=$((pin_seconds - fifth)) -v to="$pin_seconds" '$1 >= from && $1 < to { print $2 }' "$out/claims" | sort -n >"$out/latency"
    size_end=$(size_of "$1")
    if [ "$2" != no ]; then wait "$holder"; fi
    sleep $rest
    kill $loops
    wait $loops 2>/dev/null || :
    size_rest=$(size_of "$1")
    per_call=$(cat "$out"/log.* | awk -v claims="$(wc -l <"$out/claims")" -v before="$before" -v after="$(unfinished "$1")" -v n="$pin_n" \
        'END { print claims ? (before + n * (NR - claims) - after) / claims : 0 }')
    awk -v last=$((pin_seconds + after)) -v per_call="$per_call" '{ n[int($1)]++ } END { for (s = 0; s < last; s++) print s, per_call * n[s] }' "$out/claims" |
        while read -r s rate; do at "$1" "$2" "$s" throughput "$rate"; done >>"$out/pin-pass.tsv"
}

all='pgwork/no pgwork/snapshot pgwork/writer pgwork-rows/no pgwork-rows/snapshot pgwork-rows/writer onetable/no onetable/snapshot onetable/writer'
if [ -n "$look" ]; then all='pgwork/no pgwork/snapshot pgwork/writer'; fi
if [ -n "$smoke" ]; then all='pgwork/no pgwork/writer pgwork-rows/snapshot onetable/snapshot'; fi
all=$(beside $all | xargs)
for pass in $pins; do
    case " $all " in *" $pass "*) ;; *) say "bench: --pins: '$pass' is none of $all"; exit 2 ;; esac
done
for r in $(seq "${rounds_asked:-1}"); do
    for pass in ${pins:-$all}; do
        who=${pass%/*} pin=${pass#*/}
        calm pin_pass "$who" "$pin"
        if [ -z "$pin_by" ]; then cat "$out/pin-pass.tsv" >>"$curve"; fi
        result pin "throughput in the last fifth of $pin_seconds s, held: $pin$pin_by" "$who" "$(calc "$(wc -l <"$out/latency") * $per_call / $fifth")" jobs/s
        if [ -s "$out/latency" ]; then
            result pin "p99 of claim and complete in the last fifth of $pin_seconds s, held: $pin$pin_by" "$who" "$(percentile 99 "$out/latency")" ms
        else
            say "bench: $who ended no claim in the last fifth, held: $pin$pin_by"
        fi
        result pin "size at the end of $pin_seconds s, held: $pin$pin_by" "$who" "$size_end" MB
        if [ "$pin" = writer ]; then
            result pin "its own jobs claimed after the commit, within, held for $pin_seconds s: $pin$pin_by" "$who" "$(sed -n 's/.*claimed after \([0-9.]*\) ms/\1/p' "$out/pin.err")" ms
        fi
        result pin "size after $rest s of rest, held: $pin$pin_by" "$who" "$size_rest" MB
    done
done
rm -f "$out"/log.* "$out/claims" "$out/latency" "$out/pin.held" "$out/pin-pass.tsv"
