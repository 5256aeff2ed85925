# shellcheck shell=sh
# claim and complete, batch 10, 4 clients, before a backlog of 10 thousand and of a million
claim_scripts
for r in $(seq "$rounds"); do
    for size in 10000 $((quick ? 300000 : 1000000)); do
        sql -c 'TRUNCATE onetable.job, pgwork.live_job, lim.row'
        top_up $size
        sql -c 'VACUUM ANALYZE'
        for who in pgwork onetable; do
            # as many are put back as are taken: a short run on the small backlog
            tps=$(pgbench_tps 4 1 "$out/claim.$who.pgbench" -D n=1 -D ids={} -D tokens={})
            result backlog "batch 1 before $size jobs" "$who" "$tps" jobs/s
        done
    done
done
