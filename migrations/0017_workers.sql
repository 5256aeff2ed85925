-- 0017: what workers report, and what is counted from it. doc/operations.md shows how to read it.
--
-- Counts are arrays of 56 numbers (the client writes them, src/worker/worker_report.c):
--   1 claimed, 2 done, 3 failed, 4 dead, 5 refused, 6 lost; 7 and 8 the sums of waiting and running time in us;
--   9..32 jobs by waiting time, 33..56 by running time: up to 1, 2, 4, ... 2^22 ms, and longer.
--
-- A worker writes a row for each of its queues every few seconds, and deletes the one before. An update would leave a
-- chain of dead versions behind a held snapshot, and each reader would walk along it. Here readers begin at the newest
-- row and stop at `upto`: whatever lies before it was added up by a reaper, once a minute. So they pass the dead rows of
-- two minutes at most, however long the snapshot is held.

CREATE SEQUENCE pgwork.report AS bigint;

CREATE TABLE pgwork.worker_report (
    version bigint PRIMARY KEY, at timestamptz NOT NULL, queue integer NOT NULL, name text NOT NULL, since timestamptz NOT NULL,
    concurrency integer NOT NULL, running integer NOT NULL, gone boolean NOT NULL, counts bigint[] NOT NULL,
    ids bigint[] NOT NULL, attempts integer[] NOT NULL, began timestamptz[] NOT NULL -- jobs that run for a second and longer
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- The ledger of the sums, newest first. Reports up to `upto` are in total; `next` was the last one when this was written.
CREATE TABLE pgwork.report_sum (version bigint PRIMARY KEY, at timestamptz NOT NULL, upto bigint NOT NULL, next bigint NOT NULL)
    WITH (autovacuum_vacuum_scale_factor = 0.02);

-- By queue, newest first: the counts of workers that are gone, and of all as of the last minute.
CREATE TABLE pgwork.total (queue integer, version bigint, gone bigint[] NOT NULL, told bigint[] NOT NULL, PRIMARY KEY (queue, version))
    WITH (autovacuum_vacuum_scale_factor = 0.02);

-- Minutes in which a queue's counts changed. `seconds` is the time since the look before.
CREATE TABLE pgwork.minute (
    queue integer NOT NULL, at timestamptz NOT NULL, seconds integer NOT NULL,
    claimed bigint NOT NULL, done bigint NOT NULL, failed bigint NOT NULL, dead bigint NOT NULL, refused bigint NOT NULL, lost bigint NOT NULL,
    wait_us bigint NOT NULL, run_us bigint NOT NULL, wait_p95_ms bigint, run_p95_ms bigint,
    PRIMARY KEY (queue, at)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.2);
CREATE INDEX minute_at ON pgwork.minute (at);

CREATE FUNCTION pgwork._no_counts() RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN array_fill(0::bigint, ARRAY[56]);

CREATE FUNCTION pgwork._add_counts(a bigint[], b bigint[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN a IS NULL THEN b WHEN b IS NULL THEN a
            ELSE ARRAY(SELECT u.x + u.y FROM unnest(a, b) WITH ORDINALITY u (x, y, i) ORDER BY u.i) END;

CREATE AGGREGATE pgwork._sum_counts(bigint[]) (SFUNC = pgwork._add_counts, STYPE = bigint[]);

-- The time within which a part of the jobs was: the upper end of its power of two. NULL: there were none.
CREATE FUNCTION pgwork._percentile_ms(jobs bigint[], part double precision) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT 1::bigint << (s.i - 1)::integer
          FROM (SELECT u.i, sum(u.n) OVER (ORDER BY u.i) AS upto, sum(u.n) OVER () AS every FROM unnest(jobs) WITH ORDINALITY u (n, i)) s
         WHERE s.upto >= part * s.every AND s.every > 0 ORDER BY s.i LIMIT 1);

-- Reports that are not added up yet: one for each worker and queue.
CREATE FUNCTION pgwork._reports() RETURNS SETOF pgwork.worker_report LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE upto CONSTANT bigint := (SELECT s.upto FROM pgwork.report_sum s ORDER BY s.version DESC LIMIT 1);
BEGIN
    RETURN QUERY SELECT * FROM pgwork.worker_report r WHERE r.version > coalesce(upto, 0) ORDER BY r.version DESC;
END $$;

-- A worker reports. Per queue: the version of its report before (0: none), jobs that run, and what was counted
-- since. Of jobs that run for long: in which of the queues, id, attempt, and for how many ms. The answer: the versions of
-- the new reports, 0 for a queue that is not there. A report that a reaper has added up meanwhile begins afresh.
CREATE FUNCTION pgwork.worker_report(name text, queues text[], versions bigint[], running integer[], counts bigint[], up_ms bigint,
    concurrency integer, gone boolean DEFAULT false, places integer[] DEFAULT '{}', ids bigint[] DEFAULT '{}', attempts integer[] DEFAULT '{}',
    ran_ms bigint[] DEFAULT '{}') RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    now_is CONSTANT timestamptz := pgwork._now();
    n CONSTANT integer := coalesce(cardinality(queues), 0);
    answer bigint[];
BEGIN
    PERFORM pgwork._refuse_unless(octet_length(name) BETWEEN 1 AND 255 AND name !~ '[[:cntrl:]]', 'name', name,
                                  '1 to 255 bytes without control characters'),
            pgwork._refuse_unless(n BETWEEN 1 AND 64, 'queues', n || ' queues', '1 .. 64 names'),
            pgwork._refuse_unless(cardinality(versions) = n AND cardinality(running) = n AND cardinality(counts) = 56 * n, 'counts',
                                  cardinality(counts) || ' numbers', 56 * n || ', and one version and number of running jobs per queue'),
            pgwork._refuse_unless(0 <= ALL (counts), 'counts', 'a number below 0', '0 and up'),
            pgwork._check_range('jobs', coalesce(cardinality(ids), 0), 0, 1000),
            pgwork._check_range('up_ms', up_ms, 0, 3153600000000);
    WITH q AS (
        SELECT u.i, t.id AS queue, u.version, u.running, counts[56 * u.i - 55 : 56 * u.i] AS counted
          FROM unnest(queues, versions, running) WITH ORDINALITY u (queue, version, running, i) JOIN pgwork.queue t ON t.name = u.queue
    ), old AS (
        DELETE FROM pgwork.worker_report r USING q WHERE r.version = q.version AND r.queue = q.queue AND r.name = name RETURNING r.queue, r.counts
    ), new AS (
        INSERT INTO pgwork.worker_report AS r (version, at, queue, name, since, concurrency, running, gone, counts, ids, attempts, began)
        SELECT nextval('pgwork.report'), now_is, q.queue, name, now_is - up_ms * interval '1 ms', concurrency, q.running, gone,
               pgwork._add_counts(old.counts, q.counted), coalesce(j.ids, '{}'), coalesce(j.attempts, '{}'), coalesce(j.began, '{}')
          FROM q LEFT JOIN old USING (queue)
          LEFT JOIN LATERAL (SELECT array_agg(u.id) AS ids, array_agg(u.attempt) AS attempts,
                                    array_agg(now_is - u.ms * interval '1 ms') AS began
                               FROM unnest(places, ids, attempts, ran_ms) u (place, id, attempt, ms) WHERE u.place = q.i) j ON true
        RETURNING r.queue, r.version
    ) SELECT array_agg(coalesce(new.version, 0) ORDER BY u.i) INTO answer
        FROM generate_series(1, n) u (i) LEFT JOIN q ON q.i = u.i LEFT JOIN new ON new.queue = q.queue;
    RETURN answer;
END $$;

-- Adds up, once a minute: reports of workers that are gone, or that have said nothing for a minute, and what each queue
-- did in that minute. Part of prune(); one reaper at a time.
CREATE FUNCTION pgwork._sum_reports() RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    now_is CONSTANT timestamptz := pgwork._now();
    prev pgwork.report_sum; s pgwork.report_sum; low bigint;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN RETURN; END IF;
    SELECT * INTO prev FROM pgwork.report_sum p ORDER BY p.version DESC LIMIT 1;
    IF date_trunc('minute', now_is) <= date_trunc('minute', prev.at) AND prev.at <= now_is
       OR NOT pg_try_advisory_xact_lock(pgwork._lock('reports', 0)) THEN
        RETURN;
    END IF;
    SELECT * INTO prev FROM pgwork.report_sum p ORDER BY p.version DESC LIMIT 1; -- another reaper may just have done it
    IF date_trunc('minute', now_is) <= date_trunc('minute', prev.at) AND prev.at <= now_is THEN RETURN; END IF;
    s := (coalesce(prev.version, 0) + 1, now_is, coalesce(prev.upto, 0), coalesce(prev.next, 0));
    IF prev.version IS NULL OR prev.at NOT BETWEEN now_is - interval '50 s' AND now_is THEN
        s.upto := s.next;
        s.next := (SELECT CASE WHEN r.is_called THEN r.last_value ELSE 0 END FROM pgwork.report r);
    END IF;
    -- A report whose transaction took more than a minute to commit lies before `upto`: it is looked for once an hour.
    low := CASE WHEN s.version % 60 = 0 THEN 0 ELSE coalesce(prev.upto, 0) END;
    WITH r AS MATERIALIZED (
        SELECT w.ctid AS at, w.queue, w.counts, w.version <= s.upto OR w.gone AS over FROM pgwork.worker_report w WHERE w.version > low
    ), d AS (
        DELETE FROM pgwork.worker_report w WHERE w.ctid = ANY (ARRAY(SELECT w.ctid FROM pgwork.worker_report w
            WHERE w.ctid = ANY (ARRAY(SELECT r.at FROM r WHERE r.over)) FOR UPDATE SKIP LOCKED)) RETURNING w.queue, w.counts
    ), went AS (SELECT d.queue, pgwork._sum_counts(d.counts) AS counts FROM d GROUP BY 1
    ), t AS MATERIALIZED (
        SELECT q.id AS queue, coalesce(o.version, 0) AS version, pgwork._add_counts(coalesce(o.gone, pgwork._no_counts()), went.counts) AS gone,
               pgwork._add_counts(coalesce(o.gone, pgwork._no_counts()), k.counts) AS told, coalesce(o.told, pgwork._no_counts()) AS before
          FROM (SELECT r.queue, pgwork._sum_counts(r.counts) AS counts FROM r GROUP BY 1) k
          JOIN pgwork.queue q ON q.id = k.queue LEFT JOIN went ON went.queue = k.queue
          LEFT JOIN LATERAL (SELECT * FROM pgwork.total o WHERE o.queue = k.queue ORDER BY o.version DESC LIMIT 1) o ON true
    ), m AS (
        INSERT INTO pgwork.minute
        SELECT t.queue, date_trunc('minute', now_is), least(coalesce(extract(epoch FROM now_is - prev.at), 60), 604800)::integer, c.n[1], c.n[2],
               c.n[3], c.n[4], c.n[5], c.n[6], c.n[7], c.n[8], pgwork._percentile_ms(c.n[9:32], 0.95), pgwork._percentile_ms(c.n[33:56], 0.95)
          FROM t CROSS JOIN LATERAL (SELECT ARRAY(SELECT greatest(u.x - u.y, 0) FROM unnest(t.told, t.before) WITH ORDINALITY u (x, y, i)
                                                   ORDER BY u.i) AS n) c
         WHERE t.told <> t.before ON CONFLICT DO NOTHING
    ), n AS (INSERT INTO pgwork.total SELECT t.queue, t.version + 1, t.gone, t.told FROM t WHERE t.told <> t.before
                OR EXISTS (SELECT FROM went WHERE went.queue = t.queue)
             RETURNING queue, version
    ) DELETE FROM pgwork.total o USING t WHERE o.queue = t.queue AND o.version = t.version
         AND EXISTS (SELECT FROM n WHERE n.queue = t.queue);
    DELETE FROM pgwork.minute m WHERE m.ctid = ANY (ARRAY(
        SELECT o.ctid FROM pgwork.minute o WHERE o.at < now_is - interval '7 days' LIMIT 10000));
    INSERT INTO pgwork.report_sum SELECT s.*;
    DELETE FROM pgwork.report_sum p WHERE p.version = prev.version;
END $$;

-- Per queue what its workers ever did, and how many report. Times are in powers of two, see above.
CREATE FUNCTION pgwork.queue_counts(queue text DEFAULT NULL)
RETURNS TABLE (queue text, workers bigint, running bigint, claimed bigint, done bigint, failed bigint, dead bigint, refused bigint, lost bigint,
    wait_us bigint, run_us bigint, wait_jobs bigint[], run_jobs bigint[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT q.name, coalesce(r.workers, 0), coalesce(r.running, 0), n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9:32], n[33:56]
      FROM pgwork.queue q
      LEFT JOIN (SELECT w.queue, pgwork._sum_counts(w.counts) AS counts, count(*) FILTER (WHERE w.alive) AS workers,
                        sum(w.running) FILTER (WHERE w.alive) AS running
                   FROM (SELECT w.*, NOT w.gone AND w.at > clock_timestamp() - interval '30 s' AS alive FROM pgwork._reports() w) w
                  GROUP BY 1) r ON r.queue = q.id
      LEFT JOIN LATERAL (SELECT t.gone FROM pgwork.total t WHERE t.queue = q.id ORDER BY t.version DESC LIMIT 1) t ON true
     CROSS JOIN LATERAL pgwork._add_counts(coalesce(t.gone, pgwork._no_counts()), r.counts) n
     WHERE $1 IS NULL OR q.name = $1 ORDER BY 1
$$;

-- Workers that have reported within 30 s, and each queue that they serve.
CREATE FUNCTION pgwork.worker_list(queue text DEFAULT NULL)
RETURNS TABLE (name text, queue text, since timestamptz, at timestamptz, concurrency integer, running integer, claimed bigint, done bigint,
    failed bigint, dead bigint, refused bigint, lost bigint, wait_us bigint, run_us bigint, ids bigint[], attempts integer[], began timestamptz[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.name, q.name, r.since, r.at, r.concurrency, r.running, r.counts[1], r.counts[2], r.counts[3], r.counts[4], r.counts[5], r.counts[6],
           r.counts[7], r.counts[8], r.ids, r.attempts, r.began
      FROM pgwork._reports() r JOIN pgwork.queue q ON q.id = r.queue
     WHERE NOT r.gone AND r.at > clock_timestamp() - interval '30 s' AND ($1 IS NULL OR q.name = $1) ORDER BY 1, 2
$$;

-- Per queue what should not be there while a reaper runs: jobs whose lease ended, and delayed jobs whose time came, two
-- seconds ago or earlier. Looks at no more than at_most rows of each lane, and of the delayed jobs.
CREATE FUNCTION pgwork.overdue(at_most bigint DEFAULT 1000) RETURNS TABLE (queue text, expired bigint, due bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE before CONSTANT timestamptz := pgwork._now() - interval '2 s';
BEGIN
    PERFORM pgwork._check_range('at_most', at_most, 1, 100000);
    RETURN QUERY SELECT q.name, e.n, d.n FROM pgwork._used_queues(NULL) q
     CROSS JOIN LATERAL (SELECT coalesce(sum(j.n), 0)::bigint AS n
                           FROM unnest((pgwork._mark(q.id)).floors) WITH ORDINALITY f (floor, i)
                          CROSS JOIN LATERAL (SELECT j.n, j.token, j.lease_until FROM pgwork.live_job j
                                               WHERE j.queue = q.id AND j.lane = (f.i - 1)::smallint AND j.pos > f.floor
                                               ORDER BY j.pos LIMIT at_most) j
                          WHERE j.token IS NOT NULL AND j.lease_until < before) e
     CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM pgwork.delayed_job j WHERE j.queue = q.id AND j.run_at < before
                                                     LIMIT at_most) j) d
     ORDER BY 1;
END $$;

-- How many jobs there are to work on, as one number for autoscalers: ready, leased, and delayed ones that are due within
-- within_ms; counted up to at_most. Of a paused queue only the leased ones; 0 when there is no such queue.
CREATE FUNCTION pgwork.demand(queue text, at_most bigint DEFAULT 10000, within_ms bigint DEFAULT 0) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE q pgwork.queue; d record; soon timestamptz; waits bigint;
BEGIN
    PERFORM pgwork._check_range('at_most', at_most, 1, 1000000), pgwork._check_range('within_ms', within_ms, 0, 86400000);
    SELECT * INTO q FROM pgwork.queue t WHERE t.name = demand.queue;
    IF NOT FOUND THEN RETURN 0; END IF;
    SELECT * INTO d FROM pgwork.depth(demand.queue, at_most, true);
    IF q.paused THEN RETURN coalesce(d.leased, 0); END IF;
    soon := pgwork._now() + within_ms * interval '1 ms';
    SELECT count(*) INTO waits FROM (SELECT FROM pgwork.delayed_job j WHERE j.queue = q.id AND j.run_at <= soon LIMIT at_most) j;
    RETURN least(coalesce(d.ready + d.leased, 0) + waits, at_most);
END $$;

CREATE VIEW pgwork.workers AS SELECT * FROM pgwork.worker_list();
CREATE VIEW pgwork.minutes AS
SELECT q.name AS queue, m.at, m.seconds, m.claimed, m.done, m.failed, m.dead, m.refused, m.lost, m.wait_us, m.run_us, m.wait_p95_ms, m.run_p95_ms
  FROM pgwork.minute m JOIN pgwork.queue q ON q.id = m.queue;

COMMENT ON FUNCTION pgwork.worker_report(text, text[], bigint[], integer[], bigint[], bigint, integer, boolean, integer[], bigint[], integer[], bigint[])
    IS 'A worker reports how many jobs it runs and what it has counted since its last report. Called by the worker runtime.';
COMMENT ON FUNCTION pgwork.queue_counts(text) IS 'What the workers of a queue, or of each, ever did; only grows. And how many of them report.';
COMMENT ON FUNCTION pgwork.worker_list(text) IS 'Workers that have reported within 30 s, a row for each of their queues, and jobs that they run for a second and longer.';
COMMENT ON FUNCTION pgwork.overdue(bigint) IS 'Jobs whose lease ended, and delayed jobs whose time came, at least two seconds ago, by queue: up to at_most of a lane.';
COMMENT ON FUNCTION pgwork.demand(text, bigint, bigint) IS 'Ready, leased, and delayed jobs due within within_ms: one number up to at_most, for autoscalers. 0: no such queue.';
COMMENT ON VIEW pgwork.workers IS 'Workers that have reported within 30 s, a row for each of their queues.';
COMMENT ON VIEW pgwork.minutes IS 'What happened in each queue by minute, for a week; minutes without a change have no row.';
