# shellcheck shell=sh
# the worker runtime, one process, no-op jobs, jobs a second; CPU time of the process for a job
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
