-- 0006: what a holder does with its jobs. Every statement here names id and token and is refused, job by
-- job, unless the token is the current one. Time plays no part: a late call is accepted as long as
-- nobody took the lease away, and refused for ever after.

-- One token for each id, if one was given for all.
CREATE FUNCTION pgwork._tokens(ids bigint[], tokens uuid[], argument text DEFAULT 'tokens') RETURNS uuid[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(cardinality(ids), 0) = coalesce(cardinality(tokens), 0) THEN
        RETURN tokens;
    ELSIF ids <> '{}' AND cardinality(tokens) = 1 THEN
        RETURN array_fill(tokens[array_lower(tokens, 1)], ARRAY[cardinality(ids)]);
    END IF;
    PERFORM pgwork._refuse(argument, coalesce(cardinality(tokens), 0) || ' tokens', coalesce(cardinality(ids), 0) || ', one for each id, or one for all');
END $$;

-- THE FENCE of packed jobs: writes down that they leave their packs. A row of pack_out can be there once, so of two
-- calls for one job the second is refused, after it has waited for the first to commit. The lock only keeps the pack
-- from being deleted meanwhile: others may take out other jobs, or extend.
-- accepted: those that have left, and `numbers` from which pack each; packs: all that were named. (A job that was handed back may be in two
-- packs of a call: it has left one, and is leased in the other.)
CREATE FUNCTION pgwork._leave(queue integer, ids bigint[], tokens uuid[], OUT accepted bigint[], OUT numbers bigint[], OUT packs bigint[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_hashjoin = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
    SELECT array_agg(DISTINCT pgwork.token_number(u.token) >> 5) INTO packs
      FROM (SELECT DISTINCT t AS token FROM unnest(tokens) t) u WHERE pgwork._packed(u.token);
    IF packs IS NULL THEN
        RETURN;
    END IF;
    WITH p AS MATERIALIZED (
        SELECT p.* FROM (SELECT n FROM unnest(packs) n ORDER BY n OFFSET 0) n -- = ANY and ORDER BY would read all packs of the queue
         CROSS JOIN LATERAL (SELECT p.number, p.token, p.ids FROM pgwork.pack p
                              WHERE p.queue = _leave.queue AND p.number = n.n FOR KEY SHARE) p
    ), o AS (
        INSERT INTO pgwork.pack_out (queue, number, id)
        SELECT _leave.queue, m.number, m.id
          FROM (SELECT p.number, p.token, unnest(p.ids) AS id FROM p) m
          JOIN unnest(ids, tokens) t (id, token) ON t.id = m.id AND t.token = m.token
         ORDER BY m.number, m.id -- one order for all: no deadlocks
        ON CONFLICT DO NOTHING
        RETURNING id, number
    )
    SELECT array_agg(o.id), array_agg(o.number) INTO accepted, numbers FROM o;
END $$;

-- Deletes those of some packs that all jobs have left. Never waits: when another transaction takes out the last job at
-- this moment, neither sees the other, and the pack stays until its lease ends and the reaper finds it.
CREATE FUNCTION pgwork._clear(queue integer, packs bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    one bigint;
BEGIN
    FOREACH one IN ARRAY packs LOOP
        PERFORM FROM pgwork.pack p
          WHERE p.queue = _clear.queue AND p.number = one
            AND cardinality(p.ids) = (SELECT count(*) FROM pgwork.pack_out o WHERE o.queue = p.queue AND o.number = p.number)
            FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            DELETE FROM pgwork.pack p WHERE p.queue = _clear.queue AND p.number = one;
            DELETE FROM pgwork.pack_out o WHERE o.queue = _clear.queue AND o.number = one;
        END IF;
    END LOOP;
END $$;

-- Most often a caller completes all jobs of one pack, and nothing is kept: then it is deleted, without a look at its jobs one by one.
-- Those that had left it before are not accepted. NULL: it is another case.
CREATE FUNCTION pgwork._finish_pack(queue text, ids bigint[], token uuid) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    place bigint := pgwork.token_number(token) >> 5;
    its integer;
    there bigint[] := ids;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN NULL;
    END IF;
    LOOP
        -- This waits for all who are just taking out some; nobody can afterwards. Who they were needs a snapshot of its own.
        DELETE FROM pgwork.pack p
         WHERE p.queue = (SELECT t.id FROM pgwork.queue t WHERE t.name = _finish_pack.queue AND t.retention_ms = 0)
           AND p.number = place AND p.token = _finish_pack.token AND p.ids = there
        RETURNING p.queue INTO its;
        EXIT WHEN FOUND;
        -- Finished in another order?
        SELECT p.ids INTO there FROM pgwork.pack p
         WHERE p.queue = (SELECT t.id FROM pgwork.queue t WHERE t.name = _finish_pack.queue AND t.retention_ms = 0)
           AND p.number = place AND p.token = _finish_pack.token AND cardinality(p.ids) = cardinality(_finish_pack.ids) AND p.ids <> there;
        IF NOT FOUND OR (ARRAY(SELECT u FROM unnest(there) u ORDER BY 1) = ARRAY(SELECT u FROM unnest(ids) u ORDER BY 1)) IS NOT TRUE THEN
            RETURN NULL;
        END IF;
    END LOOP;
    IF EXISTS (SELECT FROM pgwork.pack_out o WHERE o.queue = its AND o.number = place) THEN
        WITH o AS (
            DELETE FROM pgwork.pack_out o WHERE o.queue = its AND o.number = place RETURNING o.id
        )
        SELECT coalesce(array_agg(u), '{}') INTO there FROM unnest(there) u WHERE u NOT IN (SELECT o.id FROM o);
    END IF;
    RETURN there;
END $$;

-- The same for many packs at once, those jobs together and in that order which a claim has brought: from one pack to the next, not from
-- job to job. Nothing is done unless all are such.
CREATE FUNCTION pgwork._finish_packs(queue integer, ids bigint[], tokens uuid[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    packs bigint;
    whole bigint[];
    gone record;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN NULL;
    END IF;
    WITH RECURSIVE w (upto, number, token) AS (
        SELECT 0, NULL::bigint, NULL::uuid
         UNION ALL
        SELECT w.upto + cardinality(p.ids), p.number, p.token
          FROM w
         CROSS JOIN LATERAL (SELECT p.number, p.token, p.ids FROM pgwork.pack p
                              WHERE p.queue = _finish_packs.queue AND p.number = pgwork.token_number(tokens[w.upto + 1]) >> 5 AND p.token = tokens[w.upto + 1]
                                AND p.ids = _finish_packs.ids[w.upto + 1:w.upto + cardinality(p.ids)]
                                AND p.token = ALL (tokens[w.upto + 1:w.upto + cardinality(p.ids)])) p
    ), d AS (
        DELETE FROM pgwork.pack p
         USING (SELECT _finish_packs.queue AS queue, w.number, w.token FROM w
                 WHERE (SELECT max(w.upto) FROM w) = cardinality(_finish_packs.ids) ORDER BY w.number OFFSET 0) w -- one order for all: no deadlocks
         WHERE p.queue = ANY (ARRAY[w.queue]) AND p.number = w.number AND p.token = w.token
        RETURNING p.number
    )
    SELECT (SELECT count(w.number) FROM w), array_agg(d.number) INTO packs, whole FROM d;
    IF whole IS NULL THEN
        RETURN NULL;
    END IF;
    WITH o AS ( -- who had left before
        DELETE FROM pgwork.pack_out o USING (SELECT _finish_packs.queue AS queue, n FROM unnest(whole) n OFFSET 0) w
         WHERE o.queue = ANY (ARRAY[w.queue]) AND o.number = w.n
        RETURNING o.number, o.id
    )
    SELECT array_agg(o.number) AS numbers, array_agg(o.id) AS ids INTO gone FROM o;
    IF gone.ids IS NULL AND cardinality(whole) = packs THEN
        RETURN ids;
    END IF;
    RETURN ARRAY(SELECT u.id FROM (SELECT u.id, pgwork.token_number(u.token) >> 5 AS number FROM unnest(ids, tokens) u (id, token)) u
                  WHERE u.number = ANY (whole) AND NOT EXISTS (SELECT FROM unnest(gone.numbers, gone.ids) g (number, id) WHERE g.number = u.number AND g.id = u.id));
END $$;

-- To an old snapshot a job is in its pack though it has left it since, which changes nothing in the pack's row. At REPEATABLE READ and above this
-- finds out: nobody leaves twice, so to try it is refused with 40001; and it is undone. False: somebody is just leaving.
CREATE FUNCTION pgwork._still_in(queue integer, number bigint, ids bigint[]) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    settled boolean;
BEGIN
    PERFORM FROM pgwork.pack p WHERE p.queue = _still_in.queue AND p.number = _still_in.number FOR UPDATE SKIP LOCKED;
    settled := FOUND;
    IF settled THEN
        INSERT INTO pgwork.pack_out (queue, number, id) SELECT _still_in.queue, _still_in.number, u FROM unnest(ids) u ON CONFLICT DO NOTHING;
    END IF;
    RAISE EXCEPTION 'undone';
EXCEPTION WHEN raise_exception THEN
    RETURN settled;
END $$;

-- THE FENCE: takes leased jobs away from where they lie, if the caller holds them. (Joined as in _find().)
CREATE FUNCTION pgwork._take(queue integer, ids bigint[], tokens uuid[]) RETURNS SETOF pgwork.live_job
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    left_packs record;
BEGIN
    RETURN QUERY
    DELETE FROM pgwork.live_job j
     USING (SELECT _take.queue, u.id, u.token, pgwork.token_number(u.token) AS number
              FROM unnest(ids, tokens) u (id, token) ORDER BY u.token OFFSET 0) t -- one order for all: no deadlocks
     WHERE j.queue = ANY (ARRAY[t.queue]) AND j.lane = (t.number & 31)::smallint AND j.pos = t.number >> 5 AND j.token = t.token
       AND coalesce(j.id, j.pos) = t.id
    RETURNING j.*;
    SELECT * INTO left_packs FROM pgwork._leave(queue, ids, tokens);
    IF left_packs.accepted IS NOT NULL THEN
        RETURN QUERY -- as rows of live_job, which they were
        SELECT u.id, p.token, p.lease_until, u.created, p.queue, u.lane, 1::smallint, (u.id = ANY (coalesce(p.cancelled, '{}')))::integer::smallint,
               NULL::smallint, NULL::integer, NULL::bigint, u.kind, p.holder, NULL::text, NULL::text, u.tags::text[], u.payload, u.body,
               NULL::smallint, NULL::bigint, NULL::bigint[], NULL::text[], NULL::jsonb[]
          FROM unnest(left_packs.packs) n (n)
         CROSS JOIN LATERAL (SELECT p.* FROM pgwork.pack p WHERE p.queue = _take.queue AND p.number = n.n OFFSET 0) p
         CROSS JOIN LATERAL unnest(p.ids, p.lanes, p.created, p.kinds, p.payloads, p.bodies, p.tags)
                         AS u (id, lane, created, kind, payload, body, tags)
         WHERE coalesce((p.number, u.id) IN (SELECT l.number, l.id FROM unnest(left_packs.numbers, left_packs.accepted) l (number, id)), false); -- coalesce: a hashed subplan, not a nested loop
        PERFORM pgwork._clear(queue, left_packs.packs);
    END IF;
END $$;

-- Who was refused, and why: stale (the job is there under another token) or gone.
CREATE FUNCTION pgwork._refused(queue integer, ids bigint[], accepted bigint[]) RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    IF cardinality(accepted) = cardinality(ids) THEN
        RETURN; -- nearly always
    END IF;
    PERFORM pgwork._refuse_outdated();
    RETURN QUERY
    SELECT r.id, CASE WHEN EXISTS (SELECT FROM pgwork._find(queue, r.id))
                        OR EXISTS (SELECT FROM pgwork.delayed_job d WHERE d.queue = _refused.queue AND d.id = r.id)
                        OR EXISTS (SELECT FROM pgwork.dead_job d WHERE d.queue = _refused.queue AND d.id = r.id)
                      THEN 'stale' ELSE 'gone' END
      FROM (SELECT unnest(ids) EXCEPT SELECT unnest(accepted)) r (id);
END $$;

-- Frees unique keys of finished jobs. Never waits: who has the row of a key locked is a producer that takes it
-- over (scope ready), or rolls back, and the next one does. But a key that was only moved, by a new file, would stay taken for good.
CREATE FUNCTION pgwork._free(queue integer, ids bigint[], keys text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_tidscan = on SET enable_nestloop = on SET jit = off AS $$
DECLARE
    freed integer;
BEGIN
    WITH f AS MATERIALIZED (
        SELECT u.ctid AS at FROM unnest(ids, keys) k (id, key)
         CROSS JOIN LATERAL (SELECT u.ctid FROM pgwork.unique_key u
                              WHERE u.queue = _free.queue AND u.key = k.key AND u.id = k.id AND u.free_after IS NULL
                                FOR UPDATE SKIP LOCKED) u
    )
    DELETE FROM pgwork.unique_key u USING f WHERE u.ctid = f.at;
    GET DIAGNOSTICS freed = ROW_COUNT;
    IF freed < cardinality(ids) THEN
        PERFORM pgwork._refuse_outdated();
    END IF;
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
          FROM t LEFT JOIN unnest(ids, tokens, outputs) o (id, token, output) ON o.id = t.job AND o.token = t.token
        ON CONFLICT DO NOTHING
    )
    SELECT array_agg(t.job), array_agg(t.job) FILTER (WHERE t.flags & 4 <> 0), array_agg(t.key) FILTER (WHERE t.flags & 4 <> 0)
      INTO accepted, keyed, keys FROM t;
END $$;

-- Returns the ids that were accepted. The hot path, like claim(): what is most often the case comes first. It and
-- _finish_pack() run under the settings of claim() or complete().
CREATE FUNCTION pgwork._complete(queue text, ids bigint[], tokens uuid[], outputs jsonb[], argument text DEFAULT 'tokens') RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    q record;
    number bigint := pgwork.token_number(tokens[1]); -- 31 instead of a lane: a pack's
    one_pack boolean;
    accepted bigint[];
    keyed bigint[];
    keys text[];
    gone record;
    whole bigint[];
BEGIN
    IF number & 31 = 31 THEN
        one_pack := outputs IS NULL AND ids <> '{}' AND tokens[1] = ALL (tokens) AND cardinality(tokens) IN (1, cardinality(ids));
        IF one_pack THEN
            accepted := pgwork._finish_pack(queue, ids, tokens[1]);
            IF accepted IS NOT NULL THEN
                RETURN accepted;
            END IF;
        END IF;
    ELSIF cardinality(ids) = 1 AND cardinality(tokens) = 1 AND outputs IS NULL THEN
        -- The fence of _take(), for one that leaves nothing behind.
        DELETE FROM pgwork.live_job j USING pgwork.queue t
         WHERE t.name = _complete.queue AND t.retention_ms = 0
           AND j.queue = t.id AND j.lane = (number & 31)::smallint AND j.pos = number >> 5 AND j.token = tokens[1]
           AND coalesce(j.id, j.pos) = ids[1] AND j.flags & 4 = 0;
        IF FOUND THEN
            RETURN ids;
        END IF;
    END IF;
    SELECT t.id, t.retention_ms INTO q FROM pgwork.queue t WHERE t.name = _complete.queue;
    IF NOT FOUND THEN
        PERFORM pgwork._queue(_complete.queue); -- says so
    ELSIF coalesce(cardinality(ids), 0) <> coalesce(cardinality(tokens), 0) AND (ids <> '{}' AND cardinality(tokens) = 1) IS NOT TRUE THEN
        PERFORM pgwork._tokens(ids, tokens, argument); -- says so
    ELSIF cardinality(outputs) <> cardinality(ids) THEN
        PERFORM pgwork._refuse('outputs', cardinality(outputs) || ' outputs', 'NULL, or one for each of ' || cardinality(ids) || ' ids');
    END IF;
    IF q.retention_ms > 0 THEN
        SELECT k.accepted, k.keyed, k.keys INTO accepted, keyed, keys FROM pgwork._keep(q.id, ids, pgwork._tokens(ids, tokens), outputs) k;
    ELSE
        IF cardinality(tokens) IS DISTINCT FROM cardinality(ids) THEN
            tokens := pgwork._tokens(ids, tokens);
        END IF;
        IF one_pack IS FALSE AND outputs IS NULL THEN -- one of a pack comes first
            accepted := pgwork._finish_packs(q.id, ids, tokens);
            IF accepted IS NOT NULL THEN
                RETURN accepted;
            END IF;
        END IF;
        IF one_pack IS NOT TRUE THEN -- else there are no others, and it was not all of it
            -- The fence of _take(), without carrying whole rows along.
            WITH t AS (
                DELETE FROM pgwork.live_job j
                 USING (SELECT q.id AS queue, u.id, u.token, pgwork.token_number(u.token) AS number
                          FROM unnest(ids, tokens) u (id, token) WHERE NOT pgwork._packed(u.token) ORDER BY u.token OFFSET 0) t -- one order for all: no deadlocks
                 WHERE j.queue = ANY (ARRAY[t.queue]) AND j.lane = (t.number & 31)::smallint AND j.pos = t.number >> 5 AND j.token = t.token
                   AND coalesce(j.id, j.pos) = t.id
                RETURNING t.id, j.flags, j.key
            )
            SELECT array_agg(t.id), array_agg(t.id) FILTER (WHERE t.flags & 4 <> 0), array_agg(t.key) FILTER (WHERE t.flags & 4 <> 0)
              INTO accepted, keyed, keys FROM t;
            IF cardinality(accepted) IS DISTINCT FROM cardinality(ids) THEN
                -- Rows first, then packs, those of which it is a part, too: the order of cancel(), extend() and _take(), else they could deadlock.
                FOR gone IN
                    SELECT u.token, array_agg(u.id ORDER BY u.id) AS ids FROM unnest(ids, tokens) u (id, token)
                     WHERE pgwork._packed(u.token) GROUP BY u.token ORDER BY u.token
                LOOP
                    whole := pgwork._finish_pack(queue, gone.ids, gone.token);
                    IF whole IS NULL THEN -- for _leave()
                        PERFORM FROM pgwork.pack p WHERE p.queue = q.id AND p.number = pgwork.token_number(gone.token) >> 5 FOR KEY SHARE;
                    END IF;
                    accepted := accepted || whole;
                END LOOP;
            END IF;
        END IF;
        IF cardinality(accepted) IS DISTINCT FROM cardinality(ids) THEN
            SELECT * INTO gone FROM pgwork._leave(q.id, ids, tokens);
            IF gone.accepted IS NOT NULL THEN
                accepted := accepted || gone.accepted;
                PERFORM pgwork._clear(q.id, gone.packs);
            END IF;
        END IF;
    END IF;
    IF keyed IS NOT NULL THEN
        PERFORM pgwork._free(q.id, keyed, keys);
    END IF;
    RETURN accepted;
END $$;

CREATE FUNCTION pgwork.complete(queue text, ids bigint[], tokens uuid[], outputs jsonb[] DEFAULT NULL)
RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    accepted bigint[] := pgwork._complete(queue, ids, tokens, outputs);
BEGIN
    IF cardinality(accepted) IS DISTINCT FROM cardinality(ids) THEN
        RETURN QUERY SELECT r.* FROM pgwork._refused((pgwork._queue(queue)).id, ids, accepted) r;
    END IF;
END $$;

-- Never waits: one job in a transaction that stays open would keep the others from being extended, and they would be lost. Its row is
-- safe as long: no reaper can have it either.
CREATE FUNCTION pgwork.extend(queue text, ids bigint[], tokens uuid[], lease_ms bigint DEFAULT NULL)
RETURNS TABLE (id bigint, status text, lease_until timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = on SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    q pgwork.queue := pgwork._queue(extend.queue);
    accepted bigint[] := '{}';
    free record;
    mine bigint[];
    pack record;
    until timestamptz;
    new_ends timestamptz[];
    first_end timestamptz;
BEGIN
    tokens := pgwork._tokens(ids, tokens);
    IF extend.lease_ms NOT BETWEEN 100 AND 86400000 THEN
        PERFORM pgwork._refuse('lease_ms', extend.lease_ms::text, '100 .. 86400000');
    END IF;
    SELECT array_agg(l.id) AS ids, array_agg(l.token) AS tokens INTO free
      FROM (SELECT q.id AS queue, u.id, u.token, pgwork.token_number(u.token) AS number FROM unnest(ids, tokens) u (id, token) OFFSET 0) t
     CROSS JOIN LATERAL (SELECT t.id, j.token FROM pgwork.live_job j
                          WHERE j.queue = ANY (ARRAY[t.queue]) AND j.lane = (t.number & 31)::smallint AND j.pos = t.number >> 5 AND j.token = t.token
                            AND coalesce(j.id, j.pos) = t.id FOR NO KEY UPDATE SKIP LOCKED) l;
    FOR id, status, lease_until IN
        UPDATE pgwork.live_job j
           SET lease_until = clock_timestamp() + coalesce(extend.lease_ms, j.lease_ms, q.lease_ms) * interval '1 ms'
          FROM (SELECT q.id AS queue, u.id, u.token, pgwork.token_number(u.token) AS number FROM unnest(free.ids, free.tokens) u (id, token) OFFSET 0) t
         WHERE j.queue = ANY (ARRAY[t.queue]) AND j.lane = (t.number & 31)::smallint AND j.pos = t.number >> 5 AND j.token = t.token
        RETURNING t.id, CASE WHEN j.flags & 1 <> 0 THEN 'cancel' ELSE 'ok' END, j.lease_until
    LOOP
        accepted := accepted || id;
        RETURN NEXT;
    END LOOP;
    FOR pack IN
        SELECT p.* FROM (SELECT DISTINCT pgwork.token_number(t) >> 5 AS n FROM unnest(tokens) t
                          WHERE pgwork._packed(t) ORDER BY n OFFSET 0) n
         CROSS JOIN LATERAL (SELECT p.number, p.token, p.ids, p.cancelled, p.ends, p.lease_until FROM pgwork.pack p
                              WHERE p.queue = q.id AND p.number = n.n FOR NO KEY UPDATE SKIP LOCKED) p
    LOOP
        until := clock_timestamp() + coalesce(extend.lease_ms, q.lease_ms) * interval '1 ms';
        -- Most often all that are still in it. Else each lease gets its own end.
        SELECT array_agg(u.id) FILTER (WHERE u.named AND NOT u.gone), min(u.lease_end) FILTER (WHERE NOT u.gone),
               CASE WHEN bool_and(u.named OR u.gone) THEN NULL ELSE array_agg(u.lease_end ORDER BY u.i) END
          INTO mine, first_end, new_ends
          FROM (SELECT i.id, i.i, t.id IS NOT NULL AS named, o.id IS NOT NULL AS gone,
                       CASE WHEN t.id IS NOT NULL THEN until ELSE coalesce(i.lease_end, pack.lease_until) END AS lease_end
                  FROM unnest(pack.ids, pack.ends) WITH ORDINALITY i (id, lease_end, i) -- a subscript would unpack the array each time
                  LEFT JOIN (SELECT DISTINCT u.id FROM unnest(ids, tokens) u (id, token) WHERE u.token = pack.token) t ON t.id = i.id
                  LEFT JOIN (SELECT o.id FROM pgwork.pack_out o WHERE o.queue = q.id AND o.number = pack.number) o ON o.id = i.id) u;
        CONTINUE WHEN mine IS NULL
                   OR current_setting('transaction_isolation') <> 'read committed' AND NOT pgwork._still_in(q.id, pack.number, mine);
        UPDATE pgwork.pack p SET lease_until = first_end, ends = new_ends WHERE p.queue = q.id AND p.number = pack.number;
        accepted := accepted || mine;
        RETURN QUERY
        SELECT m.id, CASE WHEN m.id = ANY (pack.cancelled) THEN 'cancel' ELSE 'ok' END, until FROM unnest(mine) m (id);
    END LOOP;
    IF cardinality(accepted) IS DISTINCT FROM cardinality(ids) THEN
        FOR id, status, lease_until IN
            SELECT t.id, 'locked', l.lease_until
              FROM (SELECT q.id AS queue, u.id, u.token, pgwork.token_number(u.token) AS number FROM unnest(ids, tokens) u (id, token)
                     WHERE u.id <> ALL (accepted) OFFSET 0) t
             CROSS JOIN LATERAL (
                SELECT j.lease_until FROM pgwork.live_job j
                 WHERE j.queue = ANY (ARRAY[t.queue]) AND j.lane = (t.number & 31)::smallint AND j.pos = t.number >> 5 AND j.token = t.token
                   AND coalesce(j.id, j.pos) = t.id
                 UNION ALL
                SELECT coalesce(p.ends[array_position(p.ids, t.id)], p.lease_until) FROM pgwork.pack p
                 WHERE p.queue = t.queue AND p.number = t.number >> 5 AND p.token = t.token AND t.id = ANY (p.ids)
                   AND NOT EXISTS (SELECT FROM pgwork.pack_out o WHERE o.queue = p.queue AND o.number = p.number AND o.id = t.id)) l
        LOOP
            accepted := accepted || id;
            RETURN NEXT;
        END LOOP;
        RETURN QUERY SELECT r.id, r.status, NULL::timestamptz FROM pgwork._refused(q.id, extend.ids, accepted) r;
    END IF;
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
        SELECT -- Where ids are given out again, after a restore without care for the sequence, another letter may have this one: both are to be kept.
               coalesce((SELECT nextval('pgwork.place') FROM pgwork.dead_job d WHERE d.queue = q.id AND d.id = t.job), t.job),
               t.created_at, t.queue, t.lane / 2, t.attempt, t.max_attempts, t.lease_ms, t.kind, t.holder, t.key, coalesce(why, t.error), t.tags, t.payload, t.body
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
        PERFORM pgwork._wake(q.id, q.name, returned);
    END IF;
END $$;

CREATE FUNCTION pgwork.fail(queue text, ids bigint[], tokens uuid[], error text DEFAULT NULL, retry_ms bigint DEFAULT NULL, dead boolean DEFAULT false)
RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q pgwork.queue := pgwork._queue(fail.queue);
    accepted bigint[];
BEGIN
    tokens := pgwork._tokens(ids, tokens);
    PERFORM pgwork._refuse_unless(coalesce(retry_ms, 0) BETWEEN 0 AND 31536000000, 'retry_ms', retry_ms::text, '0 .. 31536000000 (a year), or NULL for the queue''s backoff');
    SELECT m.accepted INTO accepted FROM pgwork._redeem(q, ids, tokens, CASE WHEN dead THEN 'dead' ELSE 'fail' END, retry_ms, error) m;
    RETURN QUERY SELECT * FROM pgwork._refused(q.id, ids, accepted); -- with new eyes: we may have waited
END $$;

CREATE FUNCTION pgwork.snooze(queue text, ids bigint[], tokens uuid[], delay_ms bigint) RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q pgwork.queue := pgwork._queue(snooze.queue);
    accepted bigint[];
BEGIN
    tokens := pgwork._tokens(ids, tokens);
    PERFORM pgwork._refuse_unless(delay_ms BETWEEN 0 AND 315360000000, 'delay_ms', delay_ms::text, '0 .. 315360000000 (ten years)');
    SELECT m.accepted INTO accepted FROM pgwork._redeem(q, ids, tokens, 'snooze', delay_ms, NULL) m;
    RETURN QUERY SELECT * FROM pgwork._refused(q.id, ids, accepted); -- with new eyes: we may have waited
END $$;

CREATE FUNCTION pgwork.release(queue text, ids bigint[], tokens uuid[]) RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q pgwork.queue := pgwork._queue(release.queue);
    accepted bigint[];
BEGIN
    tokens := pgwork._tokens(ids, tokens);
    SELECT m.accepted INTO accepted FROM pgwork._redeem(q, ids, tokens, 'release', NULL, NULL) m;
    RETURN QUERY SELECT * FROM pgwork._refused(q.id, ids, accepted); -- with new eyes: we may have waited
END $$;

COMMENT ON FUNCTION pgwork.extend(text, bigint[], uuid[], bigint) IS
    'Makes leases end lease_ms from now. A row for each job: ok, cancel (extended, but somebody wants it stopped), locked (another transaction holds it just now: ask again), stale or gone.';
COMMENT ON FUNCTION pgwork.complete(text, bigint[], uuid[], jsonb[]) IS
    'Finishes jobs; tokens: one for each id, or one for all. Returns the refused ones only: stale (another claim has it, or it waits) or gone. In your own transaction: roll back when a row comes.';
COMMENT ON FUNCTION pgwork.fail(text, bigint[], uuid[], text, bigint, boolean) IS
    'Failed: again after retry_ms (NULL: the queue''s backoff with jitter), to the dead letters when attempts are used up or dead is true. Returns the refused.';
COMMENT ON FUNCTION pgwork.snooze(text, bigint[], uuid[], bigint) IS 'Not now: again after delay_ms, no attempt charged. Returns the refused.';
COMMENT ON FUNCTION pgwork.release(text, bigint[], uuid[]) IS 'Not started: back in front of its priority, no attempt charged. Returns the refused.';
