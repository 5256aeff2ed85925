-- 0007: what humans look at, and who may do what. The roles can only EXECUTE; the operator reads as well.

CREATE VIEW pgwork.job AS
SELECT q.name AS queue, coalesce(j.id, j.pos) AS id, CASE WHEN j.token IS NULL THEN 'ready' ELSE 'leased' END AS state,
       j.kind, j.lane / 2 AS priority, j.attempt::integer AS attempt, coalesce(j.max_attempts, q.max_attempts)::integer AS max_attempts,
       j.holder, j.lease_until, NULL::timestamptz AS run_at, j.created_at, NULL::timestamptz AS finished_at,
       j.error, j.key, j.tags, j.payload, octet_length(j.body) AS body_bytes, NULL::jsonb AS output
  FROM pgwork.live_job j JOIN pgwork.queue q ON q.id = j.queue
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
       q.lease_ms, q.max_attempts, q.backoff_ms, q.backoff_cap_ms, q.retention_ms, q.max_bytes, q.notify
  FROM pgwork.queue q CROSS JOIN LATERAL pgwork.depth(q.name) d;

CREATE VIEW pgwork.queues AS SELECT * FROM pgwork.queue;
CREATE VIEW pgwork.beats AS SELECT * FROM pgwork.beat;

CREATE FUNCTION pgwork.version() RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT max(number) FROM pgwork.migration
$$;

COMMENT ON VIEW pgwork.job IS 'Every job in one place, whatever its state: ready, leased, delayed, dead, done, cancelled.';
COMMENT ON VIEW pgwork.queue_stats IS 'Settings and exact counts of every queue; pgwork.depth(queue, at_most) is the cheap way.';
COMMENT ON VIEW pgwork.queues IS 'Queues and their settings; no counts.';
COMMENT ON VIEW pgwork.beats IS 'Signs of life of reapers.';
COMMENT ON FUNCTION pgwork.version() IS 'Number of the last migration applied.';

-- Roles belong to the cluster, so another schema may have made them; whoever may not make roles asks somebody who may.
DO $$
DECLARE
    r text;
BEGIN
    FOREACH r IN ARRAY ARRAY['pgwork_producer', 'pgwork_worker', 'pgwork_operator'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', r);
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'role % is missing and this role may not create it: ask an administrator, then grant by hand', r;
        END;
    END LOOP;
END $$;

CREATE FUNCTION pgwork._grant() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s text := split_part('pgwork.', '.', 1);
    f record;
    who text;
BEGIN
    FOR f IN SELECT p.oid::regprocedure AS call, p.proname AS name FROM pg_proc p WHERE p.pronamespace = s::regnamespace LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f.call);
        CONTINUE WHEN starts_with(f.name, '_');
        FOREACH who IN ARRAY ARRAY['pgwork_producer', 'pgwork_worker', 'pgwork_operator'] LOOP
            CONTINUE WHEN to_regrole(who) IS NULL;
            IF who = 'pgwork_operator'
               OR f.name IN ('version', 'token_number')
               OR who = 'pgwork_producer' AND f.name IN ('enqueue', 'enqueue_many', 'cancel')
               OR who = 'pgwork_worker' AND f.name IN ('enqueue', 'enqueue_many', 'claim', 'extend', 'complete', 'fail', 'snooze', 'release',
                                                       'idle', 'awake', 'reap', 'promote', 'prune', 'maintain', 'beat') THEN
                EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', f.call, who);
            END IF;
        END LOOP;
    END LOOP;
    FOREACH who IN ARRAY ARRAY['pgwork_producer', 'pgwork_worker', 'pgwork_operator'] LOOP
        CONTINUE WHEN to_regrole(who) IS NULL;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', s, who);
        IF who = 'pgwork_operator' THEN
            EXECUTE format('GRANT SELECT ON %1$I.job, %1$I.queue_stats, %1$I.queues, %1$I.beats, %1$I.migrations TO %2$I', s, who);
        END IF;
    END LOOP;
END $$;

SELECT pgwork._grant();
