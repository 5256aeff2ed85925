-- 0004: claims. Never a job under a live lease, never more than n, the lowest priority number first,
-- then the oldest; jobs that an open transaction holds are skipped, not waited for.

-- A token is the claim's number (pos * 32 + lane: grows with every placement of a job), then 64 random bits.
CREATE FUNCTION pgwork.token_number(token uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || left(replace(token::text, '-', ''), 16))::bit(64)::bigint;

-- What a session remembers of a queue between claims, so that a claim needs not walk over the remains of all
-- jobs before it while vacuum is held back. Only a hint, in a custom setting of the session: lost with it, rolled back
-- with the claim, and checked by a look from the start when a claim finds too little, and once a second at
-- least (at most a twentieth of the time goes into that).
--   [1] when it last looked from the start, ms   [2] what that cost, ms   [3] when `next` was noted, ms
--   [4] priorities seen or noted, hence the lanes [5..] a mark per lane: nothing is expected up to it; then `next` per lane
-- `next` becomes the mark after 20 ms: time for the commits of producers that drew lower places.
CREATE FUNCTION pgwork._lanes(priorities integer) RETURNS smallint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE priorities WHEN 1 THEN '{0,1}'::smallint[]
       ELSE ARRAY(SELECT l::smallint FROM generate_series(0, 19) l WHERE priorities >> (l / 2) & 1 = 1 ORDER BY l) END;

CREATE FUNCTION pgwork._look(queue integer, priorities integer, hint bigint[], now_ms bigint, from_start boolean) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_indexscan = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    lanes smallint[] := CASE priorities WHEN 1 THEN '{0,1}'::smallint[] ELSE pgwork._lanes(priorities) END; -- which is planned at each call
    k integer := cardinality(lanes);
    issued bigint := (SELECT s.last_value - (NOT s.is_called)::integer FROM pgwork.place s);
    heads bigint[];
    seen integer;
BEGIN
    IF from_start THEN
        SELECT array_agg(h.pos ORDER BY l.lane), priorities | coalesce(bit_or(1 << (l.lane / 2)) FILTER (WHERE h.pos IS NOT NULL), 0)
          INTO heads, seen
          FROM generate_series(0, 19) l (lane)
          LEFT JOIN LATERAL (SELECT j.pos FROM pgwork.live_job j
                              WHERE j.queue = _look.queue AND j.lane = l.lane AND j.pos > 0 AND j.token IS NULL ORDER BY j.pos LIMIT 1) h ON true;
        PERFORM pgwork._note(queue, seen); -- rows may have come in by COPY, which notes nothing
        IF seen <> priorities THEN
            hint := NULL;
            lanes := pgwork._lanes(seen);
            k := cardinality(lanes);
        END IF;
        hint := ARRAY[now_ms, greatest(0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - now_ms), now_ms, seen]
                || coalesce(hint[5:4 + 2 * k], array_fill(0::bigint, ARRAY[2 * k]));
        FOR i IN 1 .. k LOOP -- what lies before a mark pulls it back
            hint[4 + i] := least(hint[4 + i], heads[lanes[i] + 1] - 1);
            hint[4 + k + i] := least(hint[4 + k + i], heads[lanes[i] + 1] - 1);
        END LOOP;
    ELSE
        SELECT array_agg(h.pos ORDER BY l.i) INTO heads
          FROM unnest(lanes, hint[5 + k:4 + 2 * k]) WITH ORDINALITY l (lane, mark, i)
          LEFT JOIN LATERAL (SELECT j.pos FROM pgwork.live_job j
                              WHERE j.queue = _look.queue AND j.lane = l.lane AND j.pos > l.mark AND j.token IS NULL ORDER BY j.pos LIMIT 1) h ON true;
        hint := hint[1:2] || now_ms || hint[4] || hint[5 + k:4 + 2 * k] || hint[5 + k:4 + 2 * k];
        FOR i IN 1 .. k LOOP
            hint[4 + k + i] := greatest(hint[4 + k + i], least(heads[i] - 1, issued));
        END LOOP;
    END IF;
    PERFORM set_config('pgwork.hint_' || queue, hint::text, false);
    RETURN hint;
END $$;

-- Sort key of a queue's first ready job among queues: priority, then age.
CREATE FUNCTION pgwork._head(queue integer, priorities integer) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT (j.lane::bigint << 58) + j.pos
      FROM unnest(pgwork._lanes(priorities)) WITH ORDINALITY l (lane, i)
     CROSS JOIN LATERAL (SELECT j.lane, j.pos FROM pgwork.live_job j
                          WHERE j.queue = _head.queue AND j.lane = l.lane AND j.token IS NULL ORDER BY j.pos LIMIT 1) j
     ORDER BY l.i LIMIT 1
$$;

-- What claim() has to know of a job before it moves it: 1 odd, not to be packed: it has something of its own that
-- packs have no room for, or is too large to be copied (a compressed value would be copied at its full length); 2 has a body; 4 has tags.
CREATE FUNCTION pgwork._traits(j pgwork.live_job) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN j.id IS NOT NULL OR j.flags <> 0 OR j.key IS NOT NULL OR j.max_attempts IS NOT NULL OR j.lease_ms IS NOT NULL
              OR coalesce(pg_column_size(j.payload), 0) + coalesce(pg_column_size(j.body), 0) > 2000
              OR pg_column_compression(j.payload) IS NOT NULL OR pg_column_compression(j.body) IS NOT NULL THEN 1 ELSE 0 END
     + CASE WHEN j.body IS NULL THEN 0 ELSE 2 END + CASE WHEN j.tags IS NULL THEN 0 ELSE 4 END;

-- Many claims at once meet the same first rows. To find a row locked by trying to lock it costs microseconds, and each
-- of them would have to skip those of all the others; that a transaction which runs now is in its xmax is seen at once.
-- A claim that has looked from the start goes without that short cut, so that it cannot hide a row for long; and so does
-- one in a transaction that has written, which may have locked rows itself.

-- This is the hot path: few statements, each with one possible plan, and no SQL functions but those that are
-- inlined (others are planned anew in every transaction).
CREATE FUNCTION pgwork.claim(queues text[], n integer, holder text, lease_ms bigint DEFAULT NULL,
    done_ids bigint[] DEFAULT NULL, done_tokens uuid[] DEFAULT NULL)
RETURNS TABLE (queue text, id bigint, token uuid, attempt integer, max_attempts integer, priority integer, kind text,
    payload jsonb, body bytea, tags text[], created_at timestamptz, lease_until timestamptz, server_time timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_tidscan = on SET enable_nestloop = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    current_name text;
    q record;
    wanted integer := n;
    got integer;
    now_ms bigint := extract(epoch FROM clock_timestamp()) * 1000;
    memory text;
    hint bigint[];
    known integer;
    lanes smallint[];
    k integer;
    alone boolean;
    stamp text;
    until timestamptz;
    odd tid[];
    plain tid[];
    traits integer;
    number bigint;
    pack pgwork.pack;
    accepted bigint[];
    thorough boolean;
    wrote boolean := pg_current_xact_id_if_assigned() IS NOT NULL;
BEGIN
    IF n BETWEEN 1 AND 10000 AND octet_length(holder) BETWEEN 1 AND 255 AND coalesce(claim.lease_ms, 100) BETWEEN 100 AND 86400000
       AND cardinality(queues) BETWEEN 1 AND 64 THEN
        NULL; -- as it should be
    ELSE
        PERFORM pgwork._refuse_unless(n BETWEEN 1 AND 10000, 'n', n::text, '1 .. 10000');
        PERFORM pgwork._refuse_unless(octet_length(holder) BETWEEN 1 AND 255, 'holder', holder, '1 to 255 bytes: who claims');
        PERFORM pgwork._refuse_unless(coalesce(claim.lease_ms, 100) BETWEEN 100 AND 86400000, 'lease_ms', claim.lease_ms::text, '100 .. 86400000');
        PERFORM pgwork._refuse('queues', queues::text, '1 to 64 names');
    END IF;

    IF done_ids <> '{}' THEN
        accepted := pgwork._complete(queues[1], done_ids, done_tokens, NULL);
        IF cardinality(accepted) IS DISTINCT FROM cardinality(done_ids) THEN
            RETURN QUERY
            SELECT queues[1], r.id, NULL::uuid, 0, 0, 0, r.status, NULL::jsonb, NULL::bytea, NULL::text[], NULL::timestamptz, NULL::timestamptz, NULL::timestamptz
              FROM pgwork._refused((pgwork._queue(queues[1])).id, done_ids, accepted) r;
        END IF;
    END IF;

    IF cardinality(queues) > 1 THEN
        queues := ARRAY(SELECT t.name FROM pgwork.queue t WHERE t.name = ANY (queues) AND NOT t.paused ORDER BY pgwork._head(t.id, t.priorities));
    END IF;
    FOREACH current_name IN ARRAY queues LOOP
        SELECT t.id, t.name, t.lease_ms, t.max_attempts, t.priorities, t.suspects INTO q FROM pgwork.queue t WHERE t.name = current_name AND NOT t.paused;
        CONTINUE WHEN NOT FOUND;
        thorough := wrote OR q.suspects;
        memory := current_setting('pgwork.hint_' || q.id, true);
        hint := CASE WHEN memory <> '' THEN memory::bigint[] END;
        known := q.priorities | coalesce(hint[4] & 1023, 0)::integer;
        lanes := CASE known WHEN 1 THEN '{0,1}'::smallint[] ELSE pgwork._lanes(known) END;
        k := cardinality(lanes);
        IF hint IS NULL OR cardinality(hint) <> 4 + 2 * k OR hint[4] <> known THEN
            hint := pgwork._look(q.id, known, NULL, now_ms, true);
            thorough := true;
        ELSIF now_ms NOT BETWEEN hint[1] AND hint[1] + greatest(1000, 20 * hint[2]) THEN
            hint := pgwork._look(q.id, known, hint, now_ms, true);
            thorough := true;
        ELSIF now_ms NOT BETWEEN hint[3] AND hint[3] + 20 THEN
            hint := pgwork._look(q.id, known, hint, now_ms, false);
        END IF;
        alone := false;
        LOOP
            IF hint[4] <> known THEN -- the look has seen more
                known := hint[4];
                lanes := pgwork._lanes(known);
                k := cardinality(lanes);
            END IF;
            IF q.suspects THEN
                -- A job whose holder died is claimed alone: should it be the killer, it takes no others along.
                SELECT c.flags & 2 <> 0 INTO alone
                  FROM unnest(lanes, hint[5:4 + k]) AS l (lane, mark)
                 CROSS JOIN LATERAL (SELECT j.flags FROM pgwork.live_job j
                                      WHERE j.queue = q.id AND j.lane = l.lane AND j.pos > l.mark AND j.token IS NULL
                                      ORDER BY j.pos LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) c
                 LIMIT 1;
                IF alone THEN
                    wanted := 1;
                END IF;
            END IF;
            until := clock_timestamp();
            stamp := gen_random_uuid()::text; -- 122 random bits; its fixed ones are in the middle
            stamp := left(stamp, 8) || right(stamp, 8);
            IF wanted = 1 THEN
                RETURN QUERY
                UPDATE pgwork.live_job j
                   SET token = (lpad(to_hex(j.pos * 32 + j.lane), 16, '0') || stamp)::uuid, holder = claim.holder, attempt = j.attempt + 1,
                       lease_until = until + coalesce(j.lease_ms, claim.lease_ms, q.lease_ms) * interval '1 ms'
                 WHERE j.ctid = ANY (ARRAY( -- picked under the limit first: no plan takes more
                           SELECT j.ctid FROM unnest(lanes, hint[5:4 + k]) AS l (lane, mark)
                            CROSS JOIN LATERAL (SELECT j.ctid FROM pgwork.live_job j
                                                 WHERE j.queue = q.id AND j.lane = l.lane AND j.pos > l.mark AND j.token IS NULL AND (j.flags & 2 = 0 OR alone)
                                                   AND (thorough OR j.xmax = '0' OR age(j.xmax) > (SELECT age(pg_snapshot_xmax(pg_current_snapshot())::xid))
                                                                                    AND j.xmax <> ALL (ARRAY(SELECT x::xid FROM pg_snapshot_xip(pg_current_snapshot()) x)))
                                                 ORDER BY j.pos LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) j
                            LIMIT 1))
                   AND j.token IS NULL
                RETURNING q.name, coalesce(j.id, j.pos), j.token, j.attempt::integer,
                          coalesce(j.max_attempts, q.max_attempts)::integer, j.lane / 2, j.kind, j.payload, j.body, j.tags,
                          j.created_at, j.lease_until, until;
                GET DIAGNOSTICS got = ROW_COUNT;
            ELSE
                -- Odd jobs are leased in their rows, the others in a pack. traits: 1 odd, 2 has a body, 4 has tags
                SELECT array_agg(c.at), bit_or(c.traits), NULL INTO plain, traits, odd
                  FROM (SELECT j.* FROM unnest(lanes, hint[5:4 + k]) AS l (lane, mark)
                         CROSS JOIN LATERAL (SELECT j.ctid AS at, pgwork._traits(j) AS traits
                                               FROM pgwork.live_job j
                                              WHERE j.queue = q.id AND j.lane = l.lane AND j.pos > l.mark AND j.token IS NULL AND j.flags & 2 = 0
                                                AND (thorough OR j.xmax = '0' OR age(j.xmax) > (SELECT age(pg_snapshot_xmax(pg_current_snapshot())::xid))
                                                                                 AND j.xmax <> ALL (ARRAY(SELECT x::xid FROM pg_snapshot_xip(pg_current_snapshot()) x)))
                                              ORDER BY j.pos LIMIT wanted FOR UPDATE SKIP LOCKED) j
                         LIMIT wanted) c;
                got := coalesce(cardinality(plain), 0);
                IF traits & 1 = 1 THEN
                    SELECT array_agg(j.ctid) FILTER (WHERE pgwork._traits(j) & 1 = 1), array_agg(j.ctid) FILTER (WHERE pgwork._traits(j) & 1 = 0)
                      INTO odd, plain FROM pgwork.live_job j WHERE j.ctid = ANY (plain);
                END IF;
                IF plain IS NOT NULL THEN
                    number := nextval('pgwork.place');
                    WITH d AS (
                        DELETE FROM pgwork.live_job j WHERE j.ctid = ANY (plain) AND j.token IS NULL
                        RETURNING j.pos, j.lane, j.created_at, j.kind, j.payload, j.body, j.tags
                    )
                    INSERT INTO pgwork.pack (number, token, lease_until, queue, first_id, last_id, holder, ids, lanes, created, kinds, payloads, bodies, tags)
                    SELECT number, (lpad(to_hex(number * 32 + 31), 16, '0') || stamp)::uuid,
                           until + coalesce(claim.lease_ms, q.lease_ms) * interval '1 ms', q.id, s.ids[1], s.ids[cardinality(s.ids)], claim.holder,
                           s.ids, s.lanes, s.created, s.kinds, s.payloads, s.bodies, s.tags
                      FROM (SELECT array_agg(d.pos) AS ids, array_agg(d.lane) AS lanes, array_agg(d.created_at) AS created, array_agg(d.kind) AS kinds,
                                   array_agg(d.payload) AS payloads, array_agg(d.body) FILTER (WHERE traits & 2 <> 0) AS bodies,
                                   array_agg(d.tags::text) FILTER (WHERE traits & 4 <> 0) AS tags
                              FROM (SELECT * FROM d ORDER BY d.pos) d) s
                    RETURNING * INTO pack;
                END IF;
                IF odd IS NULL AND k = 2 THEN -- of one priority, and in order
                    RETURN QUERY
                    SELECT q.name, u.id, pack.token, 1, q.max_attempts::integer, u.lane / 2, u.kind, u.payload, u.body, u.tags::text[],
                           u.created_at, pack.lease_until, until
                      FROM unnest(pack.ids, pack.lanes, pack.created, pack.kinds, pack.payloads, pack.bodies, pack.tags)
                        AS u (id, lane, created_at, kind, payload, body, tags)
                     WHERE plain IS NOT NULL;
                ELSE
                    RETURN QUERY
                    WITH o AS (
                        UPDATE pgwork.live_job j
                           SET token = (lpad(to_hex(j.pos * 32 + j.lane), 16, '0') || stamp)::uuid, holder = claim.holder, attempt = j.attempt + 1,
                               lease_until = until + coalesce(j.lease_ms, claim.lease_ms, q.lease_ms) * interval '1 ms'
                         WHERE j.ctid = ANY (odd) AND j.token IS NULL
                        RETURNING j.*
                    )
                    SELECT q.name, coalesce(j.id, j.pos), j.token, j.attempt::integer, coalesce(j.max_attempts, q.max_attempts)::integer, j.lane / 2,
                           j.kind, j.payload, j.body, j.tags, j.created_at, j.lease_until, until
                      FROM (SELECT o.lane, o.pos, o.id, o.token, o.attempt, o.max_attempts, o.kind, o.payload, o.body, o.tags, o.created_at, o.lease_until FROM o
                            UNION ALL
                            SELECT u.lane, u.id, NULL, pack.token, 1, NULL, u.kind, u.payload, u.body, u.tags::text[], u.created_at, pack.lease_until
                              FROM unnest(pack.ids, pack.lanes, pack.created, pack.kinds, pack.payloads, pack.bodies, pack.tags)
                                AS u (id, lane, created_at, kind, payload, body, tags)
                             WHERE plain IS NOT NULL
                            ORDER BY lane, pos) j;
                END IF;
            END IF;
            wanted := wanted - got;
            EXIT WHEN wanted = 0 OR now_ms < hint[1] + greatest(50, 20 * hint[2]);
            hint := pgwork._look(q.id, known, hint, now_ms, true);
            thorough := true;
        END LOOP;
        EXIT WHEN wanted = 0; -- or alone
    END LOOP;
END $$;

-- The sleeping sign of this session, for _wake(): take it, look once more, then sleep.
CREATE FUNCTION pgwork.idle(queues text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_lock_shared(pgwork._lock('sleep', t.id)) FROM pgwork.queue t WHERE t.name = ANY (queues);
END $$;

CREATE FUNCTION pgwork.awake(queues text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_unlock_shared(pgwork._lock('sleep', t.id)) FROM pgwork.queue t WHERE t.name = ANY (queues);
END $$;

COMMENT ON FUNCTION pgwork.claim(text[], integer, text, bigint, bigint[], uuid[]) IS
    'Takes up to n jobs for a holder under a lease (the job''s, else lease_ms, else the queue''s) and charges an attempt. Before that it completes done_ids of the first queue, as complete() does: refused ones come first, as rows with attempt 0 and the reason in kind. Commit, then work; finish with id and token.';
COMMENT ON FUNCTION pgwork.token_number(uuid) IS 'The fencing number in a token: grows with every claim of a job.';
COMMENT ON FUNCTION pgwork.idle(text[]) IS 'Says that this session sleeps and listens for jobs of these queues; needs a session of its own. LISTEN first, claim once more afterwards.';
COMMENT ON FUNCTION pgwork.awake(text[]) IS 'Takes back idle() for the same queues.';
