# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# claim and complete, batch 10, 8 clients, with few and many queues, and priorities, of the same total
claim_scripts
script queues <<S
\\set i random(1, :queues)
SELECT $one_by_one FROM pgwork.claim_batch(ARRAY['m' || :i], 10, 'bench') \\gset
SELECT count(*) FROM pgwork.complete('m' || :i, :ids, :tokens);
S
script queues.limit <<'S'
\set i random(1, :queues)
DELETE FROM lim.of_queue WHERE ctid = ANY (ARRAY(SELECT ctid FROM lim.of_queue WHERE queue = :i ORDER BY id LIMIT 10 FOR UPDATE SKIP LOCKED)) RETURNING id;
S
most=$((smoke ? 10 : 10000))
sql -c "SELECT pgwork.setting('max_queues', '20000')" -c "SELECT pgwork.queue_create('m' || i) FROM generate_series(1, $most) i" >/dev/null
# so many that none runs dry: a claim that finds less than it wants looks twice
total=$((smoke ? 2000 : seconds * 150000 + 50000))
fill() { # fill QUEUES PRIORITIES
    empty
    sql -c "INSERT INTO pgwork.live_job (queue, lane, payload)
            SELECT q.id, 2 * (g % $2) + 1, '{}' FROM generate_series(1, $total) g JOIN pgwork.queue q ON q.name = 'm' || (1 + g % $1)" -c "VACUUM ANALYZE $hot"
}
for r in $(seq "$rounds"); do
    for k in 1 $((smoke ? 5 : 100)) $most; do
        fill "$k" 1
        burn pgwork queues 8 10 -D queues="$k"
        result queues "batch 10 out of so many queues" "$k" "$rate" jobs/s
        dry queues "batch 10 out of so many queues" "$k"
        if [ -n "$look" ]; then continue; fi
        sql -c 'TRUNCATE lim.of_queue' -c "INSERT INTO lim.of_queue (queue, payload) SELECT 1 + g % $k, '{}' FROM generate_series(1, 2 * $total) g" -c 'VACUUM ANALYZE lim.of_queue'
        burn limit-queues queues.limit 8 10 -D queues="$k"
        result queues "bare deletes of 10 out of so many queues" "$k" "$rate" rows/s
    done
    # last, in a queue of its own: a priority that was once seen is looked for from then on
    fill 1 10
    burn pgwork queues 8 10 -D queues=1
    result queues "batch 10 out of so many queues" '1, ten priorities' "$rate" jobs/s
    sql -c "SELECT pgwork.queue_drop('m1', true), pgwork.queue_create('m1')" >/dev/null
done
