-- 0008: what humans look at.

-- Two parts for the rows of live_job, by where their ids lie, so that a look at one id is a look into an index. The lanes are all there
-- are: with them named the index of the places serves a condition on the id alone. (Bundles and packs are opened, all of the queue:
-- job_list() finds an id in these by an index, too.)
CREATE VIEW pgwork.job AS
SELECT q.name AS queue, j.pos AS id, CASE WHEN j.token IS NULL THEN 'ready' ELSE 'leased' END AS state,
       j.kind, j.lane / 2 AS priority, j.attempt::integer AS attempt, coalesce(j.max_attempts, q.max_attempts)::integer AS max_attempts,
       j.holder, CASE WHEN j.token IS NOT NULL THEN j.lease_until END AS lease_until, NULL::timestamptz AS run_at, j.created_at, NULL::timestamptz AS finished_at,
       j.error, j.key, j.tags, j.payload, octet_length(j.body) AS body_bytes, NULL::jsonb AS output
  FROM pgwork.live_job j JOIN pgwork.queue q ON q.id = j.queue
 WHERE j.jobs IS NULL AND j.id IS NULL AND j.lane = ANY ('{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19}')
UNION ALL
SELECT q.name, j.id, CASE WHEN j.token IS NULL THEN 'ready' ELSE 'leased' END,
       j.kind, j.lane / 2, j.attempt::integer, coalesce(j.max_attempts, q.max_attempts)::integer,
       j.holder, CASE WHEN j.token IS NOT NULL THEN j.lease_until END, NULL, j.created_at, NULL,
       j.error, j.key, j.tags, j.payload, octet_length(j.body), NULL
  FROM pgwork.live_job j JOIN pgwork.queue q ON q.id = j.queue
 WHERE j.jobs IS NULL AND j.id IS NOT NULL
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

-- A page of the view, in the order of the ids; or one job by its id. Each place where jobs lie gives at_most of them, in the order of an
-- index where it has one, so that nobody reads what lies before the page, or far behind it. In one statement, or a job that just moves
-- from one place to another could be missed.
-- A bundle or a pack can begin before the page, and its ids reach into those of others. So first `last`: at_most of the ids in there are
-- not above it; then all that are not. (Packs are as few as what is leased.)
-- Jobs at their first place come at the end: among them lie bundles, and jobs that have moved, and `last` of all others spares them these.
CREATE FUNCTION pgwork.job_list(queue text DEFAULT NULL, state text DEFAULT NULL, kind text DEFAULT NULL, id bigint DEFAULT NULL,
    after_id bigint DEFAULT NULL, at_most bigint DEFAULT 100) RETURNS SETOF pgwork.job
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    any_state CONSTANT boolean := state IS NULL;
    low bigint;
    high bigint;
BEGIN
    PERFORM pgwork._refuse_unless(any_state OR state IN ('ready', 'delayed', 'leased', 'done', 'dead', 'cancelled'), 'state', state,
                                  'ready, delayed, leased, done, dead, cancelled, or NULL for any'),
            pgwork._refuse_unless(coalesce(job_list.id, 1) > 0, 'id', job_list.id::text, '1 and up, or NULL for any'),
            pgwork._refuse_unless(coalesce(after_id, 0) >= 0, 'after_id', after_id::text, '0 and up, or NULL'),
            pgwork._refuse_unless(coalesce(at_most, 1) > 0, 'at_most', at_most::text, '1 and up, or NULL for all');
    low := greatest(after_id, job_list.id - 1, 0);
    high := coalesce(job_list.id, 9223372036854775807);
    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT j.*
          FROM (SELECT * FROM pgwork.queue q WHERE job_list.queue IS NULL OR q.name = job_list.queue) q
         CROSS JOIN LATERAL (
            (SELECT q.name AS queue, j.id, CASE WHEN j.token IS NULL THEN 'ready' ELSE 'leased' END AS state,
                    j.kind, j.lane / 2 AS priority, j.attempt::integer AS attempt, coalesce(j.max_attempts, q.max_attempts)::integer AS max_attempts,
                    j.holder, CASE WHEN j.token IS NOT NULL THEN j.lease_until END AS lease_until, NULL::timestamptz AS run_at, j.created_at, NULL::timestamptz AS finished_at,
                    j.error, j.key, j.tags, j.payload, octet_length(j.body) AS body_bytes, NULL::jsonb AS output
               FROM pgwork.live_job j
              WHERE (any_state OR job_list.state IN ('ready', 'leased')) AND (any_state OR (j.token IS NULL) = (job_list.state = 'ready'))
                AND j.queue = q.id AND j.id > low AND j.id <= high AND j.jobs IS NULL AND (job_list.kind IS NULL OR j.kind = job_list.kind)
              ORDER BY j.id LIMIT at_most)
            UNION ALL
            SELECT j.*
              FROM generate_series(1, 19, 2) l
             CROSS JOIN LATERAL (
                SELECT max(u.id) AS last
                  FROM (SELECT u.id
                          FROM (SELECT b.all_ids, b.all_kinds FROM pgwork.live_job b
                                 WHERE (any_state OR job_list.state = 'ready') AND b.queue = q.id AND b.lane = l::smallint AND b.jobs IS NOT NULL
                                   AND b.pos BETWEEN low - 1000000 AND high AND b.last_id > low -- a bundle is never wider
                                 ORDER BY b.pos OFFSET 0) b
                         CROSS JOIN LATERAL unnest(b.all_ids, b.all_kinds) AS u (id, kind)
                         WHERE u.id > low AND u.id <= high AND (job_list.kind IS NULL OR u.kind = job_list.kind)
                         LIMIT at_most) u) t
             CROSS JOIN LATERAL (
                SELECT q.name, u.id, 'ready', u.kind, b.lane / 2, 0, q.max_attempts::integer,
                       NULL, NULL::timestamptz, NULL::timestamptz, b.created_at, NULL::timestamptz, NULL, NULL, NULL::text[], u.payload, NULL::integer, NULL::jsonb
                  FROM pgwork.live_job b
                 CROSS JOIN LATERAL unnest(b.all_ids, b.all_kinds, b.all_payloads) AS u (id, kind, payload)
                 WHERE b.queue = q.id AND b.lane = l::smallint AND b.jobs IS NOT NULL AND b.pos BETWEEN low - 1000000 AND t.last AND b.last_id > low
                   AND u.id > low AND u.id <= t.last AND (job_list.kind IS NULL OR u.kind = job_list.kind)
                 ORDER BY u.id LIMIT at_most) j
            UNION ALL
            SELECT j.*
              FROM (SELECT max(u.id) AS last
                      FROM (SELECT u.id
                              FROM (SELECT p.number FROM pgwork.pack p
                                     WHERE (any_state OR job_list.state = 'leased') AND p.queue = q.id AND p.number > low AND p.first_id <= high AND p.last_id > low
                                     ORDER BY p.first_id OFFSET 0) n
                             CROSS JOIN LATERAL (SELECT p.queue, p.number, p.ids, p.kinds FROM pgwork.pack p WHERE p.queue = q.id AND p.number = n.number OFFSET 0) p
                             CROSS JOIN LATERAL unnest(p.ids, p.kinds) AS u (id, kind)
                             WHERE u.id > low AND u.id <= high AND (job_list.kind IS NULL OR u.kind = job_list.kind)
                               AND NOT EXISTS (SELECT FROM pgwork.pack_out o WHERE o.queue = p.queue AND o.number = p.number AND o.id = u.id OFFSET 0)
                             LIMIT at_most) u) t
             CROSS JOIN LATERAL (
                SELECT q.name, u.id, 'leased', u.kind, u.lane / 2, 1, q.max_attempts::integer,
                       p.holder, coalesce(u.lease_end, p.lease_until), NULL::timestamptz, u.created, NULL::timestamptz, NULL, NULL, u.tags::text[], u.payload, octet_length(u.body), NULL::jsonb
                  FROM pgwork.pack p
                 CROSS JOIN LATERAL unnest(p.ids, p.lanes, p.created, p.kinds, p.payloads, p.bodies, p.tags, p.ends)
                                 AS u (id, lane, created, kind, payload, body, tags, lease_end)
                 WHERE p.queue = q.id AND p.number > low AND p.first_id <= t.last AND p.last_id > low
                   AND u.id > low AND u.id <= t.last AND (job_list.kind IS NULL OR u.kind = job_list.kind)
                   AND NOT EXISTS (SELECT FROM pgwork.pack_out o WHERE o.queue = p.queue AND o.number = p.number AND o.id = u.id OFFSET 0)
                 ORDER BY u.id LIMIT at_most) j
            UNION ALL
            (SELECT q.name, j.id, 'delayed', j.kind, j.priority::integer, j.attempt::integer, coalesce(j.max_attempts, q.max_attempts)::integer,
                    NULL, NULL, j.run_at, j.created_at, NULL, j.error, j.key, j.tags, j.payload, octet_length(j.body), NULL
               FROM pgwork.delayed_job j
              WHERE (any_state OR job_list.state = 'delayed')
                AND j.queue = q.id AND j.id > low AND j.id <= high AND (job_list.kind IS NULL OR j.kind = job_list.kind)
              ORDER BY j.id LIMIT at_most)
            UNION ALL
            (SELECT q.name, j.id, 'dead', j.kind, j.priority::integer, j.attempt::integer, coalesce(j.max_attempts, q.max_attempts)::integer,
                    j.holder, NULL, NULL, j.created_at, j.died_at, j.error, j.key, j.tags, j.payload, octet_length(j.body), NULL
               FROM pgwork.dead_job j
              WHERE (any_state OR job_list.state = 'dead')
                AND j.queue = q.id AND j.id > low AND j.id <= high AND (job_list.kind IS NULL OR j.kind = job_list.kind)
              ORDER BY j.id LIMIT at_most)
            UNION ALL
            (SELECT q.name, j.id, CASE WHEN j.cancelled THEN 'cancelled' ELSE 'done' END, j.kind, j.priority::integer, j.attempt::integer, NULL,
                    j.holder, NULL, NULL, j.created_at, j.finished_at, NULL, j.key, j.tags, j.payload, NULL, j.output
               FROM pgwork.done_job j
              WHERE (any_state OR job_list.state IN ('done', 'cancelled')) AND (any_state OR j.cancelled = (job_list.state = 'cancelled'))
                AND j.queue = q.id AND j.id > low AND j.id <= high AND (job_list.kind IS NULL OR j.kind = job_list.kind)
              ORDER BY j.id LIMIT at_most)) j
         ORDER BY j.id LIMIT at_most
    )
    SELECT j.*
      FROM (SELECT * FROM found
            UNION ALL
            SELECT j.*
              FROM (SELECT CASE WHEN count(*) = at_most THEN max(f.id) ELSE high END AS last FROM found f) t
             CROSS JOIN (SELECT * FROM pgwork.queue q WHERE job_list.queue IS NULL OR q.name = job_list.queue) q
             CROSS JOIN generate_series(1, 19, 2) l
             CROSS JOIN LATERAL (
                SELECT q.name, j.pos AS id, CASE WHEN j.token IS NULL THEN 'ready' ELSE 'leased' END,
                       j.kind, j.lane / 2, j.attempt::integer, coalesce(j.max_attempts, q.max_attempts)::integer,
                       j.holder, CASE WHEN j.token IS NOT NULL THEN j.lease_until END, NULL::timestamptz, j.created_at, NULL::timestamptz,
                       j.error, j.key, j.tags, j.payload, octet_length(j.body), NULL::jsonb
                  FROM pgwork.live_job j
                 WHERE (any_state OR job_list.state IN ('ready', 'leased')) AND (any_state OR (j.token IS NULL) = (job_list.state = 'ready'))
                   AND j.queue = q.id AND j.lane = l::smallint AND j.pos > low AND j.pos <= t.last AND j.id IS NULL AND j.jobs IS NULL
                   AND (job_list.kind IS NULL OR j.kind = job_list.kind)
                 ORDER BY j.pos LIMIT at_most) j) j
     ORDER BY j.id LIMIT at_most;
    PERFORM pgwork._refuse_outdated();
END $$;

CREATE VIEW pgwork.queue_stats AS
SELECT q.name AS queue, d.ready, d.leased, d.delayed, d.dead, d.done, d.oldest_ms, q.paused, q.draining,
       q.lease_ms, q.max_attempts, q.backoff_ms, q.backoff_cap_ms, q.retention_ms, q.max_bytes, q.notify, q.bulk
  FROM pgwork.queue q CROSS JOIN LATERAL pgwork.depth(q.name, missing_ok => true) d WHERE d.ready IS NOT NULL;

CREATE VIEW pgwork.queues AS SELECT * FROM pgwork.queue;
CREATE VIEW pgwork.beats AS SELECT * FROM pgwork.beat;

CREATE VIEW pgwork.stuck_jobs AS
SELECT q.name AS queue, CASE WHEN s.queue > 0 THEN s.id END AS id, s.error, s.since, s.tries, s.again_at
  FROM pgwork.stuck_job s LEFT JOIN pgwork.queue q ON q.id = s.queue WHERE s.queue IN (0, q.id);

CREATE FUNCTION pgwork.version() RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT max(number) FROM pgwork.migration
$$;

COMMENT ON VIEW pgwork.job IS 'Every job in one place, whatever its state: ready, leased, delayed, dead, done, cancelled.';
COMMENT ON FUNCTION pgwork.job_list(text, text, text, bigint, bigint, bigint) IS 'One page of the view job, in the order of the ids, from after_id on; or one job by its id. By indexes, however many jobs wait.';
COMMENT ON VIEW pgwork.queue_stats IS 'Settings and exact counts of every queue; pgwork.depth(queue, at_most) is the cheap way.';
COMMENT ON VIEW pgwork.queues IS 'Queues and their settings; no counts.';
COMMENT ON VIEW pgwork.beats IS 'Signs of life of reapers.';
COMMENT ON VIEW pgwork.stuck_jobs IS 'Jobs of expired leases that no reaper can take back: a trigger or a constraint of somebody''s raises an error, or the row is damaged. Tried again at again_at; one that is older than some minutes is over. Without queue and id: what of maintain() fails.';
COMMENT ON FUNCTION pgwork.version() IS 'Number of the last migration applied.';
