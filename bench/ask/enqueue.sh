# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# enqueue by 1, 10, 100, 1000 a call with 8 producers, jobs a second
claim_scripts
claims_of 1
producers() { # producers BATCH
    if [ "$1" != 1 ] || [ -z "$look" ]; then beside pgwork; echo onetable limit; fi
    if [ "$1" = 1 ]; then beside pgwork-one; echo onetable-one limit-one limit-nothing; fi
    if [ "$1" -ge 100 ] && [ -n "$engine1" ]; then echo engine1-bundles; fi
}
for n in $(if [ -n "$quick" ]; then echo 1 100; else echo 1 10 100 1000; fi); do
    for r in $(seq "$rounds"); do
        for who in $(producers "$n"); do
            empty
            bench_run 8 "$seconds" "put.$who" -D n="$n" -D payload="$(payload 60)"
            result enqueue "8 producers, $n a call" "$who" "$(calc "$tps * $n")" jobs/s
        done
    done
done

# COPY: the command line tool's load against psql's into a table with the same columns and one index
rows=$((seconds * (smoke ? 1000 : 100000)))
sql -c 'SET client_min_messages = warning' -c 'DROP SCHEMA IF EXISTS copied CASCADE' -c 'CREATE SCHEMA copied' \
    -c 'CREATE TABLE copied.job (LIKE pgwork.live_job INCLUDING DEFAULTS)' -c 'CREATE INDEX ON copied.job (queue, lane, pos)'
seq "$rows" | sed 's/.*/{"x": "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", "n": &}/' >"$out/copy.jsonl"
sed 's/^/1\t/' "$out/copy.jsonl" >"$out/copy.tsv"
for r in $(seq "$rounds"); do
    sql -c 'TRUNCATE copied.job' -c "TRUNCATE $hot" -c CHECKPOINT
    begin=$(now_ms); pgwork enqueue --json-lines -f "$out/copy.jsonl" q >"$out/copy.out" 2>&1 || { cat "$out/copy.out" >&2; return 1; }; end=$(now_ms)
    result enqueue "COPY, one producer" pgwork-lib "$(calc "$rows * 1000 / ($end - $begin)")" jobs/s
    sql -c CHECKPOINT
    begin=$(now_ms); sql -c "\\copy copied.job (queue, payload) FROM '$out/copy.tsv'"; end=$(now_ms)
    result enqueue "COPY, one producer" limit "$(calc "$rows * 1000 / ($end - $begin)")" jobs/s
done
rm -f "$out/copy.jsonl" "$out/copy.tsv"
