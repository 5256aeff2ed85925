# shellcheck shell=sh
# the worker runtime, one process, no-op jobs, jobs a second
jobs=$((seconds * 60000))
claim_scripts
for c in 0 4; do
    for r in $(seq "$rounds"); do
        sql -c 'TRUNCATE onetable.job, pgwork.live_job, lim.row'
        fill "$jobs"
        sql -c 'VACUUM ANALYZE pgwork.live_job'
        result worker "$c handler threads, prefetch 1000" pgwork-lib "$(noop_worker q "$jobs" "$c" 1000)" jobs/s
        fill "$jobs"
        tps=$(pgbench_tps 1 "$seconds" "$out/claim.pgwork.pgbench" -D n=1000 -D ids={} -D tokens={})
        result worker "$c handler threads, prefetch 1000" "pgwork (its SQL alone, one client, batch 1000)" "$(times "$tps" 1000)" jobs/s
    done
done
