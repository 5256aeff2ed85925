-- 0003: producers. A job exists from the commit of the transaction that enqueued it.

-- Where a live job lies, by its id; in a pack: lane 31 and the pack's number. (PL/pgSQL keeps its plan; an SQL function
-- would be planned at every call.)
-- Here and in later joins even the queue comes from the list of what is looked for, and by = ANY, so that no plan
-- can begin with all jobs: that looks cheap while the table is empty, and is kept when it has grown.
CREATE FUNCTION pgwork._find(queue integer, id bigint) RETURNS TABLE (lane smallint, pos bigint, leased boolean, bundle boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT j.lane, j.pos, j.token IS NOT NULL, false
      FROM (SELECT _find.queue AS queue, l::smallint AS lane, _find.id AS pos FROM generate_series(0, 19) l OFFSET 0) p
      JOIN pgwork.live_job j ON j.queue = ANY (ARRAY[p.queue]) AND j.lane = p.lane AND j.pos = p.pos AND j.id IS NULL AND j.jobs IS NULL
     LIMIT 1;
    IF NOT FOUND THEN
        RETURN QUERY
        SELECT j.lane, j.pos, j.token IS NOT NULL, false FROM pgwork.live_job j WHERE j.queue = _find.queue AND j.id = _find.id;
    END IF;
    IF NOT FOUND THEN
        RETURN QUERY
        SELECT b.lane, b.pos, false, true
          FROM generate_series(1, 19, 2) l
         CROSS JOIN LATERAL (SELECT j.lane, j.pos FROM pgwork.live_job j
                              WHERE j.queue = _find.queue AND j.lane = l::smallint AND j.jobs IS NOT NULL
                                AND j.pos BETWEEN greatest(_find.id, 1000000) - 1000000 AND _find.id -- a bundle is never wider
                                AND j.last_id >= _find.id AND _find.id = ANY (j.all_ids)
                              ORDER BY j.pos DESC LIMIT 1) b
         LIMIT 1;
    END IF;
    IF NOT FOUND THEN
        RETURN QUERY
        SELECT 31::smallint, p.number, true, false FROM pgwork.pack p
         WHERE p.queue = _find.queue AND p.number > _find.id AND _find.id BETWEEN p.first_id AND p.last_id AND _find.id = ANY (p.ids)
           AND NOT EXISTS (SELECT FROM pgwork.pack_out o WHERE o.queue = p.queue AND o.number = p.number AND o.id = _find.id OFFSET 0);
    END IF;
END $$;

-- Puts one job, in its place or a new one: takes its unique key, then places or delays it. Shared by enqueue and enqueue_many.
CREATE FUNCTION pgwork._put(q pgwork.queue, payload jsonb, kind text, body bytea, priority integer, due timestamptz,
    max_attempts integer, lease_ms bigint, tags text[], key text, key_scope text, key_policy text, key_period_ms bigint, place bigint, i bigint,
    OUT id bigint, OUT outcome text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    flags smallint := 0;
    taken pgwork.unique_key;
    waits boolean;
    until timestamptz := CASE WHEN key_scope = 'period' THEN clock_timestamp() + key_period_ms * interval '1 ms' END;
BEGIN
    -- The transaction's id before the first place: whoever sees a place number used can find its transaction running.
    PERFORM pg_current_xact_id();
    id := coalesce(place, nextval('pgwork.place'));
    outcome := 'new';
    IF key IS NOT NULL THEN
        LOOP
            outcome := 'new'; -- whatever it was to be in the round before
            -- Waits for a racing producer of the same key to commit or roll back. Locks nothing of what is
            -- there: who finishes jobs must not wait for us.
            INSERT INTO pgwork.unique_key (queue, key, id, free_after, while_ready)
            VALUES (q.id, _put.key, _put.id, until, key_scope = 'ready') ON CONFLICT DO NOTHING;
            EXIT WHEN FOUND;
            SELECT * INTO taken FROM pgwork.unique_key u WHERE u.queue = q.id AND u.key = _put.key;
            CONTINUE WHEN NOT FOUND; -- freed in between
            PERFORM pgwork._refuse_outdated(); -- else its job could seem to be gone
            waits := EXISTS (SELECT FROM pgwork._find(q.id, taken.id) f WHERE NOT f.leased)
                  OR EXISTS (SELECT FROM pgwork.delayed_job j WHERE j.queue = q.id AND j.id = taken.id);
            IF taken.free_after <= clock_timestamp() OR taken.while_ready AND NOT waits THEN
                -- Its period is over; or its job was claimed, which frees it: no claim has to look after keys.
                -- Whoever comes first has it.
                UPDATE pgwork.unique_key u SET id = _put.id, free_after = until, while_ready = key_scope = 'ready'
                 WHERE u.queue = q.id AND u.key = _put.key AND u.id = taken.id;
                EXIT WHEN FOUND;
                CONTINUE;
            END IF;
            IF key_policy = 'error' THEN
                PERFORM pgwork._refuse_with_hint('PW005', format('queue %L has a job with this unique key', q.name), 'it is job ' || taken.id, i);
            ELSIF key_policy = 'replace' THEN
                UPDATE pgwork.live_job j SET payload = _put.payload, body = _put.body
                  FROM (SELECT q.id AS queue, f.* FROM pgwork._find(q.id, taken.id) f OFFSET 0) f
                 WHERE j.queue = ANY (ARRAY[f.queue]) AND j.lane = f.lane AND j.pos = f.pos AND j.token IS NULL;
                IF NOT FOUND THEN
                    UPDATE pgwork.delayed_job j SET payload = _put.payload, body = _put.body
                     WHERE j.queue = q.id AND j.id = taken.id;
                END IF;
                outcome := CASE WHEN FOUND THEN 'replaced' ELSE 'exists' END; -- a running job is left alone
                CONTINUE WHEN outcome = 'exists' -- did it cease to wait while we did? Does it after all, moved while we looked?
                          AND (waits OR EXISTS (SELECT FROM pgwork._find(q.id, taken.id) f WHERE NOT f.leased)
                                     OR EXISTS (SELECT FROM pgwork.delayed_job j WHERE j.queue = q.id AND j.id = taken.id));
            ELSE
                outcome := 'exists';
            END IF;
            id := taken.id;
            RETURN;
        END LOOP;
        flags := CASE WHEN key_scope = 'period' THEN 0 ELSE 4 END;
    END IF;
    IF due > clock_timestamp() THEN
        INSERT INTO pgwork.delayed_job (run_at, id, queue, priority, flags, max_attempts, lease_ms, kind, key, tags, payload, body)
        VALUES (due, id, q.id, priority, flags, max_attempts, lease_ms, kind, key, tags, payload, body);
    ELSE
        IF q.priorities >> priority & 1 = 0 THEN
            PERFORM pgwork._note(q.id, 1 << priority);
        END IF;
        INSERT INTO pgwork.live_job (pos, queue, lane, flags, max_attempts, lease_ms, kind, key, tags, payload, body)
        VALUES (id, q.id, 2 * priority + 1, flags, max_attempts, lease_ms, kind, key, tags, payload, body);
        IF q.notify THEN
            PERFORM pgwork._wake(q.id, q.name, 1);
        END IF;
    END IF;
END $$;

CREATE FUNCTION pgwork._check_new(q pgwork.queue, bytes bigint, kind text, priority integer, max_attempts integer, lease_ms bigint,
    tags text[], key text, i bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF bytes > q.max_bytes THEN
        PERFORM pgwork._refuse_with_hint('PW002', format('payload and body are %s bytes: queue %L takes at most %s', bytes, q.name, q.max_bytes),
                                         'store large data elsewhere and enqueue its name, or raise max_bytes with queue_set()', i);
    END IF;
    IF priority NOT BETWEEN 0 AND 9 THEN
        PERFORM pgwork._refuse('priority', priority::text, '0 (first) .. 9', i);
    ELSIF octet_length(kind) > 255 THEN
        PERFORM pgwork._refuse('kind', kind, 'up to 255 bytes', i);
    ELSIF max_attempts NOT BETWEEN 1 AND 1000 THEN
        PERFORM pgwork._refuse('max_attempts', max_attempts::text, '1 .. 1000', i);
    ELSIF lease_ms NOT BETWEEN 100 AND 86400000 THEN
        PERFORM pgwork._refuse('lease_ms', lease_ms::text, '100 .. 86400000', i);
    ELSIF cardinality(tags) > 32 THEN
        PERFORM pgwork._refuse('tags', cardinality(tags) || ' tags', 'up to 32', i);
    ELSIF array_ndims(tags) > 1 THEN
        PERFORM pgwork._refuse('tags', 'an array with the bounds ' || array_dims(tags), 'one dimension', i);
    ELSIF tags IS NOT NULL AND EXISTS (SELECT FROM unnest(tags) t WHERE octet_length(t) > 255) THEN
        PERFORM pgwork._refuse('tags', tags::text, 'up to 255 bytes each', i);
    ELSIF octet_length(key) NOT BETWEEN 1 AND 255 THEN
        PERFORM pgwork._refuse('key', key, '1 to 255 bytes', i);
    END IF;
END $$;

CREATE FUNCTION pgwork._check_key(keyed boolean, key_scope text, key_policy text, key_period_ms bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._refuse_unless(key_scope IN ('ready', 'unfinished', 'period'), 'key_scope', key_scope, 'ready, unfinished or period');
    PERFORM pgwork._refuse_unless(key_policy IN ('skip', 'replace', 'error'), 'key_policy', key_policy, 'skip, replace or error');
    IF keyed AND key_scope = 'period' THEN
        PERFORM pgwork._refuse_unless(key_period_ms BETWEEN 1 AND 31536000000, 'key_period_ms', key_period_ms::text, '1 .. 31536000000 (a year)');
    END IF;
END $$;

CREATE FUNCTION pgwork._due(run_at timestamptz, delay_ms bigint, i bigint DEFAULT NULL) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF run_at IS NOT NULL AND delay_ms IS NOT NULL THEN
        PERFORM pgwork._refuse('delay_ms', delay_ms::text, 'nothing together with run_at', i);
    END IF;
    PERFORM pgwork._refuse_unless(coalesce(delay_ms, 0) BETWEEN 0 AND 315360000000, 'delay_ms', delay_ms::text, '0 .. 315360000000 (ten years)', i);
    PERFORM pgwork._refuse_unless(coalesce(isfinite(run_at), true), 'run_at', run_at::text, 'a finite time', i);
    RETURN coalesce(run_at, clock_timestamp() + nullif(delay_ms, 0) * interval '1 ms'); -- NULL: now
END $$;

CREATE FUNCTION pgwork._refuse_draining(q pgwork.queue) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'queue % is being drained and takes no jobs', quote_literal(q.name)
        USING ERRCODE = 'PW004', HINT = 'queue_resume() opens it again';
END $$;

-- Begins an operation, which its caller completes with ids. If it was applied before: the ids of then.
CREATE FUNCTION pgwork._operation(queue integer, op uuid) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    before bigint[];
BEGIN
    LOOP
        INSERT INTO pgwork.operation (queue, op, ids) VALUES (_operation.queue, _operation.op, '{}') ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN NULL;
        END IF;
        -- A lock has to be written: so this answer, too, waits for the disk, and for a synchronous standby, which may not have what we see.
        SELECT o.ids INTO before FROM pgwork.operation o WHERE o.queue = _operation.queue AND o.op = _operation.op FOR KEY SHARE;
        IF FOUND THEN -- else it has just been pruned
            RETURN before;
        END IF;
    END LOOP;
END $$;

-- What became of a job that was to be enqueued. A type of its own: OUT parameters would be decoded anew at every call.
CREATE TYPE pgwork.enqueued AS (id bigint, outcome text);

CREATE FUNCTION pgwork.enqueue(queue text, payload jsonb DEFAULT NULL, kind text DEFAULT '', body bytea DEFAULT NULL,
    priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL, delay_ms bigint DEFAULT NULL, max_attempts integer DEFAULT NULL,
    lease_ms bigint DEFAULT NULL, tags text[] DEFAULT NULL, key text DEFAULT NULL, key_scope text DEFAULT 'unfinished',
    key_policy text DEFAULT 'skip', key_period_ms bigint DEFAULT NULL, op uuid DEFAULT NULL)
RETURNS pgwork.enqueued
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    job pgwork.enqueued;
    q pgwork.queue;
    before bigint[];
    asleep boolean;
    bytes bigint;
    due timestamptz;
BEGIN
    -- As nearly always: nothing to look after. What takes time here is to start statements and expressions, so one statement
    -- looks, checks, puts the job and says whether there is anybody to wake. What it passes over is put, or refused, below.
    -- Every condition looks at t, so that all are one filter of its scan. The one thing that is not null is the transaction's
    -- id, which has to be there before the place: see _put. Bits and lanes come from lists: a priority out of range has none.
    INSERT INTO pgwork.live_job (queue, lane, kind, payload, body)
    SELECT t.id, ('[0:9]={1,3,5,7,9,11,13,15,17,19}'::smallint[])[enqueue.priority], enqueue.kind, enqueue.payload, enqueue.body
      FROM pgwork.queue t
     WHERE t.name = enqueue.queue
       AND num_nonnulls(pg_current_xact_id(), nullif(t.draining, false), pg_column_compression(enqueue.payload), enqueue.run_at,
                        enqueue.delay_ms, enqueue.max_attempts, enqueue.lease_ms, enqueue.tags, enqueue.key, enqueue.op) = 1
       AND t.priorities & ('[0:9]={1,2,4,8,16,32,64,128,256,512}'::integer[])[enqueue.priority] > 0
       AND coalesce(pg_column_size(enqueue.payload), 0)::bigint + coalesce(octet_length(enqueue.body), 0)
           <= CASE WHEN octet_length(enqueue.kind) <= 255 THEN t.max_bytes END
    RETURNING pos, 'new', pgwork._held('sleep', queue) INTO job.id, job.outcome, asleep;
    IF NOT asleep THEN
        RETURN job;
    ELSIF asleep THEN -- and not NULL: nothing was put
        PERFORM pgwork._wake(t.id, t.name, 1) FROM pgwork.queue t WHERE t.name = enqueue.queue AND t.notify;
        RETURN job;
    END IF;

    SELECT * INTO q FROM pgwork.queue t WHERE t.name = enqueue.queue;
    IF NOT FOUND THEN
        q := pgwork._queue_made(enqueue.queue);
    END IF;
    -- First of all: what was applied before is answered so, whatever would be refused by now.
    IF op IS NOT NULL THEN
        before := pgwork._operation(q.id, op);
        IF before IS NOT NULL THEN
            job := (before[1], 'repeated');
            RETURN job;
        END IF;
    END IF;
    IF q.draining THEN
        PERFORM pgwork._refuse_draining(q);
    END IF;
    -- A payload that comes from a table may be compressed.
    bytes := coalesce(CASE WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload) ELSE octet_length(payload::text) END, 0)::bigint
             + coalesce(octet_length(body), 0);
    PERFORM pgwork._check_new(q, bytes, kind, priority, max_attempts, lease_ms, tags, key);
    IF key IS NOT NULL THEN
        PERFORM pgwork._check_key(true, key_scope, key_policy, key_period_ms);
    END IF;
    IF run_at IS NOT NULL OR delay_ms IS NOT NULL THEN
        due := pgwork._due(run_at, delay_ms);
    END IF;
    SELECT p.id, p.outcome INTO job.id, job.outcome
      FROM pgwork._put(q, payload, coalesce(kind, ''), body, coalesce(priority, 0), due, max_attempts, lease_ms, tags,
                       key, key_scope, key_policy, key_period_ms, NULL, NULL) p;
    IF op IS NOT NULL THEN
        UPDATE pgwork.operation o SET ids = ARRAY[job.id] WHERE o.queue = q.id AND o.op = enqueue.op;
    END IF;
    RETURN job;
END $$;

CREATE FUNCTION pgwork._check_length(n integer, name text, given anyarray) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF cardinality(given) NOT IN (1, n) THEN
        PERFORM pgwork._refuse(name, cardinality(given) || ' elements', 'NULL, 1 or ' || n || ' elements');
    ELSIF array_ndims(given) > 1 OR array_lower(given, 1) <> 1 THEN
        PERFORM pgwork._refuse(name, 'an array with the bounds ' || array_dims(given), 'one dimension that begins with 1');
    END IF;
END $$;

CREATE FUNCTION pgwork._check_literals(tags text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM t::text[] FROM unnest(tags) t;
EXCEPTION WHEN data_exception THEN
    PERFORM pgwork._refuse('tags', 'text that is no array', 'for each job an array as text, like {a,b}');
END $$;

CREATE FUNCTION pgwork.enqueue_many(queue text, payloads jsonb[], kinds text[] DEFAULT NULL, bodies bytea[] DEFAULT NULL,
    priorities integer[] DEFAULT NULL, run_ats timestamptz[] DEFAULT NULL, delays_ms bigint[] DEFAULT NULL,
    max_attempts integer[] DEFAULT NULL, leases_ms bigint[] DEFAULT NULL, tags text[] DEFAULT NULL, keys text[] DEFAULT NULL,
    key_scope text DEFAULT 'unfinished', key_policy text DEFAULT 'skip', key_period_ms bigint DEFAULT NULL, op uuid DEFAULT NULL)
RETURNS SETOF pgwork.enqueued
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    q pgwork.queue;
    n integer := coalesce(cardinality(payloads), 0);
    new_ids bigint[];
    new_outcomes text[] := '{}';
    used integer;
    share boolean; -- rows
    own_id xid8;
    one record;
    many integer; -- keys
    later boolean := run_ats IS NOT NULL OR delays_ms IS NOT NULL;
    now_is timestamptz := clock_timestamp();
BEGIN
    -- Payloads alone: in one statement, as in enqueue(). What it passes over is put, or refused, below.
    RETURN QUERY
    INSERT INTO pgwork.live_job (queue, payload)
    SELECT t.id, u.payload
      FROM pgwork.queue t
     CROSS JOIN unnest(payloads) u (payload) -- a loop, whatever the plan: in their order
     WHERE t.name = enqueue_many.queue AND t.priorities & 1 = 1
       AND num_nonnulls(pg_current_xact_id(), nullif(t.draining OR t.bulk AND t.large_claims AND n > 32, false), pg_column_compression(enqueue_many.payloads), enqueue_many.kinds,
                        enqueue_many.bodies, enqueue_many.priorities, enqueue_many.run_ats, enqueue_many.delays_ms, enqueue_many.max_attempts,
                        enqueue_many.leases_ms, enqueue_many.tags, enqueue_many.keys, enqueue_many.op) = 1
       AND pg_column_size(enqueue_many.payloads) <= CASE WHEN key_scope = 'unfinished' AND key_policy = 'skip' THEN t.max_bytes END
    RETURNING pos, 'new';
    IF FOUND THEN
        PERFORM pgwork._wake(t.id, t.name, n) FROM pgwork.queue t WHERE t.name = enqueue_many.queue AND t.notify AND pgwork._held('sleep', t.id);
        RETURN;
    END IF;

    SELECT * INTO q FROM pgwork.queue t WHERE t.name = enqueue_many.queue;
    IF NOT FOUND THEN
        q := pgwork._queue_made(enqueue_many.queue);
    END IF;
    IF op IS NOT NULL AND n > 0 THEN -- first of all, as in enqueue()
        new_ids := pgwork._operation(q.id, op);
        IF new_ids IS NOT NULL THEN
            RETURN QUERY SELECT unnest(new_ids), 'repeated';
            RETURN;
        END IF;
    END IF;
    IF q.draining THEN
        PERFORM pgwork._refuse_draining(q);
    END IF;
    IF n = 0 THEN
        RETURN;
    END IF;
    IF num_nonnulls(kinds, bodies, priorities, run_ats, delays_ms, max_attempts, leases_ms, tags, keys) > 0 THEN
        PERFORM pgwork._check_length(n, 'kinds', kinds), pgwork._check_length(n, 'bodies', bodies),
                pgwork._check_length(n, 'priorities', priorities), pgwork._check_length(n, 'run_ats', run_ats),
                pgwork._check_length(n, 'delays_ms', delays_ms), pgwork._check_length(n, 'max_attempts', max_attempts),
                pgwork._check_length(n, 'leases_ms', leases_ms), pgwork._check_length(n, 'tags', tags),
                pgwork._check_length(n, 'keys', keys);
        IF tags IS NOT NULL THEN
            PERFORM pgwork._check_literals(tags);
        END IF;
    END IF;
    IF keys IS NOT NULL OR key_scope IS DISTINCT FROM 'unfinished' OR key_policy IS DISTINCT FROM 'skip' THEN
        PERFORM pgwork._check_key(keys IS NOT NULL, key_scope, key_policy, key_period_ms);
    END IF;

    IF kinds IS NOT NULL OR bodies IS NOT NULL OR priorities IS NOT NULL OR max_attempts IS NOT NULL OR leases_ms IS NOT NULL
       OR tags IS NOT NULL OR keys IS NOT NULL OR q.max_bytes < 16777216
       OR pg_column_size(payloads) > q.max_bytes THEN
        PERFORM pgwork._check_new(q, coalesce(pg_column_size(u.payload), 0)::bigint
                                  + coalesce(octet_length(coalesce(u.body, CASE WHEN cardinality(bodies) = 1 THEN bodies[1] END)), 0), u.kind, u.priority,
                                  u.max_attempt, u.lease_ms, u.tag::text[], u.key, u.i)
           FROM unnest(payloads, kinds, bodies, priorities, max_attempts, leases_ms, tags, keys) WITH ORDINALITY
             AS u (payload, kind, body, priority, max_attempt, lease_ms, tag, key, i);
    END IF;

    own_id := pg_current_xact_id(); -- before the first place, see _put
    SELECT array_agg(nextval('pgwork.place')) INTO new_ids FROM generate_series(1, n);
    IF keys IS NOT NULL THEN
        IF key_policy = 'replace' THEN
            -- Of two that want the same keys the second one waits here, where it holds nothing: later it would have locked what it
            -- replaces, and the first one, which has made a key that both want, may come to wait for that.
            SELECT count(DISTINCT k) INTO many FROM unnest(keys) k;
            IF many > 100 THEN -- the server has no room for locks of thousands
                PERFORM pg_advisory_xact_lock(pgwork._lock('replace', q.id));
            ELSIF many > 1 THEN
                PERFORM pg_advisory_xact_lock_shared(pgwork._lock('replace', q.id));
                PERFORM pg_advisory_xact_lock(k.lock)
                   FROM (SELECT DISTINCT pgwork._lock('replace ' || k, q.id) AS lock FROM unnest(keys) k WHERE k IS NOT NULL ORDER BY 1 OFFSET 0) k;
            END IF;
            -- What is about to be replaced is locked in the order of cancel(), else they could deadlock.
            PERFORM FROM (SELECT q.id AS queue, f.lane, f.pos
                            FROM (SELECT DISTINCT k FROM unnest(keys) k) k (key)
                           CROSS JOIN LATERAL (SELECT u.id FROM pgwork.unique_key u WHERE u.queue = q.id AND u.key = k.key OFFSET 0) u
                           CROSS JOIN LATERAL pgwork._find(q.id, u.id) f
                           WHERE NOT f.leased ORDER BY f.pos, f.lane OFFSET 0) f
             CROSS JOIN LATERAL (SELECT FROM pgwork.live_job j
                                  WHERE j.queue = ANY (ARRAY[f.queue]) AND j.lane = f.lane AND j.pos = f.pos AND j.token IS NULL FOR NO KEY UPDATE) j;
            PERFORM FROM (SELECT q.id AS queue, u.id
                            FROM (SELECT DISTINCT k FROM unnest(keys) k) k (key)
                           CROSS JOIN LATERAL (SELECT u.id FROM pgwork.unique_key u WHERE u.queue = q.id AND u.key = k.key OFFSET 0) u
                           ORDER BY u.id OFFSET 0) u
             CROSS JOIN LATERAL (SELECT FROM pgwork.delayed_job j WHERE j.queue = ANY (ARRAY[u.queue]) AND j.id = u.id FOR NO KEY UPDATE) j;
        END IF;
        -- In the order of the keys, so that two batches with the same keys cannot deadlock.
        new_outcomes := array_fill(NULL::text, ARRAY[n]);
        FOR one IN
            SELECT u.i, p.id, p.outcome
              FROM (SELECT * FROM unnest(payloads, kinds, bodies, priorities, run_ats, delays_ms, max_attempts, leases_ms, tags, keys)
                             WITH ORDINALITY AS u (payload, kind, body, priority, run_at, delay_ms, max_attempt, lease_ms, tag, key, i)
                     ORDER BY CASE WHEN cardinality(keys) = 1 THEN keys[1] ELSE u.key END, u.i OFFSET 0) u
             CROSS JOIN LATERAL pgwork._put(q, u.payload,
                coalesce(u.kind, CASE WHEN cardinality(kinds) = 1 THEN kinds[1] END, ''),
                coalesce(u.body, CASE WHEN cardinality(bodies) = 1 THEN bodies[1] END),
                coalesce(u.priority, CASE WHEN cardinality(priorities) = 1 THEN priorities[1] END, 0),
                CASE WHEN later THEN pgwork._due(coalesce(u.run_at, CASE WHEN cardinality(run_ats) = 1 THEN run_ats[1] END),
                                                 coalesce(u.delay_ms, CASE WHEN cardinality(delays_ms) = 1 THEN delays_ms[1] END), u.i) END,
                coalesce(u.max_attempt, CASE WHEN cardinality(max_attempts) = 1 THEN max_attempts[1] END),
                coalesce(u.lease_ms, CASE WHEN cardinality(leases_ms) = 1 THEN leases_ms[1] END),
                coalesce(u.tag, CASE WHEN cardinality(tags) = 1 THEN tags[1] END)::text[],
                coalesce(u.key, CASE WHEN cardinality(keys) = 1 THEN keys[1] END), key_scope, key_policy, key_period_ms, new_ids[u.i], u.i) p
        LOOP
            new_ids[one.i] := one.id;
            new_outcomes[one.i] := one.outcome;
        END LOOP;
    ELSE
        SELECT bit_or(1 << coalesce(p, 0)) INTO used FROM unnest(coalesce(priorities, '{0}')) p;
        IF q.priorities & used <> used THEN
            PERFORM pgwork._note(q.id, used);
        END IF;
        IF NOT later AND num_nonnulls(bodies, max_attempts, leases_ms, tags) = 0 THEN
            share := q.bulk AND q.large_claims AND n > 32 AND pg_column_size(payloads) < 2000::bigint * n AND new_ids[n] - new_ids[1] < 1000000;
            IF share AND NOT q.bundles THEN
                share := pgwork._note_bundles(q.id);
            END IF;
            IF share THEN
                INSERT INTO pgwork.live_job (pos, queue, lane, flags, jobs, last_id, all_ids, all_kinds, all_payloads)
                SELECT min(u.id), q.id, u.lane, 8, count(*), max(u.id), array_agg(u.id), array_agg(u.kind), array_agg(u.payload)
                  FROM (SELECT u.id, u.i, u.payload,
                               2 * coalesce(u.priority, CASE WHEN cardinality(priorities) = 1 THEN priorities[1] END, 0) + 1 AS lane,
                               coalesce(u.kind, CASE WHEN cardinality(kinds) = 1 THEN kinds[1] END, '') AS kind
                          FROM unnest(new_ids, payloads, kinds, priorities) WITH ORDINALITY AS u (id, payload, kind, priority, i)
                         ORDER BY u.i OFFSET 0) u
                 GROUP BY (u.i - 1) / 100, u.lane ORDER BY 1;
            ELSE
                INSERT INTO pgwork.live_job (pos, queue, lane, kind, payload)
                SELECT u.id, q.id,
                       2 * coalesce(u.priority, CASE WHEN cardinality(priorities) = 1 THEN priorities[1] END, 0) + 1,
                       coalesce(u.kind, CASE WHEN cardinality(kinds) = 1 THEN kinds[1] END, ''), u.payload
                  FROM unnest(new_ids, payloads, kinds, priorities) AS u (id, payload, kind, priority);
            END IF;
        ELSE
            WITH new AS MATERIALIZED (
                SELECT u.id, u.payload,
                    coalesce(u.kind, CASE WHEN cardinality(kinds) = 1 THEN kinds[1] END, '') AS kind,
                    coalesce(u.body, CASE WHEN cardinality(bodies) = 1 THEN bodies[1] END) AS body,
                    coalesce(u.priority, CASE WHEN cardinality(priorities) = 1 THEN priorities[1] END, 0) AS priority,
                    CASE WHEN later THEN pgwork._due(coalesce(u.run_at, CASE WHEN cardinality(run_ats) = 1 THEN run_ats[1] END),
                                                     coalesce(u.delay_ms, CASE WHEN cardinality(delays_ms) = 1 THEN delays_ms[1] END), u.i) END AS due,
                    coalesce(u.max_attempt, CASE WHEN cardinality(max_attempts) = 1 THEN max_attempts[1] END) AS max_attempts,
                    coalesce(u.lease_ms, CASE WHEN cardinality(leases_ms) = 1 THEN leases_ms[1] END) AS lease_ms,
                    coalesce(u.tag, CASE WHEN cardinality(tags) = 1 THEN tags[1] END)::text[] AS tags
                  FROM unnest(new_ids, payloads, kinds, bodies, priorities, run_ats, delays_ms, max_attempts, leases_ms, tags) WITH ORDINALITY
                    AS u (id, payload, kind, body, priority, run_at, delay_ms, max_attempt, lease_ms, tag, i)
            ), d AS (
                INSERT INTO pgwork.delayed_job (run_at, id, queue, priority, max_attempts, lease_ms, kind, tags, payload, body)
                SELECT due, id, q.id, priority, max_attempts, lease_ms, kind, tags, payload, body FROM new WHERE due > now_is
            )
            INSERT INTO pgwork.live_job (pos, queue, lane, max_attempts, lease_ms, kind, tags, payload, body)
            SELECT id, q.id, 2 * priority + 1, max_attempts, lease_ms, kind, tags, payload, body FROM new WHERE due > now_is IS NOT TRUE;
        END IF;
        IF q.notify THEN
            PERFORM pgwork._wake(q.id, q.name, n);
        END IF;
    END IF;
    IF op IS NOT NULL THEN
        UPDATE pgwork.operation o SET ids = new_ids WHERE o.queue = q.id AND o.op = enqueue_many.op;
    END IF;
    RETURN QUERY SELECT u.id, coalesce(u.outcome, 'new') FROM unnest(new_ids, new_outcomes) u (id, outcome);
END $$;

CREATE FUNCTION pgwork.cancel(queue text, ids bigint[]) RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    q pgwork.queue := pgwork._queue(cancel.queue);
    one bigint;
    place record;
    gone record;
    misses integer;
    asked bigint[]; -- of the pack that was met last
BEGIN
    -- In the order in which everybody locks jobs: rows by token, then packs. Else two that take the same jobs could wait for each other.
    FOR one IN
        SELECT u.id FROM unnest(ids) WITH ORDINALITY u (id, i)
          LEFT JOIN LATERAL pgwork._find(q.id, u.id) f ON true
         ORDER BY f.lane = 31, f.pos, f.lane, u.id, u.i
    LOOP
        id := one;
        IF one = ANY (asked) THEN
            status := 'requested';
            RETURN NEXT;
            CONTINUE;
        END IF;
        misses := 0;
        LOOP
            status := 'gone';
            gone := NULL;
            SELECT * INTO place FROM pgwork._find(q.id, one);
            IF FOUND AND place.lane = 31 THEN
                -- Waits for those who are just taking jobs out: for theirs the request would come too late.
                PERFORM FROM pgwork.pack p WHERE p.queue = q.id AND p.number = place.pos FOR UPDATE;
                -- All that are wanted of it at once: whoever looks for one of its jobs walks over each version of its row.
                asked := ARRAY(SELECT u.i FROM (SELECT unnest(p.ids) AS i FROM pgwork.pack p WHERE p.queue = q.id AND p.number = place.pos) u
                                WHERE u.i IN (SELECT unnest(cancel.ids))
                                  AND NOT EXISTS (SELECT FROM pgwork.pack_out o WHERE o.queue = q.id AND o.number = place.pos AND o.id = u.i));
                IF current_setting('transaction_isolation') <> 'read committed' THEN
                    PERFORM pgwork._still_in(q.id, place.pos, asked);
                END IF;
                UPDATE pgwork.pack p SET cancelled = ARRAY(SELECT unnest(p.cancelled) UNION SELECT unnest(asked))
                 WHERE p.queue = q.id AND p.number = place.pos AND asked <> '{}';
                status := CASE WHEN one = ANY (asked) THEN 'requested' ELSE 'gone' END;
            ELSIF FOUND AND place.leased THEN
                UPDATE pgwork.live_job j SET flags = j.flags | 1
                 WHERE j.queue = q.id AND j.lane = place.lane AND j.pos = place.pos AND j.token IS NOT NULL;
                status := CASE WHEN FOUND THEN 'requested' ELSE 'gone' END;
            ELSIF FOUND AND place.bundle THEN
                -- The lock first, then a look of its own: where the job stands may have changed while we waited.
                PERFORM FROM pgwork.live_job j WHERE j.queue = q.id AND j.lane = place.lane AND j.pos = place.pos AND j.jobs IS NOT NULL FOR UPDATE;
                SELECT one AS id, j.created_at, (j.lane / 2)::smallint AS priority, j.attempt, j.all_kinds[i] AS kind, NULL::text AS key, NULL::text[] AS tags,
                       j.all_payloads[i] AS payload, j.jobs, i INTO gone
                  FROM pgwork.live_job j CROSS JOIN LATERAL (SELECT array_position(j.all_ids, one) AS i OFFSET 0) i
                 WHERE j.queue = q.id AND j.lane = place.lane AND j.pos = place.pos AND j.jobs IS NOT NULL AND one = ANY (j.all_ids);
                status := CASE WHEN FOUND THEN 'cancelled' ELSE 'gone' END;
                IF status = 'gone' THEN
                    NULL;
                ELSIF gone.jobs > 1 THEN
                    UPDATE pgwork.live_job j
                       SET jobs = j.jobs - 1, all_ids = j.all_ids[:gone.i - 1] || j.all_ids[gone.i + 1:], all_kinds = j.all_kinds[:gone.i - 1] || j.all_kinds[gone.i + 1:],
                           all_payloads = j.all_payloads[:gone.i - 1] || j.all_payloads[gone.i + 1:]
                     WHERE j.queue = q.id AND j.lane = place.lane AND j.pos = place.pos AND j.jobs IS NOT NULL;
                ELSE
                    DELETE FROM pgwork.live_job j WHERE j.queue = q.id AND j.lane = place.lane AND j.pos = place.pos AND j.jobs = 1;
                END IF;
            ELSIF FOUND THEN
                DELETE FROM pgwork.live_job j
                 WHERE j.queue = q.id AND j.lane = place.lane AND j.pos = place.pos AND j.token IS NULL
                RETURNING coalesce(j.id, j.pos) AS id, j.created_at, (j.lane / 2)::smallint AS priority, j.attempt, j.kind, j.key, j.tags, j.payload INTO gone;
                status := CASE WHEN FOUND THEN 'cancelled' ELSE 'gone' END;
            ELSE
                DELETE FROM pgwork.delayed_job j WHERE j.queue = q.id AND j.id = one
                RETURNING j.id, j.created_at, j.priority, j.attempt, j.kind, j.key, j.tags, j.payload INTO gone;
                status := CASE WHEN FOUND THEN 'cancelled' ELSE 'gone' END;
            END IF;
            EXIT WHEN status <> 'gone';
            -- Claimed or moved while we waited for its row? Each place is looked at with a snapshot of its own, and a job could go
            -- from one to the other between two of them: so it is gone when two rounds have not met it.
            PERFORM pgwork._refuse_outdated();
            misses := CASE WHEN EXISTS (SELECT FROM pgwork._find(q.id, one)) THEN 0 ELSE misses + 1 END;
            EXIT WHEN misses > 1;
        END LOOP;
        IF status = 'cancelled' THEN
            IF gone.key IS NOT NULL THEN
                PERFORM pgwork._free(q.id, ARRAY[gone.id], ARRAY[gone.key]); -- which never waits: we may have locked what its taker is to replace
            END IF;
            IF q.retention_ms > 0 THEN
                INSERT INTO pgwork.done_job (id, created_at, queue, priority, attempt, cancelled, kind, key, tags, payload)
                VALUES (gone.id, gone.created_at, q.id, gone.priority, gone.attempt, true, gone.kind, gone.key, gone.tags, gone.payload)
                ON CONFLICT DO NOTHING;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

COMMENT ON TYPE pgwork.enqueued IS 'What enqueue() and enqueue_many() return for each job.';
COMMENT ON FUNCTION pgwork.enqueue(text, jsonb, text, bytea, integer, timestamptz, bigint, integer, bigint, text[], text, text, text, bigint, uuid) IS
    'Adds a job in the caller''s transaction. outcome: new, exists or replaced (unique key taken), repeated (op was applied before).';
COMMENT ON FUNCTION pgwork.enqueue_many(text, jsonb[], text[], bytea[], integer[], timestamptz[], bigint[], integer[], bigint[], text[], text[], text, text, bigint, uuid) IS
    'Adds many jobs at once, all or none; a row for each in order. An array has as many elements as payloads, or 1 (same for all), or is NULL; an element of tags is an array literal like {a,b}.';
COMMENT ON FUNCTION pgwork.cancel(text, bigint[]) IS
    'Removes waiting jobs (cancelled); asks the holders of running ones to stop (requested: they hear it at their next extend); gone: no such job.';
