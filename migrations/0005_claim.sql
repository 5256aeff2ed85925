-- 0005: claims. A claim returns at most n jobs, none under a live lease: the lowest priority number first, then the
-- oldest. It skips rows that an open transaction has locked. It returns a quarantined job (the last holder died) alone;
-- one claim in four tries these first. doc/engine.md explains a claim step by step.

-- A token is position * 32 + lane of its row, then 64 random bits. The number grows with every claim of a job.
CREATE FUNCTION pgwork.token_number(token uuid) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || encode(substr(uuid_send(token), 1, 8), 'hex'))::bit(64)::bigint;

-- `rest` has 16 hexadecimal digits.
CREATE FUNCTION pgwork._token(number bigint, rest text) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (encode(int8send(number), 'hex') || rest)::uuid;

-- The rows of a claim. They are types because OUT parameters would be decoded at every call.
CREATE TYPE pgwork.claimed AS (queue text, id bigint, token uuid, attempt integer, max_attempts integer,
    priority integer, kind text, payload jsonb, body bytea, tags text[], created_at timestamptz,
    lease_until timestamptz, server_time timestamptz, meta jsonb);
CREATE TYPE pgwork.claimed_batch AS (queue text, id bigint, token uuid, attempt integer, max_attempts integer,
    priority integer, kind text, payload jsonb, body bytea, tags text[], created_at timestamptz,
    lease_until timestamptz, server_time timestamptz, meta jsonb, quarantined boolean,
    ids bigint[], kinds text[], payloads jsonb[], created timestamptz[]);

-- Sorts queues by their first ready jobs: priority, then age; `in_order`: as given. Last come queues without a job.
CREATE FUNCTION pgwork._by_head(queues text[], in_order boolean) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT t.name FROM pgwork.queue t CROSS JOIN LATERAL pgwork._mark(t.id) m
          LEFT JOIN LATERAL (SELECT h.* FROM unnest(m.lanes, m.starts, m.stops) r (lane, start, stop)
                 CROSS JOIN LATERAL (SELECT j.lane / 2 AS priority, j.pos FROM pgwork.live_job j
                                      WHERE j.queue = t.id AND j.lane = r.lane AND j.pos > r.start AND j.pos <= r.stop
                                        AND j.token IS NULL ORDER BY j.pos LIMIT 1) h LIMIT 1) h ON true
         WHERE t.name = ANY (queues) AND CASE WHEN t.paused THEN (pgwork._end_holds(t.name)).ended > 0 ELSE true END
         ORDER BY CASE WHEN in_order AND coalesce(h.pos, (t.rate).semaphore) IS NOT NULL
                       THEN array_position(queues, t.name) END, h.priority, h.pos);
END $$;

-- Stores the jobs of deleted rows again, as ready rows: the first row with `first` jobs, the others with `size`. The
-- position of each row is its first id, which was drawn for that job when it was enqueued.
CREATE FUNCTION pgwork._regroup(queue integer, lane smallint, ids bigint[], kinds text[], payloads jsonb[],
    created timestamptz[], first integer, size integer) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    INSERT INTO pgwork.live_job (pos, queue, lane, n, created_at, kind, payload,
                                 id, last_id, ids, kinds, payloads, created)
    SELECT p.ids[1], queue, lane, p.n, p.created[1],
           CASE p.n WHEN 1 THEN p.kinds[1] ELSE '' END, CASE p.n WHEN 1 THEN p.payloads[1] END,
           CASE WHEN p.n > 1 THEN p.ids[1] END, CASE WHEN p.n > 1 THEN p.ids[p.n] END, CASE WHEN p.n > 1 THEN p.ids END,
           CASE WHEN p.n > 1 THEN p.kinds END, CASE WHEN p.n > 1 THEN p.payloads END,
           CASE WHEN p.n > 1 THEN p.created END
      FROM (SELECT g.upto - g.low AS n, ids[g.low + 1:g.upto] AS ids, kinds[g.low + 1:g.upto] AS kinds,
                   payloads[g.low + 1:g.upto] AS payloads, created[g.low + 1:g.upto] AS created
              FROM (SELECT 0 AS low, first AS upto UNION ALL
                    SELECT g, least(g + size, cardinality(ids))
                      FROM generate_series(first, cardinality(ids) - 1, size) g) g OFFSET 0) p;
END $$;

-- Splits the first ready row of these ranges if it has more than `wanted` jobs: into a row of that size, and others of
-- `size`. Returns the number of jobs in the first row, or NULL if there is no row.
CREATE FUNCTION pgwork._cut(its_name text, lanes smallint[], starts bigint[], stops bigint[], wanted integer,
    size integer, now_is timestamptz) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE cut record;
BEGIN
    SELECT j.* INTO cut FROM pgwork.queue t CROSS JOIN unnest(lanes, starts, stops) r (lane, start, stop)
     CROSS JOIN LATERAL (SELECT j.ctid AS at, j.* FROM pgwork.live_job j
                          WHERE j.queue = t.id AND j.lane = r.lane AND j.pos > r.start AND j.pos <= r.stop
                            AND j.token IS NULL AND (j.expires_at > now_is) IS NOT FALSE
                          ORDER BY j.pos LIMIT 1 FOR UPDATE SKIP LOCKED) j
     WHERE t.name = its_name LIMIT 1;
    IF cut.n <= wanted OR cut.n IS NULL THEN RETURN cut.n; END IF;
    DELETE FROM pgwork.live_job j WHERE j.ctid = cut.at;
    PERFORM pgwork._regroup(cut.queue, cut.lane, cut.ids, cut.kinds, cut.payloads, cut.created, wanted, size);
    RETURN wanted;
END $$;

-- Whether a job may be merged: one plain job at its first position, whose value is cheap to copy.
CREATE FUNCTION pgwork._is_plain(j pgwork.live_job) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
RETURN num_nonnulls(j.id, j.key, j.error, j.max_attempts, j.lease_ms, j.body, j.tags, j.grp, j.expires_at, j.meta) = 0
   AND coalesce(pg_column_size(j.payload), 0) <= 2000 AND pg_column_compression(j.payload) IS NULL;

-- Merges the first ready rows of these ranges, if they are plain, up to `wanted` of them, into rows of equal size. To
-- lease and finish them so is half the work of doing it one by one. Returns that size; 1: nothing was merged.
CREATE FUNCTION pgwork._merge(its_name text, lanes smallint[], starts bigint[], stops bigint[], wanted integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE run record; g record; size integer; fit integer;
BEGIN
    SELECT array_agg(j.at) AS at, min(j.queue) AS queue, array_agg(j.part) AS parts INTO run
      FROM (SELECT j.* FROM pgwork.queue t CROSS JOIN unnest(lanes, starts, stops) r (lane, start, stop)
             CROSS JOIN LATERAL (SELECT j.ctid AS at, j.queue,
                                        CASE WHEN pgwork._is_plain(j) THEN j.pos >> 19 << 5 | j.lane END AS part
                                   FROM pgwork.live_job j
                                  WHERE j.queue = t.id AND j.lane = r.lane AND j.pos > r.start AND j.pos <= r.stop
                                    AND j.token IS NULL AND (j.xmax = '0' OR j.xmax <> ALL (ARRAY(
                                        SELECT x::xid FROM pg_snapshot_xip(pg_current_snapshot()) x)))
                                  ORDER BY j.pos LIMIT wanted FOR UPDATE SKIP LOCKED) j
             WHERE t.name = its_name LIMIT wanted) j;
    fit := coalesce((SELECT min(u.i) - 1 FROM unnest(run.parts) WITH ORDINALITY u (part, i)
                      WHERE u.part IS DISTINCT FROM run.parts[1]), cardinality(run.at));
    IF run.parts[1] IS NULL OR fit < 2 THEN RETURN 1; END IF;
    size := fit / ((fit + 99) / 100);
    WITH d AS (
        DELETE FROM pgwork.live_job j WHERE j.ctid = ANY (run.at[:fit / size * size])
        RETURNING j.pos, j.kind, j.payload, j.created_at
    )
    SELECT array_agg(s.pos) AS ids, array_agg(s.kind) AS kinds, array_agg(s.payload) AS payloads,
           array_agg(s.created_at) AS created INTO g FROM (SELECT * FROM d ORDER BY d.pos) s;
    PERFORM pgwork._regroup(run.queue, (run.parts[1] & 31)::smallint, g.ids, g.kinds, g.payloads, g.created,
                            size, size);
    RETURN size;
END $$;

CREATE FUNCTION pgwork._check_claim(queues text[], n integer, holder text, lease_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgwork._check_range('n', n, 1, 10000),
            pgwork._check_range('lease_ms', coalesce(lease_ms, 100), 100, 86400000),
            pgwork._refuse_unless(octet_length(holder) BETWEEN 1 AND 255 AND holder !~ '[[:cntrl:]]', 'holder', holder,
                                  '1 to 255 bytes without control characters'),
            pgwork._refuse_unless(cardinality(queues) BETWEEN 1 AND 64, 'queues', queues::text, '1 to 64 names');
END $$;

-- A session remembers this about a queue for 200 ms, so that its claims skip jobs that were claimed since the last
-- tick. It is only a hint, lost with the session. [1] hash of the queue's name [2] valid until, us [3] 1: there may
-- be quarantined jobs [4] jobs per row [5] the number of positions that 32 rows span [6] the position after which
-- priority 0 continues; -1: all jobs have lower priorities, or some are late; -2: none is ready [7] when to check again
CREATE FUNCTION pgwork._hint(queue text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 'pgwork.claim_' || (hashtext(queue) & 63)::text;

-- Reads the hint from the ledger. While `old` is valid, continues from it.
CREATE FUNCTION pgwork._renew_hint(its_name text, now_us bigint, old bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE m CONSTANT pgwork.mark := (SELECT pgwork._mark(t.id) FROM pgwork.queue t WHERE t.name = its_name); rows record;
BEGIN
    SELECT (array_agg(j.n))[1] AS n, min(j.pos) - 1 AS start, min(j.lane) AS lane,
           least(CASE count(*) WHEN 32 THEN max(j.pos) - min(j.pos) END, 1::bigint << 48) AS width,
           EXISTS (SELECT FROM unnest(m.lanes[m.front + 1:], m.starts[m.front + 1:]) r (lane, start)
                    CROSS JOIN LATERAL (SELECT FROM pgwork.live_job j WHERE j.queue = m.queue AND j.lane = r.lane
                                           AND j.pos > r.start AND j.token IS NULL LIMIT 1) j) AS quarantined INTO rows
      FROM (SELECT j.* FROM unnest(m.lanes[:m.front], m.starts, m.stops) r (lane, start, stop)
             CROSS JOIN LATERAL (SELECT j.n, j.pos, j.lane FROM pgwork.live_job j
                                  WHERE j.queue = m.queue AND j.lane = r.lane AND j.pos <= r.stop AND j.token IS NULL
                                    AND j.pos > greatest(r.start, CASE r.lane WHEN 1 THEN old[6] END)
                                  ORDER BY j.pos LIMIT 32) j
             LIMIT 32) j;
    RETURN set_config(pgwork._hint(its_name),
        ARRAY[hashtextextended(its_name, 0), coalesce(old[2], now_us + 200000), rows.quarantined::integer,
              coalesce(rows.n, 1), rows.width, CASE WHEN rows.lane > 1 OR m.stops[1] < 9223372036854775807
                  OR rows.n IS NULL AND old[6] >= 0 THEN -1 ELSE coalesce(rows.start, -2) END,
              now_us + 10000]::text, false)::bigint[];
END $$;

-- The hot path: few statements, each with one possible plan, and only SQL functions that are
-- inlined. Starting a statement costs more than a job. A row is one job, or several with `ids`.
CREATE FUNCTION pgwork.claim_batch(queues text[], n integer, holder text, lease_ms bigint DEFAULT NULL,
    done_ids bigint[] DEFAULT NULL, done_tokens uuid[] DEFAULT NULL, apart boolean DEFAULT false,
    in_order boolean DEFAULT false) RETURNS SETOF pgwork.claimed_batch LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    now_is CONSTANT timestamptz := clock_timestamp(); now_us CONSTANT bigint := date_part('epoch', now_is) * 1000000;
    stamp CONSTANT text := overlay(gen_random_uuid()::text PLACING '' FROM 9 FOR 20);
    passed bigint := pgwork.token_number(done_tokens[1]);
    accepted bigint[];
    its_name text;
    hint bigint[];       -- see above
    part text;           -- what it reads. near: after the hint. front: from the marks on. admitted: front again, after
                         -- jobs of groups have become ready. quarantined
    alone boolean;
    lanes smallint[]; starts bigint[]; stops bigint[];
    wanted integer := n; -- jobs
    size integer;        -- the expected number of jobs per row
    got integer := 0; admitted bigint;
BEGIN
    IF (n BETWEEN 1 AND 10000 AND octet_length(holder) BETWEEN 1 AND 255 AND holder !~ '[[:cntrl:]]'
        AND cardinality(queues) BETWEEN 1 AND 64
        AND coalesce(claim_batch.lease_ms, 100) BETWEEN 100 AND 86400000) IS NOT TRUE THEN
        PERFORM pgwork._check_claim(queues, n, holder, lease_ms);
    END IF;
    IF done_ids <> '{}' OR done_tokens <> '{}' THEN
        accepted := pgwork._complete(queues[1], done_ids, done_tokens, NULL);
        IF cardinality(accepted) IS DISTINCT FROM cardinality(done_ids) THEN
            RETURN QUERY SELECT * FROM pgwork._refused_claims(queues[1], done_ids, accepted);
        END IF;
    END IF;
    FOREACH its_name IN ARRAY CASE cardinality(queues) WHEN 1 THEN queues
                                                       ELSE pgwork._by_head(queues, in_order) END LOOP
        hint := nullif(current_setting(pgwork._hint(its_name), true), '')::bigint[];
        IF (hint[1] = hashtextextended(its_name, 0) AND now_us BETWEEN hint[2] - 200000 AND hint[2]) IS NOT TRUE THEN
            hint := pgwork._renew_hint(its_name, now_us, NULL);
            passed := NULL; -- jobs may have become ready before the claimed ones
        ELSIF now_us >= hint[7] AND passed & 31 IS DISTINCT FROM 1 THEN
            hint := pgwork._renew_hint(its_name, now_us, hint);
        END IF;
        FOREACH part IN ARRAY
            CASE WHEN hint[6] = -2 AND hint[7] = now_us + 10000 AND current_setting('transaction_read_only') = 'off'
                 THEN (ARRAY['admitted', 'quarantined'])[:1 + hint[3]] -- it has just been found empty
                 WHEN hint[3] = 1 AND wanted = n AND random() < 0.25 THEN ARRAY['quarantined', 'front', 'admitted']
                 WHEN hint[6] >= 0 THEN ARRAY['near', 'front', 'admitted', 'quarantined']
                 ELSE ARRAY['front', 'admitted', 'quarantined'] END
        LOOP
            IF part = 'admitted' THEN
                admitted := pgwork._admit(its_name, wanted); -- negative: a rate admits the next one in so many ms
                IF admitted < 0 THEN RETURN NEXT pgwork._gated_row(its_name, -admitted); END IF;
                CONTINUE WHEN admitted <= 0;
            END IF;
            EXIT WHEN part = 'quarantined' AND wanted < n; alone := part = 'quarantined';
            size := CASE WHEN alone OR apart THEN 1 ELSE hint[4] END;
            IF part = 'near' THEN
                -- PostgreSQL reads the rest of an index page even for one row, so there is an upper bound.
                lanes := '{1}';
                starts := ARRAY[greatest(hint[6], CASE WHEN passed & 31 = 1 AND its_name = queues[1]
                                                       THEN passed >> 5 END)];
                stops := ARRAY[starts[1] + hint[5] * (1 + wanted / least(size, wanted))];
            ELSE
                SELECT CASE WHEN alone THEN m.lanes[m.front + 1:] ELSE m.lanes[:m.front] END,
                       CASE WHEN alone THEN m.starts[m.front + 1:] ELSE m.starts[:m.front] END,
                       CASE WHEN alone THEN m.stops[m.front + 1:] ELSE m.stops[:m.front] END
                  INTO lanes, starts, stops FROM pgwork.queue t CROSS JOIN LATERAL pgwork._mark(t.id) m
                 WHERE t.name = its_name AND NOT t.paused;
                IF NOT FOUND THEN
                    RETURN QUERY SELECT * FROM pgwork._claim_held(its_name, wanted, holder, lease_ms, apart);
                    EXIT WHEN NOT FOUND;
                    RETURN;
                END IF;
            END IF;
            FOR i IN 1 .. 20 + n / 50 LOOP
                size := least(size, wanted);
                IF wanted > 32 AND size = 1 AND NOT alone AND NOT apart THEN
                    size := pgwork._merge(its_name, lanes, starts, stops, wanted);
                END IF;
                RETURN QUERY
                    WITH p AS MATERIALIZED (
                        SELECT j.at, bool_and(j.n = size) OVER (ROWS UNBOUNDED PRECEDING) AS fits, t.name,
                               t.max_attempts, clock_timestamp() AS since,
                               coalesce(claim_batch.lease_ms, t.lease_ms) AS lease_ms
                          FROM pgwork.queue t CROSS JOIN unnest(lanes, starts, stops) r (lane, start, stop)
                         CROSS JOIN LATERAL (SELECT j.ctid AS at, j.n FROM pgwork.live_job j
                                              WHERE j.queue = t.id AND j.lane = r.lane AND j.token IS NULL
                                                AND j.pos > r.start AND j.pos <= r.stop
                                                AND (j.expires_at > now_is) IS NOT FALSE
                                                AND (j.xmax = '0' OR j.xmax <> ALL (ARRAY( -- or SKIP LOCKED would try
                                                    SELECT x::xid FROM pg_snapshot_xip(pg_current_snapshot()) x)))
                                              ORDER BY j.pos LIMIT wanted / size FOR UPDATE SKIP LOCKED) j
                         WHERE t.name = its_name AND NOT t.paused
                         LIMIT CASE WHEN alone THEN 1 ELSE wanted / size END
                    )
                    UPDATE pgwork.live_job j
                       SET token = pgwork._token(j.pos * 32 + j.lane, stamp), holder = claim_batch.holder,
                           attempt = j.attempt + 1,
                           lease_until = p.since + coalesce(j.lease_ms, p.lease_ms) * interval '1 ms'
                      FROM p WHERE j.ctid = p.at AND j.token IS NULL AND p.fits -- up to one of another size
                    RETURNING p.name, coalesce(j.id, j.pos), j.token, j.attempt,
                              coalesce(j.max_attempts, p.max_attempts), j.lane / 2, j.kind, j.payload, j.body,
                              j.tags, j.created_at, j.lease_until, p.since, j.meta, alone, j.ids, j.kinds, j.payloads,
                              j.created;
                GET DIAGNOSTICS got = ROW_COUNT;
                wanted := wanted - got * size;
                EXIT WHEN wanted = 0 OR alone;
                size := pgwork._cut(its_name, lanes, starts, stops, CASE WHEN apart THEN 1 ELSE wanted END,
                                    CASE WHEN apart THEN 1 ELSE n END, now_is);
                EXIT WHEN size IS NULL;
            END LOOP;
            EXIT WHEN wanted = 0 OR alone AND got > 0;
        END LOOP;
        EXIT WHEN wanted = 0 OR alone AND got > 0;
    END LOOP;
    -- There may be more jobs than this session was woken up for.
    IF (wanted = 0 OR alone AND got > 0) AND pgwork._held(pgwork._waiters(its_name, 272)) THEN
        PERFORM pgwork._wake(t.name, 1) FROM pgwork.queue t WHERE t.name = its_name AND t.notify;
    END IF;
END $$;

-- The same, with one row per job.
CREATE FUNCTION pgwork.claim(queues text[], n integer, holder text, lease_ms bigint DEFAULT NULL,
    done_ids bigint[] DEFAULT NULL, done_tokens uuid[] DEFAULT NULL, apart boolean DEFAULT false,
    in_order boolean DEFAULT false) RETURNS SETOF pgwork.claimed LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT u.queue, u.id, u.token, u.attempt, u.max_attempts, u.priority, u.kind, u.payload, u.body, u.tags,
           u.created_at, u.lease_until, u.server_time, u.meta
      FROM (SELECT c.queue, c.token, c.attempt, c.max_attempts, c.priority, c.body, c.tags, c.lease_until,
                   c.server_time, c.meta, unnest(coalesce(c.ids, ARRAY[c.id])) AS id,
                   unnest(coalesce(c.kinds, ARRAY[c.kind])) AS kind,
                   unnest(coalesce(c.payloads, ARRAY[c.payload])) AS payload,
                   unnest(coalesce(c.created, ARRAY[c.created_at])) AS created_at
              FROM pgwork.claim_batch(queues, n, holder, lease_ms, done_ids, done_tokens, apart, in_order) c) u;
END $$;

COMMENT ON FUNCTION pgwork.token_number IS 'The fencing number in a token. It grows with every claim of a job.';
COMMENT ON FUNCTION pgwork.claim_batch IS 'Like claim(), but jobs that share a token are one row, with arrays.';
COMMENT ON FUNCTION pgwork.claim IS 'Claims up to n jobs under a lease. First completes done_ids of the first queue.';
