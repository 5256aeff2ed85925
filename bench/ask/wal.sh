# shellcheck shell=sh
# WAL and dead rows of a 100-byte job from enqueue to complete, batch 1 and 100
wal_at() { sql -c 'SELECT pg_current_wal_insert_lsn() - $$0/0$$::pg_lsn'; }
dead_in() { sql -c 'SELECT pg_stat_clear_snapshot()' -c "SELECT sum(n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE schemaname = '$1'" | tail -n 1; }
bytes=80
for n in 1 100; do
    jobs=2000
    for r in $(seq "$rounds"); do
        for who in pgwork onetable; do
            case $who in
            pgwork) put="SELECT count(*) FROM pgwork.enqueue_many('q', ARRAY(SELECT jsonb_build_object('x', repeat('y', $bytes)) FROM generate_series(1, $n)))" schema=pgwork ;;
            onetable) put="SELECT onetable.enqueue($n, $bytes)" schema=onetable ;;
            esac
            claim_scripts
            echo "$put;" >"$out/wal.put.pgbench"
            sql -c 'TRUNCATE onetable.job, pgwork.live_job' -c 'VACUUM ANALYZE' -c CHECKPOINT -c 'SELECT pg_stat_reset()' >/dev/null
            calls=$((jobs / n))
            pgbench -n -M prepared -c 1 -t 5 -f "$out/wal.put.pgbench" >/dev/null 2>&1 # first touches write whole pages
            a=$(wal_at)
            pgbench -n -M prepared -c 1 -t "$calls" -f "$out/wal.put.pgbench" >/dev/null 2>&1
            pgbench -n -M prepared -c 1 -t $((calls + 1)) -D n="$n" -D ids={} -D tokens={} -f "$out/claim.$who.pgbench" >/dev/null 2>&1
            b=$(wal_at)
            result wal "WAL, batch $n" "$who" "$(awk -v d=$((b - a)) -v j=$jobs 'BEGIN { print d / j }')" bytes/job
            sleep 0.6 # statistics arrive late
            result wal "row versions left to vacuum, batch $n" "$who" "$(awk -v d="$(dead_in $schema)" -v j=$jobs 'BEGIN { print d / j }')" rows/job
        done
    done
done
