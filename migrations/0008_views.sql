-- 0008: what humans look at.

CREATE VIEW pgwork.job AS
SELECT q.name AS queue, coalesce(j.id, j.pos) AS id, CASE WHEN j.token IS NULL THEN 'ready' ELSE 'leased' END AS state,
       j.kind, j.lane / 2 AS priority, j.attempt::integer AS attempt, coalesce(j.max_attempts, q.max_attempts)::integer AS max_attempts,
       j.holder, CASE WHEN j.token IS NOT NULL THEN j.lease_until END AS lease_until, NULL::timestamptz AS run_at, j.created_at, NULL::timestamptz AS finished_at,
       j.error, j.key, j.tags, j.payload, octet_length(j.body) AS body_bytes, NULL::jsonb AS output
  FROM pgwork.live_job j JOIN pgwork.queue q ON q.id = j.queue
 WHERE j.jobs IS NULL
UNION ALL
SELECT q.name, j.id, 'ready', j.kind, b.lane / 2, 0, q.max_attempts::integer,
       NULL, NULL, NULL, b.created_at, NULL, NULL, NULL, NULL, j.payload, NULL, NULL
  FROM pgwork.live_job b JOIN pgwork.queue q ON q.id = b.queue
 CROSS JOIN LATERAL unnest(b.all_ids, b.all_kinds, b.all_payloads) AS j (id, kind, payload)
 WHERE b.jobs IS NOT NULL
UNION ALL
SELECT q.name, j.id, 'leased', j.kind, j.lane / 2, 1, q.max_attempts::integer,
       p.holder, coalesce(j.lease_end, p.lease_until), NULL, j.created, NULL, NULL, NULL, j.tags::text[], j.payload, octet_length(j.body), NULL
  FROM pgwork.pack p JOIN pgwork.queue q ON q.id = p.queue
 CROSS JOIN LATERAL unnest(p.ids, p.lanes, p.created, p.kinds, p.payloads, p.bodies, p.tags, p.ends)
                 AS j (id, lane, created, kind, payload, body, tags, lease_end)
 WHERE NOT EXISTS (SELECT FROM pgwork.pack_out o WHERE o.queue = p.queue AND o.number = p.number AND o.id = j.id)
UNION ALL
SELECT q.name, j.id, 'delayed', j.kind, j.priority::integer, j.attempt::integer, coalesce(j.max_attempts, q.max_attempts)::integer,
       NULL, NULL, j.run_at, j.created_at, NULL, j.error, j.key, j.tags, j.payload, octet_length(j.body), NULL
  FROM pgwork.delayed_job j JOIN pgwork.queue q ON q.id = j.queue
UNION ALL
SELECT q.name, j.id, 'dead', j.kind, j.priority::integer, j.attempt::integer, coalesce(j.max_attempts, q.max_attempts)::integer,
       j.holder, NULL, NULL, j.created_at, j.died_at, j.error, j.key, j.tags, j.payload, octet_length(j.body), NULL
  FROM pgwork.dead_job j JOIN pgwork.queue q ON q.id = j.queue
UNION ALL
SELECT q.name, j.id, CASE WHEN j.cancelled THEN 'cancelled' ELSE 'done' END, j.kind, j.priority::integer, j.attempt::integer, NULL,
       j.holder, NULL, NULL, j.created_at, j.finished_at, NULL, j.key, j.tags, j.payload, NULL, j.output
  FROM pgwork.done_job j JOIN pgwork.queue q ON q.id = j.queue;

CREATE VIEW pgwork.queue_stats AS
SELECT q.name AS queue, d.ready, d.leased, d.delayed, d.dead, d.done, d.oldest_ms, q.paused, q.draining,
       q.lease_ms, q.max_attempts, q.backoff_ms, q.backoff_cap_ms, q.retention_ms, q.max_bytes, q.notify, q.bulk
  FROM pgwork.queue q CROSS JOIN LATERAL pgwork.depth(q.name) d;

CREATE VIEW pgwork.queues AS SELECT * FROM pgwork.queue;
CREATE VIEW pgwork.beats AS SELECT * FROM pgwork.beat;

CREATE VIEW pgwork.stuck_jobs AS
SELECT q.name AS queue, s.id, s.error, s.since, s.tries, s.again_at FROM pgwork.stuck_job s JOIN pgwork.queue q ON q.id = s.queue;

CREATE FUNCTION pgwork.version() RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT max(number) FROM pgwork.migration
$$;

COMMENT ON VIEW pgwork.job IS 'Every job in one place, whatever its state: ready, leased, delayed, dead, done, cancelled.';
COMMENT ON VIEW pgwork.queue_stats IS 'Settings and exact counts of every queue; pgwork.depth(queue, at_most) is the cheap way.';
COMMENT ON VIEW pgwork.queues IS 'Queues and their settings; no counts.';
COMMENT ON VIEW pgwork.beats IS 'Signs of life of reapers.';
COMMENT ON VIEW pgwork.stuck_jobs IS 'Jobs of expired leases that no reaper can take back: a trigger or a constraint of somebody''s raises an error, or the row is damaged. Tried again at again_at; one that is older than some minutes is over.';
COMMENT ON FUNCTION pgwork.version() IS 'Number of the last migration applied.';
