-- 0005: what a holder does with its jobs. Every statement here names id and token and is refused, job by
-- job, unless the token is the current one. Time plays no part: a late call is accepted as long as
-- nobody took the lease away, and refused for ever after.

CREATE FUNCTION pgwork._check_refs(ids bigint[], tokens uuid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(cardinality(ids), 0) <> coalesce(cardinality(tokens), 0) THEN
        PERFORM pgwork._refuse('tokens', coalesce(cardinality(tokens), 0) || ' tokens', coalesce(cardinality(ids), 0) || ', one for each id');
    END IF;
END $$;

-- THE FENCE: takes leased jobs away from where they lie, if the caller holds them. (Joined as in _find().)
CREATE FUNCTION pgwork._take(queue integer, ids bigint[], tokens uuid[]) RETURNS SETOF pgwork.live_job
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
    RETURN QUERY
    DELETE FROM pgwork.live_job j
     USING (SELECT _take.queue, u.id, u.token, pgwork.token_number(u.token) AS number
              FROM unnest(ids, tokens) u (id, token) ORDER BY u.token OFFSET 0) t -- one order for all: no deadlocks
     WHERE j.queue = ANY (ARRAY[t.queue]) AND j.lane = (t.number & 31)::smallint AND j.pos = t.number >> 5 AND j.token = t.token
       AND coalesce(j.id, j.pos) = t.id
    RETURNING j.*;
END $$;

-- Who was refused, and why: stale (the job is there under another token) or gone.
CREATE FUNCTION pgwork._refused(queue integer, ids bigint[], accepted bigint[]) RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    IF cardinality(accepted) = cardinality(ids) THEN
        RETURN; -- nearly always
    END IF;
    RETURN QUERY
    SELECT r.id, CASE WHEN EXISTS (SELECT FROM pgwork._find(queue, r.id))
                        OR EXISTS (SELECT FROM pgwork.delayed_job d WHERE d.queue = _refused.queue AND d.id = r.id)
                        OR EXISTS (SELECT FROM pgwork.dead_job d WHERE d.queue = _refused.queue AND d.id = r.id)
                      THEN 'stale' ELSE 'gone' END
      FROM (SELECT unnest(ids) EXCEPT SELECT unnest(accepted)) r (id);
END $$;

-- Frees unique keys of finished jobs. Never waits: who has the row of a key locked is a producer that takes it
-- over (scope ready), or rolls back, and the next one does.
CREATE FUNCTION pgwork._free(queue integer, ids bigint[], keys text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_tidscan = on SET enable_nestloop = on SET jit = off AS $$
BEGIN
    WITH f AS MATERIALIZED (
        SELECT u.ctid AS at FROM unnest(ids, keys) k (id, key)
         CROSS JOIN LATERAL (SELECT u.ctid FROM pgwork.unique_key u
                              WHERE u.queue = _free.queue AND u.key = k.key AND u.id = k.id AND u.free_after IS NULL
                                FOR UPDATE SKIP LOCKED) u
    )
    DELETE FROM pgwork.unique_key u USING f WHERE u.ctid = f.at;
END $$;

-- Completes and keeps, for queues with a retention.
CREATE FUNCTION pgwork._keep(queue integer, ids bigint[], tokens uuid[], outputs jsonb[], OUT accepted bigint[], OUT keyed bigint[], OUT keys text[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_hashjoin = on SET jit = off AS $$
BEGIN
    WITH t AS MATERIALIZED (
        SELECT coalesce(j.id, j.pos) AS job, j.* FROM pgwork._take(queue, ids, tokens) j
    ), d AS (
        INSERT INTO pgwork.done_job (id, created_at, queue, priority, attempt, kind, holder, key, tags, payload, output)
        SELECT t.job, t.created_at, t.queue, t.lane / 2, t.attempt, t.kind, t.holder, t.key, t.tags, t.payload, o.output
          FROM t LEFT JOIN unnest(ids, outputs) o (id, output) ON o.id = t.job
        ON CONFLICT DO NOTHING
    )
    SELECT array_agg(t.job), array_agg(t.job) FILTER (WHERE t.flags & 4 <> 0), array_agg(t.key) FILTER (WHERE t.flags & 4 <> 0)
      INTO accepted, keyed, keys FROM t;
END $$;

CREATE FUNCTION pgwork.complete(queue text, ids bigint[], tokens uuid[], outputs jsonb[] DEFAULT NULL)
RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    q record;
    accepted bigint[];
    keyed bigint[];
    keys text[];
BEGIN
    SELECT t.id, t.retention_ms INTO q FROM pgwork.queue t WHERE t.name = complete.queue;
    IF NOT FOUND THEN
        PERFORM pgwork._queue(complete.queue); -- says so
    ELSIF coalesce(cardinality(ids), 0) <> coalesce(cardinality(tokens), 0) THEN
        PERFORM pgwork._check_refs(ids, tokens);
    ELSIF cardinality(outputs) <> cardinality(ids) THEN
        PERFORM pgwork._refuse('outputs', cardinality(outputs) || ' outputs', 'NULL, or one for each of ' || cardinality(ids) || ' ids');
    END IF;
    IF q.retention_ms > 0 THEN
        SELECT k.accepted, k.keyed, k.keys INTO accepted, keyed, keys FROM pgwork._keep(q.id, ids, tokens, outputs) k;
    ELSE
        -- The same fence as in _take(), without carrying whole rows along.
        WITH t AS (
            DELETE FROM pgwork.live_job j
             USING (SELECT q.id AS queue, u.id, u.token, pgwork.token_number(u.token) AS number
                      FROM unnest(ids, tokens) u (id, token) ORDER BY u.token OFFSET 0) t -- one order for all: no deadlocks
             WHERE j.queue = ANY (ARRAY[t.queue]) AND j.lane = (t.number & 31)::smallint AND j.pos = t.number >> 5 AND j.token = t.token
               AND coalesce(j.id, j.pos) = t.id
            RETURNING t.id, j.flags, j.key
        )
        SELECT array_agg(t.id), array_agg(t.id) FILTER (WHERE t.flags & 4 <> 0), array_agg(t.key) FILTER (WHERE t.flags & 4 <> 0)
          INTO accepted, keyed, keys FROM t;
    END IF;
    IF keyed IS NOT NULL THEN
        PERFORM pgwork._free(q.id, keyed, keys);
    END IF;
    IF cardinality(accepted) IS DISTINCT FROM cardinality(ids) THEN
        RETURN QUERY SELECT * FROM pgwork._refused(q.id, ids, accepted);
    END IF;
END $$;

CREATE FUNCTION pgwork.extend(queue text, ids bigint[], tokens uuid[], lease_ms bigint DEFAULT NULL)
RETURNS TABLE (id bigint, status text, lease_until timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    q pgwork.queue := pgwork._queue(extend.queue);
    accepted bigint[];
BEGIN
    PERFORM pgwork._check_refs(ids, tokens);
    IF extend.lease_ms NOT BETWEEN 100 AND 86400000 THEN
        PERFORM pgwork._refuse('lease_ms', extend.lease_ms::text, '100 .. 86400000');
    END IF;
    RETURN QUERY
    WITH e AS (
        UPDATE pgwork.live_job j
           SET lease_until = clock_timestamp() + coalesce(extend.lease_ms, j.lease_ms, q.lease_ms) * interval '1 ms'
          FROM (SELECT q.id AS queue, u.id, u.token, pgwork.token_number(u.token) AS number
                  FROM unnest(ids, tokens) u (id, token) ORDER BY u.token OFFSET 0) t
         WHERE j.queue = ANY (ARRAY[t.queue]) AND j.lane = (t.number & 31)::smallint AND j.pos = t.number >> 5 AND j.token = t.token
           AND coalesce(j.id, j.pos) = t.id
        RETURNING t.id, j.flags, j.lease_until
    )
    SELECT e.id, CASE WHEN e.flags & 1 <> 0 THEN 'cancel' ELSE 'ok' END, e.lease_until FROM e
    UNION ALL
    SELECT r.id, r.status, NULL FROM (SELECT array_agg(e.id) AS ids FROM e) a, pgwork._refused(q.id, extend.ids, a.ids) r;
END $$;

-- Exponential backoff with full jitter.
CREATE FUNCTION pgwork._backoff(attempt integer, base_ms bigint, cap_ms bigint) RETURNS interval
LANGUAGE sql VOLATILE
RETURN random() * least(cap_ms, base_ms * 2.0 ^ least(attempt - 1, 40)) * interval '1 ms';

-- What becomes of jobs that are taken away unfinished, by their holder or by the reaper: one statement, so
-- a job is always in exactly one place.
--   verb   fail, dead, snooze, release, reap
--   fate   dead       attempts used up, or told so
--          cancelled  somebody asked for it meanwhile
--          ready      back in front of its priority, with a new place
--          delayed    later
CREATE FUNCTION pgwork._redeem(q pgwork.queue, ids bigint[], tokens uuid[], verb text, delay_ms bigint, error text,
    OUT accepted bigint[], OUT died bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    refund integer := CASE WHEN verb IN ('snooze', 'release') THEN 1 ELSE 0 END;
    why text := CASE WHEN verb = 'reap' THEN 'the lease expired: its holder died or hung' ELSE left(_redeem.error, 8000) END;
    returned bigint;
    keyed bigint[];
    keys text[];
BEGIN
    PERFORM pg_current_xact_id(); -- before the first place, see _put
    WITH t AS MATERIALIZED (
        SELECT j.*, coalesce(j.id, j.pos) AS job, greatest(0, j.attempt - refund) AS charged,
               CASE WHEN verb = 'dead' THEN 'dead'
                    WHEN j.flags & 1 <> 0 THEN 'cancelled'
                    WHEN verb IN ('fail', 'reap') AND j.attempt >= coalesce(j.max_attempts, q.max_attempts) THEN 'dead'
                    WHEN verb IN ('release', 'reap') OR delay_ms = 0 THEN 'ready'
                    ELSE 'delayed' END AS fate
          FROM pgwork._take(q.id, ids, tokens) j
    ), dead AS (
        INSERT INTO pgwork.dead_job (id, created_at, queue, priority, attempt, max_attempts, lease_ms, kind, holder, key, error, tags, payload, body)
        SELECT t.job, t.created_at, t.queue, t.lane / 2, t.attempt, t.max_attempts, t.lease_ms, t.kind, t.holder, t.key, coalesce(why, t.error), t.tags, t.payload, t.body
          FROM t WHERE t.fate = 'dead'
        ON CONFLICT DO NOTHING
    ), cancelled AS (
        INSERT INTO pgwork.done_job (id, created_at, queue, priority, attempt, cancelled, kind, holder, key, tags, payload)
        SELECT t.job, t.created_at, t.queue, t.lane / 2, t.charged, true, t.kind, t.holder, t.key, t.tags, t.payload
          FROM t WHERE t.fate = 'cancelled' AND q.retention_ms > 0
        ON CONFLICT DO NOTHING
    ), ready AS (
        INSERT INTO pgwork.live_job (created_at, queue, lane, attempt, flags, max_attempts, lease_ms, id, kind, key, error, tags, payload, body)
        SELECT t.created_at, t.queue, t.lane / 2 * 2, t.charged, t.flags & 4 | CASE WHEN verb = 'reap' THEN 2 ELSE 0 END, t.max_attempts, t.lease_ms,
               t.job, t.kind, t.key, coalesce(why, t.error), t.tags, t.payload, t.body
          FROM t WHERE t.fate = 'ready' ORDER BY t.job
    ), delayed AS (
        INSERT INTO pgwork.delayed_job (run_at, id, created_at, queue, priority, attempt, flags, max_attempts, lease_ms, kind, key, error, tags, payload, body)
        SELECT clock_timestamp() + coalesce(delay_ms * interval '1 ms', pgwork._backoff(t.attempt, q.backoff_ms, q.backoff_cap_ms)),
               t.job, t.created_at, t.queue, t.lane / 2, t.charged, t.flags & 4, t.max_attempts, t.lease_ms, t.kind, t.key, coalesce(why, t.error), t.tags, t.payload, t.body
          FROM t WHERE t.fate = 'delayed'
    )
    SELECT array_agg(t.job), count(*) FILTER (WHERE t.fate = 'dead'), count(*) FILTER (WHERE t.fate = 'ready'),
           array_agg(t.job) FILTER (WHERE t.fate IN ('dead', 'cancelled') AND t.flags & 4 <> 0),
           array_agg(t.key) FILTER (WHERE t.fate IN ('dead', 'cancelled') AND t.flags & 4 <> 0)
      INTO accepted, died, returned, keyed, keys FROM t;
    IF keyed IS NOT NULL THEN
        PERFORM pgwork._free(q.id, keyed, keys);
    END IF;
    IF returned > 0 AND q.notify THEN
        PERFORM pgwork._wake(q.id, q.name);
    END IF;
END $$;

CREATE FUNCTION pgwork.fail(queue text, ids bigint[], tokens uuid[], error text DEFAULT NULL, retry_ms bigint DEFAULT NULL, dead boolean DEFAULT false)
RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q pgwork.queue := pgwork._queue(fail.queue);
BEGIN
    PERFORM pgwork._check_refs(ids, tokens);
    PERFORM pgwork._refuse_unless(coalesce(retry_ms, 0) BETWEEN 0 AND 31536000000, 'retry_ms', retry_ms::text, '0 .. 31536000000 (a year), or NULL for the queue''s backoff');
    RETURN QUERY SELECT r.* FROM pgwork._redeem(q, ids, tokens, CASE WHEN dead THEN 'dead' ELSE 'fail' END, retry_ms, error) m, pgwork._refused(q.id, ids, m.accepted) r;
END $$;

CREATE FUNCTION pgwork.snooze(queue text, ids bigint[], tokens uuid[], delay_ms bigint) RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q pgwork.queue := pgwork._queue(snooze.queue);
BEGIN
    PERFORM pgwork._check_refs(ids, tokens);
    PERFORM pgwork._refuse_unless(delay_ms BETWEEN 0 AND 315360000000, 'delay_ms', delay_ms::text, '0 .. 315360000000 (ten years)');
    RETURN QUERY SELECT r.* FROM pgwork._redeem(q, ids, tokens, 'snooze', delay_ms, NULL) m, pgwork._refused(q.id, ids, m.accepted) r;
END $$;

CREATE FUNCTION pgwork.release(queue text, ids bigint[], tokens uuid[]) RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q pgwork.queue := pgwork._queue(release.queue);
BEGIN
    PERFORM pgwork._check_refs(ids, tokens);
    RETURN QUERY SELECT r.* FROM pgwork._redeem(q, ids, tokens, 'release', NULL, NULL) m, pgwork._refused(q.id, ids, m.accepted) r;
END $$;

CREATE FUNCTION pgwork.complete_and_claim(queue text, ids bigint[], tokens uuid[], n integer, holder text, lease_ms bigint DEFAULT NULL)
RETURNS TABLE (queue_name text, id bigint, token uuid, attempt integer, max_attempts integer, priority integer, kind text,
    payload jsonb, body bytea, tags text[], created_at timestamptz, lease_until timestamptz, server_time timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT complete_and_claim.queue, r.id, NULL::uuid, 0, 0, 0, r.status, NULL::jsonb, NULL::bytea, NULL::text[], NULL::timestamptz, NULL::timestamptz, NULL::timestamptz
                   FROM pgwork.complete(complete_and_claim.queue, ids, tokens) r;
    RETURN QUERY SELECT * FROM pgwork.claim(ARRAY[complete_and_claim.queue], n, holder, complete_and_claim.lease_ms);
END $$;

COMMENT ON FUNCTION pgwork.extend(text, bigint[], uuid[], bigint) IS
    'Makes leases end lease_ms from now. A row for each job: ok, cancel (extended, but somebody wants it stopped), stale or gone.';
COMMENT ON FUNCTION pgwork.complete(text, bigint[], uuid[], jsonb[]) IS
    'Finishes jobs. Returns the refused ones only: stale (another claim has it, or it waits) or gone. In your own transaction: roll back when a row comes.';
COMMENT ON FUNCTION pgwork.fail(text, bigint[], uuid[], text, bigint, boolean) IS
    'Failed: again after retry_ms (NULL: the queue''s backoff with jitter), to the dead letters when attempts are used up or dead is true. Returns the refused.';
COMMENT ON FUNCTION pgwork.snooze(text, bigint[], uuid[], bigint) IS 'Not now: again after delay_ms, no attempt charged. Returns the refused.';
COMMENT ON FUNCTION pgwork.release(text, bigint[], uuid[]) IS 'Not started: back in front of its priority, no attempt charged. Returns the refused.';
COMMENT ON FUNCTION pgwork.complete_and_claim(text, bigint[], uuid[], integer, text, bigint) IS
    'complete() and claim() of one queue in one call. Refused completions come first, as rows with attempt 0 and the reason in kind.';
