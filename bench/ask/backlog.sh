# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# claim and complete, batch 1, 4 clients, before a small backlog and a large one (--backlog); latency of a call; enqueue
claim_scripts
claims_of 1
for size in 10000 "$backlog"; do
    # the one-table queue meets up to a million: the targets compare ours with itself
    contenders="$(beside pgwork) $(if [ "$size" -le 1000000 ]; then echo onetable; fi)"
    empty
    for who in $contenders; do fill_queue $who "$size"; done
    sql -c CHECKPOINT # what filling them has left to write is not measured
    for r in $(seq "$rounds"); do
        for who in $contenders; do
            fill_queue $who "$size"
            # a short round, so that the small backlog stays one
            # shellcheck disable=SC2086  # words
            bench_run 4 1 claim.$who -D n=1 $nothing_claimed
            result backlog "batch 1 before $size jobs" $who "$tps" jobs/s
            sort -n "$out/calls" >"$out/latency"
            for p in 50 99; do result backlog "p$p of a call before $size jobs" $who "$(percentile $p "$out/latency")" ms; done
            bench_run 4 1 put.$who -D n=1 -D payload="$(payload 60)"
            result backlog "enqueue by 1 behind $size jobs" $who "$tps" jobs/s
        done
    done
done
rm -f "$out/latency"
