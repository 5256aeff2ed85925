# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# the worker runtime, one process: no-op jobs, its CPU time for a job; jobs of 1 ms and 100 ms
claim_scripts
for threads in $(if [ -z "$look" ]; then echo 0; fi) 4; do
    for r in $(seq "$rounds"); do
        # shellcheck disable=SC2046  # lists of words
        for who in $(beside pgwork $(rows 1000)); do
            what="$threads handler threads, prefetch 1000" jobs=$((seconds * (quick ? 100000 : 200000)))
            case $who in *-rows) what="$what, rows" ;; *) jobs=$((jobs * 3)) ;; esac
            lib=${who%-rows}-lib
            claims_of 1000
            if [ -n "$smoke" ]; then jobs=2000; fi
            empty
            fill_queue $who "$jobs"
            noop "$who" "$jobs" $threads 1000
            result worker "$what" "$lib" "$rate" jobs/s
            result worker "$what, CPU time of the process" "$lib" "$cpu" us/job
            case $who in engine1*) continue ;; esac
            fill_queue $who "$jobs"
            done_in "$jobs" $who 1000 1
            result worker "$what" '(its SQL alone, one client, batch 1000)' "$rate" jobs/s
        done
    done
done
# the threads can do THREADS / LENGTH at most
for ms in 1 100; do
    ideal=$((64 * 1000 / ms))
    jobs=$((smoke ? 200 : seconds * ideal))
    for r in $(seq "$rounds"); do
        empty
        fill_queue pgwork "$jobs"
        noop pgwork "$jobs" 64 256 $ms
        result worker "jobs of $ms ms, 64 handler threads, prefetch 256" pgwork-lib "$rate" jobs/s
        result worker "jobs of $ms ms, 64 handler threads, prefetch 256" '(what 64 threads can do)' $ideal jobs/s
    done
done
