-- 0008: views and lists for people. Views call no private functions: a role that reads one would need the right to.

-- The jobs of live rows, with the id of their queue and the address of their row.
CREATE VIEW pgwork._live_job AS
SELECT j.ctid AS at, j.queue, k.id, CASE WHEN j.token IS NULL THEN 'ready' ELSE 'leased' END AS state, k.kind,
       j.lane / 2 AS priority, j.attempt, j.max_attempts, j.holder, j.lease_until, NULL::timestamptz AS run_at,
       k.created_at, NULL::timestamptz AS finished_at, j.error, j.key, j.tags, k.payload,
       octet_length(j.body) AS body_bytes, NULL::jsonb AS output, nullif(j.grp, '') AS grp, j.expires_at, j.meta,
       '{ready,leased}'::text[] AS states, true AS listed FROM pgwork.live_job j
 CROSS JOIN LATERAL unnest(coalesce(j.ids, ARRAY[coalesce(j.id, j.pos)]), coalesce(j.kinds, ARRAY[j.kind]),
                           coalesce(j.payloads, ARRAY[j.payload]), coalesce(j.created, ARRAY[j.created_at]))
         AS k (id, kind, payload, created_at) WHERE j.gone_ids IS NULL OR k.id <> ALL (j.gone_ids);

-- All other jobs, in the same form. `states`, those of a table, let a plan skip a table. Callers read only `listed`
-- rows. With that condition in the view itself, plans would not read done_job in the order of its ids.
CREATE VIEW pgwork._other_job AS
SELECT NULL::tid AS at, j.queue, j.id, CASE WHEN j.gate IS NULL THEN 'delayed' ELSE 'gated' END AS state, j.kind,
       j.priority::integer AS priority, j.attempt, j.max_attempts, NULL::text AS holder,
       NULL::timestamptz AS lease_until, nullif(j.run_at, 'infinity') AS run_at, j.created_at,
       NULL::timestamptz AS finished_at, j.error, j.key, j.tags, j.payload, octet_length(j.body) AS body_bytes,
       NULL::jsonb AS output, nullif(j.grp, '') AS grp, j.expires_at, j.meta, '{delayed,gated}'::text[] AS states,
       true AS listed FROM pgwork.delayed_job j
 UNION ALL
SELECT NULL, j.queue, j.id, 'dead', j.kind, j.priority::integer, j.attempt, j.max_attempts, j.holder, NULL, NULL,
       j.created_at, j.died_at, j.error, j.key, j.tags, j.payload, octet_length(j.body), NULL, nullif(j.grp, ''),
       j.expires_at, j.meta, '{dead}', true FROM pgwork.dead_job j
 UNION ALL
SELECT NULL, j.queue, j.id, 'done', j.kind, j.priority::integer, j.attempt, NULL, j.holder, NULL, NULL, j.created_at,
       j.finished_at, NULL, j.key, j.tags, j.payload, NULL, j.output, NULL, NULL, NULL, '{done}', NOT j.cancelled
  FROM pgwork.done_job j
 UNION ALL
SELECT NULL, j.queue, j.id, 'cancelled', j.kind, j.priority::integer, j.attempt, NULL, j.holder, NULL, NULL,
       j.created_at, j.finished_at, NULL, j.key, j.tags, j.payload, NULL, NULL, NULL, NULL, NULL, '{cancelled}',
       j.cancelled FROM pgwork.done_job j;

-- False for a role that is only a viewer. Checks the session's role: here current_user is the owner of the function.
CREATE FUNCTION pgwork.sees_payloads() RETURNS boolean LANGUAGE sql STABLE RETURN coalesce((
    SELECT bool_or(r.rolname <> 'pgwork_viewer') FROM pg_roles r JOIN pg_class c ON c.oid = 'pgwork.queue'::regclass
     WHERE (r.rolname IN ('pgwork_viewer', 'pgwork_operator') OR r.oid = c.relowner)
       AND pg_has_role(coalesce(nullif(current_setting('role'), 'none'), session_user)::name, r.oid, 'MEMBER')), true);

-- It reads all rows of a queue. job_list(queue, id => ...) finds one job by an index.
CREATE VIEW pgwork.job AS SELECT q.name AS queue, j.id, j.state, j.kind, j.priority, j.attempt,
       CASE WHEN j.state NOT IN ('done', 'cancelled') THEN coalesce(j.max_attempts, q.max_attempts) END AS max_attempts,
       j.holder, j.lease_until, j.run_at, j.created_at, j.finished_at, j.error, j.key, j.tags,
       CASE WHEN v.shown THEN j.payload END AS payload, j.body_bytes, CASE WHEN v.shown THEN j.output END AS output,
       j.grp, j.expires_at, CASE WHEN v.shown THEN j.meta END AS meta, NOT v.shown AS payload_hidden, CASE WHEN v.shown
       THEN (SELECT h.progress FROM pgwork.job_history h WHERE h.queue = q.id AND h.id = j.id) END AS progress
  FROM pgwork.queue q CROSS JOIN (SELECT pgwork.sees_payloads() AS ok OFFSET 0) s
 CROSS JOIN LATERAL (SELECT s.ok OR q.payload_visible) v (shown)
  JOIN (SELECT * FROM pgwork._live_job UNION ALL SELECT * FROM pgwork._other_job) j ON j.queue = q.id AND j.listed;

-- A page of the view in the order of the ids, or one job by its id. Each table is read by an index, up to at_most
-- jobs. It is one statement, which cannot miss a job that moves. The id ranges of batch rows overlap. So it first
-- finds `last`: at_most jobs of the page have ids up to there. Then it finds all rows that begin up to there.
CREATE FUNCTION pgwork._live_page(q pgwork.queue, state text, kind text, low bigint, high bigint, at_most bigint)
RETURNS SETOF tid LANGUAGE plpgsql STABLE AS $$
DECLARE block CONSTANT bigint := (low + 1) & ~524287::bigint; -- ids of a row are equal except for their last 19 bits
BEGIN
    RETURN QUERY WITH last AS (SELECT CASE WHEN count(*) = at_most THEN max(f.id) ELSE high END AS id
          FROM (SELECT k.id
                  FROM (SELECT j FROM pgwork.live_job j
                         WHERE j.queue = q.id AND j.id BETWEEN block AND high AND j.last_id > low
                           AND coalesce((j.token IS NULL) = (state = 'ready'), true)
                           AND coalesce(_live_page.kind = ANY (coalesce(j.kinds, ARRAY[j.kind])), true)
                         ORDER BY j.id LIMIT at_most) r
                 CROSS JOIN LATERAL pgwork._jobs(r.j) k
                 WHERE k.id > low AND k.id <= high AND coalesce(k.kind = _live_page.kind, true) LIMIT at_most) f
    ) SELECT j.at FROM last CROSS JOIN LATERAL (SELECT j.ctid AS at FROM pgwork.live_job j
                            WHERE j.queue = q.id AND j.id BETWEEN block AND last.id AND j.last_id > low
                              AND coalesce((j.token IS NULL) = (state = 'ready'), true) OFFSET 0) j
       UNION ALL SELECT j.at FROM last CROSS JOIN generate_series(0, 19) l
       CROSS JOIN LATERAL (SELECT j.ctid AS at FROM pgwork.live_job j
                            WHERE j.queue = q.id AND j.lane = l::smallint AND j.pos > low AND j.pos <= last.id
                              AND j.id IS NULL AND coalesce((j.token IS NULL) = (state = 'ready'), true)
                              AND coalesce(j.kind = _live_page.kind, true) ORDER BY j.pos LIMIT at_most) j;
END $$;

CREATE FUNCTION pgwork.job_list(queue text DEFAULT NULL, state text DEFAULT NULL, kind text DEFAULT NULL,
    id bigint DEFAULT NULL, after_id bigint DEFAULT NULL, at_most bigint DEFAULT 100)
RETURNS SETOF pgwork.job LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    any_state CONSTANT boolean := state IS NULL; all_payloads CONSTANT boolean := pgwork.sees_payloads();
    low CONSTANT bigint := greatest(after_id, job_list.id - 1, 0);
    high CONSTANT bigint := coalesce(job_list.id, 9223372036854775807);
BEGIN
    PERFORM pgwork._refuse_unless(any_state OR state = ANY ('{ready,gated,delayed,leased,done,dead,cancelled}'),
                                  'state', state, 'ready, gated, delayed, leased, done, dead, cancelled, or NULL'),
            pgwork._refuse_unless(coalesce(job_list.id, 1) > 0, 'id', job_list.id::text, 'at least 1, or NULL for any'),
            pgwork._refuse_unless(coalesce(after_id, 0) >= 0, 'after_id', after_id::text, 'at least 0, or NULL'),
            pgwork._refuse_unless(coalesce(at_most, 1) > 0, 'at_most', at_most::text, 'at least 1, or NULL for all');
    RETURN QUERY SELECT q.name, j.id, j.state, j.kind, j.priority, j.attempt,
           CASE WHEN j.state NOT IN ('done', 'cancelled') THEN coalesce(j.max_attempts, q.max_attempts) END,
           j.holder, j.lease_until, j.run_at, j.created_at, j.finished_at, j.error, j.key, j.tags,
           CASE WHEN s.shown THEN j.payload END, j.body_bytes, CASE WHEN s.shown THEN j.output END, j.grp,
           j.expires_at, CASE WHEN s.shown THEN j.meta END, NOT s.shown, CASE WHEN s.shown
           THEN (SELECT h.progress FROM pgwork.job_history h WHERE h.queue = q.id AND h.id = j.id) END
      FROM pgwork._used_queues(job_list.queue) q CROSS JOIN LATERAL (SELECT all_payloads OR q.payload_visible) s (shown)
     CROSS JOIN LATERAL (SELECT k.* FROM pgwork._live_page(q, state, kind, low, high, at_most) l (at)
         CROSS JOIN LATERAL (SELECT * FROM pgwork._live_job k WHERE k.at = l.at OFFSET 0) k
         WHERE any_state OR job_list.state IN ('ready', 'leased')
         UNION ALL (SELECT * FROM pgwork._other_job j
          WHERE j.queue = q.id AND j.listed AND j.id > low AND j.id <= high AND (any_state OR j.state = job_list.state)
            AND (any_state OR job_list.state = ANY (j.states))
            AND (job_list.kind IS NULL OR j.kind = job_list.kind) ORDER BY j.id LIMIT at_most)) j
     WHERE j.id > low AND j.id <= high AND (job_list.kind IS NULL OR j.kind = job_list.kind)
     ORDER BY j.id LIMIT at_most;
END $$;

-- missing_ok: for a caller that lists all queues, one of which may have been dropped meanwhile.
CREATE FUNCTION pgwork.depth(queue text, at_most bigint DEFAULT NULL, missing_ok boolean DEFAULT false,
    OUT ready bigint, OUT leased bigint, OUT delayed bigint, OUT gated bigint, OUT dead bigint, OUT done bigint,
    OUT oldest_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE q pgwork.queue; m pgwork.mark;
BEGIN
    SELECT * INTO q FROM pgwork.queue t WHERE t.name = depth.queue;
    IF NOT FOUND AND missing_ok THEN RETURN; END IF;
    PERFORM pgwork._queue(depth.queue) WHERE q.id IS NULL;
    PERFORM pgwork._refuse_unless(coalesce(at_most, 1) > 0, 'at_most', at_most::text,
                                  'at least 1, or NULL for exact counts');
    m := pgwork._mark(q.id);
    -- Leased rows are before the ready ones of their lane.
    SELECT coalesce(sum(s.n) FILTER (WHERE s.token IS NULL), 0),
           coalesce(sum(s.n) FILTER (WHERE s.token IS NOT NULL), 0) INTO ready, leased
      FROM (SELECT j.token, j.n FROM unnest(m.floors) WITH ORDINALITY f (floor, i)
             CROSS JOIN LATERAL (SELECT j.token, j.n FROM pgwork.live_job j
                                  WHERE j.queue = q.id AND j.lane = (f.i - 1)::smallint AND j.pos > f.floor
                                  ORDER BY j.pos LIMIT at_most) j LIMIT at_most) s;
    leased := least(leased, at_most); ready := least(ready, at_most - leased);
    SELECT count(*) INTO delayed FROM (SELECT FROM pgwork.delayed_job j
      WHERE j.queue = q.id AND j.run_at < 'infinity' LIMIT at_most) s;
    SELECT count(*) INTO gated FROM (SELECT FROM pgwork.delayed_job j
      WHERE j.queue = q.id AND j.gate IS NOT NULL LIMIT at_most) s;
    SELECT count(*) INTO dead FROM (SELECT FROM pgwork.dead_job j WHERE j.queue = q.id LIMIT at_most) s;
    SELECT count(*) INTO done FROM (SELECT FROM pgwork.done_job j WHERE j.queue = q.id LIMIT at_most) s;
    -- The first row of each range is its oldest.
    SELECT greatest(0, (extract(epoch FROM pgwork._now() - min(h.since)) * 1000)::bigint) INTO oldest_ms
      FROM unnest(m.lanes, m.starts, m.stops) r (lane, start, stop)
     CROSS JOIN LATERAL (SELECT coalesce(j.ready_at, j.created_at) AS since FROM pgwork.live_job j
                          WHERE j.queue = q.id AND j.lane = r.lane AND j.pos > r.start AND j.pos <= r.stop
                            AND j.token IS NULL ORDER BY j.pos LIMIT 1) h;
END $$;

CREATE FUNCTION pgwork.queue_list(queue text DEFAULT NULL, at_most bigint DEFAULT NULL)
RETURNS TABLE (queue text, ready bigint, leased bigint, delayed bigint, gated bigint, dead bigint, done bigint,
    oldest_ms bigint, paused boolean, draining boolean, lease_ms integer, max_attempts integer, backoff_ms bigint,
    backoff_cap_ms bigint, retention_ms bigint, max_bytes integer, notify boolean, expired text,
    dead_retention_ms bigint, payload_visible boolean)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT q.name, d.*, q.paused, q.draining, q.lease_ms, q.max_attempts, q.backoff_ms, q.backoff_cap_ms,
           q.retention_ms, q.max_bytes, q.notify, q.expired, q.dead_retention_ms, q.payload_visible
      FROM pgwork.queue q LEFT JOIN pgwork._used_queues($1) u USING (id) CROSS JOIN LATERAL (
           SELECT 0, 0, 0, 0, 0, 0, 0 WHERE u.name IS NULL UNION ALL -- ready is NULL: the queue was dropped meanwhile
           SELECT d.* FROM pgwork.depth(u.name, $2, true) d WHERE u.name IS NOT NULL AND d.ready IS NOT NULL OFFSET 0) d
     WHERE $1 IS NULL OR q.name = $1 ORDER BY 1
$$;
CREATE VIEW pgwork.queue_stats AS SELECT * FROM pgwork.queue_list();
CREATE VIEW pgwork.queues AS SELECT * FROM pgwork.queue;

CREATE FUNCTION pgwork.version() RETURNS integer LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS 'SELECT max(number) FROM pgwork.migration';

COMMENT ON FUNCTION pgwork.job_list IS 'Jobs in the order of their ids, page by page, or one job by its id.';
COMMENT ON FUNCTION pgwork.depth IS 'Counts of a queue by state, up to at_most, and the age of its oldest ready job.';
COMMENT ON FUNCTION pgwork.version IS 'Number of the last migration applied.';
COMMENT ON FUNCTION pgwork.sees_payloads IS 'False: payloads, outputs and meta are NULL unless their queue shows them.';
COMMENT ON VIEW pgwork.job IS 'Every job, whatever its state: ready, leased, delayed, gated, dead, done, cancelled.';
COMMENT ON FUNCTION pgwork.queue_list IS 'Settings of a queue, or of all, and counts by state up to at_most.';
COMMENT ON VIEW pgwork.queue_stats IS 'Settings and exact counts of every queue; queue_list(at_most => n) is cheap.';
COMMENT ON VIEW pgwork.queues IS 'Queues and their settings; no counts.';
