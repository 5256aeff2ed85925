-- 0007: functions for the reaper's loop, and for operators who manage dead letters. All work in
-- limited batches, skip locked rows, and are safe to run concurrently.

-- A job that cannot be moved (a trigger fails, or its row is damaged) blocks no others. It is recorded, and tried again
-- after pauses of up to ten minutes. Returns the record if the job is in such a pause. (The planner inlines it.)
CREATE FUNCTION pgwork._resting(queue integer, id bigint) RETURNS SETOF pgwork.stuck_job LANGUAGE sql STABLE AS $$
    SELECT * FROM pgwork.stuck_job s
     WHERE s.queue = _resting.queue AND s.id = _resting.id AND s.again_at - pgwork._now() BETWEEN '1 us' AND '601 s'
$$;

-- Errors of class 22 quote a value, so their text is not kept.
CREATE FUNCTION pgwork._note_stuck(queue integer, id bigint, state text, error text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pgwork.stuck_job AS s (queue, id, error, again_at)
    VALUES (queue, id, format('%s%s (SQLSTATE %s)', CASE WHEN queue = 0 THEN 'prune(): ' END,
                              CASE WHEN state LIKE '22%' THEN 'the server refused a value' ELSE left(error, 500) END,
                              state), pgwork._now() + interval '1 s')
        ON CONFLICT ON CONSTRAINT stuck_job_pkey DO UPDATE SET error = excluded.error, tries = s.tries + 1,
           again_at = pgwork._now() + least(1 << least(s.tries, 10), 600) * interval '1 s';
END $$;

-- Whether an error comes from the session or is temporary, so that the job is not the cause.
CREATE FUNCTION pgwork._is_passing(state text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN state ~ '^(25|40|53|55P03|57|58)';

-- Jobs of expired leases of a queue, up to `batch`. Claims take positions in order, so leased rows lie before
-- ready rows: reading a lane ends when a thousand rows above the mark are neither leased nor locked, unless `whole`.
CREATE FUNCTION pgwork._expired(queue integer, batch integer, whole boolean, OUT ids bigint[], OUT tokens uuid[])
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    now_is CONSTANT timestamptz := pgwork._now(); m CONSTANT pgwork.mark := pgwork._mark(queue);
    its_lane integer; after bigint; chunk record;
BEGIN
    ids := '{}'; tokens := '{}';
    FOR its_lane, after IN
        SELECT r.i - 1, m.floors[r.i] FROM unnest(pgwork._first_rows(queue, m.floors)) WITH ORDINALITY r (pos, i)
         WHERE r.pos IS NOT NULL LOOP
        LOOP
            SELECT count(*) AS rows, count(*) FILTER (WHERE s.touched) AS leases, max(s.pos) AS last,
                   array_agg(DISTINCT s.pos) FILTER (WHERE s.lease_until < now_is) AS expired INTO chunk
              FROM (SELECT j.pos, CASE WHEN j.token IS NOT NULL THEN j.lease_until END AS lease_until,
                           j.token IS NOT NULL OR j.xmax <> '0' AS touched FROM pgwork.live_job j
                     WHERE j.queue = _expired.queue AND j.lane = its_lane::smallint AND j.pos > after
                     ORDER BY j.pos LIMIT 1000) s;
            -- Checked again under the row's lock: a holder may have extended or completed meanwhile.
            WITH r AS (SELECT k.id, j.token FROM unnest(chunk.expired) p (pos)
                 -- Reads no payloads, which may be damaged. _move() finds out which jobs are damaged.
                 CROSS JOIN LATERAL (SELECT j.token, coalesce(j.ids, ARRAY[coalesce(j.id, j.pos)]) AS own,
                                            coalesce(j.gone_ids, '{}') AS gone FROM pgwork.live_job j
                                      WHERE j.queue = _expired.queue AND j.lane = its_lane::smallint
                                        AND j.pos = p.pos AND j.token IS NOT NULL AND j.lease_until < now_is
                                        FOR UPDATE SKIP LOCKED) j
                 CROSS JOIN LATERAL unnest(j.own) k (id)
                 WHERE k.id <> ALL (j.gone) AND NOT EXISTS (SELECT FROM pgwork._resting(_expired.queue, k.id))
                 LIMIT batch - cardinality(ids)
            ) SELECT ids || array_agg(r.id), tokens || array_agg(r.token) INTO ids, tokens FROM r;
            IF cardinality(ids) >= batch THEN RETURN; END IF;
            EXIT WHEN chunk.rows < 1000 OR chunk.leases = 0 AND chunk.last > m.marks[its_lane + 1] AND NOT whole;
            after := chunk.last - 1; -- rows that extend() has split share a position
        END LOOP;
    END LOOP;
END $$;

-- Makes delayed jobs or dead letters ready, at new positions, in the order of their times. A dead letter
-- starts with attempt 0, and without its unique key, which may belong to another job.
CREATE FUNCTION pgwork._promote(q pgwork.queue, ids bigint[], dead boolean) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE now_is CONSTANT timestamptz := pgwork._now(); moved CONSTANT bigint := cardinality(ids); n bigint;
BEGIN
    PERFORM pg_current_xact_id(); -- before the first position, see 0004_marks.sql
    ids := pgwork._to_gates(q, ids, dead);
    WITH d AS (DELETE FROM pgwork.delayed_job d USING (SELECT q.id AS queue, u.id FROM unnest(ids) u (id) OFFSET 0) u
         WHERE NOT dead AND d.queue = ANY (ARRAY[u.queue]) AND d.id = u.id RETURNING d.*
    ), l AS (DELETE FROM pgwork.dead_job d USING (SELECT q.id AS queue, u.id FROM unnest(ids) u (id) OFFSET 0) u
         WHERE dead AND d.queue = ANY (ARRAY[u.queue]) AND d.id = u.id
        RETURNING now_is, d.id, d.created_at, d.queue, d.priority, 0, d.max_attempts, d.lease_ms, d.kind, NULL,
                  d.error, d.tags, d.payload, d.body, d.grp, CASE WHEN d.expires_at > now_is THEN d.expires_at END,
                  d.meta, NULL::text, NULL::bigint
    )
    INSERT INTO pgwork.live_job (ready_at, created_at, queue, lane, attempt, max_attempts, lease_ms, id, last_id, kind,
                                 key, error, tags, payload, body, grp, expires_at, meta)
    SELECT least(s.run_at, now_is), s.created_at, s.queue, 2 * s.priority + 1, s.attempt, s.max_attempts,
           s.lease_ms, s.id, s.id, s.kind, s.key, s.error, s.tags, s.payload, s.body, s.grp, s.expires_at, s.meta
      FROM (SELECT * FROM d UNION ALL SELECT * FROM l ORDER BY run_at, id OFFSET 0) s;
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM pgwork._wake(q.name, n) WHERE n > 0 AND q.notify;
    RETURN moved;
END $$;

-- Requeues jobs of expired leases. Without tokens, makes delayed jobs ready, or removes expired jobs. A batch
-- that fails is halved until the job that cannot be moved is alone.
CREATE FUNCTION pgwork._move(q pgwork.queue, ids bigint[], tokens uuid[], expired boolean, OUT moved bigint,
    OUT died bigint) LANGUAGE plpgsql AS $$
DECLARE first integer := 1; size integer := cardinality(ids); lot bigint[]; n bigint; n_died bigint;
BEGIN
    moved := 0; died := 0;
    WHILE first <= cardinality(ids) LOOP
        lot := ids[first : first + size - 1];
        BEGIN
            IF tokens IS NULL THEN
                n_died := 0;
                n := CASE WHEN expired THEN pgwork._expire(q, lot) ELSE pgwork._promote(q, lot, false) END;
            ELSE
                SELECT coalesce(cardinality(m.accepted), 0), m.died INTO n, n_died
                  FROM pgwork._requeue(q, lot, tokens[first : first + size - 1], 'reap', NULL, NULL) m;
            END IF;
            DELETE FROM pgwork.stuck_job s WHERE s.queue = q.id AND s.id = ANY (lot);
            moved := moved + n; died := died + n_died;
            first := first + size; size := 2 * size;
        EXCEPTION WHEN assert_failure OR OTHERS THEN
            IF pgwork._is_passing(SQLSTATE) THEN
                RAISE;
            ELSIF cardinality(lot) > 1 THEN
                size := cardinality(lot) / 2;
            ELSE
                PERFORM pgwork._note_stuck(q.id, lot[1], SQLSTATE, SQLERRM);
                first := first + 1;
            END IF;
        END;
    END LOOP;
END $$;

-- Moves rows that no claim can lease or return to lane 31, which no claim reads: otherwise each claim
-- of their queues would fail. Checks as many ready rows as one claim can take. The reaper returns these
-- jobs at again_at. Does nothing if all rows fail: then the cause is not a job.
CREATE FUNCTION pgwork.set_aside(queues text[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE one record; put bigint := 0; sound boolean := false;
BEGIN
    FOR one IN SELECT t.id AS queue, j.* FROM pgwork.queue t CROSS JOIN LATERAL pgwork._mark(t.id) m
         CROSS JOIN LATERAL unnest(m.lanes, m.starts, m.stops) r (lane, start, stop)
         CROSS JOIN LATERAL (SELECT j.ctid AS at, coalesce(j.id, j.pos) AS id, j.lane FROM pgwork.live_job j
                              WHERE j.queue = t.id AND j.lane = r.lane AND j.pos > r.start AND j.pos <= r.stop
                                AND j.token IS NULL ORDER BY j.pos LIMIT 10000 FOR UPDATE SKIP LOCKED) j
         WHERE t.name = ANY (queues) LOOP
        BEGIN
            PERFORM octet_length(j::text) FROM pgwork.live_job j WHERE j.ctid = one.at;
            UPDATE pgwork.live_job j SET token = gen_random_uuid(), holder = '' WHERE j.ctid = one.at;
            RAISE EXCEPTION USING ERRCODE = 'PW000'; -- it can be leased: undo that
        EXCEPTION WHEN SQLSTATE 'PW000' THEN
            sound := true;
        WHEN assert_failure OR OTHERS THEN
            IF pgwork._is_passing(SQLSTATE) THEN RAISE; END IF;
            PERFORM pgwork._note_stuck(one.queue, one.id, SQLSTATE, SQLERRM);
            UPDATE pgwork.stuck_job s SET lane = one.lane WHERE s.queue = one.queue AND s.id = one.id;
            UPDATE pgwork.live_job j SET lane = 31, id = one.id, last_id = coalesce(j.last_id, one.id)
             WHERE j.ctid = one.at;
            put := put + 1;
        END;
    END LOOP;
    IF put > 0 AND NOT sound THEN
        RAISE EXCEPTION 'no ready job can be claimed, so none is set aside' USING ERRCODE = 'PW000';
    END IF;
    RETURN put;
EXCEPTION WHEN SQLSTATE 'PW000' THEN
    RETURN 0;
END $$;

-- Makes jobs that were set aside ready again, at new positions.
CREATE FUNCTION pgwork._bring_back(queue integer) RETURNS void LANGUAGE plpgsql SET lock_timeout = '50ms' AS $$
DECLARE s pgwork.stuck_job;
BEGIN
    FOR s IN SELECT * FROM pgwork.stuck_job t WHERE t.queue = _bring_back.queue AND t.lane IS NOT NULL
                AND NOT EXISTS (SELECT FROM pgwork._resting(t.queue, t.id)) FOR UPDATE SKIP LOCKED LOOP
        BEGIN
            PERFORM pg_current_xact_id(); -- before the position, see 0004_marks.sql
            UPDATE pgwork.live_job j SET lane = s.lane, pos = nextval('pgwork.position')
             WHERE j.queue = s.queue AND j.id = s.id AND j.lane = 31;
            UPDATE pgwork.stuck_job t SET lane = NULL WHERE t.queue = s.queue AND t.id = s.id;
        EXCEPTION WHEN assert_failure OR OTHERS THEN
            PERFORM pgwork._note_stuck(s.queue, s.id, SQLSTATE, SQLERRM);
        END;
    END LOOP;
END $$;

-- One queue, or all. With thousands of queues, only those that have jobs: one probe per queue replaces
-- one per lane. The probe reads all dead index entries of a queue, so it is used only in this case.
CREATE FUNCTION pgwork._used_queues(its_name text) RETURNS SETOF pgwork.queue LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    IF its_name IS NOT NULL OR (SELECT count(*) FROM pgwork.queue) <= 1000 THEN
        RETURN QUERY SELECT * FROM pgwork.queue q WHERE its_name IS NULL OR q.name = its_name;
        RETURN;
    END IF;
    RETURN QUERY SELECT q.* FROM pgwork.queue q LEFT JOIN LATERAL (
        SELECT m.floors FROM pgwork.mark m WHERE m.queue = q.id ORDER BY m.version DESC LIMIT 1) m ON true
     WHERE EXISTS (SELECT FROM pgwork.live_job j WHERE j.queue = q.id
                      AND j.pos > coalesce((SELECT min(f) FROM unnest(m.floors) f), 0) OFFSET 0)
        OR EXISTS (SELECT FROM pgwork._other_job j WHERE j.queue = q.id OFFSET 0)
        OR EXISTS (SELECT FROM pgwork.stuck_job s WHERE s.queue = q.id OFFSET 0);
END $$;

CREATE FUNCTION pgwork._reap(queue text, batch integer, whole boolean, OUT returned bigint, OUT died bigint)
LANGUAGE plpgsql AS $$
DECLARE q pgwork.queue; lot record; taken record;
BEGIN
    returned := 0; died := 0;
    FOR q IN SELECT * FROM pgwork._used_queues(queue) t ORDER BY random() LOOP
        PERFORM pgwork._bring_back(q.id);
        BEGIN
            SELECT * INTO lot FROM pgwork._expired(q.id, (batch - returned - died)::integer, whole);
        EXCEPTION WHEN data_corrupted OR index_corrupted OR internal_error THEN
            PERFORM pgwork._note_stuck(q.id, 0, SQLSTATE, SQLERRM);
            CONTINUE;
        END;
        IF lot.ids <> '{}' THEN
            SELECT * INTO taken FROM pgwork._move(q, lot.ids, lot.tokens, false);
            returned := returned + taken.moved - taken.died; died := died + taken.died;
        END IF;
        EXIT WHEN returned + died >= batch;
    END LOOP;
    died := died + pgwork._sweep_expired(queue, batch);
END $$;

CREATE FUNCTION pgwork.reap(queue text DEFAULT NULL, batch integer DEFAULT 1000, OUT returned bigint, OUT died bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._check_range('batch', batch, 1, 100000);
    PERFORM pgwork._queue(reap.queue) WHERE reap.queue IS NOT NULL;
    SELECT r.* INTO returned, died FROM pgwork._reap(queue, batch, true) r;
END $$;

CREATE FUNCTION pgwork.promote(batch integer DEFAULT 1000, OUT promoted bigint, OUT next_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    now_is CONSTANT timestamptz := pgwork._now(); -- a variable: with the function itself no index is used
    q pgwork.queue; ids bigint[]; moved bigint;
BEGIN
    PERFORM pgwork._check_range('batch', batch, 1, 100000);
    promoted := 0;
    FOR q IN SELECT * FROM pgwork.queue t WHERE EXISTS (SELECT FROM pgwork.delayed_job d
              WHERE d.queue = t.id AND d.run_at <= now_is AND d.run_at < 'infinity' OFFSET 0) ORDER BY random() LOOP
        LOOP -- again if stuck jobs made the batch smaller
            ids := ARRAY(SELECT d.id FROM pgwork.delayed_job d WHERE d.queue = q.id AND d.run_at <= now_is
                            AND d.run_at < 'infinity' AND NOT EXISTS (SELECT FROM pgwork._resting(d.queue, d.id))
                          ORDER BY d.run_at, d.id LIMIT batch - promoted FOR UPDATE OF d SKIP LOCKED);
            EXIT WHEN ids = '{}';
            moved := (pgwork._move(q, ids, NULL, false)).moved; promoted := promoted + moved;
            EXIT WHEN moved IN (0, cardinality(ids));
        END LOOP;
        EXIT WHEN promoted >= batch;
    END LOOP;
    SELECT min(greatest(0, ceil(extract(epoch FROM d.run_at - pgwork._now()) * 1000)))::bigint INTO next_ms
      FROM pgwork.queue t CROSS JOIN LATERAL (SELECT d.run_at FROM pgwork.delayed_job d
                                      WHERE d.queue = t.id AND NOT EXISTS (SELECT FROM pgwork._resting(d.queue, d.id))
                                        AND d.run_at < 'infinity' ORDER BY d.run_at LIMIT 1) d;
END $$;

-- Deletes cancel requests of jobs that are not leased. Cancels those that were requeued before the cancel committed.
CREATE FUNCTION pgwork._settle_cancels(batch integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE c record;
BEGIN
    FOR c IN SELECT q, r.*, r.ctid AS at, f.* FROM pgwork.cancel_request r JOIN pgwork.queue q ON q.id = r.queue
               LEFT JOIN LATERAL pgwork._find(r.queue, r.id) f ON true
              WHERE f.leased IS NOT TRUE LIMIT batch FOR UPDATE OF r SKIP LOCKED LOOP
        PERFORM FROM (SELECT FROM pgwork.live_job j WHERE (j.queue, j.lane, j.pos) = (c.queue, c.lane, c.pos)
                         FOR UPDATE SKIP LOCKED) j UNION ALL
         SELECT FROM (SELECT FROM pgwork.delayed_job d WHERE (d.queue, d.id) = (c.queue, c.id)
                         FOR UPDATE SKIP LOCKED) d;
        CONTINUE WHEN CASE WHEN FOUND THEN pgwork._cancel(c.q, c.id) IS DISTINCT FROM 'cancelled'
                           ELSE EXISTS (SELECT FROM pgwork.job_list((c.q).name, id => c.id) l
                                         WHERE l.state IN ('ready', 'leased', 'delayed')) END;
        DELETE FROM pgwork.cancel_request r WHERE r.ctid = c.at;
    END LOOP;
END $$;

-- Deletes old entries, then jobs of producers that committed after their queue was dropped: their queue ids are
-- between those of existing queues. (One statement reads both: a queue may commit together with its first jobs.)
CREATE FUNCTION pgwork.prune(batch integer DEFAULT 1000) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    now_is CONSTANT timestamptz := pgwork._now();
    history bigint; pruned bigint := 0; n bigint; part record; gaps record; -- between the ids of queues
BEGIN
    PERFORM pgwork._check_range('batch', batch, 1, 100000), pgwork._settle_cancels(batch), pgwork._sum_reports();
    history := pgwork._prune_history(batch);
    DELETE FROM pgwork.stuck_job s WHERE s.ctid = ANY (ARRAY( -- no reaper has tried it since
        SELECT d.ctid FROM pgwork.stuck_job d WHERE d.again_at < now_is - interval '1 hour' FOR UPDATE SKIP LOCKED));
    SELECT array_agg(t.id) AS lows, array_agg(t.next) AS highs INTO gaps
      FROM (SELECT t.id, lead(t.id, 1, 2147483647) OVER (ORDER BY t.id) AS next
              FROM (SELECT 0 AS id UNION ALL SELECT q.id FROM pgwork.queue q) t) t WHERE t.next > t.id + 1;
    FOR part IN SELECT * FROM (VALUES
           ('unique_key', '(SELECT) g', 'd.free_after < $1'), ('done_job', 'pgwork.queue g',
            'd.queue = g.id AND d.finished_at < ''infinity'' AND d.finished_at < $1 - g.retention_ms * $5'),
           ('dead_job', 'pgwork.queue g',
            'd.queue = g.id AND d.died_at < ''infinity'' AND d.died_at < $1 - nullif(g.dead_retention_ms, -1) * $5'),
           ('operation', '(SELECT value::bigint AS kept FROM pgwork.setting WHERE name = ''op_retention_ms'') g',
            'd.at < $1 - g.kept * $5')) v (place, ranges, what)
        UNION ALL SELECT p, 'unnest($3, $4) g (low, high)', 'd.queue > g.low AND d.queue < g.high AND NOT EXISTS'
                            ' (SELECT FROM pgwork.queue q WHERE q.id = d.queue)' FROM unnest(pgwork._places()) p LOOP
        EXECUTE format('DELETE FROM pgwork.%1$I j WHERE j.ctid = ANY (ARRAY('
                       'SELECT d.ctid FROM %2$s CROSS JOIN LATERAL (SELECT d.ctid FROM pgwork.%1$I d'
                       ' WHERE %3$s LIMIT $2 FOR UPDATE SKIP LOCKED) d LIMIT $2))', part.place, part.ranges, part.what)
          USING now_is, batch - pruned, gaps.lows, gaps.highs, interval '1 ms';
        GET DIAGNOSTICS n = ROW_COUNT; pruned := pruned + n;
        EXIT WHEN pruned >= batch;
    END LOOP;
    RETURN history + pruned + CASE WHEN pruned < batch THEN pgwork.table_prune((batch - pruned)::integer) ELSE 0 END;
END $$;

-- Reports jobs that could not be moved, for the log: each job once, as many as fit into a line of 1 KB.
CREATE FUNCTION pgwork._report_stuck(OUT news text) LANGUAGE plpgsql AS $$
BEGIN
    WITH untold AS (SELECT s.queue, s.id, CASE WHEN s.queue = 0 THEN s.error WHEN q.id IS NOT NULL THEN
                    format('%squeue "%s": %s', 'job ' || nullif(s.id, 0) || ' of ', q.name, s.error) END AS line
          FROM pgwork.stuck_job s LEFT JOIN pgwork.queue q ON q.id = s.queue
         WHERE NOT s.told ORDER BY s.queue, s.id LIMIT 20 FOR UPDATE OF s SKIP LOCKED
    ), fit AS (SELECT * FROM (SELECT u.*, row_number() OVER w AS n, sum(octet_length(u.line) + 2) OVER w AS bytes
                         FROM untold u WINDOW w AS (ORDER BY u.queue, u.id)) u
         WHERE u.n = 1 OR coalesce(u.bytes, 0) <= 1000
    ), noted AS (UPDATE pgwork.stuck_job s SET told = true FROM fit f WHERE s.queue = f.queue AND s.id = f.id
    ) SELECT string_agg(f.line, '; ' ORDER BY f.queue, f.id) INTO news FROM fit f;
END $$;

CREATE FUNCTION pgwork._ms(since timestamptz) RETURNS integer LANGUAGE sql
RETURN least((extract(epoch FROM clock_timestamp() - since) * 1000)::bigint, 1000000)::integer;

-- The part of maintain() (0013) for jobs: low-water marks and delayed jobs while something moves, expired leases four
-- times a second, the rest once a second. Less often if it takes long, and not when a slow transaction has just ended:
-- its jobs are found when the tick has committed. One reaper ticks. The others promote, and do more if it is late.
CREATE FUNCTION pgwork._maintain_jobs(batch integer, OUT reaped bigint, OUT died bigint, OUT promoted bigint,
    OUT pruned bigint, OUT next_ms bigint, OUT stuck text) LANGUAGE plpgsql AS $$
DECLARE
    began CONSTANT timestamptz := clock_timestamp();
    mine CONSTANT boolean := current_setting('transaction_isolation') = 'read committed'
                             AND pg_try_advisory_xact_lock(pgwork._lock('tick', 0));
    prev pgwork.reaper_tick; t pgwork.reaper_tick;
    tick_ms integer; at timestamptz; -- when the current part began
    first CONSTANT boolean := nullif(current_setting('pgwork.passed', true), '') IS NULL; -- of this session
BEGIN
    reaped := 0; died := 0; promoted := 0; pruned := 0; PERFORM set_config('pgwork.passed', 'yes', false);
    SELECT * INTO prev FROM pgwork.reaper_tick p ORDER BY p.version DESC LIMIT 1;
    IF NOT FOUND THEN
        prev := (0, '-infinity', 0, '{}', '{}', '{}', 0, false, '-infinity', 0, '-infinity', 0, '-infinity', 0);
    END IF;
    t := CASE WHEN mine THEN pgwork._tick(prev) ELSE prev END; tick_ms := pgwork._ms(began); at := clock_timestamp();
    IF first OR began NOT BETWEEN t.promoted_at AND t.promoted_at + 9 * t.promote_ms * interval '1 ms' THEN
        SELECT p.promoted, p.next_ms INTO promoted, next_ms FROM pgwork.promote(batch) p;
        t.promoted_at := began;
        t.promote_ms := CASE WHEN promoted < batch THEN least(greatest(pgwork._ms(at) - promoted, 0), 100) ELSE 0 END;
    END IF;
    at := clock_timestamp();
    IF mine AND (first OR prev.slow <@ t.slow OR began > t.reaped_at + '1 s'::interval)
       OR began > prev.at + interval '5 s' THEN
        IF first OR began NOT BETWEEN t.reaped_at AND t.reaped_at + greatest(250, 9 * t.reap_ms) * interval '1 ms' THEN
            -- After a time without a reaper, leased rows may be behind many ready rows.
            SELECT r.returned, r.died INTO reaped, died
              FROM pgwork._reap(NULL, batch, began > t.reaped_at + interval '10 s') r;
            stuck := pgwork._report_stuck(); t.reap_ms := least(pgwork._ms(at), 1000);
            t.reaped_at := CASE WHEN reaped + died < batch AND (SELECT min(e.at) > began FROM pgwork.expiring_job e)
                                     IS NOT FALSE THEN began ELSE '-infinity' END;
        END IF; at := clock_timestamp();
        IF first OR began NOT BETWEEN t.pruned_at AND t.pruned_at + greatest(1, t.prune_ms * 0.019) * interval '1s' THEN
            BEGIN -- a trigger or a damaged row may make it fail: jobs must not wait for that
                pruned := CASE WHEN EXISTS (SELECT FROM pgwork._resting(0, 1)) THEN 0 ELSE pgwork.prune(batch) END;
            EXCEPTION WHEN assert_failure OR OTHERS THEN
                IF pgwork._is_passing(SQLSTATE) THEN RAISE; END IF;
                PERFORM pgwork._note_stuck(0, 1, SQLSTATE, SQLERRM);
            END;
            t.pruned_at := CASE WHEN pruned < batch THEN began ELSE '-infinity' END;
            t.prune_ms := least(pgwork._ms(at), 3000);
        END IF;
    END IF;
    IF mine AND (t.version > prev.version OR began > prev.at + interval '2 s') THEN
        t.version := prev.version + 1; t.at := began;
        INSERT INTO pgwork.reaper_tick SELECT t.*;
        DELETE FROM pgwork.reaper_tick p WHERE p.version = prev.version;
    END IF;
    next_ms := CASE WHEN greatest(reaped + died, promoted, pruned) >= batch THEN 0
                    ELSE greatest(CASE WHEN promoted = 0 AND next_ms = 0 THEN 50 ELSE 1 END, least(4 * tick_ms, 400),
                                  least(next_ms, CASE WHEN t.settled THEN 250 ELSE 100 END)) END; -- 50: it is locked
END $$;

-- All other sessions wait meanwhile. CLUSTER keeps rows that an older snapshot can see, and would free
-- nothing, so this fails while there is one. (Sessions that wait for its lock have read nothing yet.)
CREATE FUNCTION pgwork.compact() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE before CONSTANT bigint := pg_total_relation_size('pgwork.live_job'); older text;
BEGIN
    LOCK TABLE pgwork.live_job IN ACCESS EXCLUSIVE MODE;
    SELECT string_agg(o.who, ', ') INTO older FROM (SELECT 'process ' || a.pid AS who FROM pg_stat_activity a
             WHERE num_nonnulls(a.backend_xmin, a.backend_xid) > 0 AND a.datname = current_database()
               AND a.pid <> pg_backend_pid()
               AND a.pid NOT IN (SELECT l.pid FROM pg_locks l WHERE l.relation = 'pgwork.live_job'::regclass
                                                               AND NOT l.granted AND l.pid IS NOT NULL)
             UNION ALL SELECT format('prepared transaction "%s"', p.gid) FROM pg_prepared_xacts p
                        WHERE p.database = current_database()
             UNION ALL SELECT 'replication slot ' || slot_name FROM pg_replication_slots WHERE xmin IS NOT NULL) o;
    IF older IS NOT NULL THEN
        RAISE EXCEPTION 'cannot compact live_job: older snapshots may need its dead rows: %', older
            USING ERRCODE = 'object_in_use', HINT = 'end these transactions, or try again when they have ended';
    END IF;
    CLUSTER pgwork.live_job USING live_job_place;
    RETURN greatest(before - pg_total_relation_size('pgwork.live_job'), 0);
END $$;

-- Chooses and locks dead letters, the oldest first.
CREATE FUNCTION pgwork._dead_letters(q pgwork.queue, ids bigint[], kind text, batch bigint, older_than_ms bigint)
RETURNS bigint[] LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE before CONSTANT timestamptz := pgwork._before(older_than_ms); -- with the function itself no index is used
BEGIN
    PERFORM pgwork._refuse_unless(coalesce(batch, 1) > 0, 'batch', batch::text, 'at least 1, or NULL for all');
    RETURN ARRAY(SELECT d.id FROM pgwork.dead_job d WHERE d.queue = q.id AND d.died_at < before
                    AND d.died_at < 'infinity' AND (_dead_letters.ids IS NULL OR d.id = ANY (_dead_letters.ids))
                    AND (_dead_letters.kind IS NULL OR d.kind = _dead_letters.kind)
                  ORDER BY d.died_at LIMIT batch FOR UPDATE SKIP LOCKED);
END $$;

CREATE FUNCTION pgwork.redrive(queue text, ids bigint[] DEFAULT NULL, kind text DEFAULT NULL,
    batch bigint DEFAULT NULL, older_than_ms bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q CONSTANT pgwork.queue := pgwork._queue(queue);
    chosen CONSTANT bigint[] := pgwork._dead_letters(q, ids, kind, batch, older_than_ms);
BEGIN
    DELETE FROM pgwork.cancel_request c WHERE c.queue = q.id AND c.id = ANY (chosen); -- of its last holder
    RETURN pgwork._promote(q, chosen, true);
END $$;

CREATE FUNCTION pgwork.dead_purge(queue text, older_than_ms bigint DEFAULT NULL, batch bigint DEFAULT NULL,
    ids bigint[] DEFAULT NULL, kind text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    q CONSTANT pgwork.queue := pgwork._queue(queue);
    chosen CONSTANT bigint[] := pgwork._dead_letters(q, ids, kind, batch, older_than_ms);
BEGIN
    DELETE FROM pgwork.dead_job d WHERE d.queue = q.id AND d.id = ANY (chosen);
    RETURN cardinality(chosen);
END $$;

-- In the order of the ids, from after_id to last_id, so that a caller that works in batches moves
-- no job twice, even if it fails again at once.
CREATE FUNCTION pgwork.reschedule(queue text, ids bigint[] DEFAULT NULL, kind text DEFAULT NULL,
    run_at timestamptz DEFAULT NULL, delay_ms bigint DEFAULT NULL, batch bigint DEFAULT NULL,
    after_id bigint DEFAULT NULL, OUT moved bigint, OUT last_id bigint) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    q CONSTANT pgwork.queue := pgwork._queue(reschedule.queue);
    due CONSTANT timestamptz := pgwork._due(run_at, delay_ms); -- NULL: at once
    low CONSTANT bigint := coalesce(after_id, 0);
    chosen bigint[]; -- by the primary key, since its plan knows whether there are ids
BEGIN
    PERFORM pgwork._refuse_unless(coalesce(batch, 1) > 0, 'batch', batch::text, 'at least 1, or NULL for all'),
            pgwork._refuse_unless(low >= 0, 'after_id', after_id::text, 'at least 0, or NULL');
    -- A locked job is becoming ready, or is being cancelled.
    chosen := ARRAY(SELECT d.id FROM pgwork.delayed_job d
                     WHERE d.queue = q.id AND d.id > low AND d.gate IS NULL
                       AND (reschedule.ids IS NULL OR d.id = ANY (reschedule.ids))
                       AND (reschedule.kind IS NULL OR d.kind = reschedule.kind)
                     ORDER BY d.id LIMIT batch FOR UPDATE SKIP LOCKED);
    moved := cardinality(chosen); last_id := chosen[moved];
    DELETE FROM pgwork.stuck_job s WHERE s.queue = q.id AND s.id = ANY (chosen);
    IF due > pgwork._now() THEN
        UPDATE pgwork.delayed_job d SET run_at = due
          FROM (SELECT q.id AS queue, u AS id FROM unnest(chosen) u OFFSET 0) u
         WHERE d.queue = ANY (ARRAY[u.queue]) AND d.id = u.id;
    ELSIF moved > 0 THEN
        PERFORM pgwork._promote(q, chosen, false);
    END IF;
END $$;

COMMENT ON FUNCTION pgwork.set_aside IS 'Sets aside ready jobs that no claim can return. Returns the number of rows.';
COMMENT ON FUNCTION pgwork.reap IS 'Requeues jobs of expired leases. died: dead letters of these and of expired jobs.';
COMMENT ON FUNCTION pgwork.promote IS 'Makes due delayed jobs ready; next_ms: time until the next one.';
COMMENT ON FUNCTION pgwork.prune IS 'Deletes finished jobs, operation ids and unique keys after their retention.';
COMMENT ON FUNCTION pgwork.compact IS 'Rewrites live_job without its dead rows. Fails while an older snapshot is held.';
COMMENT ON FUNCTION pgwork.redrive IS 'Makes dead letters ready again, with a fresh count of attempts.';
COMMENT ON FUNCTION pgwork.reschedule IS 'Moves delayed jobs to run_at, or delay_ms from now, or makes them ready.';
COMMENT ON FUNCTION pgwork.dead_purge IS 'Deletes dead letters: by id, by kind, or all.';
