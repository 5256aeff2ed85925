# shellcheck shell=sh
# claim and complete, batch 1, 4 clients, before a small backlog and a large one; latency of a call
claim_scripts
sizes="10000 $(if [ -n "$smoke" ]; then echo 20000; elif [ -n "$quick" ]; then echo 300000; else echo 1000000; fi)"
for size in $sizes; do
    empty
    for who in pgwork onetable; do stock $who "$size"; done
    for r in $(seq "$rounds"); do
        for who in pgwork onetable; do
            stock $who "$size"
            rm -f "$out"/log.*
            # a short round, so that the small backlog stays one
            bench_run 4 1 claim.$who -D n=1 -D ids={} -D tokens={} --log --log-prefix="$out/log"
            result backlog "batch 1 before $size jobs" $who "$tps" jobs/s
            cat "$out"/log.* | awk '{ print $3 / 1000 }' | sort -n >"$out/latency"
            for p in 50 99; do result backlog "p$p of a call before $size jobs" $who "$(percentile $p "$out/latency")" ms; done
        done
    done
done
rm -f "$out"/log.* "$out/latency"
