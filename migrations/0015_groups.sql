-- 0015: groups, see doc/groups.md. At most group_limit jobs of a group are admitted (ready, leased, or, except with
-- policy pass, waiting for a retry). The others wait in delayed_job with run_at infinity, at the gate of their group,
-- where no claim sees them. A finished job hands its place to the next gated job. Every other transaction after which a
-- gate may open inserts an event: an enqueue, a place that no job gets, a changed limit. Claims that find too few jobs,
-- and ticks, process events: they lock the gate. The next statement reads the events and counts the admitted jobs.
-- Example: A hands on no place, because it does not see the enqueue of B, which is not committed. B does not see that
-- a place is free. Both leave an event, and the claim that processes the later one sees the job and the free place.

ALTER TABLE pgwork.queue
    ADD group_limit integer NOT NULL DEFAULT 1 CHECK (group_limit BETWEEN 1 AND 10000),
    ADD group_retry text NOT NULL DEFAULT 'hold' CHECK (group_retry IN ('hold', 'pass', 'block')),
    ADD queue_limit integer CHECK (queue_limit BETWEEN 1 AND 10000), -- of all jobs together; NULL: none
    ADD group_terms integer NOT NULL DEFAULT 0; -- grows with each change of a setting of the queue's gates
CREATE OR REPLACE VIEW pgwork.queues AS SELECT * FROM pgwork.queue; -- now with the new columns

-- At most n jobs are admitted per per_ms, and up to burst of them at once. n = 0: no rate. semaphore: each leased job
-- of the queue has a permit of it. A queue with only a semaphore gets a rate that is faster than any that can be set.
CREATE TYPE pgwork._pace AS (n integer, per_ms bigint, burst integer, semaphore integer);
ALTER TABLE pgwork.queue
    ADD rate pgwork._pace, ADD group_rate pgwork._pace, -- of all jobs together; of each group that has none of its own
    ADD rated boolean NOT NULL DEFAULT false,           -- there is or was a rate of the queue or of one of its groups
    ADD gated boolean GENERATED ALWAYS AS (nullif(queue_limit IS NOT NULL OR (rate).n > 0, false)) STORED; -- has a gate

CREATE INDEX queue_semaphore ON pgwork.queue (((rate).semaphore)) WHERE (rate).semaphore IS NOT NULL;
-- A job that waits to be admitted has a gate, which is its group, and a place in the line there: by priority, then by
-- id. A queue with a limit, rate or semaphore has a gate of its own, '', which jobs pass after that of their group. A
-- job without a group has the group '' there.
CREATE INDEX delayed_job_gate ON pgwork.delayed_job (queue, gate, place) WHERE gate IS NOT NULL;

-- The settings of a group that differ from those of its queue.
CREATE TABLE pgwork.group_rule (
    queue integer NOT NULL, grp text NOT NULL, group_limit integer CHECK (group_limit BETWEEN 1 AND 10000),
    group_retry text CHECK (group_retry IN ('hold', 'pass', 'block')), held_until timestamptz, rate pgwork._pace,
    PRIMARY KEY (queue, grp)
);
CREATE INDEX group_rule_held ON pgwork.group_rule (held_until) WHERE held_until IS NOT NULL;

-- A row for each job and gate while the job is admitted there. Read newest first: under a held snapshot, a group with
-- thousands of finished jobs has as many dead tuples.
CREATE TABLE pgwork.admitted_job (
    queue integer NOT NULL, id bigint NOT NULL, gate text NOT NULL,
    seq   bigint NOT NULL DEFAULT nextval('pgwork.position'),
    low   bigint NOT NULL,                -- gated jobs have later places, except those that an event announces
    terms integer NOT NULL,               -- the queue's group_terms when it was admitted
    handed integer NOT NULL DEFAULT 0,    -- how often the place was handed on since the gate was last locked
    dead  boolean NOT NULL DEFAULT false, -- policy block: a dead letter, which stops its group
    PRIMARY KEY (queue, id, gate)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX admitted_job_gate ON pgwork.admitted_job (queue, gate, seq) WHERE seq > 0;
CREATE INDEX admitted_job_dead ON pgwork.admitted_job (queue, gate) WHERE dead;

-- The advisory lock of a gate.
CREATE FUNCTION pgwork._gate_lock(queue integer, gate text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended('pgwork.gate ' || gate, queue);

CREATE TABLE pgwork.gate_event (
    key    bigint NOT NULL GENERATED ALWAYS AS (pgwork._gate_lock(queue, gate)) STORED,
    id     bigint NOT NULL DEFAULT nextval('pgwork.position'), queue integer NOT NULL, gate text NOT NULL,
    place  bigint NOT NULL,           -- search gated jobs after this place
    credit bigint NOT NULL DEFAULT 0, -- how many admitted jobs have left, admitted under these group_terms
    terms  integer NOT NULL DEFAULT 0, PRIMARY KEY (key, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX gate_event_id ON pgwork.gate_event (queue, id);

-- The state of the rate of a gate: one number, tat, as in 0014_rates.sql, in nanoseconds. The row is read and written
-- under the lock of the gate. Each change inserts a new version, and readers look for the newest first, so that a held
-- snapshot leaves no dead tuples in front. Unlike a take, an admission that is rolled back takes nothing.
CREATE TABLE pgwork.gate_rate (
    key   bigint NOT NULL, -- the lock of the gate
    version bigint NOT NULL DEFAULT nextval('pgwork.position'), queue integer NOT NULL, gate text NOT NULL,
    tat   bigint NOT NULL,
    low   bigint NOT NULL, -- gated jobs have later places, except those that an event announces; maximum: none is known
    at    bigint NOT NULL, -- when to look again; if no job is gated, when the row is obsolete
    free  integer, terms integer NOT NULL, -- free places under the limit, as of these group_terms; NULL: not known
    short_since bigint, short_at bigint, -- if the queue lacks permits: since when; when a claim last found too few
    waits boolean NOT NULL GENERATED ALWAYS AS (low < 9223372036854775807) STORED, PRIMARY KEY (key, version)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX gate_rate_at ON pgwork.gate_rate (queue, waits, at);

-- The positions at which ticks and claims begin to read the events of a queue. The newest version counts. There is no
-- event up to `floor`. Claims read events after `recent`, the `issued` of the tick before. Only ticks process older
-- ones. `at`, `recent_at` and `floor_at` are the same for the times in gate_rate, as times of ticks.
CREATE TABLE pgwork.gate_mark (
    queue integer NOT NULL, version bigint NOT NULL, issued bigint NOT NULL, recent bigint NOT NULL,
    floor bigint NOT NULL, at bigint NOT NULL, recent_at bigint NOT NULL, floor_at bigint NOT NULL,
    PRIMARY KEY (queue, version)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- The newest mark of a queue, or zeros.
CREATE FUNCTION pgwork._gate_mark(queue integer) RETURNS pgwork.gate_mark LANGUAGE sql STABLE
RETURN coalesce((SELECT t FROM pgwork.gate_mark t WHERE t.queue = _gate_mark.queue ORDER BY t.version DESC LIMIT 1),
                (queue, 0, 0, 0, 0, 0, 0, 0)::pgwork.gate_mark);

CREATE FUNCTION pgwork._place(priority integer, id bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN (priority::bigint << 58) + id;

-- Must run before an event is written, so that ticks see the transaction as a writer (0004_marks.sql).
CREATE FUNCTION pgwork._begin_event() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_current_xact_id();
    LOCK TABLE pgwork.live_job IN ROW EXCLUSIVE MODE;
END $$;

-- Inserts an event: the gate is to be searched from its beginning.
CREATE FUNCTION pgwork._add_gate_event(queue integer, gate text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgwork._begin_event();
    INSERT INTO pgwork.gate_event (queue, gate, place) VALUES (queue, gate, -1);
END $$;

-- Stores new jobs, some of which have to pass a gate. Returns the number of jobs that are ready now, plus the number of
-- gates that may open.
CREATE FUNCTION pgwork._store_gated(q pgwork.queue, jobs pgwork._new_job[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE now_is CONSTANT timestamptz := pgwork._now(); others pgwork._new_job[]; n bigint;
BEGIN
    others := ARRAY(SELECT u FROM unnest(jobs) u
                     WHERE u.grp IS NULL AND q.gated IS NULL OR u.due > now_is);
    IF others <> '{}' THEN n := pgwork._store(q.id, others); END IF;
    WITH w AS (
        INSERT INTO pgwork.delayed_job (run_at, id, queue, priority, max_attempts, lease_ms, kind, key, tags, payload,
                                        body, grp, expires_at, meta, gate, place)
        SELECT 'infinity', id, q.id, priority, max_attempts, lease_ms, kind, key, tags, payload, body,
               coalesce(grp, ''), expires_at, meta, coalesce(grp, ''), pgwork._place(priority, id)
          FROM unnest(jobs) u
         WHERE (u.grp IS NOT NULL OR q.gated) AND coalesce(u.due <= now_is, true)
        RETURNING gate, place
    ), e AS (
        INSERT INTO pgwork.gate_event (queue, gate, place)
        SELECT q.id, w.gate, min(w.place) - 1 FROM w GROUP BY w.gate RETURNING gate
    ) SELECT coalesce(n, 0) + count(*) INTO n FROM e;
    RETURN n;
END $$;

-- The gate that a job has to pass next. NULL: none.
CREATE FUNCTION pgwork._next_gate(q pgwork.queue, id bigint, grp text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT g.gate FROM (VALUES (grp), (CASE WHEN q.gated THEN '' END)) g (gate)
     WHERE g.gate IS NOT NULL AND NOT EXISTS (
           SELECT FROM pgwork.admitted_job a WHERE a.queue = q.id AND a.id = _next_gate.id AND a.gate = g.gate)
     ORDER BY g.gate = '' LIMIT 1
$$;

-- Moves those delayed jobs, or dead letters, that have to pass a gate to that gate. Returns the ids of the others.
CREATE FUNCTION pgwork._to_gates(q pgwork.queue, ids bigint[], dead boolean) RETURNS bigint[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE gone bigint[];
BEGIN
    PERFORM WHERE q.gated OR EXISTS (SELECT FROM unnest(ids) u (id) CROSS JOIN LATERAL (
        SELECT d.grp FROM pgwork.delayed_job d WHERE NOT dead AND d.queue = q.id AND d.id = u.id UNION ALL
        SELECT d.grp FROM pgwork.dead_job d WHERE dead AND d.queue = q.id AND d.id = u.id OFFSET 0) d
         WHERE d.grp IS NOT NULL);
    IF NOT FOUND THEN RETURN ids; END IF;
    PERFORM pgwork._begin_event();
    IF q.rated THEN -- a retry takes from the rate of its group again: it gives up its place, and is next in line
        PERFORM pgwork._leave(q.id, ARRAY(
            SELECT a.id FROM unnest(ids) u (id) CROSS JOIN LATERAL (SELECT a.* FROM pgwork.admitted_job a
                   WHERE a.queue = q.id AND a.id = u.id OFFSET 0) a
              LEFT JOIN pgwork.group_rule r ON r.queue = a.queue AND r.grp = a.gate
             WHERE a.gate <> '' AND (coalesce(r.rate, q.group_rate)).n > 0));
    END IF;
    WITH a AS ( -- these stopped their groups, whose events were processed without effect meanwhile
        UPDATE pgwork.admitted_job a SET dead = false FROM (SELECT q.id AS queue, u.id FROM unnest(ids) u (id) OFFSET 0) u
         WHERE a.queue = ANY (ARRAY[u.queue]) AND a.id = u.id AND a.dead
        RETURNING a.gate
    ) INSERT INTO pgwork.gate_event (queue, gate, place)
      SELECT DISTINCT q.id, a.gate, -1 FROM a;
    WITH l AS (
        DELETE FROM pgwork.dead_job d USING (SELECT q.id AS queue, u.id FROM unnest(ids) u (id) OFFSET 0) u
         WHERE _to_gates.dead AND d.queue = ANY (ARRAY[u.queue]) AND d.id = u.id
           AND pgwork._next_gate(q, d.id, d.grp) IS NOT NULL
        RETURNING d.*, coalesce(d.grp, '') AS own, pgwork._next_gate(q, d.id, d.grp) AS gate
    ), i AS (
        INSERT INTO pgwork.delayed_job (run_at, id, created_at, queue, priority, max_attempts, lease_ms, kind, error,
                                        tags, payload, body, grp, expires_at, meta, gate, place)
        SELECT 'infinity', l.id, l.created_at, l.queue, l.priority, l.max_attempts, l.lease_ms, l.kind, l.error, l.tags,
               l.payload, l.body, l.own, CASE WHEN l.expires_at > pgwork._now() THEN l.expires_at END, l.meta, l.gate, pgwork._place(l.priority, l.id) FROM l
        RETURNING id, gate, place
    ), u AS (
        UPDATE pgwork.delayed_job d SET run_at = 'infinity', gate = pgwork._next_gate(q, d.id, d.grp),
               grp = coalesce(d.grp, ''), place = pgwork._place(d.priority, d.id)
          FROM (SELECT q.id AS queue, u.id FROM unnest(ids) u (id) OFFSET 0) u
         WHERE NOT _to_gates.dead AND d.queue = ANY (ARRAY[u.queue]) AND d.id = u.id AND d.gate IS NULL
           AND pgwork._next_gate(q, d.id, d.grp) IS NOT NULL
        RETURNING d.id, d.gate, d.place
    ), w AS (SELECT * FROM i UNION ALL SELECT * FROM u
    ), e AS (INSERT INTO pgwork.gate_event (queue, gate, place)
        SELECT q.id, w.gate, min(w.place) - 1 FROM w GROUP BY w.gate
    ) SELECT array_agg(w.id) INTO gone FROM w;
    PERFORM pgwork._wake(q.name, cardinality(gone)) WHERE q.notify AND gone <> '{}';
    RETURN ARRAY(SELECT u.id FROM unnest(ids) u (id) WHERE u.id <> ALL (coalesce(gone, '{}')));
END $$;

-- Frees the places of jobs that are finished or removed. The caller has locked live_job, see _begin_event().
CREATE FUNCTION pgwork._leave(queue integer, ids bigint[], only_gate text DEFAULT NULL) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    WITH a AS (
        DELETE FROM pgwork.admitted_job a
         USING (SELECT _leave.queue, u.id FROM unnest(ids) u (id) OFFSET 0) u
         WHERE a.queue = ANY (ARRAY[u.queue]) AND a.id = u.id AND coalesce(a.gate = only_gate, true)
        RETURNING a.gate, a.low, a.terms, a.dead
    ) INSERT INTO pgwork.gate_event (queue, gate, place, credit, terms)
      SELECT _leave.queue, a.gate, min(CASE WHEN a.dead THEN -1 ELSE a.low END),
             CASE WHEN bool_or(a.dead) THEN 0 ELSE count(*) END, a.terms FROM a GROUP BY a.gate, a.terms;
END $$;

-- Like _leave(), but the caller has not locked live_job. Does nothing if the queue has no admitted jobs.
CREATE FUNCTION pgwork._leave_gates(queue integer, ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgwork._begin_event(), pgwork._leave(_leave_gates.queue, ids)
      WHERE EXISTS (SELECT FROM pgwork.admitted_job a WHERE a.queue = _leave_gates.queue);
END $$;

-- Like _leave(), but the places go to the next gated jobs at once, without the lock of the gate, because the number of
-- admitted jobs does not change. The next job inherits `low`, but only a hundred times: then _open_gates() computes it
-- again. A place that no job gets leaves an event, and so does each place of a gate with a rate.
CREATE FUNCTION pgwork._hand_on(queue integer, ids bigint[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE n bigint; now_is CONSTANT timestamptz := pgwork._now();
BEGIN
    WITH q AS MATERIALIZED (
        SELECT t.*, coalesce((SELECT m.floor FROM pgwork.gate_mark m WHERE m.queue = t.id
                               ORDER BY m.version DESC LIMIT 1), 0) AS floor
          FROM pgwork.queue t WHERE t.id = _hand_on.queue
    ), a AS (
        DELETE FROM pgwork.admitted_job a
         USING (SELECT _hand_on.queue, u.id FROM unnest(ids) u (id) OFFSET 0) u
         WHERE a.queue = ANY (ARRAY[u.queue]) AND a.id = u.id
        RETURNING a.gate, a.low, a.terms, a.handed
    ), g AS MATERIALIZED (
        SELECT a.gate, a.terms, min(a.low) AS low, max(a.handed) + 1 AS handed, count(*) AS places
          FROM a GROUP BY a.gate, a.terms
    ), s AS MATERIALIZED (
        SELECT g.*, d.at FROM g CROSS JOIN q
          LEFT JOIN LATERAL (SELECT * FROM pgwork.group_rule r
                              WHERE r.queue = _hand_on.queue AND r.grp = g.gate OFFSET 0) r ON true
         CROSS JOIN LATERAL (
            SELECT least(g.low, min(e.place)) AS start FROM (
                SELECT e.place FROM pgwork.gate_event e WHERE e.key = pgwork._gate_lock(_hand_on.queue, g.gate)
                   AND (e.key, e.id) > (pgwork._gate_lock(_hand_on.queue, g.gate), q.floor) ORDER BY e.id OFFSET 0) e) e
         CROSS JOIN LATERAL (
            SELECT coalesce(r.group_limit, CASE g.gate WHEN '' THEN q.queue_limit ELSE q.group_limit END) = 1 AS strict
            OFFSET 0) l
         CROSS JOIN LATERAL ( -- strict: only the first job. Otherwise the first ones that no other session has locked
            SELECT d.ctid AS at FROM pgwork.delayed_job d WHERE d.ctid = ANY (ARRAY(
                SELECT w.ctid FROM pgwork.delayed_job w
                 WHERE w.queue = _hand_on.queue AND w.gate = g.gate AND w.place > e.start
                   AND (w.xmax = '0' OR l.strict OR w.xmax <> ALL (ARRAY(
                        SELECT x::xid FROM pg_snapshot_xip(pg_current_snapshot()) x)))
                 ORDER BY w.place LIMIT CASE WHEN l.strict THEN 1 ELSE g.places + 10 END)) AND d.gate IS NOT DISTINCT FROM g.gate
             ORDER BY d.place LIMIT g.places FOR UPDATE SKIP LOCKED) d
         WHERE g.terms = q.group_terms AND g.handed <= 100 AND (g.gate = '' OR q.gated IS NULL)
           AND (CASE g.gate WHEN '' THEN q.rate ELSE coalesce(r.rate, q.group_rate) END).n > 0 IS NOT TRUE
           AND r.held_until IS NULL -- a hold that is over goes on until a tick has ended it
           AND current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
           AND NOT EXISTS (SELECT FROM pgwork.admitted_job a
                            WHERE a.queue = _hand_on.queue AND a.gate = g.gate AND a.dead OFFSET 0)
    ), d AS (
        DELETE FROM pgwork.delayed_job d USING s WHERE d.ctid = s.at RETURNING d.*, s.low, s.terms, s.handed
    ), live AS (
        INSERT INTO pgwork.live_job (ready_at, created_at, queue, lane, attempt, max_attempts, lease_ms, id, last_id,
                                     kind, key, error, tags, payload, body, grp, expires_at, meta)
        SELECT now_is, d.created_at, d.queue, 2 * d.priority + 1, d.attempt, d.max_attempts, d.lease_ms, d.id, d.id,
               d.kind, d.key, d.error, d.tags, d.payload, d.body, d.grp, d.expires_at, d.meta FROM d ORDER BY d.place
    ), next AS (
        INSERT INTO pgwork.admitted_job (queue, id, gate, low, terms, handed)
        SELECT d.queue, d.id, d.gate, d.low, d.terms, d.handed FROM d
    ), e AS (
        INSERT INTO pgwork.gate_event (queue, gate, place, credit, terms)
        SELECT _hand_on.queue, p.gate, min(p.low), sum(p.n), p.terms
          FROM (SELECT g.gate, g.low, g.terms, g.places AS n FROM g UNION ALL
                SELECT d.gate, d.low, d.terms, -1 FROM d) p GROUP BY p.gate, p.terms HAVING sum(p.n) > 0
    ) SELECT count(*) INTO n FROM d;
    PERFORM CASE WHEN (t.rate).semaphore IS NOT NULL THEN pgwork._call_line((t.rate).semaphore)
                 WHEN t.notify AND n > 0 THEN pgwork._wake(t.name, n) END
       FROM pgwork.queue t WHERE t.id = _hand_on.queue;
END $$;

-- For jobs that fail, are cancelled or are delayed. The policy of the group decides whether a job that waits for a
-- retry keeps its place (hold, block) or not (pass), and whether a dead letter stops its group (block). No such job
-- keeps its place at the gate of the queue.
CREATE FUNCTION pgwork._leave_unfinished(q pgwork.queue, ids bigint[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE gone record;
BEGIN
    PERFORM pgwork._leave(q.id, ids, '');
    SELECT array_agg(s.id) FILTER (WHERE s.policy = 'pass' OR NOT s.delayed AND NOT (s.policy = 'block' AND s.dead)) AS free,
           array_agg(s.id) FILTER (WHERE s.policy = 'block' AND s.dead) AS stops INTO gone
      FROM (SELECT a.id, coalesce(r.group_retry, q.group_retry) AS policy,
                   EXISTS (SELECT FROM pgwork.delayed_job d WHERE d.queue = q.id AND d.id = a.id OFFSET 0) AS delayed,
                   EXISTS (SELECT FROM pgwork.dead_job d WHERE d.queue = q.id AND d.id = a.id OFFSET 0) AS dead
              FROM unnest(ids) u (id) CROSS JOIN LATERAL (SELECT a.* FROM pgwork.admitted_job a
                   WHERE a.queue = q.id AND a.id = u.id OFFSET 0) a
              LEFT JOIN pgwork.group_rule r ON r.queue = a.queue AND r.grp = a.gate) s;
    UPDATE pgwork.admitted_job a SET dead = true
      FROM (SELECT q.id AS queue, u.id FROM unnest(gone.stops) u (id) OFFSET 0) u
     WHERE a.queue = ANY (ARRAY[u.queue]) AND a.id = u.id;
    PERFORM pgwork._hand_on(q.id, gone.free) WHERE gone.free IS NOT NULL;
END $$;

-- Locks gates that have events after `start`, until `keys`, the locks it returns, are `most`. The order is that of the
-- oldest event of each gate, or, backwards, of its newest event. Skips gates that other transactions have locked: each
-- time it finds too few gates it looks at twice as many events.
CREATE FUNCTION pgwork._lock_gates(queue integer, most integer, start bigint, backwards boolean, INOUT keys bigint[])
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    w record; size bigint := 2 * most + 14;
    after bigint := CASE WHEN backwards THEN -9223372036854775807 ELSE start END; -- backwards: ids are negated
BEGIN
    LOOP
        SELECT array_agg(g.key ORDER BY g.id) AS keys, max(g.last) AS last, sum(g.n) AS n INTO w
          FROM (SELECT e.key, min(e.id) AS id, max(e.id) AS last, count(*) AS n
                  FROM ((SELECT e.key, e.id FROM pgwork.gate_event e
                          WHERE NOT backwards AND e.queue = _lock_gates.queue AND e.id > after
                          ORDER BY e.id LIMIT size) UNION ALL
                        (SELECT e.key, -e.id FROM pgwork.gate_event e
                          WHERE backwards AND e.queue = _lock_gates.queue AND e.id > start AND e.id < -after
                          ORDER BY e.id DESC LIMIT size)) e
                 GROUP BY e.key) g;
        keys := keys || ARRAY(SELECT k FROM unnest(w.keys) k WHERE k <> ALL (keys) AND pg_try_advisory_xact_lock(k)
                               LIMIT most - cardinality(keys));
        EXIT WHEN cardinality(keys) >= most OR w.n IS NULL OR w.n < size;
        after := w.last; size := 2 * size;
    END LOOP;
END $$;

-- Locks up to `most` more gates, not in `keys`, whose rate admits the next job by now. A tick also locks gates whose
-- row in gate_rate is obsolete. Returns the keys of the locks.
CREATE FUNCTION pgwork._lock_due(queue integer, keys bigint[], most integer, since bigint, tick boolean)
RETURNS bigint[] LANGUAGE sql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT ARRAY(SELECT p.key FROM unnest(ARRAY[true] || CASE WHEN tick THEN false END) w (waits) CROSS JOIN LATERAL (
                     SELECT p.key FROM pgwork.gate_rate p
                      WHERE p.queue = _lock_due.queue AND p.waits = w.waits AND p.at > since
                        AND p.at <= (SELECT pgwork._now_ns()) -- only so the index is used
                        AND p.key <> ALL (keys) ORDER BY p.at OFFSET 0) p
                  WHERE pg_try_advisory_xact_lock(p.key) LIMIT most)
$$;

-- The weight of a job at a rate: `rate_weight` in its meta, but at most the burst, because more would never pass.
CREATE FUNCTION pgwork._weight(meta jsonb, burst integer) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN jsonb_typeof(meta -> 'rate_weight') = 'number'
            THEN least(greatest(ceil((meta -> 'rate_weight')::numeric), 1), burst)::bigint ELSE 1 END;

-- A gate with a rate: what the rate allows now, and its row in gate_rate (was, at). fit: the weight that may pass now.
-- burst and fit are NULL if the rate was removed.
CREATE TYPE pgwork._rate_now AS (gate text, now_ns bigint, step bigint, burst integer, tat bigint, fit bigint,
    low bigint, free bigint, terms integer, was pgwork.gate_rate, at tid);

-- Returns those of the gates that have or had a rate. This transaction has locked all of them.
CREATE FUNCTION pgwork._rates_now(q pgwork.queue, keys bigint[]) RETURNS pgwork._rate_now[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE now_ns bigint;
BEGIN
    PERFORM pgwork._begin_event(); -- before it reads the time that it will write, see _tick_gates()
    now_ns := pgwork._now_ns();
    RETURN ARRAY(
        SELECT (g.gate, now_ns, s.step, g.burst, s.tat, (now_ns + s.step * g.burst - s.tat) / s.step,
                coalesce((p.was).low, 9223372036854775807), (p.was).free, (p.was).terms, p.was, p.at)::pgwork._rate_now
          FROM unnest(keys) k
          LEFT JOIN LATERAL (SELECT p.ctid AS at, p AS was FROM pgwork.gate_rate p WHERE p.key = k
                              ORDER BY p.version DESC LIMIT 1) p ON true
         CROSS JOIN LATERAL (
               SELECT o.gate, c.* FROM (SELECT coalesce((p.was).gate, (
                          SELECT e.gate FROM pgwork.gate_event e WHERE e.key = k ORDER BY e.id DESC LIMIT 1),
                          CASE k WHEN pgwork._gate_lock(q.id, '') THEN '' END) AS gate) o -- if its events are gone
                 LEFT JOIN pgwork.group_rule r ON r.queue = q.id AND r.grp = o.gate
                CROSS JOIN LATERAL (
                      SELECT (CASE o.gate WHEN '' THEN q.rate ELSE coalesce(r.rate, q.group_rate) END).*) c OFFSET 0) g
          LEFT JOIN LATERAL (
                SELECT t.step, greatest(now_ns, least(coalesce((p.was).tat, 0), now_ns + t.step * g.burst)) AS tat
                  FROM (SELECT (g.per_ms * 1000000 + g.n - 1) / nullif(g.n, 0) AS step OFFSET 0) t) s ON true
         WHERE s.step IS NOT NULL OR p.at IS NOT NULL);
END $$;

-- Which jobs have passed a gate with a rate: n jobs with the total weight `taken`, the last at the place `last`.
-- Before, the limit had room for `room` jobs. shut: the group is held, or stopped by a dead letter.
CREATE TYPE pgwork._rate_passed AS (gate text, room bigint, shut boolean, n bigint, taken bigint, last bigint);

-- Processes the events of gates that this transaction has locked, and admits jobs. It does nothing, and done is false,
-- if the settings have changed since `q` was read: the next claim or tick processes the events.
--   tick     this transaction ends at once. So it may lock rows of admitted jobs, although their holders wait for it.
--   rates    the state of the gates that have a rate
--   most     how many jobs may pass each gate with a rate; at least one passes that of a group
--   permits  the permits that were taken for jobs that pass the gate of the queue; NULL: these need no permits
--   n        how many jobs became ready
CREATE FUNCTION pgwork._open_gates(q pgwork.queue, keys bigint[], floor bigint, tick boolean, rates pgwork._rate_now[],
    most bigint, permits bigint[], OUT n bigint, OUT passed pgwork._rate_passed[], OUT done boolean)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE now_is CONSTANT timestamptz := pgwork._now();
BEGIN
    PERFORM pg_current_xact_id(); -- the statement locks live_job before it draws a position
    WITH u AS MATERIALIZED (
        SELECT FROM pgwork.queue t WHERE t.id = q.id AND t.group_terms = q.group_terms
    ), e AS (
        DELETE FROM pgwork.gate_event e
         WHERE e.ctid = ANY (ARRAY(SELECT v.ctid FROM unnest(keys) k CROSS JOIN LATERAL (
                   SELECT v.ctid FROM pgwork.gate_event v WHERE v.key = k AND (v.key, v.id) > (k, floor)
                      FOR UPDATE SKIP LOCKED) v
                    WHERE EXISTS (SELECT FROM u)))
        RETURNING e.gate, e.place, e.credit, e.terms
    ), g AS MATERIALIZED ( -- freed: not NULL if all events are of jobs that have left: then nothing has to be counted
        SELECT e.*, t.free, t.terms, t.burst, t.fit, coalesce(r.group_limit,
                   CASE e.gate WHEN '' THEN coalesce(q.queue_limit, 10000) ELSE q.group_limit END) AS most,
               r.held_until IS NOT NULL OR EXISTS (SELECT FROM pgwork.admitted_job a -- until a tick has ended the hold
                   WHERE a.queue = q.id AND a.gate = e.gate AND a.dead OFFSET 0) AS shut
          FROM (SELECT e.gate, min(e.place) AS start, sum(e.credit) AS credit,
                       CASE WHEN bool_and(e.credit > 0 AND e.terms = q.group_terms) THEN sum(e.credit) END AS freed,
                       bool_and(e.place >= 0 AND (e.credit = 0 OR e.terms = q.group_terms)) AS same
                  FROM (SELECT * FROM e UNION ALL SELECT t.gate, t.low, 0, 0 FROM unnest(rates) t
                                                WHERE EXISTS (SELECT FROM u)) e GROUP BY e.gate) e
          LEFT JOIN unnest(rates) t ON t.gate = e.gate
          LEFT JOIN LATERAL (SELECT * FROM pgwork.group_rule r
                              WHERE r.queue = q.id AND r.grp = e.gate OFFSET 0) r ON true
    ), vacancy AS MATERIALIZED (
        SELECT g.*, g.freed IS NULL AND g.fit IS NULL AS counted,
               CASE WHEN g.shut THEN 0 WHEN g.freed IS NOT NULL THEN g.freed
                   WHEN g.fit IS NOT NULL AND g.gate = '' AND q.queue_limit IS NULL THEN g.most
                   WHEN g.free IS NOT NULL AND g.same AND g.terms = q.group_terms THEN least(g.most, g.free + g.credit)
                   ELSE greatest(0, g.most - (SELECT count(*) FROM (SELECT FROM pgwork.admitted_job a
                                   WHERE a.queue = q.id AND a.gate = g.gate AND a.seq > 0 ORDER BY a.seq DESC LIMIT g.most) a)) END AS n
          FROM g
    ), c AS MATERIALIZED (
        SELECT r.gate, r.start, r.n, r.fit, r.counted AND r.n < r.most AS others, w.* FROM vacancy r CROSS JOIN LATERAL (
            SELECT d.ctid AS at, d.place, CASE WHEN r.fit IS NOT NULL THEN pgwork._weight(d.meta, r.burst) END AS weight
              FROM pgwork.delayed_job d WHERE d.queue = q.id AND d.gate = r.gate AND d.place > r.start ORDER BY d.place
             LIMIT CASE WHEN r.fit IS NULL THEN r.n
                        ELSE least(r.n, r.fit, greatest(least(_open_gates.most, CASE r.gate WHEN ''
                                   THEN cardinality(permits) END), (r.gate <> '')::integer)) END) w
    ), l AS MATERIALIZED (
        SELECT c.*, l.at = c.at IS TRUE AS locked FROM c LEFT JOIN LATERAL (
               SELECT d.ctid AS at FROM pgwork.delayed_job d WHERE d.ctid = c.at FOR UPDATE SKIP LOCKED) l ON true
    ), f AS MATERIALIZED ( -- free: it may pass, because no job in front is locked, such as by a cancel, or too heavy
        SELECT l.*, sum(l.weight) OVER o AS taken,
               bool_and(l.locked) OVER o AND (sum(l.weight) OVER o > l.fit) IS NOT TRUE AS free
          FROM l WINDOW o AS (PARTITION BY l.gate ORDER BY l.place)
    ), d AS (
        DELETE FROM pgwork.delayed_job d
         WHERE d.ctid = ANY (ARRAY(SELECT f.at FROM f WHERE f.free AND (f.gate = '' OR q.gated IS NULL))) RETURNING d.*
    ), live AS (
        INSERT INTO pgwork.live_job (ready_at, created_at, queue, lane, attempt, max_attempts, lease_ms, id, last_id, kind,
                                     key, error, tags, payload, body, grp, expires_at, meta)
        SELECT now_is, d.created_at, d.queue, 2 * d.priority + 1, d.attempt, d.max_attempts, d.lease_ms, d.id, d.id, d.kind,
               d.key, d.error, d.tags, d.payload, d.body, d.grp, d.expires_at, d.meta FROM d ORDER BY d.place
    ), next AS ( -- to the gate of the queue, behind the jobs that wait there, so that groups take turns
        UPDATE pgwork.delayed_job d SET gate = '', place = pgwork._place(d.priority, nextval('pgwork.position'))
         WHERE d.ctid = ANY (ARRAY(SELECT f.at FROM f WHERE f.free AND f.gate <> '' AND q.gated))
        RETURNING d.id, d.priority, d.grp, d.place
    ), a AS (
        INSERT INTO pgwork.admitted_job (queue, id, gate, low, terms)
        SELECT q.id, d.id, d.gate, d.place, q.group_terms FROM d UNION ALL
        SELECT q.id, n.id, n.grp, pgwork._place(n.priority, n.id), q.group_terms FROM next n
        RETURNING id, gate, seq
    ), permitted AS (
        UPDATE pgwork.permit p SET queue = q.id, job = a.id, seq = a.seq, until = 'infinity',
               holder = pgwork._cut_text(format('job %s of queue "%s"', a.id, q.name), 255)
          FROM (SELECT a.id, a.seq, permits[row_number() OVER ()] AS number FROM a
                 WHERE a.gate = '' AND permits <> '{}') a
         WHERE p.semaphore = (q.rate).semaphore AND p.slot = (a.number & 16383)::integer
    ), high AS MATERIALIZED ( -- the gate is full, and a job may wait in front of `low`, where the next search begins
        SELECT r.gate, r.start, a.ctid AS at
          FROM (SELECT r.gate, r.start FROM vacancy r WHERE r.n = 0 AND NOT r.shut AND r.fit IS NULL UNION ALL
                SELECT c.gate, max(c.place) FROM c WHERE c.others GROUP BY c.gate, c.n HAVING count(*) = c.n) r
         CROSS JOIN LATERAL (SELECT a.ctid FROM pgwork.admitted_job a
                              WHERE a.queue = q.id AND a.gate = r.gate AND a.seq > 0 AND a.low > r.start
                              ORDER BY a.seq OFFSET 0) a
    ), low AS (
        UPDATE pgwork.admitted_job a SET low = h.start FROM high h
         WHERE a.ctid = h.at AND a.ctid = ANY (ARRAY(SELECT a.ctid FROM pgwork.admitted_job a
                     WHERE tick AND a.ctid = ANY (ARRAY(SELECT h.at FROM high h)) FOR UPDATE SKIP LOCKED))
        RETURNING a.gate, a.id
    ), again AS (
        INSERT INTO pgwork.gate_event (queue, gate, place)
        SELECT q.id, s.gate, min(s.start) FROM (
            SELECT '' AS gate, n.place - 1 AS start FROM next n UNION ALL
            SELECT f.gate, f.start FROM f WHERE NOT f.free AND f.fit IS NULL UNION ALL
            SELECT h.gate, h.start FROM high h GROUP BY h.gate, h.start
            HAVING count(*) > (SELECT count(*) FROM low WHERE low.gate = h.gate)) s GROUP BY s.gate
    ) SELECT (SELECT count(*) FROM d), ARRAY(
          SELECT (r.gate, r.n, r.shut, s.n, s.taken, s.last)::pgwork._rate_passed FROM vacancy r CROSS JOIN LATERAL (
              SELECT count(*) AS n, max(f.taken) AS taken, coalesce(max(f.place), r.start) AS last
                FROM f WHERE f.gate = r.gate AND f.free) s WHERE r.fit IS NOT NULL),
          EXISTS (SELECT FROM u) INTO n, passed, done;
END $$;

-- Stores the state of the rates, which job is next at each gate, and when it may pass: now, if only `most` stopped it.
-- short: a claim found too few permits for the jobs of the queue, and is to be repeated in 100 ms. NULL: a tick.
CREATE FUNCTION pgwork._note_rates(q pgwork.queue, rates pgwork._rate_now[], passed pgwork._rate_passed[],
    short boolean) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    WITH w AS MATERIALIZED (
        SELECT t.gate, t.now_ns, t.step, t.burst, t.was, t.at, coalesce(t.tat + p.taken * t.step, t.tat) AS tat,
               coalesce(w.place - 1, 9223372036854775807) AS low,
               CASE WHEN NOT p.shut AND (t.gate <> '' OR q.queue_limit IS NOT NULL) THEN p.room - p.n END AS free,
               p.shut OR p.n >= p.room AS full, w.weight, p.n,
               t.gate = '' AND short AND p.n < p.room AND w.weight > 0 AS lacks
          FROM unnest(rates) t LEFT JOIN unnest(passed) p ON p.gate = t.gate
          LEFT JOIN LATERAL (
                SELECT d.place, pgwork._weight(d.meta, t.burst) AS weight FROM pgwork.delayed_job d
                 WHERE d.queue = q.id AND d.gate = t.gate AND d.place > p.last ORDER BY d.place LIMIT 1) w ON true
    ), n AS MATERIALIZED ( -- full: no time is needed, because the transaction that makes room inserts an event
        SELECT w.*, CASE WHEN w.weight IS NULL THEN w.tat WHEN w.full THEN 9223372036854775807
                         ELSE greatest(w.now_ns + CASE WHEN w.lacks OR w.gate <> '' AND w.n = 0 AND w.ripe <= w.now_ns
                                                       THEN 100000000 ELSE 0 END, w.ripe) END AS next, -- or it is locked
               CASE WHEN short IS NULL THEN (w.was).short_since WHEN w.lacks AND w.n > 0 THEN w.now_ns
                    WHEN w.lacks THEN coalesce((w.was).short_since, w.now_ns) END AS since,
               CASE WHEN short IS NULL THEN (w.was).short_at WHEN w.lacks THEN w.now_ns END AS seen
          FROM (SELECT w.*, w.tat + (w.weight - w.burst) * w.step AS ripe FROM w) w
    ), d AS (
        DELETE FROM pgwork.gate_rate o WHERE o.ctid = ANY (ARRAY(
            SELECT n.at FROM n
             WHERE n.weight IS NULL AND n.next <= n.now_ns
                OR (n.tat, n.low, n.next, n.free, q.group_terms, n.since) IS DISTINCT FROM (
                   greatest((n.was).tat, n.now_ns), (n.was).low, greatest((n.was).at, n.now_ns), (n.was).free,
                   (n.was).terms, (n.was).short_since))) RETURNING o.gate
    ) INSERT INTO pgwork.gate_rate (key, queue, gate, tat, low, at, free, terms, short_since, short_at)
      SELECT pgwork._gate_lock(q.id, n.gate), q.id, n.gate, n.tat, n.low, n.next, n.free, q.group_terms, n.since,
             n.seen FROM n
       WHERE n.step IS NOT NULL AND (n.at IS NULL OR n.gate IN (SELECT d.gate FROM d))
         AND (n.weight IS NOT NULL OR n.next > n.now_ns);
END $$;

-- Queues that wait for permits of a semaphore, except those whose last claim is more than a second ago.
CREATE FUNCTION pgwork._permit_line(semaphore integer)
RETURNS TABLE (id integer, name text, notify boolean, since bigint) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN QUERY SELECT t.id, t.name, t.notify, p.short_since FROM pgwork.queue t CROSS JOIN LATERAL (
            SELECT p.short_since, p.short_at FROM pgwork.gate_rate p WHERE p.key = pgwork._gate_lock(t.id, '')
             ORDER BY p.version DESC LIMIT 1) p
      WHERE (t.rate).semaphore = _permit_line.semaphore AND NOT t.paused AND p.short_since IS NOT NULL
        AND abs(p.short_at - pgwork._now_ns()) < 1000000000; -- also if the clock was set back
END $$;

-- Lets the queue that has waited longest claim now, because a permit may be free.
CREATE FUNCTION pgwork._call_line(semaphore integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE first record;
BEGIN
    SELECT * INTO first FROM pgwork._permit_line(_call_line.semaphore) l ORDER BY l.since LIMIT 1;
    IF NOT FOUND THEN RETURN; END IF;
    PERFORM pgwork._add_gate_event(first.id, '');
    PERFORM pgwork._wake(first.name, 1) WHERE first.notify;
END $$;

-- Takes up to `most` permits for jobs at the gate of the queue, and leaves one for each queue that has waited longer.
-- The caller has locked that gate. It does not wait for a semaphore that is being resized: then it takes none.
CREATE FUNCTION pgwork._permits_for_jobs(q pgwork.queue, most bigint, OUT numbers bigint[], OUT short boolean)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    s pgwork.semaphore; one bigint; older bigint; room bigint; dead bigint[];
    asked CONSTANT bigint := (SELECT count(*) FROM (SELECT FROM pgwork.delayed_job d
                                                     WHERE d.queue = q.id AND d.gate = '' ORDER BY d.place LIMIT most) d);
BEGIN
    numbers := '{}';
    short := asked > 0;
    IF NOT short OR NOT pg_try_advisory_xact_lock_shared(pgwork._lock('sema.gate', (q.rate).semaphore)) THEN
        RETURN;
    END IF;
    SELECT * INTO s FROM pgwork.semaphore t WHERE t.id = (q.rate).semaphore;
    older := (SELECT count(*) FROM pgwork._permit_line(s.id) l WHERE l.id <> q.id AND l.since < coalesce((
        SELECT p.short_since FROM pgwork.gate_rate p WHERE p.key = pgwork._gate_lock(q.id, '')
         ORDER BY p.version DESC LIMIT 1), pgwork._now_ns()));
    room := asked;
    IF older > 0 THEN
        dead := pgwork._grants_dead(s.id);
        room := (SELECT count(*) - older FROM pgwork.permit p WHERE p.semaphore = s.id AND p.slot <= s.permits
                    AND (p.nonce IS NULL OR p.until <= clock_timestamp() OR p.number = ANY (dead)));
        PERFORM pgwork._call_line(s.id) WHERE room > -older;
    END IF;
    FOR i IN 1 .. CASE WHEN s.id IS NULL THEN 0 ELSE least(room, asked) END LOOP
        one := (SELECT pgwork.token_number(t.token) FROM pgwork._permits_take(s, 1, 86400000, NULL, false, true) t);
        EXIT WHEN one IS NULL;
        numbers := numbers || one;
    END LOOP;
    short := cardinality(numbers) < asked;
END $$;

-- Processes events after `start` of up to `most` gates of a queue, and opens gates whose rate admits jobs, if that time
-- is after `since`. n: how many jobs became ready, of how many gates. A claim lets as many jobs pass a rate as it wants.
-- A tick lets one pass if none is ready, for workers that find enough jobs in other queues. A tick takes no permits: a
-- ready job that no worker claims would keep its permit from other queues. If there are many gates, half of those that it
-- locks have the newest events: after millions of jobs of full groups, the first one of another group is not behind them.
CREATE FUNCTION pgwork._take_up(q pgwork.queue, most integer, start bigint, floor bigint, since bigint, tick boolean,
    OUT n bigint, OUT gates bigint) LANGUAGE plpgsql AS $$
DECLARE
    keys bigint[]; half integer; rates pgwork._rate_now[]; wanted bigint := most; o record; permits bigint[];
    short boolean;
BEGIN
    n := 0; gates := 0;
    IF tick AND q.rated THEN wanted := CASE WHEN pgwork._any_ready(q.id) THEN 0 ELSE 1 END; END IF;
    FOR i IN 1 .. CASE WHEN q.gated IS NULL THEN 1 ELSE 2 END LOOP -- the gate of the queue comes second
        half := CASE WHEN tick THEN most / 2 ELSE most END;
        keys := pgwork._lock_gates(q.id, half, start, false, '{}');
        IF tick AND cardinality(keys) = half THEN keys := pgwork._lock_gates(q.id, most, start, true, keys); END IF;
        IF q.rated THEN keys := keys || pgwork._lock_due(q.id, keys, most, since, tick); END IF;
        CONTINUE WHEN keys = '{}';
        gates := gates + cardinality(keys);
        IF q.rated THEN rates := pgwork._rates_now(q, keys); END IF;
        IF (q.rate).semaphore IS NOT NULL THEN
            SELECT p.numbers, CASE WHEN NOT tick THEN p.short END INTO permits, short
              FROM pgwork._permits_for_jobs(q, CASE WHEN NOT tick AND pgwork._gate_lock(q.id, '') = ANY (keys)
                                                    THEN greatest(wanted - n, 0) ELSE 0 END) p;
        END IF;
        o := pgwork._open_gates(q, keys, floor, tick, rates, greatest(wanted - n, 0), permits);
        n := n + o.n;
        IF cardinality(permits) > o.n THEN -- releases permits that no job needs
            UPDATE pgwork.permit p SET number = NULL, nonce = NULL FROM unnest(permits) u
             WHERE p.semaphore = (q.rate).semaphore AND p.slot = (u & 16383)::integer AND p.seq IS NULL;
        END IF;
        IF rates <> '{}' AND o.done THEN PERFORM pgwork._note_rates(q, rates, o.passed, short); END IF;
    END LOOP;
END $$;

CREATE FUNCTION pgwork._any_ready(queue integer) RETURNS boolean LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE m CONSTANT pgwork.mark := pgwork._mark(queue);
BEGIN
    RETURN EXISTS (SELECT FROM unnest(m.lanes, m.starts, m.stops) r (lane, start, stop) CROSS JOIN LATERAL (
        SELECT FROM pgwork.live_job j WHERE j.queue = m.queue AND j.lane = r.lane AND j.token IS NULL
                                        AND j.pos > r.start AND j.pos <= r.stop LIMIT 1) j);
END $$;

-- In how many ms a rate of the queue admits the next job; NULL: no job waits only for a rate.
CREATE FUNCTION pgwork._rate_wait(queue integer, since bigint) RETURNS bigint LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT greatest(1, ceil((p.at - pgwork._now_ns()) / 1e6))::bigint FROM pgwork.gate_rate p
     WHERE p.queue = _rate_wait.queue AND p.waits AND p.at > since AND p.at < 9223372036854775807 ORDER BY p.at LIMIT 1
$$;

-- For a claim that has found too few jobs and wants up to `most` more. Returns how many became ready, or, negative, in
-- how many ms a rate admits the next one.
CREATE FUNCTION pgwork._admit(its_name text, most integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE r record; n bigint;
BEGIN
    -- Does not call _gate_mark(), which would cost a fifth of an empty claim. Idle workers repeat empty claims.
    SELECT t AS q, coalesce(m.recent, 0) AS recent, coalesce(m.floor, 0) AS floor, coalesce(m.recent_at, 0) AS since
      INTO r FROM pgwork.queue t
      LEFT JOIN LATERAL (SELECT m.recent, m.floor, m.recent_at FROM pgwork.gate_mark m
                          WHERE m.queue = t.id ORDER BY m.version DESC LIMIT 1) m ON true
     WHERE t.name = its_name AND NOT t.paused
       AND (t.rated OR EXISTS (SELECT FROM pgwork.gate_event e WHERE e.queue = t.id AND e.id > coalesce(m.recent, 0)))
       AND NOT EXISTS (SELECT FROM pgwork._resting(t.id, 0)); -- a tick has met a job that cannot be moved
    IF NOT FOUND OR current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RETURN 0;
    END IF;
    IF ((r.q).rate).semaphore IS NOT NULL THEN -- claims also process old events and times, because ticks do not
        SELECT m.floor, m.floor_at INTO r.recent, r.since FROM pgwork._gate_mark((r.q).id) m;
    END IF;
    n := (pgwork._take_up(r.q, most, r.recent, r.floor, r.since, false)).n;
    IF n = 0 AND (r.q).rated THEN RETURN coalesce(-pgwork._rate_wait((r.q).id, r.since), 0); END IF;
    RETURN n;
END $$;

-- A row of a claim that contains no job: a rate admits the next job in `ms`, so the worker claims again at lease_until.
CREATE FUNCTION pgwork._gated_row(queue text, ms bigint) RETURNS pgwork.claimed_batch LANGUAGE plpgsql AS $$
DECLARE c pgwork.claimed_batch;
BEGIN
    c.queue := queue; c.attempt := 0; c.server_time := pgwork._now(); c.quarantined := false;
    c.lease_until := c.server_time + ms * interval '1 ms';
    c.ids := '{}'; c.kinds := '{}'; c.payloads := '{}'; c.created := '{}';
    RETURN c;
END $$;

CREATE FUNCTION pgwork.gated_ms(queues text[] DEFAULT NULL) RETURNS bigint LANGUAGE sql STABLE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT min(pgwork._rate_wait(t.id, CASE WHEN (t.rate).semaphore IS NULL THEN m.recent_at ELSE m.floor_at END))
      FROM pgwork.queue t CROSS JOIN LATERAL pgwork._gate_mark(t.id) m
     WHERE t.rated AND NOT t.paused AND (queues IS NULL OR t.name = ANY (queues))
$$;

-- Moves ready jobs from before their queue got a limit to its gate. A batch row moves as a whole. In a queue with a
-- semaphore all ready jobs move: a requeued job that no worker claims would keep its permit from others.
CREATE FUNCTION pgwork._gate_backlog(q pgwork.queue, batch integer) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE at tid[]; ids bigint[]; m CONSTANT pgwork.mark := pgwork._mark(q.id);
BEGIN
    at := ARRAY(SELECT j.at FROM unnest(m.lanes, m.starts, m.stops) r (lane, start, stop) CROSS JOIN LATERAL (
        SELECT j.ctid AS at FROM pgwork.live_job j
         WHERE j.queue = q.id AND j.lane = r.lane AND j.pos > r.start AND j.pos <= r.stop AND j.token IS NULL
           AND ((q.rate).semaphore IS NOT NULL OR NOT EXISTS (SELECT FROM pgwork.admitted_job a
                 WHERE a.queue = q.id AND a.id = coalesce(j.id, j.pos) AND a.gate = '' OFFSET 0))
         ORDER BY j.pos LIMIT batch FOR UPDATE SKIP LOCKED) j LIMIT batch);
    IF at = '{}' THEN RETURN; END IF;
    WITH d AS (DELETE FROM pgwork.live_job j WHERE j.ctid = ANY (at) RETURNING j AS jobs
    ), w AS (
        INSERT INTO pgwork.delayed_job (run_at, id, created_at, queue, priority, attempt, max_attempts, lease_ms, kind,
                                        key, error, tags, payload, body, grp, expires_at, meta, gate, place)
        SELECT 'infinity', k.id, k.created_at, q.id, (d.jobs).lane / 2, (d.jobs).attempt, (d.jobs).max_attempts,
               (d.jobs).lease_ms, k.kind, (d.jobs).key, (d.jobs).error, (d.jobs).tags, k.payload, (d.jobs).body,
               coalesce((d.jobs).grp, ''), (d.jobs).expires_at, (d.jobs).meta, '', pgwork._place((d.jobs).lane / 2, k.id)
          FROM d CROSS JOIN LATERAL pgwork._jobs(d.jobs) k
        RETURNING id
    ), e AS (INSERT INTO pgwork.gate_event (queue, gate, place) VALUES (q.id, '', -1)
    ) SELECT array_agg(w.id) INTO ids FROM w;
    PERFORM pgwork._leave(q.id, ids, '') WHERE (q.rate).semaphore IS NOT NULL;
END $$;

-- For a clock that was set back: times in gate_rate and in the marks can lie far in the future.
CREATE FUNCTION pgwork._gates_afresh(queue integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgwork._begin_event();
    DELETE FROM pgwork.gate_mark m WHERE m.queue = _gates_afresh.queue;
    INSERT INTO pgwork.gate_event (queue, gate, place)
    SELECT p.queue, p.gate, p.low FROM pgwork.gate_rate p WHERE p.queue = _gates_afresh.queue AND p.waits;
END $$;

-- The part of a pass for groups. It ends holds of groups, frees places of dead letters that were deleted, processes
-- events, also of late commits, which claims skip, and moves the marks of events. A time in gate_rate is later than the
-- beginning of its writer. So times up to the tick before last belong to slow transactions, or were processed. It works
-- for about 50 ms. Returns true if events from before the last tick are left: then the next pass is to follow at once.
CREATE FUNCTION pgwork._tick_gates(most integer) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    began CONSTANT timestamptz := clock_timestamp(); now_is CONSTANT timestamptz := pgwork._now();
    r pgwork.reaper_tick; ticked bigint; q pgwork.queue; was pgwork.gate_mark; one record; n bigint; oldest bigint;
    more boolean := false; mine CONSTANT boolean := pg_try_advisory_xact_lock(pgwork._lock('gates', 0));
BEGIN
    SELECT * INTO r FROM pgwork.reaper_tick t ORDER BY t.version DESC LIMIT 1;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')
       OR NOT mine AND began BETWEEN r.at AND r.at + interval '5 s' THEN
        RETURN false;
    END IF;
    FOR one IN UPDATE pgwork.group_rule g SET held_until = NULL
                WHERE g.ctid = ANY (ARRAY(SELECT t.ctid FROM pgwork.group_rule t WHERE t.held_until <= now_is
                                           LIMIT most FOR UPDATE SKIP LOCKED)) RETURNING g.queue, g.grp LOOP
        PERFORM pgwork._add_gate_event(one.queue, one.grp);
    END LOOP;
    FOR one IN SELECT a.queue, a.id FROM pgwork.admitted_job a WHERE a.dead AND NOT EXISTS (
                   SELECT FROM pgwork.dead_job d WHERE d.queue = a.queue AND d.id = a.id OFFSET 0)
                LIMIT most FOR UPDATE OF a SKIP LOCKED LOOP
        PERFORM pgwork._leave_gates(one.queue, ARRAY[one.id]);
    END LOOP;
    ticked := extract(epoch FROM r.at) * 1000000000;
    FOR q IN SELECT * FROM pgwork.queue t
              WHERE t.gated OR t.rated OR EXISTS (SELECT FROM pgwork.gate_mark m WHERE m.queue = t.id OFFSET 0)
                 OR EXISTS (SELECT FROM pgwork.gate_event e WHERE e.queue = t.id OFFSET 0) ORDER BY random() LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pgwork._resting(q.id, 0));
        IF mine AND q.rated AND pgwork._now_ns() < (pgwork._gate_mark(q.id)).at THEN PERFORM pgwork._gates_afresh(q.id); END IF;
        was := pgwork._gate_mark(q.id);
        n := 0;
        BEGIN
            PERFORM pgwork._gate_backlog(q, 1000) WHERE q.gated;
            LOOP
                SELECT * INTO one FROM pgwork._take_up(q, most, was.floor, was.floor, was.floor_at, true);
                n := n + one.n;
                EXIT WHEN one.gates < most OR clock_timestamp() > began + interval '50 ms';
            END LOOP;
        EXCEPTION WHEN assert_failure OR OTHERS THEN -- a job cannot be moved: other queues must not wait
            IF pgwork._is_passing(SQLSTATE) THEN RAISE; END IF;
            PERFORM pgwork._note_stuck(q.id, 0, SQLSTATE, SQLERRM);
            CONTINUE;
        END;
        PERFORM pgwork._wake(q.name, n) WHERE q.notify AND n > 0;
        oldest := (SELECT e.id FROM pgwork.gate_event e WHERE e.queue = q.id AND e.id > was.floor ORDER BY e.id LIMIT 1);
        more := more OR one.gates >= most AND oldest <= was.issued;
        IF mine AND r.version > was.version AND r.issued <> was.issued THEN
            INSERT INTO pgwork.gate_mark VALUES (q.id, r.version, r.issued, was.issued,
                CASE WHEN r.issued < was.issued THEN 0 WHEN r.slow = '{}' THEN greatest(was.floor, least(was.issued, oldest - 1))
                     ELSE was.floor END, ticked, was.at,
                CASE WHEN r.slow <> '{}' THEN was.floor_at ELSE greatest(was.floor_at, least(was.at,
                    (SELECT min(p.at) - 1 FROM (VALUES (true), (false)) w (waits) CROSS JOIN LATERAL (
                         SELECT p.at FROM pgwork.gate_rate p WHERE p.queue = q.id AND p.waits = w.waits
                            AND p.at > was.floor_at ORDER BY p.at LIMIT 1) p))) END);
            DELETE FROM pgwork.gate_mark m WHERE m.queue = q.id AND m.version = was.version;
        END IF;
        EXIT WHEN clock_timestamp() > began + interval '50 ms';
    END LOOP;
    RETURN more;
END $$;

-- ---- functions for operators ----

CREATE FUNCTION pgwork._check_group(grp text) RETURNS void LANGUAGE sql
RETURN pgwork._refuse_unless(octet_length(grp) BETWEEN 1 AND 255 AND grp !~ '[[:cntrl:]]', 'grp', grp,
                             '1 to 255 bytes without control characters');

-- The groups of a queue after a name: those with gated or admitted jobs, or with settings of their own. Reads one index
-- entry per group.
CREATE FUNCTION pgwork._groups(queue integer, after_grp text, at_most bigint) RETURNS SETOF text LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    WHILE at_most > 0 IS NOT FALSE LOOP
        at_most := at_most - 1;
        after_grp := (SELECT least(
            (SELECT d.gate FROM pgwork.delayed_job d WHERE d.queue = _groups.queue AND d.gate > after_grp ORDER BY d.gate LIMIT 1),
            (SELECT a.gate FROM pgwork.admitted_job a WHERE a.queue = _groups.queue AND a.gate > after_grp AND a.seq > 0
              ORDER BY a.gate LIMIT 1),
            (SELECT r.grp FROM pgwork.group_rule r WHERE r.queue = _groups.queue AND r.grp > after_grp ORDER BY r.grp LIMIT 1)));
        EXIT WHEN after_grp IS NULL;
        RETURN NEXT after_grp;
    END LOOP;
END $$;

-- Inserts an event for the gate of a group, or of all groups, so that it is searched from its beginning.
CREATE FUNCTION pgwork._look_at_groups(queue integer, grp text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO pgwork.gate_event (queue, gate, place)
    SELECT _look_at_groups.queue, g, -1 FROM pgwork._groups(_look_at_groups.queue, '', NULL) g
     WHERE _look_at_groups.grp IS NULL OR g = _look_at_groups.grp
$$;

CREATE FUNCTION pgwork.group_set(queue text, grp text DEFAULT NULL, group_limit integer DEFAULT NULL,
    group_retry text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE q pgwork.queue := pgwork._queue(queue);
BEGIN
    PERFORM pgwork._check_group(grp) WHERE grp IS NOT NULL;
    PERFORM pgwork._check_range('group_limit', coalesce(group_limit, 1), 1, 10000),
            pgwork._refuse_unless(coalesce(group_retry, 'hold') IN ('hold', 'pass', 'block'), 'group_retry', group_retry,
                                  'hold, pass or block');
    PERFORM pgwork._begin_event();
    UPDATE pgwork.queue t SET group_terms = t.group_terms + 1,
           group_limit = CASE WHEN grp IS NULL THEN coalesce(group_limit, t.group_limit) ELSE t.group_limit END,
           group_retry = CASE WHEN grp IS NULL THEN coalesce(group_retry, t.group_retry) ELSE t.group_retry END
     WHERE t.id = q.id;
    IF NOT FOUND THEN PERFORM pgwork._queue(queue); END IF; -- it was dropped just now
    IF grp IS NOT NULL THEN
        INSERT INTO pgwork.group_rule AS r (queue, grp, group_limit, group_retry) VALUES (q.id, grp, group_limit, group_retry)
            ON CONFLICT ON CONSTRAINT group_rule_pkey DO UPDATE
           SET group_limit = coalesce(group_limit, r.group_limit), group_retry = coalesce(group_retry, r.group_retry);
    END IF;
    PERFORM pgwork._look_at_groups(q.id, grp);
END $$;

-- Limits how many jobs of the queue are admitted (ready or leased). NULL: no limit.
CREATE FUNCTION pgwork.queue_limit(queue text, most integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE q pgwork.queue := pgwork._queue(queue);
BEGIN
    PERFORM pgwork._check_range('most', coalesce(most, 1), 1, 10000, ', or NULL for no limit'),
            pgwork._add_gate_event(q.id, '');
    UPDATE pgwork.queue t SET group_terms = t.group_terms + 1, queue_limit = most WHERE t.id = q.id;
    IF NOT FOUND THEN PERFORM pgwork._queue(queue); END IF;
END $$;

-- The pace of a queue with this rate and semaphore; and back: the pace if it has a rate that an operator has set.
CREATE FUNCTION pgwork._queue_pace(n integer, per_ms bigint, burst integer, semaphore integer) RETURNS pgwork._pace
LANGUAGE sql IMMUTABLE RETURN CASE WHEN n IS NOT NULL THEN (n, per_ms, coalesce(burst, n), semaphore)::pgwork._pace
    WHEN semaphore IS NOT NULL THEN (1000000, 1, 1000000, semaphore)::pgwork._pace END;
CREATE FUNCTION pgwork._only_rate(pace pgwork._pace) RETURNS pgwork._pace LANGUAGE sql IMMUTABLE
RETURN CASE WHEN (pace).n <= 1000 * (pace).per_ms THEN pace END;

-- Each leased job of the queue has a permit of the semaphore, which can limit several queues. NULL: no semaphore. The
-- permit is free when the row of the job in admitted_job is deleted, so calls that finish jobs need not release it.
CREATE FUNCTION pgwork.queue_semaphore(queue text, semaphore text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE q pgwork.queue := pgwork._queue(queue); s pgwork.semaphore;
BEGIN
    IF semaphore IS NOT NULL THEN
        s := pgwork._semaphore(semaphore);
        PERFORM pgwork._gate_pass(s);
        PERFORM pgwork._semaphore(semaphore) WHERE (pgwork._semaphore_now(s.id)).id IS NULL; -- it was dropped just now
    END IF;
    PERFORM pgwork._add_gate_event(q.id, '');
    UPDATE pgwork.queue t SET group_terms = t.group_terms + 1, rated = t.rated OR s.id IS NOT NULL, rate = (
           SELECT pgwork._queue_pace(r.n, r.per_ms, r.burst, s.id) FROM pgwork._only_rate(t.rate) r) WHERE t.id = q.id;
    IF NOT FOUND THEN PERFORM pgwork._queue(queue); END IF;
END $$;

-- At most n jobs of the queue are admitted per per_ms, and up to burst of them at once. n NULL: no rate.
CREATE FUNCTION pgwork.queue_rate(queue text, n integer, per_ms bigint DEFAULT 1000, burst integer DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE q pgwork.queue := pgwork._queue(queue);
BEGIN
    PERFORM pgwork._check_rate(n, per_ms, coalesce(burst, n)) WHERE n IS NOT NULL;
    PERFORM pgwork._add_gate_event(q.id, '');
    UPDATE pgwork.queue t SET group_terms = t.group_terms + 1, rated = t.rated OR n IS NOT NULL,
           rate = pgwork._queue_pace(n, per_ms, burst, (t.rate).semaphore) WHERE t.id = q.id;
    IF NOT FOUND THEN PERFORM pgwork._queue(queue); END IF;
END $$;

-- The rate of a group, or with grp NULL that of each group of the queue without a rate of its own.
CREATE FUNCTION pgwork.group_rate(queue text, grp text, n integer, per_ms bigint DEFAULT 1000,
    burst integer DEFAULT NULL) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    q pgwork.queue := pgwork._queue(queue);
    new pgwork._pace := CASE WHEN n IS NULL THEN (0, 0, 0, NULL)::pgwork._pace
                             ELSE pgwork._queue_pace(n, per_ms, burst, NULL) END;
BEGIN
    PERFORM pgwork._check_group(grp) WHERE grp IS NOT NULL;
    PERFORM pgwork._check_rate(n, per_ms, coalesce(burst, n)) WHERE n IS NOT NULL;
    PERFORM pgwork._begin_event();
    UPDATE pgwork.queue t SET group_terms = t.group_terms + 1, rated = t.rated OR n IS NOT NULL,
           group_rate = CASE WHEN grp IS NULL THEN new ELSE t.group_rate END WHERE t.id = q.id;
    IF NOT FOUND THEN PERFORM pgwork._queue(queue); END IF;
    IF grp IS NOT NULL THEN
        INSERT INTO pgwork.group_rule AS r (queue, grp, rate) VALUES (q.id, grp, new)
            ON CONFLICT ON CONSTRAINT group_rule_pkey DO UPDATE SET rate = new;
    END IF;
    PERFORM pgwork._look_at_groups(q.id, grp);
END $$;

-- Deletes the settings of a group, so that those of its queue apply again.
CREATE FUNCTION pgwork.group_reset(queue text, grp text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE q pgwork.queue := pgwork._queue(queue);
BEGIN
    PERFORM pgwork._check_group(grp), pgwork._add_gate_event(q.id, grp);
    UPDATE pgwork.queue t SET group_terms = t.group_terms + 1 WHERE t.id = q.id;
    DELETE FROM pgwork.group_rule r WHERE r.queue = q.id AND r.grp = group_reset.grp;
END $$;

-- No job of the group is admitted for for_ms, or, if it is NULL, until group_unblock(). Admitted jobs continue.
CREATE FUNCTION pgwork.group_hold(queue text, grp text, for_ms bigint DEFAULT NULL) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q pgwork.queue := pgwork._queue(queue);
    until CONSTANT timestamptz := CASE WHEN for_ms IS NULL THEN 'infinity' ELSE pgwork._now() + for_ms * interval '1 ms' END;
BEGIN
    PERFORM pgwork._check_group(grp), pgwork._check_range('for_ms', coalesce(for_ms, 0), 0, 315360000000, ' (ten years)');
    INSERT INTO pgwork.group_rule AS r (queue, grp, held_until) VALUES (q.id, grp, until)
        ON CONFLICT ON CONSTRAINT group_rule_pkey DO UPDATE SET held_until = until;
    PERFORM pgwork._add_gate_event(q.id, grp) WHERE for_ms = 0;
    RETURN until;
END $$;

-- Ends the hold of a group, and frees the places of jobs that wait for a retry and of dead letters. These jobs stay
-- where they are. A job that waits for a retry goes to the gate when it is due.
CREATE FUNCTION pgwork.group_unblock(queue text, grp text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE q pgwork.queue := pgwork._queue(queue); ids bigint[];
BEGIN
    PERFORM pgwork._check_group(grp), pgwork._add_gate_event(q.id, grp);
    UPDATE pgwork.group_rule r SET held_until = NULL WHERE r.queue = q.id AND r.grp = group_unblock.grp;
    -- A reaper skips delayed jobs that are locked, and otherwise would wait for their rows in admitted_job.
    ids := ARRAY(SELECT a.id FROM pgwork.admitted_job a WHERE a.queue = q.id AND a.gate = group_unblock.grp AND a.dead)
        || ARRAY(SELECT a.id FROM pgwork.admitted_job a JOIN pgwork.delayed_job d ON d.queue = a.queue AND d.id = a.id
                  WHERE a.queue = q.id AND a.gate = group_unblock.grp AND a.seq > 0 AND d.gate IS NULL FOR UPDATE OF d SKIP LOCKED);
    PERFORM pgwork._leave(q.id, ids);
    RETURN cardinality(ids);
END $$;

-- Deletes the jobs of a group that wait at its gate.
CREATE FUNCTION pgwork.group_purge(queue text, grp text, batch bigint DEFAULT NULL, older_than_ms bigint DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE q pgwork.queue := pgwork._queue(queue); before CONSTANT timestamptz := pgwork._before(older_than_ms); gone record;
BEGIN
    PERFORM pgwork._check_group(grp),
            pgwork._refuse_unless(coalesce(batch, 1) > 0, 'batch', batch::text, 'at least 1, or NULL for all');
    WITH d AS (
        DELETE FROM pgwork.delayed_job d WHERE d.ctid = ANY (ARRAY(
            SELECT w.ctid FROM pgwork.delayed_job w WHERE w.queue = q.id AND w.gate = group_purge.grp AND w.created_at < before
             ORDER BY w.place LIMIT batch
               FOR UPDATE SKIP LOCKED)) RETURNING d.id, d.key
    ) SELECT count(*) AS n, array_agg(d.id) FILTER (WHERE d.key IS NOT NULL) AS ids,
             array_agg(d.key) FILTER (WHERE d.key IS NOT NULL) AS keys INTO gone FROM d;
    PERFORM pgwork._free(q.id, gone.ids, gone.keys) WHERE gone.ids IS NOT NULL;
    RETURN gone.n;
END $$;

-- When the rate of a gate admits the next job; NULL: no job waits for the rate.
CREATE FUNCTION pgwork._next_at(queue integer, gate text) RETURNS timestamptz LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT CASE WHEN p.waits AND p.at < 9223372036854775807 THEN to_timestamp(p.at / 1e9) END
      FROM pgwork.gate_rate p WHERE p.key = pgwork._gate_lock(_next_at.queue, _next_at.gate)
     ORDER BY p.version DESC LIMIT 1
$$;

-- Groups after after_grp. Counts stop at 1,000. blocked_by: the job that keeps its place while it waits for a retry, or
-- the dead letter that stops the group (block).
CREATE TYPE pgwork.group_state AS (grp text, gated bigint, admitted bigint, leased bigint, group_limit integer,
    group_retry text, held_until timestamptz, blocked_by bigint, next_id bigint, next_since timestamptz,
    rate_n integer, rate_per_ms bigint, rate_burst integer, next_at timestamptz);
CREATE FUNCTION pgwork.group_list(queue text, grp text DEFAULT NULL, after_grp text DEFAULT '', at_most bigint DEFAULT 100)
RETURNS SETOF pgwork.group_state
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE q pgwork.queue := pgwork._queue(queue);
BEGIN
    PERFORM pgwork._refuse_unless(coalesce(at_most, 1) > 0, 'at_most', at_most::text, 'at least 1, or NULL for all');
    RETURN QUERY
    SELECT g, w.n, a.n, a.leased, coalesce(r.group_limit, q.group_limit), coalesce(r.group_retry, q.group_retry),
           r.held_until, a.blocked_by, h.id, h.created_at, p.n, p.per_ms, p.burst,
           CASE WHEN p.n > 0 THEN pgwork._next_at(q.id, s.g) END
      FROM (SELECT group_list.grp AS g WHERE group_list.grp IS NOT NULL UNION ALL
            SELECT g FROM pgwork._groups(q.id, after_grp, at_most) g WHERE group_list.grp IS NULL) s
      LEFT JOIN pgwork.group_rule r ON r.queue = q.id AND r.grp = s.g
      LEFT JOIN LATERAL (SELECT c.* FROM (SELECT (coalesce(r.rate, q.group_rate)).* OFFSET 0) c WHERE c.n > 0) p ON true
     CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM pgwork.delayed_job d
                          WHERE d.queue = q.id AND d.gate = s.g ORDER BY d.place LIMIT 1000) d) w
     CROSS JOIN LATERAL (
           SELECT count(*) AS n, count(*) FILTER (WHERE f.leased) AS leased,
                  min(a.id) FILTER (WHERE a.dead OR f.leased IS NULL AND (SELECT d.gate FROM pgwork.delayed_job d
                      WHERE d.queue = q.id AND d.id = a.id) IS NULL) AS blocked_by
             FROM (SELECT * FROM pgwork.admitted_job a WHERE a.queue = q.id AND a.gate = s.g AND a.seq > 0
                    ORDER BY a.seq DESC LIMIT 1000) a
             LEFT JOIN LATERAL pgwork._find(q.id, a.id) f ON true) a
      LEFT JOIN LATERAL (SELECT d.id, d.created_at FROM pgwork.delayed_job d WHERE d.queue = q.id AND d.gate = s.g
                          ORDER BY d.place LIMIT 1) h ON true;
END $$;

-- Groups with gated jobs that no finished job will admit soon: the group is held, is stopped by a dead letter (block),
-- or all its places belong to jobs that wait for a retry. job: the one that stops it. since: since when the first gated
-- job waits. Of retries it looks at the latest ones only.
CREATE FUNCTION pgwork.group_blocked(at_most bigint DEFAULT 1000)
RETURNS TABLE (queue text, grp text, reason text, job bigint, until timestamptz, gated bigint, since timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT q.name, g.grp, CASE WHEN h.held THEN 'held' WHEN b.dead THEN 'dead letter' ELSE 'retry' END,
           CASE WHEN NOT h.held THEN g.blocked_by END,
           CASE WHEN h.held THEN g.held_until WHEN NOT b.dead THEN b.run_at END, g.gated, g.next_since
      FROM (SELECT c.queue, c.grp, bool_or(c.dead) AS dead, min(c.run_at) AS run_at FROM (
                (SELECT a.queue, a.gate AS grp, true AS dead, NULL::timestamptz AS run_at FROM pgwork.admitted_job a
                  WHERE a.dead LIMIT $1) UNION ALL
                (SELECT r.queue, r.grp, false, NULL FROM pgwork.group_rule r WHERE r.held_until > pgwork._now() LIMIT $1) UNION ALL
                (SELECT d.queue, d.grp, false, d.run_at FROM pgwork.queue t CROSS JOIN LATERAL (
                     SELECT d.queue, d.grp, d.run_at, d.gate FROM pgwork.delayed_job d
                      WHERE d.queue = t.id AND d.run_at > pgwork._now() AND d.run_at < 'infinity'
                      ORDER BY d.run_at DESC LIMIT $1) d WHERE d.grp <> '' AND d.gate IS NULL)
            ) c GROUP BY c.queue, c.grp) b
      JOIN pgwork.queue q ON q.id = b.queue CROSS JOIN LATERAL pgwork.group_list(q.name, b.grp) g
     CROSS JOIN LATERAL (SELECT g.held_until > pgwork._now() IS TRUE AS held) h
     WHERE g.gated > 0 AND (b.dead OR h.held
           OR g.leased = 0 AND g.admitted >= g.group_limit AND g.blocked_by IS NOT NULL)
$$;

CREATE FUNCTION pgwork.queue_limits(queue text DEFAULT NULL)
RETURNS TABLE (queue text, queue_limit integer, rate_n integer, rate_per_ms bigint, rate_burst integer,
    next_at timestamptz, group_limit integer, group_retry text, group_rate_n integer, group_rate_per_ms bigint,
    group_rate_burst integer, semaphore text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.name, t.queue_limit, r.n, r.per_ms, r.burst,
           CASE WHEN r.n > 0 THEN pgwork._next_at(t.id, '') END, t.group_limit, t.group_retry,
           nullif((t.group_rate).n, 0), nullif((t.group_rate).per_ms, 0), nullif((t.group_rate).burst, 0), s.name
      FROM pgwork.queue t CROSS JOIN LATERAL pgwork._only_rate(t.rate) r
      LEFT JOIN pgwork.semaphore s ON s.id = (t.rate).semaphore WHERE $1 IS NULL OR t.name = $1 ORDER BY t.name
$$;

CREATE VIEW pgwork.groups AS
SELECT q.name AS queue, g.* FROM pgwork.queue q CROSS JOIN LATERAL pgwork.group_list(q.name, at_most => NULL) g;

COMMENT ON FUNCTION pgwork.group_set IS 'Sets the limit and the retry policy of a group, or without grp of all groups of a queue.';
COMMENT ON FUNCTION pgwork.queue_limit IS 'Limits how many jobs of the queue are ready or leased at a time. NULL: no limit.';
COMMENT ON FUNCTION pgwork.queue_semaphore IS 'Each leased job of the queue has a permit of the semaphore. NULL: no semaphore.';
COMMENT ON FUNCTION pgwork.queue_rate IS 'At most n jobs of the queue are admitted per per_ms; n NULL: no rate.';
COMMENT ON FUNCTION pgwork.group_rate IS 'The same for a group, or with grp NULL for each without one of its own.';
COMMENT ON FUNCTION pgwork.gated_ms IS 'In how many ms a rate lets a job of these queues pass; NULL: none waits.';
COMMENT ON FUNCTION pgwork.queue_limits IS 'Limits, semaphores and rates of queues, and when a rate lets the next job pass.';
COMMENT ON FUNCTION pgwork.group_reset IS 'Deletes the settings of a group, so that those of its queue apply again.';
COMMENT ON FUNCTION pgwork.group_hold IS 'Admits no job of the group for for_ms, or until group_unblock(). Returns the end.';
COMMENT ON FUNCTION pgwork.group_unblock IS 'Ends a hold. Jobs that stop the group give up their places. Returns their number.';
COMMENT ON FUNCTION pgwork.group_purge IS 'Deletes gated jobs of a group. Returns their number.';
COMMENT ON FUNCTION pgwork.group_list IS 'Groups of a queue: gated and admitted jobs, limit, and the job that stops the group.';
COMMENT ON FUNCTION pgwork.group_blocked IS 'Groups that are held, or stopped by a dead letter or by retries, while jobs wait.';
COMMENT ON VIEW pgwork.groups IS 'All groups of all queues. group_list() returns a part.';
