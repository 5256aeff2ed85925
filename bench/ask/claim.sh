# shellcheck shell=sh
# claim and complete of no-op jobs, jobs a second
claim_scripts
for c in ${quick:+8} ${quick:-1 8 64}; do
    [ "$c" = 1 ] && [ -n "$quick" ] && continue
    for n in 1 10 100 1000; do
        for r in $(seq "$rounds"); do
            for who in pgwork pgwork-apart onetable onetable-apart limit; do
                top_up $((seconds * 320000 + 20000))
                tps=$(pgbench_tps "$c" "$seconds" "$out/claim.$who.pgbench" -D n="$n" -D ids={} -D tokens={})
                result claim "clients $c, batch $n" "$who" "$(times "$tps" "$n")" jobs/s
            done
        done
    done
done
