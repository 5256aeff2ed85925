# shellcheck shell=sh
# claim and complete, batch 10, 8 clients, with few and many queues of the same total
script queues <<'S'
\set i random(1, :queues)
SELECT coalesce(array_agg(id)::text, '{}') ids, coalesce(array_agg(token)::text, '{}') tokens FROM pgwork.claim(ARRAY['m' || :i], 10, 'bench') \gset
SELECT count(*) FROM pgwork.complete('m' || :i, :ids, :tokens);
S
most=$((smoke ? 10 : quick ? 1000 : 10000))
sql -c "SELECT pgwork.queue_create('m' || i) FROM generate_series(1, $most) i" >/dev/null
total=$((smoke ? 2000 : seconds * 60000 + 50000))
for r in $(seq "$rounds"); do
    for k in 1 $((smoke ? 5 : 100)) $most; do
        sql -c 'TRUNCATE pgwork.live_job' -c "INSERT INTO pgwork.live_job (queue, payload) SELECT q.id, '{}' FROM generate_series(1, $total) g JOIN pgwork.queue q ON q.name = 'm' || (1 + g % $k)" -c 'VACUUM ANALYZE pgwork.live_job'
        burn pgwork queues 8 10 -D queues="$k"
        result queues "batch 10 out of so many queues" "$k" "$rate" jobs/s
    done
done
