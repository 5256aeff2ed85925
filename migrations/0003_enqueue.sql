-- 0003: producers. A job exists from the commit of the transaction that enqueued it. Every function
-- that draws positions first gets a transaction id and the lock of live_job. By these two the
-- low-water marks (0004_marks.sql) recognize a transaction that may own a position.

-- Finds live jobs by id. `first` is the id of a job's row, NULL for a job at its first position. Here
-- and in later joins even the queue comes from the list of wanted ids, by = ANY, so that no plan can
-- start with all jobs. Such a plan seems cheap while the table is empty, and stays when it has grown.
CREATE FUNCTION pgwork._find(queue integer, id bigint)
RETURNS TABLE (lane smallint, pos bigint, first bigint, leased boolean, shared boolean) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
    RETURN QUERY SELECT j.lane, j.pos, j.id, j.token IS NOT NULL, false
      FROM (SELECT _find.queue AS queue, l::smallint AS lane, _find.id AS pos FROM generate_series(0, 19) l OFFSET 0) p
      JOIN pgwork.live_job j ON j.queue = ANY (ARRAY[p.queue]) AND j.lane = p.lane AND j.pos = p.pos AND j.id IS NULL
     LIMIT 1;
    IF NOT FOUND THEN
        -- All ids of a batch row are equal except for their last 19 bits, so few rows qualify.
        RETURN QUERY SELECT j.lane, j.pos, j.id, j.token IS NOT NULL, j.ids IS NOT NULL FROM pgwork.live_job j
         WHERE j.queue = _find.queue AND j.id BETWEEN _find.id & ~524287::bigint AND _find.id AND j.last_id >= _find.id
           AND CASE WHEN j.ids IS NULL THEN j.id = _find.id
                    ELSE _find.id = ANY (j.ids) AND _find.id <> ALL (coalesce(j.gone_ids, '{}')) END
         ORDER BY j.id DESC LIMIT 1;
    END IF;
END $$;

CREATE FUNCTION pgwork._waits(queue integer, id bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pgwork._find(queue, id) f WHERE NOT f.leased)
        OR EXISTS (SELECT FROM pgwork.delayed_job j WHERE j.queue = _waits.queue AND j.id = _waits.id);
END $$;

-- The size of a job in bytes. A payload that was read from a table may be compressed.
CREATE FUNCTION pgwork._bytes(payload jsonb, body bytea) RETURNS bigint LANGUAGE sql STABLE
RETURN coalesce(CASE WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload)
                     ELSE octet_length(payload::text) END, 0)::bigint + coalesce(octet_length(body), 0);

CREATE TYPE pgwork._new_job AS (id bigint, payload jsonb, kind text, body bytea, priority integer, due timestamptz,
    max_attempts integer, lease_ms bigint, tags text[], key text, grp text, expires_at timestamptz, meta jsonb);

CREATE FUNCTION pgwork._check_new(q pgwork.queue, j pgwork._new_job, bytes bigint, i bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    words CONSTANT text := 'up to 255 bytes without control characters';
    names CONSTANT text := '1 to 255 bytes without control characters';
BEGIN
    IF bytes > q.max_bytes THEN
        PERFORM pgwork._raise('PW002',
            format('payload and body have %s bytes: queue "%s" allows at most %s', bytes, q.name, q.max_bytes),
            'store large data elsewhere and enqueue a reference, or raise max_bytes with pgwork.queue_set()', i);
    END IF;
    PERFORM pgwork._refuse(c.name, c.value, c.allowed, i)
       FROM (VALUES (octet_length(j.kind) > 255 OR j.kind ~ '[[:cntrl:]]', 'kind', j.kind, words),
                    (j.priority NOT BETWEEN 0 AND 9, 'priority', j.priority::text, '0..9 (0 comes first)'),
                    (nullif(j.max_attempts, -1) NOT BETWEEN 1 AND 1000, 'max_attempts', j.max_attempts::text,
                     '1..1000, or -1'), (j.lease_ms NOT BETWEEN 100 AND 86400000, 'lease_ms', j.lease_ms::text,
                     '100..86400000'), (cardinality(j.tags) > 32, 'tags', cardinality(j.tags) || ' tags', 'at most 32'),
                    (array_ndims(j.tags) > 1, 'tags', 'an array with bounds ' || array_dims(j.tags), 'one dimension'),
                    (octet_length(j.key) NOT BETWEEN 1 AND 255 OR j.key ~ '[[:cntrl:]]', 'key', j.key, names),
                    (octet_length(j.grp) NOT BETWEEN 1 AND 255 OR j.grp ~ '[[:cntrl:]]', 'grp', j.grp, names),
                    (NOT (j.expires_at > '-infinity' AND j.expires_at < '294247-01-10 00:00Z'), -- 64 bits of us
                     'expires_at', j.expires_at::text, 'a time before 294247-01-10'),
                    (jsonb_typeof(j.meta) <> 'object' OR pg_column_size(j.meta) > 65536, 'meta',
                     'JSON ' || jsonb_typeof(j.meta), 'a JSON object of at most 64 KB'), (j.meta -> 'timeout_ms'
                     NOT BETWEEN '1' AND '2592000000', 'meta.timeout_ms', j.meta ->> 'timeout_ms', '1..2592000000')
             UNION ALL SELECT octet_length(t) > 255 OR t ~ '[[:cntrl:]]', 'tags', t, words FROM unnest(j.tags) t
            ) c (bad, name, value, allowed) WHERE c.bad;
END $$;

-- When a job becomes ready. NULL: now. At most ten years ahead.
CREATE FUNCTION pgwork._due(run_at timestamptz, delay_ms bigint, i bigint DEFAULT NULL) RETURNS timestamptz
LANGUAGE plpgsql AS $$
DECLARE top CONSTANT timestamptz := pgwork._now() + interval '315360000 s';
BEGIN
    PERFORM pgwork._refuse_unless(num_nulls(run_at, delay_ms) > 0, 'delay_ms', delay_ms::text,
                                  'NULL together with run_at', i),
            pgwork._refuse_unless(coalesce(delay_ms, 0) BETWEEN 0 AND 315360000000, 'delay_ms', delay_ms::text,
                                  '0..315360000000 (ten years)', i),
            pgwork._refuse_unless(coalesce(run_at > '-infinity' AND run_at <= top, true), 'run_at', run_at::text,
                                  'a time up to ' || top::date || ' (ten years from now)', i);
    RETURN coalesce(run_at, pgwork._now() + nullif(delay_ms, 0) * interval '1 ms');
END $$;

-- Begins an enqueue. If its operation was applied before, returns the earlier ids, even if it would be refused now.
CREATE FUNCTION pgwork._begin(q pgwork.queue, op uuid) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE before bigint[];
BEGIN
    WHILE _begin.op IS NOT NULL LOOP
        INSERT INTO pgwork.operation (queue, op, ids) VALUES (q.id, _begin.op, '{}') ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND; -- _put() completes it
        -- The row lock is a write, so this answer also waits for the disk, and for a synchronous standby.
        SELECT o.ids INTO before FROM pgwork.operation o WHERE o.queue = q.id AND o.op = _begin.op FOR KEY SHARE;
        IF FOUND THEN RETURN before; END IF; -- otherwise it has just been pruned
    END LOOP;
    IF q.draining THEN
        RAISE EXCEPTION 'queue "%" is being drained and accepts no jobs', q.name
            USING ERRCODE = 'PW004', HINT = 'pgwork.queue_resume() opens it again';
    END IF;
    PERFORM pg_current_xact_id();
    LOCK TABLE pgwork.live_job IN ROW EXCLUSIVE MODE;
    RETURN NULL;
END $$;

-- Takes the job's unique key. `id` is this job, or the job that has the key. Waits for a concurrent producer
-- of the same key to commit or roll back. Locks no existing row: finishing jobs must not wait for a producer.
CREATE FUNCTION pgwork._take_key(q pgwork.queue, j pgwork._new_job, key_scope text, key_policy text,
    key_period_ms bigint, key_replace text[], i bigint, OUT id bigint, OUT outcome text) LANGUAGE plpgsql AS $$
DECLARE
    taken pgwork.unique_key; waits boolean;
    until timestamptz := CASE WHEN key_scope = 'period' THEN pgwork._now() + key_period_ms * interval '1 ms' END;
BEGIN
    IF key_policy = 'delay' THEN
        PERFORM pgwork._check_delay(j, key_period_ms, i);
        key_scope := 'ready'; key_replace := key_replace || '{payload,time}';
    END IF;
    LOOP
        INSERT INTO pgwork.unique_key (queue, key, id, free_after, while_ready)
        VALUES (q.id, j.key, j.id, until, key_scope = 'ready') ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        SELECT * INTO taken FROM pgwork.unique_key u WHERE u.queue = q.id AND u.key = j.key;
        CONTINUE WHEN NOT FOUND; -- freed in the meantime
        waits := EXISTS (SELECT FROM pgwork._unfinished(q.id, ARRAY[taken.id]) u WHERE NOT u.leased);
        IF taken.free_after <= pgwork._now() OR taken.while_ready AND NOT waits THEN
            -- The period has ended, or the job was claimed: claims leave the key, so it is freed here.
            UPDATE pgwork.unique_key u SET id = j.id, free_after = until, while_ready = key_scope = 'ready'
             WHERE u.queue = q.id AND u.key = j.key AND u.id = taken.id;
            EXIT WHEN FOUND;
            CONTINUE;
        ELSIF key_policy = 'error' THEN
            PERFORM pgwork._raise('PW005', format('queue "%s" already has a job with this unique key', q.name),
                format('wait until job %s frees the key, or pass key_policy => ''skip'' or ''replace''', taken.id), i);
        END IF;
        id := taken.id; outcome := 'exists';
        IF key_policy IN ('replace', 'delay') THEN -- a running job is not changed
            IF pgwork._replace(q, taken.id, j, coalesce(key_replace, '{payload}'),
                               CASE key_policy WHEN 'delay' THEN key_period_ms END) THEN outcome := 'replaced'; END IF;
            -- Tries again if the job no longer waits, or waits in another table now.
            CONTINUE WHEN outcome = 'exists' AND (waits OR pgwork._waits(q.id, taken.id));
        END IF;
        RETURN;
    END LOOP;
    id := j.id; outcome := 'new';
END $$;

-- The outcome for a job to enqueue. A type, because OUT parameters would be decoded at every call.
CREATE TYPE pgwork.enqueued AS (id bigint, outcome text);

CREATE FUNCTION pgwork.enqueue(queue text, payload jsonb DEFAULT NULL, kind text DEFAULT '', body bytea DEFAULT NULL,
    priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL, delay_ms bigint DEFAULT NULL,
    max_attempts integer DEFAULT NULL, lease_ms bigint DEFAULT NULL, tags text[] DEFAULT NULL, key text DEFAULT NULL,
    key_scope text DEFAULT 'unfinished', key_policy text DEFAULT 'skip', key_period_ms bigint DEFAULT NULL,
    op uuid DEFAULT NULL, grp text DEFAULT NULL, expires_at timestamptz DEFAULT NULL, meta jsonb DEFAULT NULL,
    ttl_ms bigint DEFAULT NULL, key_replace text[] DEFAULT NULL) RETURNS pgwork.enqueued
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE job pgwork.enqueued; waiters boolean; q pgwork.queue; before bigint[]; new pgwork._new_job;
BEGIN
    -- The usual case: one statement checks everything and stores the job. All conditions refer to
    -- t, so that they form one filter. The only value that is not null is the transaction's id.
    INSERT INTO pgwork.live_job (queue, lane, kind, payload, body)
    SELECT t.id, 2 * enqueue.priority + 1, enqueue.kind, enqueue.payload, enqueue.body FROM pgwork.queue t
     WHERE t.name = enqueue.queue
       AND num_nonnulls(pg_current_xact_id(), nullif(t.draining, false), pg_column_compression(enqueue.payload),
                        enqueue.run_at, enqueue.delay_ms, enqueue.max_attempts, enqueue.lease_ms, enqueue.tags,
                        enqueue.key, enqueue.op, enqueue.grp, enqueue.expires_at, enqueue.meta, enqueue.ttl_ms,
                        t.queue_limit) = 1
       AND coalesce(pg_column_size(enqueue.payload), 0)::bigint + coalesce(octet_length(enqueue.body), 0)
           <= CASE WHEN enqueue.priority BETWEEN 0 AND 9 AND octet_length(enqueue.kind) <= 255
                        AND enqueue.kind !~ '[[:cntrl:]]' THEN t.max_bytes END
    RETURNING pos, 'new', pgwork._held(pgwork._waiters(enqueue.queue, 272)) INTO job.id, job.outcome, waiters;
    IF NOT waiters THEN
        RETURN job;
    ELSIF waiters THEN -- NULL: nothing was stored
        PERFORM pgwork._wake(t.name, 1) FROM pgwork.queue t WHERE t.name = enqueue.queue AND t.notify;
        RETURN job;
    END IF;
    q := pgwork._queue_made(queue);
    before := pgwork._begin(q, op);
    IF before IS NOT NULL THEN RETURN (before[1], 'repeated')::pgwork.enqueued; END IF;
    new := (nextval('pgwork.position'), payload, coalesce(kind, ''), body, coalesce(priority, 0),
            pgwork._due(run_at, delay_ms), max_attempts, lease_ms, tags, key, grp, expires_at, meta);
    PERFORM pgwork._check_new(q, new, pgwork._bytes(payload, body), NULL),
            pgwork._check_key(key IS NOT NULL, key_scope, key_policy, key_period_ms, key_replace);
    IF num_nonnulls(expires_at, ttl_ms) > 0 THEN
        new := (pgwork._expiring(q.id, ARRAY[new], ARRAY[ttl_ms], false))[1];
    END IF;
    SELECT p.* INTO job FROM pgwork._put(q, ARRAY[new], key_scope, key_policy, key_period_ms, key_replace, op, false) p;
    RETURN job;
END $$;

-- Checks an array argument: one element per job, or one for all. Returns the bytes of all jobs together.
CREATE FUNCTION pgwork._check_length(n integer, name text, given anyarray) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(given) NOT IN (1, n) THEN
        PERFORM pgwork._refuse(name, cardinality(given) || ' elements', 'NULL, 1 or ' || n || ' elements');
    ELSIF array_ndims(given) > 1 OR array_lower(given, 1) <> 1 THEN
        PERFORM pgwork._refuse(name, 'an array with bounds ' || array_dims(given), 'one dimension from index 1');
    END IF;
    RETURN coalesce(pg_column_size(given)::bigint * CASE WHEN cardinality(given) = 1 THEN n ELSE 1 END, 0);
END $$;

CREATE FUNCTION pgwork._check_literals(tags text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM t::text[] FROM unnest(tags) t;
EXCEPTION WHEN data_exception THEN
    PERFORM pgwork._refuse('tags', 'not an array literal', 'for each job an array as text, such as {a,b}');
END $$;

-- The i-th element, or the only one.
CREATE FUNCTION pgwork._ith(given anyarray, i bigint) RETURNS anyelement
LANGUAGE sql IMMUTABLE AS 'SELECT given[CASE WHEN cardinality(given) = 1 THEN 1 ELSE i END]';

-- Stores new jobs: several plain ones as batch rows of a hundred. Returns the number of ready jobs.
CREATE FUNCTION pgwork._store(queue integer, jobs pgwork._new_job[]) RETURNS bigint LANGUAGE plpgsql SET jit = off AS $$
DECLARE now_is CONSTANT timestamptz := pgwork._now(); n_ready bigint;
BEGIN
    WITH new AS MATERIALIZED (
        SELECT u.*, coalesce(u.due > now_is, false) AS later,
               cardinality(jobs) > 1 AND coalesce(pg_column_size(u.payload), 0) <= 2000 AND num_nonnulls(
                   u.body, u.max_attempts, u.lease_ms, u.tags, u.key, u.grp, u.expires_at, u.meta) = 0 AS plain
          FROM unnest(jobs) u
    ), d AS (
        INSERT INTO pgwork.delayed_job (run_at, id, queue, priority, max_attempts, lease_ms, kind, key, tags, payload,
                                        body, grp, expires_at, meta)
        SELECT due, id, _store.queue, priority, max_attempts, lease_ms, kind, key, tags, payload, body, grp, expires_at,
               meta FROM new WHERE later
    ), s AS (
        INSERT INTO pgwork.live_job (pos, queue, lane, max_attempts, lease_ms, kind, key, tags, payload, body, grp,
                                     expires_at, meta)
        SELECT id, _store.queue, 2 * priority + 1, max_attempts, lease_ms, kind, key, tags, payload, body, grp,
               expires_at, meta FROM new WHERE NOT later AND NOT plain
    ), b AS (INSERT INTO pgwork.live_job (pos, queue, lane, n, id, last_id, created_at, ids, kinds, payloads, created)
        SELECT min(p.id), _store.queue, 2 * p.priority + 1, count(*), min(p.id), max(p.id), now_is,
               array_agg(p.id), array_agg(p.kind), array_agg(p.payload), array_agg(now_is)
          FROM (SELECT *, (row_number() OVER (ORDER BY priority, id) - 1) / 100 AS part
                  FROM new WHERE NOT later AND plain) p GROUP BY p.part, p.priority, p.id >> 19 ORDER BY 1
    ) SELECT count(*) FILTER (WHERE NOT later) INTO n_ready FROM new;
    RETURN n_ready;
END $$;

-- Locks jobs to be replaced: one such call at a time, and in the lock order of cancel(), so that there is no deadlock.
CREATE FUNCTION pgwork._lock_replaced(queue integer, keys text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(pgwork._lock('replace', queue))
      WHERE NOT pgwork._in_turn(pgwork._lock('replace', queue));
    PERFORM FROM (SELECT _lock_replaced.queue, u.id, f.lane, f.pos FROM (SELECT DISTINCT k FROM unnest(keys) k) k (key)
                   CROSS JOIN LATERAL (SELECT u.id FROM pgwork.unique_key u
                                        WHERE u.queue = _lock_replaced.queue AND u.key = k.key OFFSET 0) u
                    LEFT JOIN LATERAL pgwork._find(_lock_replaced.queue, u.id) f ON NOT f.leased
                   ORDER BY f.pos, f.lane, u.id OFFSET 0) f
      LEFT JOIN LATERAL (SELECT FROM pgwork.live_job j
                          WHERE j.queue = ANY (ARRAY[f.queue]) AND j.lane = f.lane AND j.pos = f.pos AND j.token IS NULL
                            FOR NO KEY UPDATE) j ON true
      LEFT JOIN LATERAL (SELECT FROM pgwork.delayed_job d WHERE d.queue = ANY (ARRAY[f.queue]) AND d.id = f.id
                            FOR NO KEY UPDATE) d ON true;
END $$;

-- Takes the keys of new jobs, stores them, wakes up workers, and completes the operation.
CREATE FUNCTION pgwork._put(q pgwork.queue, jobs pgwork._new_job[], key_scope text, key_policy text,
    key_period_ms bigint, key_replace text[], op uuid, many boolean) RETURNS SETOF pgwork.enqueued LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    new_ids bigint[]; outcomes text[] := array_fill('new'::text, ARRAY[cardinality(jobs)]);
    keys text[]; gated boolean; n_ready bigint := 0; one record; taken pgwork.enqueued;
BEGIN
    SELECT array_agg(u.id), array_agg(u.key) FILTER (WHERE u.key IS NOT NULL),
           bool_or(u.grp IS NOT NULL OR q.queue_limit IS NOT NULL) INTO new_ids, keys, gated FROM unnest(jobs) u;
    IF keys IS NULL THEN
        n_ready := CASE WHEN gated THEN pgwork._store_gated(q, jobs) ELSE pgwork._store(q.id, jobs) END;
    ELSE
        IF many AND key_policy IN ('replace', 'delay') THEN PERFORM pgwork._lock_replaced(q.id, keys); END IF;
        -- In the order of the keys, so that two batches with the same keys cannot deadlock.
        FOR one IN SELECT u.i, u.job, (u.job).key FROM (SELECT i, jobs[i] AS job FROM generate_subscripts(jobs, 1) i) u
                    ORDER BY (u.job).key, u.i LOOP
            IF one.key IS NOT NULL THEN
                SELECT k.* INTO taken FROM pgwork._take_key(q, one.job, key_scope, key_policy, key_period_ms,
                                                            key_replace, CASE WHEN many THEN one.i END) k;
                new_ids[one.i] := taken.id; outcomes[one.i] := taken.outcome;
            END IF;
            IF outcomes[one.i] = 'new' THEN n_ready := n_ready + pgwork._store_gated(q, ARRAY[one.job]); END IF;
        END LOOP;
    END IF;
    IF q.notify AND n_ready > 0 THEN PERFORM pgwork._wake(q.name, n_ready); END IF;
    IF _put.op IS NOT NULL THEN
        UPDATE pgwork.operation o SET ids = new_ids WHERE o.queue = q.id AND o.op = _put.op;
    END IF;
    RETURN QUERY SELECT * FROM unnest(new_ids, outcomes);
END $$;

CREATE FUNCTION pgwork.enqueue_many(queue text, payloads jsonb[], kinds text[] DEFAULT NULL,
    bodies bytea[] DEFAULT NULL, priorities integer[] DEFAULT NULL, run_ats timestamptz[] DEFAULT NULL,
    delays_ms bigint[] DEFAULT NULL, max_attempts integer[] DEFAULT NULL, leases_ms bigint[] DEFAULT NULL,
    tags text[] DEFAULT NULL, keys text[] DEFAULT NULL, key_scope text DEFAULT 'unfinished',
    key_policy text DEFAULT 'skip', key_period_ms bigint DEFAULT NULL, op uuid DEFAULT NULL,
    grps text[] DEFAULT NULL, expires_ats timestamptz[] DEFAULT NULL, metas jsonb[] DEFAULT NULL,
    ttls_ms bigint[] DEFAULT NULL, key_replace text[] DEFAULT NULL) RETURNS SETOF pgwork.enqueued
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    q pgwork.queue := pgwork._queue_made(queue);
    n integer := coalesce(cardinality(payloads), 0);
    before bigint[] := pgwork._begin(q, CASE WHEN n > 0 THEN op END); bytes bigint; jobs pgwork._new_job[];
BEGIN
    IF before IS NOT NULL THEN RETURN QUERY SELECT unnest(before), 'repeated'; RETURN; END IF;
    PERFORM pgwork._refuse_unless(n <= 10000, 'payloads', n || ' jobs', 'at most 10000');
    bytes := pg_column_size(payloads);
    IF num_nonnulls(kinds, bodies, priorities, run_ats, delays_ms, max_attempts, leases_ms, tags, keys, grps,
                    expires_ats, metas, ttls_ms) > 0 THEN
        bytes := bytes + pgwork._check_length(n, 'kinds', kinds) + pgwork._check_length(n, 'bodies', bodies)
               + pgwork._check_length(n, 'priorities', priorities) + pgwork._check_length(n, 'run_ats', run_ats)
               + pgwork._check_length(n, 'delays_ms', delays_ms) + pgwork._check_length(n, 'max_attempts', max_attempts)
               + pgwork._check_length(n, 'leases_ms', leases_ms) + pgwork._check_length(n, 'tags', tags)
               + pgwork._check_length(n, 'keys', keys) + pgwork._check_length(n, 'grps', grps)
               + pgwork._check_length(n, 'expires_ats', expires_ats) + pgwork._check_length(n, 'metas', metas)
               + pgwork._check_length(n, 'ttls_ms', ttls_ms);
        PERFORM pgwork._check_literals(tags) WHERE tags IS NOT NULL;
    END IF;
    IF bytes > 268435456 AND n > 1 THEN
        PERFORM pgwork._raise('PW002', format('%s jobs have %s bytes: a call accepts at most 268435456', n, bytes),
                              'enqueue them in several calls', NULL);
    END IF;
    PERFORM pgwork._check_key(keys IS NOT NULL, key_scope, key_policy, key_period_ms, key_replace);
    IF n = 0 THEN RETURN; END IF;
    SELECT array_agg((nextval('pgwork.position'), u.payload, coalesce(pgwork._ith(kinds, u.i), ''),
                      pgwork._ith(bodies, u.i), coalesce(pgwork._ith(priorities, u.i), 0),
                      CASE WHEN num_nulls(run_ats, delays_ms) < 2
                           THEN pgwork._due(pgwork._ith(run_ats, u.i), pgwork._ith(delays_ms, u.i), u.i) END,
                      pgwork._ith(max_attempts, u.i), pgwork._ith(leases_ms, u.i), pgwork._ith(tags, u.i)::text[],
                      pgwork._ith(keys, u.i), pgwork._ith(grps, u.i), pgwork._ith(expires_ats, u.i),
                      pgwork._ith(metas, u.i))::pgwork._new_job)
      INTO jobs FROM unnest(payloads) WITH ORDINALITY u (payload, i);
    IF num_nonnulls(kinds, bodies, priorities, max_attempts, leases_ms, tags, keys, grps, expires_ats, metas) > 0
       OR pg_column_size(payloads) > q.max_bytes OR q.max_bytes < 16777216 THEN
        PERFORM pgwork._check_new(q, u.j, pgwork._bytes((u.j).payload, (u.j).body), u.i)
           FROM (SELECT j, row_number() OVER () AS i FROM unnest(jobs) j) u;
    END IF;
    IF num_nonnulls(expires_ats, ttls_ms) > 0 THEN jobs := pgwork._expiring(q.id, jobs, ttls_ms, true); END IF;
    RETURN QUERY SELECT * FROM pgwork._put(q, jobs, key_scope, key_policy, key_period_ms, key_replace, op, true);
END $$;

CREATE FUNCTION pgwork._cancel(q pgwork.queue, one bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE place record; row_at tid; i integer; gone pgwork.live_job; -- what was deleted
BEGIN
    SELECT * INTO place FROM pgwork._find(q.id, one);
    IF place.leased THEN
        INSERT INTO pgwork.cancel_request VALUES (q.id, one) ON CONFLICT DO NOTHING; -- does not lock the job's row
        RETURN 'requested';
    ELSIF place.shared THEN
        -- Locks first, then reads with a new snapshot: the job may have moved during the wait.
        SELECT j.ctid INTO row_at FROM pgwork.live_job j
         WHERE j.queue = q.id AND j.lane = place.lane AND j.pos = place.pos AND j.id = place.first FOR UPDATE;
        SELECT * INTO gone FROM pgwork.live_job j WHERE j.ctid = row_at AND j.token IS NULL AND one = ANY (j.ids);
        i := array_position(gone.ids, one);
        IF gone.n > 1 THEN
            UPDATE pgwork.live_job j
               SET n = j.n - 1, ids = j.ids[:i - 1] || j.ids[i + 1:], kinds = j.kinds[:i - 1] || j.kinds[i + 1:],
                   payloads = j.payloads[:i - 1] || j.payloads[i + 1:], created = j.created[:i - 1] || j.created[i + 1:]
             WHERE j.ctid = row_at;
        ELSIF i IS NOT NULL THEN
            DELETE FROM pgwork.live_job j WHERE j.ctid = row_at;
        END IF;
        gone.kind := gone.kinds[i]; gone.payload := gone.payloads[i]; gone.created_at := gone.created[i];
    ELSIF place.lane IS NOT NULL THEN
        DELETE FROM pgwork.live_job j
         WHERE j.queue = q.id AND j.lane = place.lane AND j.pos = place.pos AND j.token IS NULL
           AND coalesce(j.id, j.pos) = one
        RETURNING j.* INTO gone;
    ELSE
        DELETE FROM pgwork.delayed_job d WHERE d.queue = q.id AND d.id = one
        RETURNING d.created_at, 2 * d.priority + 1, d.attempt, d.kind, d.key, d.tags, d.payload, d.grp
             INTO gone.created_at, gone.lane, gone.attempt, gone.kind, gone.key, gone.tags, gone.payload, gone.grp;
    END IF;
    IF gone.lane IS NULL THEN RETURN NULL; END IF;
    IF gone.key IS NOT NULL THEN PERFORM pgwork._free(q.id, ARRAY[one], ARRAY[gone.key]); END IF;
    IF gone.grp IS NOT NULL THEN PERFORM pgwork._leave_gates(q.id, ARRAY[one]); END IF;
    INSERT INTO pgwork.done_job (id, created_at, queue, priority, attempt, cancelled, kind, key, tags, payload)
    SELECT one, gone.created_at, q.id, gone.lane / 2, gone.attempt, true, gone.kind, gone.key, gone.tags,
           gone.payload WHERE q.retention_ms > 0 ON CONFLICT DO NOTHING;
    RETURN 'cancelled';
END $$;

CREATE FUNCTION pgwork.cancel(queue text, ids bigint[]) RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE q pgwork.queue := pgwork._queue(cancel.queue); misses integer;
BEGIN
    -- In the common lock order. Otherwise two calls for the same jobs could deadlock.
    FOR id IN SELECT u.id FROM unnest(ids) WITH ORDINALITY u (id, i)
                LEFT JOIN LATERAL pgwork._find(q.id, u.id) f ON true ORDER BY f.pos, f.lane, u.id, u.i LOOP
        misses := 0;
        LOOP
            status := pgwork._cancel(q, id);
            -- Each table is read with a new snapshot, and a job can move from one table to another
            -- meanwhile. So a job is gone if two rounds have not found it.
            EXIT WHEN status IS NOT NULL OR misses > 1;
            misses := CASE WHEN pgwork._waits(q.id, id) OR EXISTS (SELECT FROM pgwork._find(q.id, id)) THEN 0
                           ELSE misses + 1 END;
        END LOOP;
        IF status = 'requested' AND pgwork._may_notify() THEN -- the worker that has the job listens there
            PERFORM pg_notify('pgwork_cancel_' || split_part('pgwork.', '.', 1), id::text);
        END IF;
        status := coalesce(status, 'gone');
        RETURN NEXT;
    END LOOP;
END $$;

COMMENT ON FUNCTION pgwork.enqueue IS 'Adds a job in your transaction. outcome: new, exists, replaced or repeated.';
COMMENT ON FUNCTION pgwork.enqueue_many IS 'Adds many jobs, all or none. Returns one row per job, in order.';
COMMENT ON FUNCTION pgwork.cancel IS 'Removes waiting jobs (cancelled) and asks holders to stop (requested); or gone.';
