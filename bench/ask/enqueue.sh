# shellcheck shell=sh
# enqueue by 1, 10, 100, 1000 a call with 8 producers, jobs a second
script enqueue.pgwork <<'S'
SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('{"x": "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}'::jsonb, ARRAY[:n]));
S
script enqueue.pgwork-one <<'S'
SELECT * FROM pgwork.enqueue('q', '{"x": "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}');
S
script enqueue.onetable <<'S'
INSERT INTO onetable.job (payload) SELECT '{"x": "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}' FROM generate_series(1, :n);
S
script enqueue.limit <<'S'
INSERT INTO lim.row (payload) SELECT '{"x": "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}' FROM generate_series(1, :n);
S
for n in 1 10 100 1000; do
    for r in $(seq "$rounds"); do
        for who in pgwork onetable limit $([ "$n" = 1 ] && echo pgwork-one); do
            sql -c 'TRUNCATE onetable.job, pgwork.live_job, lim.row'
            tps=$(pgbench_tps 8 "$seconds" "$out/enqueue.$who.pgbench" -D n="$n")
            result enqueue "8 producers, $n a call" "$who" "$(times "$tps" "$n")" jobs/s
        done
    done
done

# COPY: the command line tool's load against psql's into a table with the same columns and one index
rows=$((seconds * 100000))
sql -c 'DROP SCHEMA IF EXISTS copied CASCADE' -c 'CREATE SCHEMA copied' \
    -c 'CREATE TABLE copied.job (LIKE pgwork.live_job INCLUDING DEFAULTS)' -c 'CREATE INDEX ON copied.job (queue, lane, pos)'
seq "$rows" | sed 's/.*/{"x": "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", "n": &}/' >"$out/copy.jsonl"
awk '{ print "1\t" $0 }' "$out/copy.jsonl" >"$out/copy.tsv"
now_ms() { date +%s%3N; }
for r in $(seq "$rounds"); do
    sql -c 'TRUNCATE pgwork.live_job, copied.job' -c CHECKPOINT
    t0=$(now_ms); pgwork enqueue --json-lines -f "$out/copy.jsonl" q >/dev/null; t1=$(now_ms)
    result enqueue "COPY, one producer" pgwork "$(awk -v n="$rows" -v t=$((t1 - t0)) 'BEGIN { print n * 1000 / t }')" jobs/s
    sql -c CHECKPOINT
    t0=$(now_ms); sql -c "\\copy copied.job (queue, payload) FROM '$out/copy.tsv'"; t1=$(now_ms)
    result enqueue "COPY, one producer" limit "$(awk -v n="$rows" -v t=$((t1 - t0)) 'BEGIN { print n * 1000 / t }')" jobs/s
done
