# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# the worker runtime, one process: no-op jobs, its CPU time for a job; jobs of 1 ms and 100 ms
claim_scripts
jobs=$((smoke ? 2000 : seconds * 80000))
for threads in 0 4; do
    for r in $(seq "$rounds"); do
        empty
        stock pgwork "$jobs"
        client_cpu noop_worker q "$jobs" $threads 1000 >"$out/worker.rate"
        result worker "$threads handler threads, prefetch 1000" pgwork-lib "$(cat "$out/worker.rate")" jobs/s
        result worker "$threads handler threads, CPU time of the process" pgwork-lib "$(calc "$client_seconds * 1e6 / $jobs")" us/job
        stock pgwork $(($(enough 1000)))
        burn pgwork claim.pgwork 1 1000
        result worker "$threads handler threads, prefetch 1000" '(its SQL alone, one client, batch 1000)' "$rate" jobs/s
    done
done
# the threads can do THREADS / LENGTH at most
for ms in 1 100; do
    ideal=$((64 * 1000 / ms))
    jobs=$((smoke ? 200 : seconds * ideal))
    for r in $(seq "$rounds"); do
        empty
        stock pgwork "$jobs"
        result worker "jobs of $ms ms, 64 handler threads, prefetch 256" pgwork-lib "$(noop_worker q "$jobs" 64 256 $ms)" jobs/s
        result worker "jobs of $ms ms, 64 handler threads, prefetch 256" '(what 64 threads can do)' $ideal jobs/s
    done
done
