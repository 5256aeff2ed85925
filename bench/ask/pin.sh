# shellcheck shell=sh
# enqueue, claim and complete by 100 in a steady state, 4 clients, while an old snapshot or a writing transaction stays open
# One long round each; PIN_SECONDS=1800 asks it as the targets are worded. pin-time.tsv has throughput, size and dead rows
# over time.
claim_scripts
pin_seconds=${PIN_SECONDS:-$((smoke ? 1 : quick ? 15 : 300))}
rest=$((smoke ? 0 : quick ? 3 : 60))
step=$((pin_seconds / 15 + 1))
pins='no snapshot'
[ -n "$quick" ] || pins="$pins writer"
: >"$out/pin-time.tsv"

# pin_hold KIND: a session that lasts until pin_drop
pin_hold() {
    case $1 in
    no) return ;;
    snapshot) pin_begin='BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1;' ;;
    writer) pin_begin='BEGIN; CREATE TEMP TABLE t (); SELECT txid_current();' ;;
    esac
    { echo "$pin_begin"; sleep $((pin_seconds + 60)); } | PGAPPNAME=pin psql -XqAt >/dev/null 2>&1 &
    until [ "$(sql -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pin' AND state = 'idle in transaction'")" = 1 ]; do sleep 0.1; done
}
pin_drop() { sql -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pin'" >/dev/null; }

# pin_watch WHO KIND: size and dead rows each step
pin_watch() {
    pw_begin=$(now_ms)
    while :; do
        printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" $((($(now_ms) - pw_begin) / 1000)) size \
            "$(sql -c "SELECT round(pg_total_relation_size('$(table_of "$1")') / 1048576.0, 1)")" >>"$out/pin-time.tsv"
        sleep $step
    done
}
size_of() { sql -c "SELECT pg_total_relation_size('$(table_of "$1")') / 1048576.0"; }

for who in pgwork onetable; do
    for pin in $pins; do
        empty
        stock $who $((smoke ? 2000 : 100000))
        pin_hold "$pin"
        pin_watch $who "$pin" &
        watcher=$!
        rm -f "$out"/log.*
        pgbench -n -M prepared -c 4 -j 2 -T "$pin_seconds" -P "$step" -D n=100 -D ids={} -D tokens={} -D payload="$(payload 60)" \
            -f "$out/put.$who.pgbench" -f "$out/claim.$who.pgbench" --log --log-prefix="$out/log" >"$out/pin.txt" 2>&1 || { cat "$out/pin.txt" >&2; kill $watcher; return 1; }
        kill $watcher
        wait $watcher 2>/dev/null || :
        # a transaction in two is a claim
        sed -n 's/^progress: \([0-9.]*\) s, \([0-9.]*\) tps.*/\1 \2/p' "$out/pin.txt" | while read -r t v; do
            printf '%s\t%s\t%s\t%s\t%s\n' $who "$pin" "$t" throughput "$(calc "$v * 50")" >>"$out/pin-time.tsv"
        done
        cat "$out"/log.* | awk -v s="$pin_seconds" '$4 == 1 { n++; e[n] = $5; ms[n] = $3 / 1000; if ($5 > last) last = $5 } END { for (i = 1; i <= n; i++) if (e[i] > last - s / 5) print ms[i] }' | sort -n >"$out/latency"
        result pin "throughput in the last fifth of $pin_seconds s, held: $pin" $who "$(calc "$(wc -l <"$out/latency") * 100 * 5 / $pin_seconds")" jobs/s
        result pin "p99 of a claim in the last fifth, held: $pin" $who "$(percentile 99 "$out/latency")" ms
        result pin "size at the end, held: $pin" $who "$(size_of $who)" MB
        pin_drop
        sleep $rest
        result pin "size after $rest s of rest, held: $pin" $who "$(size_of $who)" MB
    done
done
rm -f "$out"/log.* "$out/latency"
