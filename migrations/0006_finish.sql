-- 0006: functions for holders. Each call passes id and token. A job is refused unless its token is the current
-- one. Time does not matter: a late call is accepted until the job is requeued, and refused from then on.

-- The ids that are passed with each token, and the row of the token. In the common lock order, so that two
-- calls for the same jobs cannot deadlock. (The planner inlines it.)
CREATE FUNCTION pgwork._named(q integer, ids bigint[], tokens uuid[])
RETURNS TABLE (queue integer, lane smallint, pos bigint, token uuid, named bigint[]) LANGUAGE sql STABLE AS $$
    SELECT q, (t.number & 31)::smallint, t.number >> 5, t.token, t.named
      FROM (SELECT u.token, pgwork.token_number(u.token) AS number, array_agg(u.id) AS named
              FROM unnest(ids, tokens) u (id, token) GROUP BY u.token ORDER BY u.token OFFSET 0) t OFFSET 0
$$;

-- Returns one token per id, also if one was given for all.
CREATE FUNCTION pgwork._tokens(ids bigint[], tokens uuid[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE n CONSTANT integer := coalesce(cardinality(ids), 0);
BEGIN
    IF coalesce(cardinality(tokens), 0) NOT IN (n, least(n, 1)) THEN
        PERFORM pgwork._refuse('tokens', coalesce(cardinality(tokens), 0) || ' tokens',
                               n || ', one for each id, or one for all');
    END IF;
    RETURN CASE cardinality(tokens) WHEN n THEN tokens ELSE array_fill(tokens[array_lower(tokens, 1)], ARRAY[n]) END;
END $$;

CREATE TYPE pgwork._taken AS (id bigint, created_at timestamptz, lane smallint, attempt integer, max_attempts integer,
    lease_ms integer, kind text, holder text, key text, error text, tags text[], payload jsonb, body bytea, grp text,
    expires_at timestamptz, meta jsonb);

-- THE FENCE: takes leased jobs from their rows, if the caller holds them. Waits for transactions that have these rows
-- locked. Records which jobs have left a batch row that stays. (Its callers rule out plans that start with all jobs.)
CREATE FUNCTION pgwork._take(q integer, ids bigint[], tokens uuid[]) RETURNS SETOF pgwork._taken LANGUAGE plpgsql AS $$
BEGIN
    -- Locks the rows first, then reads them with a new snapshot.
    PERFORM FROM pgwork._named(q, ids, tokens) t CROSS JOIN LATERAL (SELECT FROM pgwork.live_job j
         WHERE j.queue = ANY (ARRAY[t.queue]) AND (j.lane, j.pos, j.token) = (t.lane, t.pos, t.token) FOR UPDATE) j;
    RETURN QUERY WITH r AS MATERIALIZED (
        SELECT j.at, j.n, j.jobs, ARRAY(SELECT k.id FROM pgwork._jobs(j.jobs) k WHERE k.id = ANY (t.named)) AS mine
          FROM pgwork._named(q, ids, tokens) t CROSS JOIN LATERAL (
            SELECT j.ctid AS at, j.n, j AS jobs FROM pgwork.live_job j
             WHERE j.queue = ANY (ARRAY[t.queue]) AND (j.lane, j.pos, j.token) = (t.lane, t.pos, t.token) OFFSET 0) j
    ), d AS (DELETE FROM pgwork.live_job j USING r WHERE j.ctid = r.at AND cardinality(r.mine) = r.n
    ), p AS (UPDATE pgwork.live_job j SET n = j.n - cardinality(r.mine), gone_ids = j.gone_ids || r.mine
          FROM r WHERE j.ctid = r.at AND cardinality(r.mine) BETWEEN 1 AND r.n - 1
    ) SELECT k.id, k.created_at, (r.jobs).lane, (r.jobs).attempt, (r.jobs).max_attempts, (r.jobs).lease_ms, k.kind,
             (r.jobs).holder, (r.jobs).key, (r.jobs).error, (r.jobs).tags, k.payload, (r.jobs).body, (r.jobs).grp,
             (r.jobs).expires_at, (r.jobs).meta
        FROM r CROSS JOIN LATERAL pgwork._jobs(r.jobs) k WHERE k.id = ANY (r.mine);
END $$;

-- Refused jobs and the reason: stale (the job exists under another token) or gone.
CREATE FUNCTION pgwork._refused(queue integer, ids bigint[], accepted bigint[]) RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
BEGIN
    IF cardinality(accepted) = cardinality(ids) THEN RETURN; END IF; -- the usual case
    RETURN QUERY SELECT r.id, CASE WHEN pgwork._waits(queue, r.id) OR EXISTS (SELECT FROM pgwork._find(queue, r.id))
                        OR EXISTS (SELECT FROM pgwork.dead_job d WHERE d.queue = _refused.queue AND d.id = r.id)
                      THEN 'stale' ELSE 'gone' END FROM (SELECT unnest(ids) EXCEPT SELECT unnest(accepted)) r (id);
END $$;

-- The same, as rows of a claim that was asked to complete these jobs.
CREATE FUNCTION pgwork._refused_claims(queue text, ids bigint[], accepted bigint[])
RETURNS SETOF pgwork.claimed_batch LANGUAGE plpgsql AS $$
DECLARE c pgwork.claimed_batch;
BEGIN
    c.queue := queue; c.attempt := 0; c.server_time := pgwork._now(); c.quarantined := false;
    FOR c.id, c.kind IN SELECT * FROM pgwork._refused((pgwork._queue(queue)).id, ids, accepted) LOOP
        RETURN NEXT c;
    END LOOP;
END $$;

-- Frees unique keys of finished jobs. Never waits: a producer that has the row of a key locked takes it over
-- (scope ready), or rolls back, and the next producer takes it.
CREATE FUNCTION pgwork._free(queue integer, ids bigint[], keys text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM pgwork.unique_key u
     WHERE u.ctid = ANY (ARRAY(SELECT u.ctid FROM unnest(ids, keys) k (id, key)
                                CROSS JOIN LATERAL (SELECT u.ctid FROM pgwork.unique_key u
                                                     WHERE u.queue = _free.queue AND u.key = k.key AND u.id = k.id
                                                       AND u.free_after IS NULL FOR UPDATE SKIP LOCKED) u));
END $$;

-- Completes jobs and returns the accepted ids. Claims use it, too. It relies on the planner settings of its
-- callers. In a queue without retention, the usual case, it deletes whole rows without reading them.
CREATE FUNCTION pgwork._complete(its_queue text, ids bigint[], tokens uuid[], outputs jsonb[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    number CONSTANT bigint := pgwork.token_number(tokens[1]);
    q pgwork.queue; whole uuid[]; queue integer; grouped bigint[]; taken record;
BEGIN
    IF cardinality(tokens) = 1 AND outputs IS NULL THEN
        DELETE FROM pgwork.live_job j
         WHERE j.queue = (SELECT t.id FROM pgwork.queue t WHERE t.name = its_queue AND t.retention_ms = 0)
           AND j.lane = (number & 31)::smallint AND j.pos = number >> 5 AND j.token = tokens[1]
           AND num_nonnulls(j.key, j.gone_ids) = 0 AND coalesce(j.ids, ARRAY[coalesce(j.id, j.pos)]) = _complete.ids
        RETURNING j.queue, j.grp INTO taken;
        IF FOUND THEN
            IF taken.grp IS NOT NULL THEN PERFORM pgwork._hand_on(taken.queue, ids); END IF;
            RETURN ids;
        END IF;
    ELSIF cardinality(tokens) = cardinality(ids) AND outputs IS NULL THEN
        WITH d AS (DELETE FROM pgwork.live_job j
             USING (SELECT t.* FROM pgwork.queue k CROSS JOIN LATERAL pgwork._named(k.id, ids, tokens) t
                     WHERE k.name = its_queue AND k.retention_ms = 0 OFFSET 0) t
             WHERE j.queue = ANY (ARRAY[t.queue]) AND (j.lane, j.pos, j.token) = (t.lane, t.pos, t.token)
               AND num_nonnulls(j.key, j.gone_ids) = 0 AND coalesce(j.ids, ARRAY[coalesce(j.id, j.pos)]) = t.named
            RETURNING j.token, j.queue, CASE WHEN j.grp IS NOT NULL THEN j.id END AS grouped
        ) SELECT array_agg(d.token), min(d.queue), array_agg(d.grouped) FILTER (WHERE d.grouped IS NOT NULL)
            INTO whole, queue, grouped FROM d;
        IF grouped IS NOT NULL THEN PERFORM pgwork._hand_on(queue, grouped); END IF;
        IF cardinality(whole) = cardinality(tokens) THEN RETURN ids; END IF;
    END IF;
    q := pgwork._queue(its_queue);
    tokens := pgwork._tokens(ids, tokens);
    IF cardinality(outputs) NOT IN (0, cardinality(ids)) THEN
        PERFORM pgwork._refuse('outputs', cardinality(outputs) || ' outputs',
                               cardinality(ids) || ', one for each id, or NULL');
    END IF;
    WITH t AS MATERIALIZED (
        SELECT t.* FROM (SELECT array_agg(u.id) AS ids, array_agg(u.token) AS tokens
                           FROM unnest(ids, tokens) u (id, token) WHERE u.token <> ALL (coalesce(whole, '{}'))) u
         CROSS JOIN LATERAL pgwork._take(q.id, u.ids, u.tokens) t
    ), d AS (
        INSERT INTO pgwork.done_job (id, created_at, queue, priority, attempt, kind, holder, key, tags, payload, output)
        SELECT t.id, t.created_at, q.id, t.lane / 2, t.attempt, t.kind, t.holder, t.key, t.tags, t.payload, o.output
          FROM t LEFT JOIN (SELECT DISTINCT ON (u.id) u.* FROM unnest(ids, outputs) u (id, output)) o ON o.id = t.id
         WHERE q.retention_ms > 0 ON CONFLICT DO NOTHING
    ) SELECT array_agg(t.id) AS ids, array_agg(t.id) FILTER (WHERE t.key IS NOT NULL) AS keyed,
             array_agg(t.key) FILTER (WHERE t.key IS NOT NULL) AS keys,
             array_agg(t.id) FILTER (WHERE t.grp IS NOT NULL) AS grouped INTO taken FROM t;
    IF taken.grouped IS NOT NULL THEN PERFORM pgwork._hand_on(q.id, taken.grouped); END IF;
    IF taken.keyed IS NOT NULL THEN PERFORM pgwork._free(q.id, taken.keyed, taken.keys); END IF;
    RETURN taken.ids || ARRAY(SELECT u.id FROM unnest(ids, tokens) u (id, token) WHERE u.token = ANY (whole));
END $$;

CREATE FUNCTION pgwork.complete(queue text, ids bigint[], tokens uuid[], outputs jsonb[] DEFAULT NULL)
RETURNS TABLE (id bigint, status text) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE accepted bigint[] := pgwork._complete(queue, ids, tokens, outputs);
BEGIN
    IF cardinality(accepted) IS DISTINCT FROM cardinality(ids) THEN
        RETURN QUERY SELECT r.* FROM pgwork._refused((pgwork._queue(queue)).id, ids, accepted) r;
    END IF;
END $$;

-- Never waits: while it waited for one locked row, the leases of the other jobs could end. A locked row is
-- safe, because no reaper can take it either. A batch row has one lease. If only some of its jobs are
-- extended, these move to a new row at the same position and under the same token.
CREATE FUNCTION pgwork.extend(queue text, ids bigint[], tokens uuid[], lease_ms bigint DEFAULT NULL)
RETURNS TABLE (id bigint, status text, lease_until timestamptz) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    q pgwork.queue := pgwork._queue(extend.queue); now_is CONSTANT timestamptz := pgwork._now();
    accepted bigint[] := '{}'; r record; j pgwork.live_job; mine bigint[];
BEGIN
    tokens := pgwork._tokens(ids, tokens);
    PERFORM pgwork._check_range('lease_ms', coalesce(extend.lease_ms, 100), 100, 86400000);
    FOR r IN SELECT l.j, l.at, t.named FROM pgwork._named(q.id, ids, tokens) t CROSS JOIN LATERAL (
            SELECT j, j.ctid AS at FROM pgwork.live_job j
             WHERE j.queue = ANY (ARRAY[t.queue]) AND (j.lane, j.pos, j.token) = (t.lane, t.pos, t.token)
               FOR NO KEY UPDATE SKIP LOCKED) l LOOP
        j := r.j;
        mine := ARRAY(SELECT k.id FROM pgwork._jobs(j) k WHERE k.id = ANY (r.named));
        CONTINUE WHEN mine = '{}';
        lease_until := now_is + coalesce(extend.lease_ms, j.lease_ms, q.lease_ms) * interval '1 ms';
        IF cardinality(mine) = j.n THEN
            UPDATE pgwork.live_job t SET lease_until = extend.lease_until WHERE t.ctid = r.at;
        ELSE
            UPDATE pgwork.live_job t SET n = j.n - cardinality(mine), gone_ids = j.gone_ids || mine WHERE t.ctid = r.at;
            j.gone_ids := j.gone_ids || ARRAY(SELECT k.id FROM pgwork._jobs(j) k WHERE k.id <> ALL (mine));
            j.n := cardinality(mine); j.lease_until := lease_until;
            INSERT INTO pgwork.live_job SELECT j.*;
        END IF;
        accepted := accepted || mine;
        RETURN QUERY SELECT m, CASE WHEN EXISTS (SELECT FROM pgwork.cancel_request c
                                                  WHERE c.queue = q.id AND c.id = m OFFSET 0)
                                    THEN 'cancel' ELSE 'ok' END, extend.lease_until FROM unnest(mine) m;
    END LOOP;
    IF cardinality(accepted) < cardinality(ids) THEN
        RETURN QUERY SELECT * FROM pgwork._not_held(q.id, ids, tokens, accepted);
    END IF;
END $$;

-- Ends the leases of unfinished jobs (verb: fail, dead, snooze, release, reap). One statement, so a job is
-- always in exactly one table. fate: dead (attempts used up, or declared dead), cancelled (on request),
-- ready (at a new position behind waiting jobs; quarantined after a reap), or delayed.
CREATE FUNCTION pgwork._requeue(q pgwork.queue, ids bigint[], tokens uuid[], verb text, delay_ms bigint, error text,
    OUT accepted bigint[], OUT died bigint) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    refund CONSTANT integer := CASE WHEN verb IN ('snooze', 'release') THEN 1 ELSE 0 END;
    why CONSTANT text := CASE WHEN verb = 'reap' THEN 'the lease expired: its holder died or hung'
                              ELSE pgwork._cut_text(_requeue.error, 8000) END;
    now_is CONSTANT timestamptz := pgwork._now();
    returned bigint; keyed bigint[]; keys text[]; grouped bigint[]; tried jsonb;
BEGIN
    PERFORM pg_current_xact_id(); -- before the first position, see 0004_marks.sql
    WITH t AS MATERIALIZED (
        SELECT j.*, j.lane / 2 AS priority, least(greatest(0, j.attempt - refund), 2147483646) AS charged,
               coalesce(why, j.error) AS why, coalesce(delay_ms, -- or an exponential backoff with full jitter
                        random() * least(q.backoff_cap_ms, q.backoff_ms * 2.0 ^ least(j.attempt - 1, 40)))
                   * interval '1 ms' AS delay,
               CASE WHEN verb = 'dead' THEN 'dead'
                    WHEN EXISTS (SELECT FROM pgwork.cancel_request c WHERE c.queue = q.id AND c.id = j.id OFFSET 0)
                    THEN 'cancelled' WHEN verb IN ('fail', 'reap')
                     AND coalesce(j.max_attempts, q.max_attempts) BETWEEN 1 AND j.attempt THEN 'dead'
                    WHEN verb IN ('release', 'reap') OR delay_ms = 0 THEN 'ready'
                    ELSE 'delayed' END AS fate FROM pgwork._take(q.id, ids, tokens) j
    ), dead AS (
        INSERT INTO pgwork.dead_job (created_at, queue, priority, attempt, max_attempts, lease_ms, kind, holder, key,
                                     error, tags, payload, body, grp, expires_at, meta, id)
        SELECT t.created_at, q.id, t.priority, t.attempt, t.max_attempts, t.lease_ms, t.kind, t.holder, t.key, t.why,
               t.tags, t.payload, t.body, t.grp, t.expires_at, t.meta,
               -- Ids are drawn again after a restore with an old sequence: another dead letter may have this id.
               coalesce((SELECT nextval('pgwork.position') FROM pgwork.dead_job d
                          WHERE d.queue = q.id AND d.id = t.id), t.id)
          FROM t WHERE t.fate = 'dead' ON CONFLICT DO NOTHING
    ), cancelled AS (
        INSERT INTO pgwork.done_job (id, created_at, queue, priority, attempt, cancelled, kind, holder, key, tags,
                                     payload)
        SELECT t.id, t.created_at, q.id, t.priority, t.charged, true, t.kind, t.holder, t.key, t.tags, t.payload
          FROM t WHERE t.fate = 'cancelled' AND q.retention_ms > 0 ON CONFLICT DO NOTHING
    ), ready AS (
        INSERT INTO pgwork.live_job (lane, id, last_id, created_at, queue, attempt, max_attempts, lease_ms, kind, key,
                                     error, tags, payload, body, grp, expires_at, meta)
        SELECT 2 * t.priority + CASE verb WHEN 'reap' THEN 0 ELSE 1 END, t.id, t.id, t.created_at, q.id, t.charged,
               t.max_attempts, t.lease_ms, t.kind, t.key, t.why, t.tags, t.payload, t.body, t.grp, t.expires_at, t.meta
          FROM t WHERE t.fate = 'ready' ORDER BY t.id
    ), delayed AS (
        INSERT INTO pgwork.delayed_job (run_at, priority, id, created_at, queue, attempt, max_attempts, lease_ms, kind,
                                        key, error, tags, payload, body, grp, expires_at, meta)
        SELECT now_is + t.delay, t.priority, t.id, t.created_at, q.id, t.charged, t.max_attempts, t.lease_ms, t.kind,
               t.key, t.why, t.tags, t.payload, t.body, t.grp, t.expires_at, t.meta FROM t WHERE t.fate = 'delayed'
    ) SELECT array_agg(t.id), count(*) FILTER (WHERE t.fate = 'dead'), count(*) FILTER (WHERE t.fate = 'ready'),
             array_agg(t.id) FILTER (WHERE t.fate IN ('dead', 'cancelled') AND t.key IS NOT NULL),
             array_agg(t.key) FILTER (WHERE t.fate IN ('dead', 'cancelled') AND t.key IS NOT NULL),
             array_agg(t.id) FILTER (WHERE t.fate <> 'ready' AND t.grp IS NOT NULL),
             jsonb_agg(jsonb_build_object('id', t.id, 'attempt', t.attempt, 'holder', t.holder, 'fate', t.fate))
               FILTER (WHERE refund = 0 OR t.fate = 'cancelled')
        INTO accepted, died, returned, keyed, keys, grouped, tried FROM t;
    PERFORM pgwork._note_attempts(q.id, verb, why, tried) WHERE tried IS NOT NULL;
    PERFORM pgwork._leave_unfinished(q, grouped) WHERE grouped IS NOT NULL;
    PERFORM pgwork._free(q.id, keyed, keys) WHERE keyed IS NOT NULL;
    PERFORM pgwork._wake(q.name, returned) WHERE returned > 0 AND q.notify;
END $$;

-- Cuts a text to this many bytes, or a few bytes less.
CREATE FUNCTION pgwork._cut_text(value text, bytes integer) RETURNS text LANGUAGE sql IMMUTABLE
RETURN CASE WHEN octet_length(value) <= bytes THEN value
            ELSE (SELECT max(left(value, n)) FROM generate_series(bytes / 4, bytes) n
                   WHERE octet_length(left(value, n)) <= bytes) END;

-- Requeues jobs for their holder. Returns the refused ones.
CREATE FUNCTION pgwork._give_back(its_queue text, ids bigint[], tokens uuid[], verb text, delay_ms bigint, error text)
RETURNS TABLE (id bigint, status text) LANGUAGE plpgsql AS $$
DECLARE
    q CONSTANT pgwork.queue := pgwork._queue(its_queue); all_tokens CONSTANT uuid[] := pgwork._tokens(ids, tokens);
    accepted CONSTANT bigint[] := (pgwork._requeue(q, ids, all_tokens, verb, delay_ms, error)).accepted;
BEGIN
    RETURN QUERY SELECT * FROM pgwork._refused(q.id, ids, accepted); -- with a new snapshot: we may have waited
END $$;

CREATE FUNCTION pgwork.fail(queue text, ids bigint[], tokens uuid[], error text DEFAULT NULL,
    retry_ms bigint DEFAULT NULL, dead boolean DEFAULT false) RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._check_range('retry_ms', coalesce(retry_ms, 0), 0, 31536000000, ' (a year), or NULL for a backoff');
    RETURN QUERY SELECT * FROM pgwork._give_back(queue, ids, tokens, CASE WHEN dead THEN 'dead' ELSE 'fail' END,
                                                 retry_ms, error);
END $$;

CREATE FUNCTION pgwork.snooze(queue text, ids bigint[], tokens uuid[], delay_ms bigint)
RETURNS TABLE (id bigint, status text) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._check_range('delay_ms', delay_ms, 0, 315360000000, ' (ten years)');
    RETURN QUERY SELECT * FROM pgwork._give_back(queue, ids, tokens, 'snooze', delay_ms, NULL);
END $$;

CREATE FUNCTION pgwork.release(queue text, ids bigint[], tokens uuid[]) RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT * FROM pgwork._give_back(queue, ids, tokens, 'release', NULL, NULL);
END $$;

COMMENT ON FUNCTION pgwork.complete IS 'Completes jobs. Returns refused jobs: stale or gone. If any, roll back.';
COMMENT ON FUNCTION pgwork.extend IS 'Makes leases end lease_ms from now. status: ok, cancel, locked, stale or gone.';
COMMENT ON FUNCTION pgwork.fail IS 'Fails jobs: they are retried later or become dead letters. Returns refused jobs.';
COMMENT ON FUNCTION pgwork.snooze IS 'Delays jobs by delay_ms; no attempt is counted. Returns refused jobs.';
COMMENT ON FUNCTION pgwork.release IS 'Requeues jobs behind waiting ones; no attempt is counted. Returns refused jobs.';
