# shellcheck shell=sh
# claim and complete, batch 100, 4 workers beside 1 producer, while an old snapshot holds vacuum back
claim_scripts
pin_seconds=$((quick ? 20 : 300))
script pin.feed.pgwork <<'S'
SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('{"x": "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}'::jsonb, ARRAY[100]));
S
script pin.feed.onetable <<'S'
SELECT onetable.enqueue(100, 60);
S
rate=100 # calls a second of 100 jobs: 10,000 jobs a second
for who in pgwork onetable; do
    for pin in no yes; do
        sql -c 'TRUNCATE onetable.job, pgwork.live_job' -c 'VACUUM ANALYZE'
        holder=
        if [ $pin = yes ]; then
            psql -XqAt -c 'BEGIN ISOLATION LEVEL REPEATABLE READ' -c 'SELECT 1' -c "SELECT pg_sleep($pin_seconds + 5)" >/dev/null 2>&1 &
            holder=$!
            sleep 0.3
        fi
        pgbench -n -M prepared -c 1 -R $rate -T "$pin_seconds" -f "$out/pin.feed.$who.pgbench" >/dev/null 2>&1 &
        feeder=$!
        pgbench -n -M prepared -c 4 -j 1 -T "$pin_seconds" -P $((pin_seconds / 5)) -D n=100 -D ids={} -D tokens={} -f "$out/claim.$who.pgbench" >"$out/pin.$who.$pin.txt" 2>&1
        wait $feeder
        case $who in
        pgwork) left=$(sql -c 'SELECT count(*) FROM pgwork.live_job WHERE token IS NULL'); size=$(sql -c "SELECT pg_total_relation_size('pgwork.live_job') / 1048576.0") ;;
        onetable) left=$(sql -c 'SELECT count(*) FROM onetable.job WHERE state = 0'); size=$(sql -c "SELECT pg_total_relation_size('onetable.job') / 1048576.0") ;;
        esac
        result pin "jobs left behind after $pin_seconds s at 10,000/s, snapshot held: $pin" $who "$left" jobs
        result pin "latency of a claim in the last fifth, snapshot held: $pin" $who "$(sed -n 's/^progress: .* lat \([0-9.]*\) ms.*/\1/p' "$out/pin.$who.$pin.txt" | tail -n 1)" ms
        result pin "size of the table, snapshot held: $pin" $who "$size" MB
        if [ -n "$holder" ]; then kill $holder 2>/dev/null || :; wait $holder 2>/dev/null || :; fi
    done
done
