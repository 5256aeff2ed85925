-- 0016: jobs that expire, and enqueues that change a waiting job. Claims skip expired rows. The reaper makes them dead
-- letters, or drops them, also in a paused queue.

-- Jobs with an expiry, in any state, and when the reaper checks them. A separate table, so that the live table needs no
-- index for them.
CREATE TABLE pgwork.expiring_job (
    queue integer NOT NULL, id bigint NOT NULL, at timestamptz NOT NULL, PRIMARY KEY (queue, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX expiring_job_at ON pgwork.expiring_job (at);

CREATE FUNCTION pgwork._note_expiry(queue integer, id bigint, at timestamptz) RETURNS void LANGUAGE sql AS $$
    INSERT INTO pgwork.expiring_job VALUES ($1, $2, $3) ON CONFLICT (queue, id) DO UPDATE SET at = excluded.at
$$;

CREATE FUNCTION pgwork._check_ttl(ttl_ms bigint, i bigint DEFAULT NULL) RETURNS void LANGUAGE sql
RETURN pgwork._refuse_unless(coalesce(ttl_ms, 1) BETWEEN 1 AND 315360000000, 'ttl_ms', ttl_ms::text,
                             '1..315360000000 (ten years)', i);

-- Sets and records when new jobs expire: at a time, or ttl_ms after they become ready. (If a job is not added because
-- its key is taken, its record stays until the reaper deletes it.)
CREATE FUNCTION pgwork._expiring(queue integer, jobs pgwork._new_job[], ttls_ms bigint[], many boolean)
RETURNS pgwork._new_job[] LANGUAGE plpgsql AS $$
DECLARE now_is CONSTANT timestamptz := pgwork._now(); job pgwork._new_job; ttl bigint;
BEGIN
    FOR i IN 1 .. cardinality(jobs) LOOP
        job := jobs[i]; ttl := pgwork._ith(ttls_ms, i);
        IF ttl IS NOT NULL THEN
            PERFORM pgwork._refuse_unless(job.expires_at IS NULL, 'ttl_ms', ttl::text, 'NULL together with expires_at',
                                          CASE WHEN many THEN i END),
                    pgwork._check_ttl(ttl, CASE WHEN many THEN i END);
            job.expires_at := coalesce(job.due, now_is) + ttl * interval '1 ms';
            jobs[i] := job;
        END IF;
        CONTINUE WHEN job.expires_at IS NULL;
        PERFORM pgwork._note_expiry(queue, job.id, job.expires_at);
    END LOOP;
    RETURN jobs;
END $$;

-- Records the jobs that this transaction has loaded by COPY, at positions after `behind`.
CREATE FUNCTION pgwork._expiring_loaded(queue integer, behind bigint) RETURNS void LANGUAGE sql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    INSERT INTO pgwork.expiring_job
    SELECT $1, j.pos, j.expires_at FROM generate_series(1, 19, 2) l
     CROSS JOIN LATERAL (SELECT j.pos, j.expires_at FROM pgwork.live_job j
                          WHERE j.queue = $1 AND j.lane = l::smallint AND j.pos > $2 AND j.id IS NULL
                            AND j.expires_at IS NOT NULL OFFSET 0) j
     UNION ALL SELECT $1, d.id, d.expires_at FROM pgwork.delayed_job d
      WHERE d.queue = $1 AND d.id > $2 AND d.expires_at IS NOT NULL
    ON CONFLICT DO NOTHING
$$;

-- Returns the given jobs that wait or are leased. Does not search batch rows, which have no job with a key or an expiry.
-- It is one statement, and STABLE: with two snapshots it could miss a job that moves.
CREATE FUNCTION pgwork._unfinished(queue integer, ids bigint[])
RETURNS TABLE (id bigint, live tid, leased boolean, expires_at timestamptz) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
    RETURN QUERY SELECT n.id, j.at, j.leased, j.expires_at FROM unnest(ids) n (id) CROSS JOIN LATERAL (
        SELECT j.* FROM generate_series(1, 19, 2) l
         CROSS JOIN LATERAL (SELECT j.ctid AS at, j.token IS NOT NULL AS leased, j.expires_at FROM pgwork.live_job j
                              WHERE j.queue = _unfinished.queue AND j.lane = l::smallint AND j.pos = n.id
                                AND j.id IS NULL OFFSET 0) j
        UNION ALL SELECT j.ctid, j.token IS NOT NULL, j.expires_at FROM pgwork.live_job j
                   WHERE j.queue = _unfinished.queue AND j.id = n.id AND j.ids IS NULL
        UNION ALL SELECT NULL, false, d.expires_at FROM pgwork.delayed_job d
                   WHERE d.queue = _unfinished.queue AND d.id = n.id) j;
END $$;

-- The columns that both tables have, except those that a move from one to the other sets itself.
CREATE FUNCTION pgwork._columns(one regclass, other regclass) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
      FROM pg_attribute a JOIN pg_attribute b ON b.attrelid = $2 AND b.attname = a.attname AND NOT b.attisdropped
     WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
       AND a.attname NOT IN ('id', 'priority', 'error', 'run_at', 'died_at', 'holder')
$$;

-- Makes expired jobs that wait dead letters, or drops them. Skips jobs that others have locked. Returns their number.
CREATE FUNCTION pgwork._expire(q pgwork.queue, ids bigint[]) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE now_is CONSTANT timestamptz := pgwork._now(); place record; gone record; n bigint := 0;
BEGIN
    FOR place IN SELECT * FROM (VALUES -- the tables in which jobs wait, and how to find them
        ('live_job', 'coalesce(d.id, d.pos)', 'd.lane / 2',
         'j.ctid = ANY (ARRAY(SELECT u.live FROM pgwork._unfinished($1, $2) u)) AND j.queue = $1 AND j.token IS NULL'),
        ('delayed_job', 'd.id', 'd.priority', 'j.queue = $1 AND j.id = ANY ($2)')) v (name, id, priority, found) LOOP
        EXECUTE format($q$
            WITH d AS (DELETE FROM pgwork.%1$I j
                 WHERE j.ctid = ANY (ARRAY(SELECT j.ctid FROM pgwork.%1$I j WHERE %4$s AND j.expires_at <= $3
                                              FOR UPDATE OF j SKIP LOCKED)) RETURNING j.*
            ), l AS ( -- ids are drawn again after a restore that forgot the sequence
                INSERT INTO pgwork.dead_job (%5$s, priority, died_at, error, id)
                SELECT %5$s, %3$s, $3, 'expired' || coalesce('; last error: ' || d.error, ''),
                       coalesce((SELECT nextval('pgwork.position') FROM pgwork.dead_job o
                                  WHERE o.queue = $1 AND o.id = %2$s), %2$s) FROM d WHERE $4 <> 'drop'
            ) SELECT count(*) AS n, array_agg(%2$s) AS all_ids, array_agg(%2$s) FILTER (WHERE d.key IS NOT NULL) AS ids,
                     array_agg(d.key) FILTER (WHERE d.key IS NOT NULL) AS keys FROM d $q$,
            place.name, place.id, place.priority, place.found,
            pgwork._columns(('pgwork.' || place.name)::regclass, 'pgwork.dead_job'))
           INTO gone USING q.id, ids, now_is, q.expired;
        PERFORM pgwork._free(q.id, gone.ids, gone.keys) WHERE gone.keys IS NOT NULL;
        PERFORM pgwork._leave_gates(q.id, gone.all_ids) WHERE gone.n > 0;
        n := n + gone.n;
    END LOOP;
    RETURN n;
END $$;

-- For reap(): expires jobs whose time has come. Returns how many became dead letters. Checks a job that is leased, locked
-- or stuck again later, because it must not start again if its holder fails.
CREATE FUNCTION pgwork._sweep_expired(its_queue text, batch integer) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    now_is CONSTANT timestamptz := pgwork._now(); began CONSTANT timestamptz := clock_timestamp();
    q pgwork.queue; lot record; there bigint[]; met bigint; moved bigint; died bigint := 0;
BEGIN
    LOOP
        met := 0;
        FOR lot IN WITH due AS MATERIALIZED (
                SELECT e.queue, e.id FROM pgwork.expiring_job e
                 WHERE e.at <= now_is AND (its_queue IS NULL
                       OR e.queue = (SELECT t.id FROM pgwork.queue t WHERE t.name = its_queue))
                 ORDER BY e.at LIMIT batch FOR UPDATE SKIP LOCKED
            ) SELECT d.queue, array_agg(d.id) AS ids FROM due d GROUP BY d.queue LOOP
            met := met + cardinality(lot.ids); there := '{}';
            SELECT * INTO q FROM pgwork.queue t WHERE t.id = lot.queue;
            IF FOUND THEN -- most jobs have finished in time
                there := ARRAY(SELECT u.id FROM pgwork._unfinished(q.id, lot.ids) u WHERE u.expires_at IS NOT NULL);
                IF there <> '{}' THEN
                    moved := (pgwork._move(q, there, NULL, true)).moved;
                    IF q.expired = 'dead' THEN died := died + moved; END IF;
                    there := ARRAY(SELECT u.id FROM pgwork._unfinished(q.id, there) u WHERE u.expires_at IS NOT NULL);
                END IF;
            END IF;
            DELETE FROM pgwork.expiring_job e USING (SELECT lot.queue, u.id FROM unnest(lot.ids) u (id) OFFSET 0) u
             WHERE e.queue = ANY (ARRAY[u.queue]) AND e.id = u.id AND e.id <> ALL (there);
            UPDATE pgwork.expiring_job e SET at = now_is + interval '5 s'
              FROM (SELECT lot.queue, u.id FROM unnest(there) u (id) OFFSET 0) u
             WHERE e.queue = ANY (ARRAY[u.queue]) AND e.id = u.id;
        END LOOP;
        EXIT WHEN met < batch OR died >= batch OR clock_timestamp() > began + interval '50 ms';
    END LOOP;
    RETURN died;
END $$;

CREATE FUNCTION pgwork._check_key(keyed boolean, key_scope text, key_policy text, key_period_ms bigint,
    key_replace text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgwork._refuse_unless(key_scope IN ('ready', 'unfinished', 'period'), 'key_scope', key_scope,
                                  'ready, unfinished or period'),
            pgwork._refuse_unless(key_policy IN ('skip', 'replace', 'delay', 'error'), 'key_policy', key_policy,
                                  'skip, replace, delay or error'),
            pgwork._refuse_unless(NOT keyed OR key_policy <> 'delay' OR key_scope <> 'period', 'key_scope', key_scope,
                                  'ready with key_policy delay'),
            pgwork._refuse_unless(NOT keyed OR key_scope <> 'period' AND key_policy <> 'delay'
                                  OR key_period_ms BETWEEN 1 AND 31536000000,
                                  'key_period_ms', key_period_ms::text, '1..31536000000 (a year)'),
            pgwork._refuse_unless(coalesce(key_replace <@ '{payload,kind,priority,time}', true), 'key_replace',
                                  key_replace::text, 'some of payload, kind, priority and time, or NULL for payload');
END $$;

-- Policy delay: the delay of an enqueue says when the job runs if no other enqueue follows.
CREATE FUNCTION pgwork._check_delay(j pgwork._new_job, key_period_ms bigint, i bigint) RETURNS void LANGUAGE sql
RETURN pgwork._refuse_unless(coalesce(j.due <= pgwork._now() + key_period_ms * interval '1 ms', false),
    'delay_ms', CASE WHEN j.due IS NULL THEN NULL ELSE 'over ' || key_period_ms END,
    '1..key_period_ms with key_policy delay', i);

-- Changes the waiting job that has the key of an enqueue: payload (with body), kind, priority, time (when it runs, at
-- most latest_ms after its creation, and when it expires). False: the job does not wait.
CREATE FUNCTION pgwork._replace(q pgwork.queue, one bigint, j pgwork._new_job, what text[], latest_ms bigint)
RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    now_is CONSTANT timestamptz := pgwork._now(); latest CONSTANT interval := latest_ms * interval '1 ms';
    timed CONSTANT boolean := 'time' = ANY (what); was record; now_at record;
BEGIN
    SELECT r.ctid AS at, r.lane, r.created_at INTO was
      FROM (SELECT q.id AS queue, f.* FROM pgwork._find(q.id, one) f OFFSET 0) f
      JOIN pgwork.live_job r ON r.queue = ANY (ARRAY[f.queue]) AND r.lane = f.lane AND r.pos = f.pos
                            AND r.token IS NULL AND coalesce(r.id, r.pos) = one FOR UPDATE OF r;
    IF FOUND AND was.lane BETWEEN 0 AND 19 AND was.lane & 1 = 1 -- a quarantined job stays in its lane
       AND (timed AND least(j.due, was.created_at + latest) > now_is
            OR 'priority' = ANY (what) AND j.priority <> was.lane / 2) THEN
        EXECUTE format('WITH d AS (DELETE FROM pgwork.live_job r WHERE r.ctid = $1 RETURNING r.*)'
                       ' INSERT INTO pgwork.delayed_job (%1$s, id, run_at, priority, error)'
                       ' SELECT %1$s, $2, $3, d.lane / 2, d.error FROM d',
                       pgwork._columns('pgwork.live_job', 'pgwork.delayed_job')) USING was.at, one, now_is;
    ELSIF FOUND THEN
        UPDATE pgwork.live_job r
           SET payload = CASE WHEN 'payload' = ANY (what) THEN j.payload ELSE r.payload END,
               body = CASE WHEN 'payload' = ANY (what) THEN j.body ELSE r.body END,
               kind = CASE WHEN 'kind' = ANY (what) THEN j.kind ELSE r.kind END,
               expires_at = CASE WHEN timed THEN j.expires_at ELSE r.expires_at END WHERE r.ctid = was.at;
        PERFORM pgwork._note_expiry(q.id, one, j.expires_at) WHERE timed AND j.expires_at IS NOT NULL;
        RETURN true;
    END IF;
    UPDATE pgwork.delayed_job d
       SET payload = CASE WHEN 'payload' = ANY (what) THEN j.payload ELSE d.payload END,
           body = CASE WHEN 'payload' = ANY (what) THEN j.body ELSE d.body END,
           kind = CASE WHEN 'kind' = ANY (what) THEN j.kind ELSE d.kind END,
           priority = CASE WHEN 'priority' = ANY (what) THEN j.priority ELSE d.priority END,
           run_at = CASE WHEN NOT timed OR d.gate IS NOT NULL AND w.due <= now_is THEN d.run_at ELSE w.due END,
           gate = CASE WHEN NOT timed OR w.due <= now_is THEN d.gate END, -- a gated job may be delayed again
           place = CASE WHEN 'priority' = ANY (what) THEN pgwork._place(j.priority, d.id) ELSE d.place END,
           expires_at = CASE WHEN timed THEN j.expires_at ELSE d.expires_at END
      FROM (SELECT d.id, least(coalesce(j.due, now_is), d.created_at + latest) AS due FROM pgwork.delayed_job d
             WHERE d.queue = q.id AND d.id = one OFFSET 0) w
     WHERE d.queue = q.id AND d.id = one RETURNING d.run_at, d.gate INTO now_at;
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM pgwork._add_gate_event(q.id, now_at.gate) WHERE now_at.gate IS NOT NULL AND 'priority' = ANY (what);
    PERFORM pgwork._note_expiry(q.id, one, j.expires_at) WHERE timed AND j.expires_at IS NOT NULL;
    PERFORM pgwork._promote(q, ARRAY[one], false) WHERE now_at.run_at <= now_is;
    RETURN true;
END $$;

COMMENT ON TABLE pgwork.expiring_job IS 'Jobs that expire, and when the reaper checks them. Written by the functions only.';
