# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# the worker runtime alone, one process before a server side that touches no table: jobs a second, its CPU time and memory
# Its functions are replaced (sql/stub.sql), so in a database that nobody else needs.
migrated pgw_bench_stub
sql -f "$here/sql/stub.sql"
jobs=$((smoke ? 20000 : seconds * 200000))
for r in $(seq "$rounds"); do
    for prefetch in 100 1000 10000; do
        for threads in 0 4; do
            noop pgwork "$jobs" "$threads" "$prefetch"
            result client "no-op jobs, prefetch $prefetch" "$threads threads" "$rate" jobs/s
            result client "CPU time of the process, prefetch $prefetch" "$threads threads" "$cpu" us/job
            result client "peak of its resident memory, prefetch $prefetch" "$threads threads" "$peak" MB
        done
    done
done
in_database pgw_bench
sql -c 'DROP DATABASE pgw_bench_stub WITH (FORCE)'
