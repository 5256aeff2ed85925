-- 0017: reports of workers, and counts made from them; attempts and progress of jobs; filters and bulk operations.
-- doc/operations.md shows how to use them.
--
-- Counts are arrays of 56 numbers (the client writes them, src/worker/worker_report.c):
--   1 claimed, 2 done, 3 failed, 4 dead, 5 refused, 6 lost; 7 and 8 the sums of waiting and running time in us;
--   9..32 jobs by waiting time, 33..56 by running time: up to 1, 2, 4, ... 2^22 ms, and longer.
--
-- A worker inserts a row for each of its queues every few seconds, and deletes the one before. An update would leave a
-- chain of dead tuples under a held snapshot, which each reader would have to follow. Here readers begin at the newest
-- row and stop at `upto`: a reaper adds up all rows before it once a minute. So readers pass the dead tuples of at most
-- two minutes, however long the snapshot is held.

-- ---- heartbeats of reapers ----

CREATE TABLE pgwork.heartbeat (
    role text NOT NULL, name text NOT NULL, pid integer NOT NULL, at timestamptz NOT NULL, PRIMARY KEY (role, name)
);

CREATE FUNCTION pgwork.heartbeat(role text, name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._refuse_unless(octet_length(role) BETWEEN 1 AND 64, 'role', role, '1 to 64 bytes'),
            pgwork._refuse_unless(octet_length(name) BETWEEN 1 AND 255, 'name', name, '1 to 255 bytes');
    -- A reaper calls this many times a second. One write in five seconds is enough.
    PERFORM FROM pgwork.heartbeat b WHERE b.role = heartbeat.role AND b.name = heartbeat.name AND b.pid = pg_backend_pid()
                                 AND b.at BETWEEN clock_timestamp() - interval '5 s' AND clock_timestamp();
    IF FOUND THEN RETURN; END IF;
    DELETE FROM pgwork.heartbeat b WHERE b.ctid = ANY (ARRAY( -- never waits for another session
        SELECT o.ctid FROM pgwork.heartbeat o WHERE o.at < clock_timestamp() - interval '1 day' FOR UPDATE SKIP LOCKED));
    INSERT INTO pgwork.heartbeat AS b (role, name, pid, at) VALUES (role, name, pg_backend_pid(), clock_timestamp())
        ON CONFLICT ON CONSTRAINT heartbeat_pkey DO UPDATE SET pid = excluded.pid, at = excluded.at;
END $$;

CREATE VIEW pgwork.heartbeats AS SELECT * FROM pgwork.heartbeat;

CREATE VIEW pgwork.last_tick AS
SELECT t.at, t.issued, CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END AS position,
       q.last_value AS queue_id
  FROM pgwork.position s CROSS JOIN pgwork.queue_id_seq q
  LEFT JOIN LATERAL (SELECT * FROM pgwork.reaper_tick t ORDER BY t.version DESC LIMIT 1) t ON true;

CREATE VIEW pgwork.stuck_jobs AS
SELECT q.name AS queue, CASE WHEN s.queue > 0 THEN s.id END AS id, s.error, s.since, s.tries, s.again_at
  FROM pgwork.stuck_job s LEFT JOIN pgwork.queue q ON q.id = s.queue WHERE s.queue IN (0, q.id);

COMMENT ON FUNCTION pgwork.heartbeat IS 'Records a heartbeat of a reaper, for the doctor.';
COMMENT ON VIEW pgwork.heartbeats IS 'Heartbeats of reapers.';
COMMENT ON VIEW pgwork.last_tick IS 'When the low-water marks were last checked; the last position and queue id.';
COMMENT ON VIEW pgwork.stuck_jobs IS 'Jobs that no reaper can move, and why. Reapers try again at again_at.';

-- ---- reports of workers ----

CREATE SEQUENCE pgwork.report AS bigint;

CREATE TABLE pgwork.worker_report (
    version bigint PRIMARY KEY, at timestamptz NOT NULL, queue integer NOT NULL, name text NOT NULL, since timestamptz NOT NULL,
    concurrency integer NOT NULL, running integer NOT NULL, gone boolean NOT NULL, counts bigint[] NOT NULL,
    ids bigint[] NOT NULL, attempts integer[] NOT NULL, began timestamptz[] NOT NULL -- jobs that have run for at least a second
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- The ledger of the sums, newest first. Reports up to `upto` are in `total`. `next`: the last report at that time.
CREATE TABLE pgwork.report_sum (version bigint PRIMARY KEY, at timestamptz NOT NULL, upto bigint NOT NULL, next bigint NOT NULL)
    WITH (autovacuum_vacuum_scale_factor = 0.02);

-- By queue, newest first: the counts of workers that are gone, and of all workers at the last minute.
CREATE TABLE pgwork.total (queue integer, version bigint, gone bigint[] NOT NULL, told bigint[] NOT NULL, PRIMARY KEY (queue, version))
    WITH (autovacuum_vacuum_scale_factor = 0.02);

-- Minutes in which a queue's counts changed. `seconds`: the time since the minute before was written.
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

-- The time that this part of the jobs did not exceed: the upper end of its power of two. NULL: no jobs.
CREATE FUNCTION pgwork._percentile_ms(jobs bigint[], part double precision) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT 1::bigint << (s.i - 1)::integer
          FROM (SELECT u.i, sum(u.n) OVER (ORDER BY u.i) AS upto, sum(u.n) OVER () AS every FROM unnest(jobs) WITH ORDINALITY u (n, i)) s
         WHERE s.upto >= part * s.every AND s.every > 0 ORDER BY s.i LIMIT 1);

-- Reports that are not added up yet, one for each worker and queue.
CREATE FUNCTION pgwork._reports() RETURNS SETOF pgwork.worker_report LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE upto CONSTANT bigint := (SELECT s.upto FROM pgwork.report_sum s ORDER BY s.version DESC LIMIT 1);
BEGIN
    RETURN QUERY SELECT * FROM pgwork.worker_report r WHERE r.version > coalesce(upto, 0) ORDER BY r.version DESC;
END $$;

-- Stores the reports of a worker. Per queue: the version of its last report (0: none), the number of running jobs, and
-- the counts since. Per long-running job: the queue (index), id, attempt, and ms. Returns the versions of the new reports,
-- 0 for a missing queue. If a reaper has added up the last report meanwhile, the new one starts from zero.
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
            pgwork._refuse_unless(n BETWEEN 1 AND 64, 'queues', n || ' queues', '1..64'),
            pgwork._refuse_unless(cardinality(versions) = n AND cardinality(running) = n AND cardinality(counts) = 56 * n, 'counts',
                                  cardinality(counts) || ' numbers', 56 * n || ', and one element of versions and of running per queue'),
            pgwork._refuse_unless(0 <= ALL (counts) AND 1000000000000000 >= ALL (counts), 'counts',
                                  'a number below 0 or above 10^15', '0..1000000000000000'),
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

-- Adds up, once a minute, the reports of workers that are gone or have not reported for a minute, and what happened in
-- each queue in that minute. Part of prune(); one reaper at a time.
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
    -- A report whose transaction took more than a minute to commit is before `upto`. It is searched for once an hour.
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
        SELECT o.ctid FROM pgwork.minute o WHERE o.at < now_is - interval '7 days' LIMIT 100000 FOR UPDATE SKIP LOCKED));
    DELETE FROM pgwork.log_entry l WHERE l.ctid = ANY (ARRAY(
        SELECT o.ctid FROM pgwork.log_entry o WHERE o.at < now_is - interval '90 days' LIMIT 10000 FOR UPDATE SKIP LOCKED));
    INSERT INTO pgwork.report_sum SELECT s.*;
    DELETE FROM pgwork.report_sum p WHERE p.version = prev.version;
END $$;

-- Per queue: the counts of all its workers since the beginning, and how many report now. Times are in powers of two.
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

-- Workers that have reported within 30 s, one row per queue that they serve.
CREATE FUNCTION pgwork.worker_list(queue text DEFAULT NULL)
RETURNS TABLE (name text, queue text, since timestamptz, at timestamptz, concurrency integer, running integer, claimed bigint, done bigint,
    failed bigint, dead bigint, refused bigint, lost bigint, wait_us bigint, run_us bigint, ids bigint[], attempts integer[], began timestamptz[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.name, q.name, r.since, r.at, r.concurrency, r.running, r.counts[1], r.counts[2], r.counts[3], r.counts[4], r.counts[5], r.counts[6],
           r.counts[7], r.counts[8], r.ids, r.attempts, r.began
      FROM pgwork._reports() r JOIN pgwork.queue q ON q.id = r.queue
     WHERE NOT r.gone AND r.at > clock_timestamp() - interval '30 s' AND ($1 IS NULL OR q.name = $1) ORDER BY 1, 2
$$;

-- Per queue, jobs that a running reaper would have moved: those whose lease ended, and delayed jobs whose time came, at
-- least two seconds ago; and since when the oldest ones. Reads at most at_most rows of each lane and of the delayed jobs.
CREATE FUNCTION pgwork.overdue(at_most bigint DEFAULT 1000)
RETURNS TABLE (queue text, expired bigint, due bigint, expired_since timestamptz, due_since timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE before CONSTANT timestamptz := pgwork._now() - interval '2 s';
BEGIN
    PERFORM pgwork._check_range('at_most', at_most, 1, 100000);
    RETURN QUERY SELECT q.name, e.n, d.n, e.since, d.since FROM pgwork._used_queues(NULL) q
     CROSS JOIN LATERAL (SELECT coalesce(sum(j.n), 0)::bigint AS n, min(j.lease_until) AS since
                           FROM unnest((pgwork._mark(q.id)).floors) WITH ORDINALITY f (floor, i)
                          CROSS JOIN LATERAL (SELECT j.n, j.token, j.lease_until FROM pgwork.live_job j
                                               WHERE j.queue = q.id AND j.lane = (f.i - 1)::smallint AND j.pos > f.floor
                                               ORDER BY j.pos LIMIT at_most) j
                          WHERE j.token IS NOT NULL AND j.lease_until < before) e
     CROSS JOIN LATERAL (SELECT count(*) AS n, min(j.run_at) AS since
                           FROM (SELECT j.run_at FROM pgwork.delayed_job j
                                  WHERE j.queue = q.id AND j.run_at < before AND j.run_at < 'infinity'
                                  ORDER BY j.run_at LIMIT at_most) j) d
     ORDER BY 1;
END $$;

-- Leased jobs in the order of their ids. Claims take positions in order, so leased rows lie before ready rows: it reads
-- a lane until a thousand rows above the mark have no lease. job_list() reads all that is ready to find few leases. It
-- shows no payloads.
CREATE FUNCTION pgwork.leased_list(queue text DEFAULT NULL, after_id bigint DEFAULT 0, at_most bigint DEFAULT 100)
RETURNS SETOF pgwork.job LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE its_queue integer; m pgwork.mark; after bigint; chunk record; leased tid[] := '{}';
BEGIN
    PERFORM pgwork._check_range('at_most', at_most, 1, 100000);
    FOR its_queue IN SELECT q.id FROM pgwork._used_queues(leased_list.queue) q LOOP
        m := pgwork._mark(its_queue);
        FOR its_lane IN 0 .. 19 LOOP
            after := m.floors[its_lane + 1];
            LOOP
                SELECT count(*) AS n, max(s.pos) AS last, array_agg(s.at) FILTER (WHERE s.token IS NOT NULL) AS leased INTO chunk
                  FROM (SELECT j.ctid AS at, j.pos, j.token FROM pgwork.live_job j
                         WHERE j.queue = its_queue AND j.lane = its_lane::smallint AND j.pos > after ORDER BY j.pos LIMIT 1000) s;
                leased := leased || chunk.leased;
                EXIT WHEN chunk.n < 1000 OR chunk.leased IS NULL AND chunk.last > m.marks[its_lane + 1];
                after := chunk.last - 1; -- rows that extend() has split share a position
            END LOOP;
        END LOOP;
    END LOOP;
    RETURN QUERY SELECT q.name, j.id, j.state, j.kind, j.priority, j.attempt, coalesce(j.max_attempts, q.max_attempts),
           j.holder, j.lease_until, j.run_at, j.created_at, j.finished_at, j.error, j.key, j.tags, NULL::jsonb,
           j.body_bytes, j.output, j.grp, j.expires_at, NULL::jsonb, true, NULL::jsonb
      FROM (SELECT DISTINCT u.at FROM unnest(leased) u (at)) l
     CROSS JOIN LATERAL (SELECT * FROM pgwork._live_job k WHERE k.at = l.at OFFSET 0) j
      JOIN pgwork.queue q ON q.id = j.queue
     WHERE j.id > after_id ORDER BY j.id LIMIT at_most;
END $$;

-- The number of jobs to work on, for autoscalers: ready, leased, and delayed ones that are due within within_ms, counted
-- up to at_most. In a paused queue only the leased ones; 0 if there is no such queue. A queue with a semaphore has ready
-- jobs only while a worker claims. So as many gated ones count as the semaphore has permits that its jobs do not hold.
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
    SELECT count(*) INTO waits FROM (SELECT FROM pgwork.delayed_job j WHERE j.queue = q.id AND j.run_at <= soon
                                                             AND j.run_at < 'infinity' LIMIT at_most) j;
    waits := waits + (SELECT count(*) FROM pgwork.semaphore s CROSS JOIN LATERAL (
        SELECT FROM pgwork.delayed_job j WHERE j.queue = q.id AND j.gate = ''
         ORDER BY j.place LIMIT greatest(s.permits - d.leased, 0)) j
         WHERE s.id = (q.rate).semaphore);
    RETURN least(coalesce(d.ready + d.leased, 0) + waits, at_most);
END $$;

CREATE VIEW pgwork.workers AS SELECT * FROM pgwork.worker_list();
CREATE VIEW pgwork.minutes AS
SELECT q.name AS queue, m.at, m.seconds, m.claimed, m.done, m.failed, m.dead, m.refused, m.lost, m.wait_us, m.run_us, m.wait_p95_ms, m.run_p95_ms
  FROM pgwork.minute m JOIN pgwork.queue q ON q.id = m.queue;

COMMENT ON FUNCTION pgwork.worker_report(text, text[], bigint[], integer[], bigint[], bigint, integer, boolean, integer[], bigint[], integer[], bigint[])
    IS 'Stores the report of a worker: how many jobs it runs, and its counts since the last report. Called by the worker runtime.';
COMMENT ON FUNCTION pgwork.queue_counts(text) IS 'What the workers of a queue, or of each queue, have done since the beginning, and how many of them report now. The counts never decrease.';
COMMENT ON FUNCTION pgwork.worker_list(text) IS 'Workers that have reported within 30 s, a row for each of their queues, and their jobs that have run for at least a second.';
COMMENT ON FUNCTION pgwork.overdue(bigint) IS 'By queue, jobs whose lease ended and delayed jobs whose time came, at least two seconds ago, and since when the oldest ones. Reads at most at_most rows of a lane.';
COMMENT ON FUNCTION pgwork.leased_list(text, bigint, bigint) IS 'Leased jobs in the order of their ids. Its cost depends on the leases, not on the jobs that are ready.';
COMMENT ON FUNCTION pgwork.demand(text, bigint, bigint) IS 'The number of jobs that workers could run: ready, leased, delayed and due within within_ms, waiting for a free permit. Counts up to at_most, for autoscalers. 0: no such queue.';
COMMENT ON VIEW pgwork.workers IS 'Workers that have reported within 30 s, a row for each of their queues.';
COMMENT ON VIEW pgwork.minutes IS 'What happened in each queue by minute, for a week; minutes without a change have no row.';

-- ---- attempts and progress ----
--
-- Known of a job beside its row: attempts that failed, and what its holder reported. There is nothing of a job that
-- succeeds at once and reports nothing. Not a column of live_job: each update would copy the payload, or a batch row.

ALTER TABLE pgwork.job_history
    ADD progress_at timestamptz, ADD attempts jsonb NOT NULL DEFAULT '[]', -- the oldest first
    ADD noted_at timestamptz NOT NULL DEFAULT pgwork._now(),
    ADD check_at timestamptz NOT NULL DEFAULT pgwork._now() + interval '1 minute', -- then: is the job still there?
    SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX job_history_check_at ON pgwork.job_history (check_at);

-- For _requeue(): jobs whose attempt is over, each with its fate. The last 25 attempts are kept.
CREATE FUNCTION pgwork._note_attempts(queue integer, verb text, error text, tried jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    cut CONSTANT text := pgwork._cut_text(error, 2000); now_is CONSTANT timestamptz := pgwork._now();
    word CONSTANT text := CASE verb WHEN 'reap' THEN 'lost' WHEN 'dead' THEN 'dead' ELSE 'failed' END;
BEGIN
    INSERT INTO pgwork.job_history AS h (queue, id, noted_at, check_at, attempts)
    SELECT _note_attempts.queue, t.id, now_is, now_is + interval '1 minute', jsonb_build_array(jsonb_build_object(
               'attempt', t.attempt, 'ended_at', now_is, 'holder', t.holder, 'error', cut,
               'ended', CASE t.fate WHEN 'cancelled' THEN t.fate ELSE word END))
      FROM jsonb_to_recordset(tried) t (id bigint, attempt integer, holder text, fate text) ORDER BY t.id
        ON CONFLICT ON CONSTRAINT job_history_pkey DO UPDATE
       SET attempts = CASE WHEN jsonb_array_length(h.attempts) >= 25 THEN h.attempts - 0 ELSE h.attempts END
                      || excluded.attempts;
END $$;

CREATE FUNCTION pgwork.job_attempts(queue text, id bigint)
RETURNS TABLE (attempt integer, ended_at timestamptz, ended text, holder text, error text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT a.attempt, a.ended_at, a.ended, a.holder, a.error
      FROM pgwork.queue q JOIN pgwork.job_history h ON h.queue = q.id AND h.id = $2
     CROSS JOIN LATERAL ROWS FROM (jsonb_to_recordset(h.attempts)
               AS (attempt integer, ended_at timestamptz, ended text, holder text, error text))
           WITH ORDINALITY a (attempt, ended_at, ended, holder, error, i)
     WHERE $1 IS NULL OR q.name = $1 ORDER BY q.id, a.i
$$;

-- By one snapshot: with two a job that just moves could be missed. A job that failed lies in no batch row (shared).
CREATE FUNCTION pgwork._is_there(queue integer, one bigint, shared boolean) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE q CONSTANT integer := _is_there.queue;
BEGIN
    RETURN EXISTS (SELECT FROM generate_series(0, 19) l CROSS JOIN LATERAL (
                       SELECT FROM pgwork.live_job j
                        WHERE j.queue = q AND j.lane = l::smallint AND j.pos = one AND j.id IS NULL OFFSET 0) j)
        OR EXISTS (SELECT FROM pgwork.live_job j WHERE j.queue = q AND j.id = one AND j.ids IS NULL)
        OR EXISTS (SELECT FROM pgwork.delayed_job j WHERE j.queue = q AND j.id = one)
        OR EXISTS (SELECT FROM pgwork.dead_job j WHERE j.queue = q AND j.id = one)
        OR EXISTS (SELECT FROM pgwork.done_job j WHERE j.queue = q AND j.id = one)
        OR shared AND EXISTS (SELECT FROM pgwork.live_job j
                               WHERE j.queue = q AND j.id BETWEEN one & ~524287::bigint AND one AND j.last_id >= one
                                 AND one = ANY (j.ids) AND one <> ALL (coalesce(j.gone_ids, '{}')));
END $$;

-- Part of prune(): deletes histories of jobs that are gone. If the job is there, it is scanned for again when as much
-- time has passed as since the first entry: a minute at least, a day at most. How many were scanned at.
CREATE FUNCTION pgwork._prune_history(batch integer) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE now_is CONSTANT timestamptz := pgwork._now(); n bigint;
BEGIN
    WITH due AS MATERIALIZED (
        SELECT h.ctid AS at, h.noted_at, pgwork._is_there(h.queue, h.id, h.progress IS NOT NULL) AS there
          FROM pgwork.job_history h WHERE h.check_at <= now_is ORDER BY h.check_at LIMIT batch FOR UPDATE SKIP LOCKED
    ), d AS (DELETE FROM pgwork.job_history h USING due WHERE h.ctid = due.at AND NOT due.there
    ), u AS (UPDATE pgwork.job_history h
                SET check_at = now_is + least(greatest(now_is - due.noted_at, interval '1 minute'), interval '1 day')
               FROM due WHERE h.ctid = due.at AND due.there
    ) SELECT count(*) INTO n FROM due;
    RETURN n;
END $$;

-- For verbs that skip locked rows: the jobs that were not accepted. locked: the caller holds the job, and another
-- transaction has locked its row.
CREATE FUNCTION pgwork._not_held(queue integer, ids bigint[], tokens uuid[], accepted bigint[])
RETURNS TABLE (id bigint, status text, lease_until timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY WITH l AS MATERIALIZED (
        SELECT l.id, l.lease_until FROM pgwork._named(_not_held.queue, ids, tokens) t CROSS JOIN LATERAL (
            SELECT k.id, j.lease_until FROM pgwork.live_job j CROSS JOIN LATERAL pgwork._jobs(j) k
             WHERE j.queue = ANY (ARRAY[t.queue]) AND (j.lane, j.pos, j.token) = (t.lane, t.pos, t.token)
               AND k.id = ANY (t.named) AND k.id <> ALL (accepted)) l
    ) SELECT l.id, 'locked', l.lease_until FROM l UNION ALL
      SELECT r.*, NULL FROM pgwork._refused(_not_held.queue, ids, accepted || ARRAY(SELECT l.id FROM l)) r;
END $$;

-- Progress of jobs, by their holder: one value for each, or NULL to forget it. Never waits for a locked job, as
-- extend(). The lock on the job's row keeps others from taking it away until this commits.
CREATE FUNCTION pgwork.progress(queue text, ids bigint[], tokens uuid[], progress jsonb[])
RETURNS TABLE (id bigint, status text) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    q CONSTANT pgwork.queue := pgwork._queue(progress.queue); given CONSTANT jsonb[] := progress.progress;
    its_tokens CONSTANT uuid[] := pgwork._tokens(ids, tokens); now_is CONSTANT timestamptz := pgwork._now();
    accepted bigint[];
BEGIN
    PERFORM pgwork._refuse_unless(coalesce(cardinality(given), 0) = cardinality(ids), 'progress',
                                  coalesce(cardinality(given), 0) || ' values',
                                  cardinality(ids) || ', one for each id');
    PERFORM pgwork._refuse_unless(s.bytes <= 65536, 'progress', s.bytes || ' bytes', '0 .. 65536 bytes')
       FROM (SELECT octet_length(v::text) AS bytes FROM unnest(given) v) s WHERE s.bytes IS NOT NULL;
    WITH held AS MATERIALIZED (
        SELECT k.id, t.token FROM pgwork._named(q.id, ids, its_tokens) t CROSS JOIN LATERAL (
               SELECT j FROM pgwork.live_job j
                WHERE j.queue = ANY (ARRAY[t.queue]) AND (j.lane, j.pos, j.token) = (t.lane, t.pos, t.token)
                  FOR NO KEY UPDATE SKIP LOCKED) l
         CROSS JOIN LATERAL pgwork._jobs(l.j) k WHERE k.id = ANY (t.named)
    ), n AS (
        INSERT INTO pgwork.job_history AS h (queue, id, progress, progress_at)
        SELECT DISTINCT ON (u.id) q.id, u.id, u.value, now_is FROM unnest(ids, its_tokens, given) u (id, token, value)
          JOIN held USING (id, token) ORDER BY u.id
            ON CONFLICT ON CONSTRAINT job_history_pkey
            DO UPDATE SET progress = excluded.progress, progress_at = excluded.progress_at RETURNING h.id
    ) SELECT coalesce(array_agg(n.id), '{}') INTO accepted FROM n;
    IF cardinality(accepted) < cardinality(ids) THEN
        RETURN QUERY SELECT r.id, r.status FROM pgwork._not_held(q.id, ids, its_tokens, accepted) r;
    END IF;
END $$;

-- The progress of a job as it was last reported, also by an earlier attempt, for its present holder.
CREATE FUNCTION pgwork.job_progress(queue text, id bigint) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
    SELECT h.progress FROM pgwork.job_history h WHERE h.queue = (SELECT (pgwork._queue($1)).id) AND h.id = $2
$$;

COMMENT ON FUNCTION pgwork.job_attempts IS 'The last 25 attempts that failed: when, how, by whom, and the error.';
COMMENT ON FUNCTION pgwork.progress IS 'Stores the progress of jobs. Returns refused jobs: stale, gone or locked.';
COMMENT ON FUNCTION pgwork.job_progress IS 'The last progress of a job, also of an earlier attempt. NULL: none.';

-- ---- filters and bulk operations ----
--
-- A filter is an object with any of: queue, state, kind, tag, key, group, holder, error, created_from, created_to. Lists
-- and operations use the same filters. They read jobs in the order of the ids, 10,000 at a time, as job_list() returns
-- them. Each slice is a call and a transaction of its own, so that no lock is held for long.

CREATE TYPE pgwork._filter AS (queue text, state text, kind text, tag text, key text, "group" text, holder text, error text,
    created_from timestamptz, created_to timestamptz);

CREATE FUNCTION pgwork._read_filter(filter jsonb) RETURNS pgwork._filter LANGUAGE plpgsql AS $$
DECLARE f pgwork._filter; odd text;
BEGIN
    PERFORM pgwork._refuse_unless(jsonb_typeof(filter) = 'object', 'filter', filter::text, 'a JSON object');
    SELECT k INTO odd FROM jsonb_object_keys(filter) k
     WHERE k <> ALL ('{queue,state,kind,tag,key,group,holder,error,created_from,created_to}') ORDER BY 1 LIMIT 1;
    PERFORM pgwork._refuse_unless(odd IS NULL, 'filter', odd,
                                  'members queue, state, kind, tag, key, group, holder, error, created_from, created_to');
    RETURN jsonb_populate_record(NULL::pgwork._filter, filter);
END $$;

-- The sort of an error: its last line, with numbers and ids masked.
CREATE FUNCTION pgwork.error_sort(error text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN left(regexp_replace(regexp_replace(rtrim(error, E'\n\r '), '^.*[\n\r]', ''),
                           '[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|0x[0-9a-fA-F]+|[0-9]+', '#', 'g'), 200);

CREATE FUNCTION pgwork._fits(f pgwork._filter, j pgwork.job) RETURNS boolean LANGUAGE sql STABLE
RETURN coalesce((f.tag IS NULL OR f.tag = ANY (j.tags)) AND (f.key IS NULL OR f.key = j.key) AND (f."group" IS NULL OR f."group" = j.grp)
   AND (f.holder IS NULL OR f.holder = j.holder) AND (f.kind IS NULL OR f.kind = j.kind)
   AND (f.error IS NULL OR strpos(j.error, f.error) > 0 OR pgwork.error_sort(j.error) = f.error)
   AND (f.created_from IS NULL OR j.created_at >= f.created_from) AND (f.created_to IS NULL OR j.created_at < f.created_to), false);

-- Jobs that fit, in the order of their ids, up to at_most. Reads at most `scan` jobs; from 10,000 on, rounded up to
-- 10,000, of any kind. If there are more to read, the last row has only an id: continue with after_id => that id.
CREATE FUNCTION pgwork.job_search(filter jsonb, after_id bigint DEFAULT 0, at_most bigint DEFAULT 100, scan bigint DEFAULT 100000)
RETURNS SETOF pgwork.job LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f CONSTANT pgwork._filter := pgwork._read_filter(filter);
    j pgwork.job; last bigint := greatest(after_id, 0); got bigint := 0; n bigint; scanned bigint := 0; page CONSTANT bigint := least(scan, 10000);
BEGIN
    PERFORM pgwork._check_range('at_most', at_most, 1, 100000), pgwork._check_range('scan', scan, 1, 10000000);
    <<pages>> LOOP
        n := 0;
        FOR j IN SELECT * FROM pgwork.job_list(f.queue, f.state, NULL, NULL, last, page) LOOP
            n := n + 1; last := j.id;
            CONTINUE WHEN NOT pgwork._fits(f, j);
            RETURN NEXT j; got := got + 1;
            EXIT pages WHEN got >= at_most;
        END LOOP;
        scanned := scanned + n;
        IF n < page THEN RETURN; END IF;
        EXIT WHEN scanned >= scan;
    END LOOP;
    j := NULL; j.id := last;
    RETURN NEXT j;
END $$;

-- The log of operations: a row for each slice, kept for 90 days.
CREATE TABLE pgwork.log_entry (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run uuid NOT NULL, at timestamptz NOT NULL DEFAULT pgwork._now(), who text NOT NULL,
    verb text NOT NULL, filter jsonb NOT NULL, change jsonb NOT NULL, n bigint NOT NULL
);
CREATE INDEX log_entry_at ON pgwork.log_entry (at);
CREATE VIEW pgwork.log AS
SELECT l.run, min(l.at) AS at, max(l.at) AS until, l.who, l.verb, l.filter, l.change, sum(l.n)::bigint AS n
  FROM pgwork.log_entry l GROUP BY l.run, l.who, l.verb, l.filter, l.change;

-- The role that acts, and the person that a program like the dashboard names in the setting `person`.
CREATE FUNCTION pgwork._who() RETURNS text LANGUAGE sql STABLE
RETURN concat(coalesce(nullif(current_setting('role'), 'none'), session_user),
              ' (' || left(nullif(current_setting('pgwork.person', true), ''), 255) || ')');

-- For programs that let people do what is not a bulk operation: in the transaction that does it.
CREATE FUNCTION pgwork.log_write(verb text, filter jsonb, change jsonb DEFAULT '{}', n bigint DEFAULT 1) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._refuse_unless(verb ~ '^[a-z][a-z ]{0,39}$', 'verb', verb, '1 to 40 lower-case letters and blanks'),
            pgwork._refuse_unless(octet_length(filter::text) + octet_length(change::text) <= 8000, 'filter and change', 'more', '8,000 bytes together'),
            pgwork._refuse_unless(n >= 0, 'n', n::text, '0 and up');
    INSERT INTO pgwork.log_entry (run, who, verb, filter, change, n) VALUES (gen_random_uuid(), pgwork._who(), verb, filter, change, n);
END $$;

-- Removes ready jobs from live_job and returns them. Skips rows that others have locked. Splits batch rows into single
-- jobs first, as a claim does. A batch row that was locked then stays whole.
CREATE FUNCTION pgwork._pull_ready(q pgwork.queue, ids bigint[]) RETURNS SETOF pgwork.live_job LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE r record;
BEGIN
    FOR r IN SELECT j.ctid AS at, j.* FROM (SELECT DISTINCT f.lane, f.pos, f.first FROM unnest(ids) u (id)
                       CROSS JOIN LATERAL pgwork._find(q.id, u.id) f WHERE f.shared AND NOT f.leased ORDER BY f.pos) p
              CROSS JOIN LATERAL (SELECT j.ctid, j.* FROM pgwork.live_job j WHERE j.queue = q.id AND j.lane = p.lane AND j.pos = p.pos
                                    AND j.id = p.first AND j.token IS NULL AND j.ids IS NOT NULL FOR UPDATE SKIP LOCKED) j LOOP
        DELETE FROM pgwork.live_job j WHERE j.ctid = r.at;
        PERFORM pgwork._regroup(q.id, r.lane, r.ids, r.kinds, r.payloads, r.created, 1, 1);
    END LOOP;
    RETURN QUERY DELETE FROM pgwork.live_job j WHERE j.ctid = ANY (ARRAY(
        SELECT l.ctid FROM unnest(_pull_ready.ids) u (id) CROSS JOIN LATERAL pgwork._find(q.id, u.id) f
         CROSS JOIN LATERAL (SELECT l.ctid FROM pgwork.live_job l WHERE l.queue = q.id AND l.lane = f.lane AND l.pos = f.pos
                                AND l.token IS NULL AND l.ids IS NULL AND coalesce(l.id, l.pos) = u.id FOR UPDATE SKIP LOCKED) l
         WHERE NOT f.leased)) RETURNING j.*;
END $$;

-- Gives waiting jobs and dead letters another queue or priority. They keep their ids. Ready and gated jobs become ready
-- again as delayed jobs do: at new positions, through the gates of the target. A job whose unique key is taken in the
-- target stays where it is.
CREATE FUNCTION pgwork._put_elsewhere(q pgwork.queue, target pgwork.queue, prio smallint, ids bigint[], keys text[]) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE ready bigint[]; moved bigint[]; n bigint;
BEGIN
    IF target.id <> q.id THEN
        ids := ARRAY(SELECT u.id FROM unnest(ids, keys) u (id, key)
                      WHERE NOT EXISTS (SELECT FROM pgwork.unique_key k WHERE k.queue = q.id AND k.key = u.key AND k.id = u.id)
                         OR NOT EXISTS (SELECT FROM pgwork.unique_key t WHERE t.queue = target.id AND t.key = u.key));
    END IF;
    WITH r AS (
        INSERT INTO pgwork.delayed_job (run_at, id, created_at, queue, priority, attempt, max_attempts, lease_ms, kind, key, error, tags, payload,
                                        body, grp, expires_at, meta)
        SELECT coalesce(j.ready_at, j.created_at), coalesce(j.id, j.pos), j.created_at, target.id, coalesce(prio, j.lane / 2), j.attempt,
               j.max_attempts, j.lease_ms, j.kind, j.key, j.error, j.tags, j.payload, j.body, nullif(j.grp, ''), j.expires_at, j.meta
          FROM pgwork._pull_ready(q, ids) j RETURNING delayed_job.id
    ) SELECT array_agg(r.id) INTO ready FROM r;
    WITH g AS (
        UPDATE pgwork.delayed_job d SET queue = target.id, priority = coalesce(prio, d.priority), run_at = d.created_at, gate = NULL, place = NULL,
                                        grp = nullif(d.grp, '')
         WHERE d.ctid = ANY (ARRAY(SELECT w.ctid FROM pgwork.delayed_job w WHERE w.queue = q.id AND w.id = ANY (ids) AND w.gate IS NOT NULL
                                      FOR UPDATE SKIP LOCKED)) RETURNING d.id
    ) SELECT ready || array_agg(g.id) INTO ready FROM g;
    WITH d AS (
        UPDATE pgwork.delayed_job d SET queue = target.id, priority = coalesce(prio, d.priority), grp = nullif(d.grp, '')
         WHERE d.ctid = ANY (ARRAY(SELECT w.ctid FROM pgwork.delayed_job w WHERE w.queue = q.id AND w.id = ANY (ids)
                                      AND w.id <> ALL (coalesce(ready, '{}')) FOR UPDATE SKIP LOCKED)) RETURNING d.id
    ), l AS (
        UPDATE pgwork.dead_job d SET queue = target.id, priority = coalesce(prio, d.priority)
         WHERE d.ctid = ANY (ARRAY(SELECT w.ctid FROM pgwork.dead_job w WHERE w.queue = q.id AND w.id = ANY (ids) FOR UPDATE SKIP LOCKED))
        RETURNING d.id
    ) SELECT array_agg(m.id) INTO moved FROM (SELECT * FROM d UNION ALL SELECT * FROM l) m;
    IF target.id <> q.id THEN
        UPDATE pgwork.unique_key k SET queue = target.id FROM (SELECT DISTINCT x FROM unnest(keys) x) u
         WHERE k.queue = q.id AND k.key = u.x AND k.id = ANY (ready || moved);
        WITH e AS (DELETE FROM pgwork.expiring_job e WHERE e.queue = q.id AND e.id = ANY (ready || moved) RETURNING e.id, e.at)
        SELECT count(pgwork._note_expiry(target.id, e.id, e.at)) INTO n FROM e;
        UPDATE pgwork.job_history h SET queue = target.id WHERE h.queue = q.id AND h.id = ANY (ready || moved)
           AND NOT EXISTS (SELECT FROM pgwork.job_history o WHERE o.queue = target.id AND o.id = h.id); -- after a restore ids come again
    END IF;
    PERFORM pgwork._leave_gates(q.id, ready || moved);
    n := coalesce(cardinality(ready), 0) + coalesce(cardinality(moved), 0);
    IF ready IS NOT NULL THEN PERFORM pgwork._promote(target, ready, false); END IF;
    RETURN n;
END $$;

CREATE FUNCTION pgwork._purge(q pgwork.queue, ids bigint[]) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE gone record;
BEGIN
    WITH r AS (SELECT coalesce(j.id, j.pos) AS id, j.key FROM pgwork._pull_ready(q, ids) j
    ), d AS (DELETE FROM pgwork.delayed_job j WHERE j.queue = q.id AND j.id = ANY (ids) RETURNING j.id, j.key
    ), l AS (DELETE FROM pgwork.dead_job j WHERE j.queue = q.id AND j.id = ANY (ids) RETURNING j.id, j.key
    ), f AS (DELETE FROM pgwork.done_job j WHERE j.queue = q.id AND j.id = ANY (ids) RETURNING j.id, NULL::text
    ) SELECT count(*) AS n, array_agg(a.id) AS gone, array_agg(a.id) FILTER (WHERE a.key IS NOT NULL) AS ids, array_agg(a.key) FILTER (WHERE a.key IS NOT NULL) AS keys
        INTO gone FROM (SELECT * FROM r UNION ALL SELECT * FROM d UNION ALL SELECT * FROM l UNION ALL SELECT * FROM f) a;
    IF gone.keys IS NOT NULL THEN PERFORM pgwork._free(q.id, gone.ids, gone.keys); END IF;
    PERFORM pgwork._leave_gates(q.id, gone.gone);
    RETURN gone.n;
END $$;

-- One slice of a bulk operation: reads the next 10,000 jobs after after_id, and changes those that fit, up to at_most.
-- verb: cancel, redrive, reschedule, purge, move, priority. change: run_at or delay_ms (reschedule), to (move: a queue),
-- priority. Unless dry_run, logs who did it; `run` joins the slices. Repeat with after_id => last_id until that is NULL.
CREATE FUNCTION pgwork.bulk(verb text, filter jsonb, change jsonb DEFAULT '{}', after_id bigint DEFAULT 0, at_most bigint DEFAULT 10000,
    dry_run boolean DEFAULT false, run uuid DEFAULT gen_random_uuid(), OUT n bigint, OUT last_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    f pgwork._filter := pgwork._read_filter(filter);
    states CONSTANT text[] := CASE verb WHEN 'cancel' THEN '{ready,gated,delayed,leased}' WHEN 'redrive' THEN '{dead}' WHEN 'reschedule' THEN '{delayed}'
                                        WHEN 'purge' THEN '{ready,gated,delayed,dead,done,cancelled}' WHEN 'move' THEN '{ready,gated,delayed,dead}'
                                        WHEN 'priority' THEN '{ready,gated,delayed,dead}' END;
    q pgwork.queue; target pgwork.queue; ids bigint[] := '{}'; keys text[] := '{}'; scanned bigint := 0; j pgwork.job; prio bigint := (change ->> 'priority')::bigint;
BEGIN
    PERFORM pgwork._refuse_unless(states IS NOT NULL, 'verb', verb, 'cancel, redrive, reschedule, purge, move or priority'),
            pgwork._check_range('at_most', at_most, 1, 10000),
            pgwork._refuse_unless(f.queue IS NOT NULL, 'filter', 'an object without queue', 'a member queue'),
            pgwork._refuse_unless(f.state IS NULL OR f.state = ANY (states), 'state', f.state, array_to_string(states, ', ') || ' for ' || verb),
            pgwork._refuse_unless(f.state IS NOT NULL OR verb <> 'purge', 'state', NULL, array_to_string(states, ', ') || ' for ' || verb);
    IF f.state IS NULL AND cardinality(states) = 1 THEN f.state := states[1]; END IF;
    q := pgwork._queue(f.queue);
    IF verb = 'move' THEN
        target := pgwork._queue(change ->> 'to');
        IF target.draining THEN
            PERFORM pgwork._raise('PW004', format('queue "%s" is being drained and accepts no jobs', target.name), 'pgwork.queue_resume() opens it again', NULL);
        END IF;
    ELSIF verb = 'priority' THEN
        PERFORM pgwork._check_range('priority', prio, 0, 9);
        target := q;
    END IF;
    FOR j IN SELECT * FROM pgwork.job_list(f.queue, f.state, f.kind, NULL, after_id, 10000) LOOP
        scanned := scanned + 1; last_id := j.id;
        CONTINUE WHEN j.state <> ALL (states) OR NOT pgwork._fits(f, j);
        ids := ids || j.id; keys := keys || j.key;
        EXIT WHEN cardinality(ids) >= at_most;
    END LOOP;
    n := cardinality(ids);
    IF scanned < 10000 AND n < at_most THEN last_id := NULL; END IF;
    IF dry_run OR n = 0 THEN RETURN; END IF;
    n := CASE verb WHEN 'cancel' THEN (SELECT count(*) FROM pgwork.cancel(q.name, ids) c WHERE c.status <> 'gone')
                   WHEN 'redrive' THEN pgwork.redrive(q.name, ids)
                   WHEN 'reschedule' THEN (pgwork.reschedule(q.name, ids, NULL, (change ->> 'run_at')::timestamptz, (change ->> 'delay_ms')::bigint)).moved
                   WHEN 'purge' THEN pgwork._purge(q, ids)
                   ELSE pgwork._put_elsewhere(q, target, prio::smallint, ids, keys) END;
    INSERT INTO pgwork.log_entry (run, who, verb, filter, change, n)
    SELECT run, pgwork._who(), verb, filter, change, n WHERE n > 0;
END $$;

-- Counts dead letters by kind and sort of error, among the newest at_most of each queue.
CREATE FUNCTION pgwork.dead_errors(queue text DEFAULT NULL, at_most bigint DEFAULT 100000)
RETURNS TABLE (queue text, kind text, error text, n bigint, first_at timestamptz, last_at timestamptz, last_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT q.name, d.kind, d.sort, count(*), min(d.died_at), max(d.died_at), max(d.id)
      FROM pgwork._used_queues($1) q
     CROSS JOIN LATERAL (SELECT d.kind, coalesce(pgwork.error_sort(d.error), '') AS sort, d.died_at, d.id FROM pgwork.dead_job d
                          WHERE d.queue = q.id AND d.died_at < 'infinity' ORDER BY d.died_at DESC LIMIT least(greatest($2, 1), 1000000)) d
     GROUP BY 1, 2, 3 ORDER BY 4 DESC, 6 DESC
$$;

COMMENT ON FUNCTION pgwork.error_sort(text) IS 'The last line of an error, with numbers and ids masked as #. Dead letters are grouped by it.';
COMMENT ON FUNCTION pgwork.job_search(jsonb, bigint, bigint, bigint) IS 'Jobs that fit a filter, in the order of their ids. If the last row has only an id, there are more: continue after that id.';
COMMENT ON FUNCTION pgwork.bulk(text, jsonb, jsonb, bigint, bigint, boolean, uuid) IS 'One slice of an operation on all jobs that fit a filter: cancel, redrive, reschedule, purge, move, priority. dry_run only counts. Repeat with after_id => last_id until that is NULL.';
COMMENT ON FUNCTION pgwork.log_write(text, jsonb, jsonb, bigint) IS 'Adds an entry to the log, with the role and the person that the setting pgwork.person names.';
COMMENT ON FUNCTION pgwork.dead_errors(text, bigint) IS 'Counts of dead letters by kind and sort of error.';
COMMENT ON VIEW pgwork.log IS 'Bulk operations of the last 90 days: who did what to which jobs, and how many.';
