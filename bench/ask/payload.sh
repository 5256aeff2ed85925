# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# jobs of 100 bytes to 1 megabyte, enqueue then claim and complete by 10, 4 clients
claim_scripts
claims_of 10
for size in 100 2000 50000 $(if [ -z "$quick" ]; then echo 1000000; fi); do
    jobs=$((smoke ? 200 : (quick ? 50000000 : 200000000) / (size + 4000)))
    if [ "$jobs" -gt 20000 ]; then jobs=20000; fi
    if [ "$jobs" -lt 1000 ] && [ -z "$quick" ]; then jobs=1000; fi # 25 calls of each client: their first ones do not count
    for r in $(seq "$rounds"); do
        for who in $(beside pgwork) onetable limit; do
            empty
            sql -c CHECKPOINT
            begin=$(now_ms); put $who "$jobs" "$size"; end=$(now_ms)
            result payload "$size bytes, enqueue by one producer" $who "$(calc "$jobs * 1000 / ($end - $begin)")" jobs/s
            done_in "$jobs" $who 10 4
            result payload "$size bytes, claim and complete by 10" $who "$rate" jobs/s
        done
    done
done
