-- 0005: claims. Never a job under a live lease, never more than n, the lowest priority number first,
-- then the oldest; jobs that an open transaction holds are skipped, not waited for.

-- A token is the claim's number (pos * 32 + lane: grows with every placement of a job), then 64 random bits.
CREATE FUNCTION pgwork.token_number(token uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || encode(substr(uuid_send(token), 1, 8), 'hex'))::bit(64)::bigint;

-- 16 hexadecimal digits make the rest.
CREATE FUNCTION pgwork._token(number bigint, rest text) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (encode(int8send(number), 'hex') || rest)::uuid;

-- Is it a pack's? Its number has 31 instead of a lane.
CREATE FUNCTION pgwork._packed(token uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN get_byte(uuid_send(token), 7) & 31 = 31;

CREATE FUNCTION pgwork._lanes(priorities integer) RETURNS smallint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY(SELECT l::smallint FROM generate_series(0, 19) l WHERE priorities >> (l / 2) & 1 = 1 ORDER BY l);

-- Queues by their first ready jobs: priority, then age.
CREATE FUNCTION pgwork._by_head(queues text[]) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN ARRAY(
        SELECT t.name FROM pgwork.queue t
         CROSS JOIN LATERAL (SELECT nullif(current_setting(pgwork._hint(t.id), true), '')::bigint[] AS hint) m
          LEFT JOIN LATERAL (SELECT h.lane, h.pos FROM unnest(CASE WHEN m.hint[10] = t.id THEN m.hint[12:] ELSE pgwork._lanes(t.priorities)::bigint[] END) l (mark)
                              CROSS JOIN LATERAL (SELECT j.lane, j.pos FROM pgwork.live_job j
                                                   WHERE j.queue = t.id AND j.lane = (l.mark & 31)::smallint AND j.pos > l.mark >> 5 AND j.token IS NULL
                                                   ORDER BY j.pos LIMIT 1) h
                              LIMIT 1) h ON true
         WHERE t.name = ANY (queues) AND NOT t.paused ORDER BY h.lane, h.pos);
END $$;

-- What claim() has to know of a job before it moves it: 1 odd, not to be packed: it has something of its own that
-- packs have no room for, or is too large to be copied (a compressed value would be copied at its full length); 2 has a body; 4 has tags;
-- 8 has moved; and 16 << lane.
CREATE FUNCTION pgwork._traits(j pgwork.live_job) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN j.attempt <> 0 OR j.error IS NOT NULL OR j.flags <> 0 OR j.key IS NOT NULL OR j.max_attempts IS NOT NULL OR j.lease_ms IS NOT NULL
              OR coalesce(pg_column_size(j.payload), 0) + coalesce(pg_column_size(j.body), 0) > 2000
              OR pg_column_compression(j.payload) IS NOT NULL OR pg_column_compression(j.body) IS NOT NULL THEN 1 ELSE 0 END
     + CASE WHEN j.body IS NULL THEN 0 ELSE 2 END + CASE WHEN j.tags IS NULL THEN 0 ELSE 4 END + CASE WHEN j.id IS NULL THEN 0 ELSE 8 END + (16 << j.lane);

-- Whether others are writing now, in any database: transactions that are older than the last one that ended.
CREATE FUNCTION pgwork._others_write() RETURNS boolean
LANGUAGE sql STABLE RETURN pg_snapshot_xmin(pg_current_snapshot()) <> pg_snapshot_xmax(pg_current_snapshot());

-- How long the leases of packed jobs last yet. 0: there are others among them.
CREATE FUNCTION pgwork._lasting(queue text, tokens uuid[]) RETURNS interval
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    lasting interval;
BEGIN
    SELECT CASE WHEN count(*) = count(p.lease_until) THEN min(p.lease_until) - clock_timestamp() ELSE '0' END INTO lasting
      FROM (SELECT DISTINCT t FROM unnest(tokens) t) d (token)
      LEFT JOIN LATERAL (SELECT p.lease_until FROM pgwork.pack p
                          WHERE p.queue = (SELECT t.id FROM pgwork.queue t WHERE t.name = _lasting.queue)
                            AND p.number = pgwork.token_number(d.token) >> 5 AND p.token = d.token) p ON true;
    RETURN greatest(lasting, '0');
END $$;

-- Takes a turn: a claim passes over all that others are just claiming, and with 256 sessions on two cores it did little else. So as many
-- claim at a time as claim some 800 jobs together, but eight in any case. The others stand in line: twenty seconds at most, and no
-- longer than half of what the leases of the jobs last that are done. A turn ends with its transaction, and that may stay open when the
-- claim is through: then it takes the lock that is returned here. Who meets only such turns for two seconds does without; so does at once
-- who would wait with an old snapshot. Who has written stands in no line, but sleeps: somebody in front may be waiting for that
-- transaction's end.
CREATE FUNCTION pgwork._turn(queue text, n integer, since timestamptz, done_tokens uuid[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '450ms' AS $$ -- less than deadlock_timeout, which is a second
DECLARE
    turns CONSTANT integer := greatest(8, 800 / n);
    wrote CONSTANT boolean := pg_current_xact_id_if_assigned() IS NOT NULL;
    turn integer := random() * (turns - 1);
    moved timestamptz := since; -- a turn was seen that is not through
    until timestamptz := since + interval '20 s';
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN NULL;
    END IF;
    FOR i IN 1 .. 4000 LOOP
        FOR j IN 1 .. turns LOOP
            turn := (turn + 1) % turns;
            IF pg_try_advisory_xact_lock(pgwork._lock('turn ' || queue, turn)) THEN
                RETURN pgwork._lock('through ' || queue, turn);
            END IF;
        END LOOP;
        IF i = 1 AND done_tokens <> '{}' THEN
            BEGIN
                until := least(until, clock_timestamp() + pgwork._lasting(queue, done_tokens) / 2 - current_setting('lock_timeout')::interval);
            EXCEPTION WHEN lock_not_available THEN
                RETURN NULL; -- their table is locked, perhaps it gets a new file: to complete them waits as long as its caller may
            END;
        END IF;
        turn := random() * (turns - 1);
        IF NOT pgwork._held('through ' || queue, turn) THEN
            moved := clock_timestamp();
        END IF;
        EXIT WHEN clock_timestamp() > least(moved + interval '2 s', until);
        IF wrote THEN
            PERFORM pg_sleep(0.005 + 0.02 * least(i, 10) * random());
        ELSE
            BEGIN
                PERFORM pg_advisory_xact_lock(pgwork._lock('turn ' || queue, turn));
                RETURN pgwork._lock('through ' || queue, turn);
            EXCEPTION WHEN lock_not_available THEN
                NULL; -- another line may be shorter
            END;
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- What a claim returns: types of their own, since OUT parameters would be decoded anew at every call.
CREATE TYPE pgwork.claimed AS (queue text, id bigint, token uuid, attempt integer, max_attempts integer, priority integer, kind text,
    payload jsonb, body bytea, tags text[], created_at timestamptz, lease_until timestamptz, server_time timestamptz);
CREATE TYPE pgwork.claimed_batch AS (queue text, id bigint, token uuid, attempt integer, max_attempts integer, priority integer, kind text,
    payload jsonb, body bytea, tags text[], created_at timestamptz, lease_until timestamptz, server_time timestamptz,
    ids bigint[], priorities smallint[], kinds text[], payloads jsonb[], created timestamptz[], suspect boolean);

-- This is the hot path: few statements, each with one possible plan, and no SQL functions but those that are
-- inlined (others are planned anew in every transaction). The settings hold for all that it calls.
-- A row is one job, or the jobs of a pack, with `ids`: to make a row of each costs half as much as all the rest.
CREATE FUNCTION pgwork.claim_batch(queues text[], n integer, holder text, lease_ms bigint DEFAULT NULL,
    done_ids bigint[] DEFAULT NULL, done_tokens uuid[] DEFAULT NULL)
RETURNS SETOF pgwork.claimed_batch
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_tidscan = on SET enable_nestloop = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := date_part('epoch', clock_timestamp()) * 1000;
    wanted integer;
    got integer;
    accepted bigint[];
    noted text;
    -- the short way
    short bigint[] := nullif(current_setting(pgwork._short(queues[1]), true), '');
    stamp text;
    passed bigint;
    shared bigint; -- a mark of others; then on the long way, too
    last bigint;
    rest record;
    -- the long way
    until timestamptz;
    wrote boolean;
    crowded boolean;
    through bigint;
    few integer; -- up to so many jobs are leased in their rows; more go into a pack
    current_name text;
    q record;
    issued bigint; -- NULL: by way of the short one
    hint bigint[];
    marks bigint[];
    met text;
    stranger boolean; -- not to be remembered yet; NULL: the first of all
    learns boolean; -- renews the marks
    due boolean;
    surveyed boolean;
    late integer;
    sure boolean;
    now_is pg_snapshot;
    newest integer;
    running xid[];
    urgent integer; -- priorities, bit by bit, before those of all suspects: only these are looked at ...
    beyond boolean; -- ... and then all
    wary boolean; -- there may be suspects among what is looked at
    alone boolean;
    any_bundle boolean;
    head_lane smallint;
    head_pos bigint;
    head_jobs integer; -- NULL: no bundle
    one pgwork.claimed_batch;
    held_lane integer; -- up to this one others hold all bundles
    rows_held boolean; -- and all rows before the first bundle
    small_held boolean; -- and all bundles that would be taken as a whole
    bundle_lane smallint;
    bundle_pos bigint;
    reach bigint;
    opened boolean;
    came boolean; -- something of this queue
    had boolean; -- something before that
    picked tid[];
    traits integer;
    first bigint;
    width bigint; -- so many places are between it and the last
    number bigint;
    pack_token uuid;
    ends timestamptz;
BEGIN
    stamp := overlay(gen_random_uuid()::text PLACING '' FROM 9 FOR 20); -- its fixed bits are in the middle
    -- The short way of small claims one upon another: one statement that completes and claims, since to start a statement, and to
    -- prepare each of its expressions, costs more than a job does. What it does not do is left to the long way below: jobs that leave
    -- something behind, stragglers, rows with an xmax, all that is not quite as it was some ms ago. What has been completed is noted
    -- in a setting, under this call's stamp, by the fence itself; and the pick needs what the fence returns, so that it comes second.
    -- Leases begin when the fence is through (`since`): it may have waited.
    IF n BETWEEN 1 AND 32 AND short[1] BETWEEN now_ms AND now_ms + 1200 AND cardinality(queues) = 1 AND pg_current_xact_id_if_assigned() IS NULL
       AND cardinality(done_ids) IS NOT DISTINCT FROM cardinality(done_tokens)
       AND octet_length(holder) BETWEEN 1 AND 255 AND coalesce(claim_batch.lease_ms, 100) BETWEEN 100 AND 86400000 THEN
        passed := pgwork.token_number(done_tokens[1]); -- a fresh mark: it was claimed, and so is what lies before it
        IF n = 1 AND cardinality(done_ids) = 1 THEN
            RETURN QUERY
            WITH d AS (
                DELETE FROM pgwork.live_job j USING pgwork.queue t
                 WHERE t.id = short[2] AND t.name = queues[1] AND t.retention_ms = 0 -- the fence of _take()
                   AND j.queue = short[2] AND j.lane = (passed & 31)::smallint AND j.pos = passed >> 5 AND j.token = done_tokens[1]
                   AND coalesce(j.id, j.pos) = done_ids[1] AND j.flags & 4 = 0
                RETURNING t.id, t.name, t.lease_ms, t.max_attempts, clock_timestamp() AS since, set_config('pgwork.accepted', stamp, true),
                          CASE WHEN NOT t.paused AND t.priorities + (t.suspects << 10) + (t.bundles::integer << 30) & ~short[3] = 0 THEN short[5:] END AS marks
            )
            UPDATE pgwork.live_job j
               SET token = pgwork._token(j.pos * 32 + j.lane, stamp), holder = claim_batch.holder, attempt = j.attempt + 1,
                   lease_until = d.since + coalesce(j.lease_ms, claim_batch.lease_ms, d.lease_ms) * interval '1 ms'
              FROM d
             WHERE j.token IS NULL
               AND j.ctid = (SELECT j.ctid FROM unnest(d.marks) AS l (mark)
                              CROSS JOIN LATERAL (SELECT j.ctid FROM pgwork.live_job j
                                                   WHERE j.queue = d.id AND j.lane = (l.mark & 31)::smallint AND j.token IS NULL
                                                     AND j.pos > greatest(l.mark, CASE WHEN l.mark & 31 <= passed & 31 THEN least(passed - 32, short[4] << 5) END) >> 5
                                                     AND j.flags & 10 = 0 AND j.xmax = '0'
                                                   ORDER BY j.pos LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) j
                              LIMIT 1)
            RETURNING d.name, coalesce(j.id, j.pos), j.token, j.attempt::integer, coalesce(j.max_attempts, d.max_attempts)::integer, j.lane / 2,
                      j.kind, j.payload, j.body, j.tags, j.created_at, j.lease_until, d.since,
                      NULL::bigint[], NULL::smallint[], NULL::text[], NULL::jsonb[], NULL::timestamptz[], false;
            GET DIAGNOSTICS got = ROW_COUNT;
            IF got = 1 THEN
                RETURN;
            ELSIF current_setting('pgwork.accepted', true) = stamp THEN
                accepted := done_ids;
            ELSE
                accepted := pgwork._complete(queues[1], done_ids, done_tokens, NULL);
            END IF;
        ELSE
            last := pgwork.token_number(done_tokens[cardinality(done_tokens)]);
            shared := CASE WHEN short[4] > 0 THEN pgwork._mark(short[2]) END;
            RETURN QUERY
            WITH d AS (
                DELETE FROM pgwork.live_job j
                 WHERE j.queue = (SELECT t.id FROM pgwork.queue t WHERE t.id = short[2] AND t.name = queues[1] AND t.retention_ms = 0)
                   AND j.lane = (passed & 31)::smallint AND j.pos BETWEEN passed >> 5 AND last >> 5 -- what was claimed together lies together
                   AND j.token = done_tokens[array_position(done_ids, coalesce(j.id, j.pos))]
                   AND j.flags & 4 = 0
                RETURNING coalesce(j.id, j.pos) AS id
            ), p AS MATERIALIZED ( -- picked under the limit first: no plan takes more
                SELECT j.ctid AS at, l.lease_ms, l.max_attempts, a.since
                  FROM (SELECT set_config('pgwork.accepted', stamp || coalesce(array_agg(d.id), '{}')::text, true) AS ids, clock_timestamp() AS since,
                               CASE WHEN count(*) = coalesce(cardinality(done_ids), 0) THEN short[2] END AS queue FROM d) a
                 CROSS JOIN LATERAL (SELECT unnest(short[5:]) AS mark, t.id, t.lease_ms, t.max_attempts FROM pgwork.queue t
                                      WHERE t.id = a.queue AND t.name = queues[1]
                                        AND NOT t.paused AND t.priorities + (t.suspects << 10) + (t.bundles::integer << 30) & ~short[3] = 0
                                     OFFSET 0) l
                 CROSS JOIN LATERAL (SELECT j.ctid FROM pgwork.live_job j
                                      WHERE j.queue = l.id AND j.lane = (l.mark & 31)::smallint AND j.token IS NULL
                                        AND j.pos > greatest(l.mark, CASE WHEN l.mark & 31 <= passed & 31 THEN least(passed - 32, short[4] << 5) END,
                                                             CASE WHEN l.mark & 31 <= shared & 31 THEN shared END) >> 5
                                        AND j.flags & 10 = 0 AND j.xmax = '0'
                                      ORDER BY j.pos LIMIT n FOR NO KEY UPDATE SKIP LOCKED) j
                 LIMIT n
            )
            UPDATE pgwork.live_job j
               SET token = pgwork._token(j.pos * 32 + j.lane, stamp), holder = claim_batch.holder, attempt = j.attempt + 1,
                   lease_until = p.since + coalesce(j.lease_ms, claim_batch.lease_ms, p.lease_ms) * interval '1 ms'
              FROM p
             WHERE j.ctid = p.at AND j.token IS NULL
            RETURNING queues[1], coalesce(j.id, j.pos), j.token, j.attempt::integer, coalesce(j.max_attempts, p.max_attempts)::integer, j.lane / 2,
                      j.kind, j.payload, j.body, j.tags, j.created_at, j.lease_until, p.since,
                      NULL::bigint[], NULL::smallint[], NULL::text[], NULL::jsonb[], NULL::timestamptz[], false;
            GET DIAGNOSTICS got = ROW_COUNT;
            IF got = n THEN
                RETURN;
            END IF;
            noted := current_setting('pgwork.accepted', true);
            accepted := CASE WHEN starts_with(noted, stamp) THEN substr(noted, length(stamp) + 1) ELSE '{}' END;
            IF cardinality(accepted) < cardinality(done_ids) THEN
                SELECT array_agg(u.id) AS ids, array_agg(u.token) AS tokens INTO rest FROM unnest(done_ids, done_tokens) u (id, token) WHERE u.id <> ALL (accepted);
                accepted := accepted || pgwork._complete(queues[1], rest.ids, rest.tokens, NULL);
            END IF;
        END IF;
        noted := set_config(pgwork._short(queues[1]), '', false);
        wrote := false; -- but for this
        wanted := n - got;
        had := got > 0;
    ELSE
        until := clock_timestamp();
        wrote := pg_current_xact_id_if_assigned() IS NOT NULL;
        IF n BETWEEN 1 AND 10000 AND octet_length(holder) BETWEEN 1 AND 255 AND coalesce(claim_batch.lease_ms, 100) BETWEEN 100 AND 86400000
           AND cardinality(queues) BETWEEN 1 AND 64 AND NOT pg_is_in_recovery() THEN
            NULL; -- as it should be
        ELSE
            IF pg_is_in_recovery() THEN -- a standby refuses to read the surveys, by a code that does not tell what it is
                RAISE EXCEPTION 'cannot claim in a read-only transaction' USING ERRCODE = 'read_only_sql_transaction';
            END IF;
            PERFORM pgwork._refuse_unless(n BETWEEN 1 AND 10000, 'n', n::text, '1 .. 10000');
            PERFORM pgwork._refuse_unless(octet_length(holder) BETWEEN 1 AND 255, 'holder', holder, '1 to 255 bytes: who claims');
            PERFORM pgwork._refuse_unless(coalesce(claim_batch.lease_ms, 100) BETWEEN 100 AND 86400000, 'lease_ms', claim_batch.lease_ms::text, '100 .. 86400000');
            PERFORM pgwork._refuse('queues', queues::text, '1 to 64 names');
        END IF;
        crowded := n > 32 AND NOT wrote AND pgwork._others_write();
        IF crowded THEN
            through := pgwork._turn(queues[1], n, until, done_tokens);
        END IF;
        issued := coalesce(pg_sequence_last_value('pgwork.place'), 0); -- before this transaction can have an id, see _advance()
        IF done_ids <> '{}' OR done_tokens <> '{}' THEN
            accepted := pgwork._complete(queues[1], done_ids, done_tokens, NULL, 'done_tokens');
            IF crowded AND through IS NULL THEN -- what is done cannot expire now
                through := pgwork._turn(queues[1], n, until, NULL);
            END IF;
        END IF;
        wanted := n;
    END IF;
    IF until IS NULL OR crowded OR done_ids <> '{}' THEN -- these may have waited
        until := clock_timestamp();
        now_ms := date_part('epoch', until) * 1000;
    END IF;
    few := coalesce(nullif(current_setting('pgwork.few', true), ''), '32'); -- another value is for tests: packs of two
    IF done_ids <> '{}' AND cardinality(accepted) IS DISTINCT FROM cardinality(done_ids) THEN
        RETURN QUERY
        SELECT queues[1], r.id, NULL::uuid, 0, 0, 0, r.status, NULL::jsonb, NULL::bytea, NULL::text[], NULL::timestamptz, NULL::timestamptz, NULL::timestamptz,
               NULL::bigint[], NULL::smallint[], NULL::text[], NULL::jsonb[], NULL::timestamptz[], false
          FROM pgwork._refused((pgwork._queue(queues[1])).id, done_ids, accepted) r;
    END IF;

    IF cardinality(queues) > 1 THEN
        queues := pgwork._by_head(queues);
    END IF;
    FOREACH current_name IN ARRAY queues LOOP
        SELECT t.id, t.name, t.lease_ms, t.max_attempts, t.priorities, t.suspects, t.bundles, t.notify,
               CASE WHEN t.bulk AND until NOT BETWEEN t.learned_at AND t.learned_at + interval '1 min' THEN t.large_claims END AS believed -- and may be learnt anew
          INTO q FROM pgwork.queue t WHERE t.name = current_name AND NOT t.paused;
        CONTINUE WHEN NOT FOUND;
        hint := nullif(current_setting(pgwork._hint(q.id), true), '');
        surveyed := false;
        late := NULL;
        sure := false;
        came := false;
        held_lane := -1;
        rows_held := false;
        small_held := false;
        beyond := false;
        stranger := false;
        IF hint[10] = q.id THEN
            due := now_ms NOT BETWEEN hint[1] AND hint[4] OR hint[5] & q.priorities <> q.priorities;
        ELSE
            -- Not before the queue is met again, but for what others have just seen: many queues are met but once in a while.
            due := current_setting('transaction_isolation') = 'read committed'
                   AND EXISTS (SELECT FROM pgwork.survey s WHERE s.queue = q.id AND s.period >= now_ms / 30000 - 1 AND s.at BETWEEN now_ms - 2000 AND now_ms);
            met := nullif(current_setting('pgwork.met', true), '');
            stranger := strpos(met, ' ' || q.id || ' ') = 0;
            PERFORM set_config('pgwork.met', left(' ' || q.id || coalesce(met, ' '), 200), false);
            hint := ARRAY[0, 0, now_ms, now_ms + 300, q.priorities, 0, 0, 0, 0, q.id, 0]
                    || CASE q.priorities WHEN 1 THEN '{0,1}'::bigint[] ELSE pgwork._lanes(q.priorities)::bigint[] END;
        END IF;
        LOOP
            IF due AND NOT surveyed THEN
                SELECT l.* INTO hint, late FROM pgwork._look_round(q.id, q.priorities, n > few, sure, hint) l;
                wanted := least(wanted, late);
                until := clock_timestamp();
                surveyed := now_ms < hint[3];
            END IF;
            -- What others have claimed since is not looked at one by one; but where they have come counts only when something is behind it.
            marks := hint[12:];
            IF NOT sure AND hint[11] = 0 AND now_ms BETWEEN hint[1] + 10 AND hint[1] + 10000 THEN
                shared := pgwork._mark(hint[10]);
                FOR i IN 1 .. cardinality(marks) LOOP
                    IF marks[i] & 31 <= shared & 31 AND marks[i] < shared THEN
                        marks[i] := (shared & -32) + (marks[i] & 31);
                    END IF;
                END LOOP;
            END IF;
            -- Suspects are jobs whose holder died. What is more urgent than all of them is claimed as if there were none.
            wary := q.suspects <> 0;
            IF wary THEN
                urgent := CASE WHEN sure OR beyond THEN 0 ELSE hint[5]::integer & (q.suspects & -q.suspects) - 1 END;
                IF urgent <> 0 THEN
                    marks := marks[:2 * bit_count(urgent::bit(10))];
                    wary := false;
                END IF;
            END IF;
            -- Many claims at once meet the same first rows. To find a row locked by trying to lock it costs microseconds, and
            -- each of them would have to skip those of all the others; that a transaction which runs now is in its xmax is seen
            -- at once. Who finds nothing looks once more without that short cut, so that it cannot hide a row for long; and
            -- a transaction that has written does without, since it may have locked rows itself.
            IF sure OR wrote OR wary THEN
                newest := -2147483648;
                running := '{}';
            ELSE
                now_is := pg_current_snapshot();
                newest := age(pg_snapshot_xmax(now_is)::xid);
                running := string_to_array(split_part(now_is::text, ':', 3), ',')::xid8[]::xid[];
            END IF;
            alone := false;
            IF wary AND (came OR had) THEN
                -- A suspect is for who has got nothing yet, and nobody passes over it.
                SELECT c.flags & 2 <> 0 INTO alone
                  FROM unnest(marks) AS l (mark)
                 CROSS JOIN LATERAL (SELECT j.flags FROM pgwork.live_job j
                                      WHERE j.queue = q.id AND j.lane = (l.mark & 31)::smallint AND j.pos > l.mark >> 5 AND j.token IS NULL
                                      ORDER BY j.pos LIMIT 1) c
                 LIMIT 1;
                EXIT WHEN alone;
            ELSIF wary OR sure THEN -- the reaper may not have been able to say so yet
                -- It is claimed alone: should it be the killer, it takes no others along.
                SELECT c.flags & 2 <> 0 INTO alone
                  FROM unnest(marks) AS l (mark)
                 CROSS JOIN LATERAL (SELECT j.flags FROM pgwork.live_job j
                                      WHERE j.queue = q.id AND j.lane = (l.mark & 31)::smallint AND j.pos > l.mark >> 5 AND j.token IS NULL
                                      ORDER BY j.pos LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) c
                 LIMIT 1;
                IF alone THEN
                    wanted := 1;
                END IF;
            END IF;
            learns := now_ms >= hint[2] AND NOT (wrote OR wary) AND (stranger IS NOT TRUE OR random() < 0.01);
            any_bundle := false;
            opened := false;
            head_jobs := NULL;
            IF q.bundles OR sure THEN
                SELECT h.lane, h.pos, h.jobs INTO head_lane, head_pos, head_jobs
                  FROM unnest(marks) AS l (mark)
                 CROSS JOIN LATERAL (SELECT j.lane, j.pos, j.jobs FROM pgwork.live_job j
                                      WHERE j.queue = q.id AND j.lane = (l.mark & 31)::smallint AND j.pos > l.mark >> 5 AND j.token IS NULL
                                        AND (j.flags & 2 = 0 OR alone) AND (j.xmax = '0' OR age(j.xmax) > newest AND j.xmax <> ALL (running))
                                        AND CASE WHEN j.jobs IS NULL THEN NOT rows_held ELSE j.lane > held_lane END
                                      ORDER BY j.pos LIMIT 1) h
                 LIMIT 1;
            END IF;
            ends := until + coalesce(claim_batch.lease_ms, q.lease_ms) * interval '1 ms';
            IF head_jobs <= wanted AND NOT small_held THEN
                -- Each becomes a pack. Rows between them stay for the next claim, and so do the marks.
                got := 0;
                FOR one IN
                WITH d AS (
                    DELETE FROM pgwork.live_job b
                     WHERE b.ctid = ANY (ARRAY(SELECT j.ctid FROM pgwork.live_job j
                                                WHERE j.queue = q.id AND j.lane = head_lane AND j.pos >= head_pos AND j.jobs <= wanted
                                                  AND (j.xmax = '0' OR age(j.xmax) > newest AND j.xmax <> ALL (running))
                                                ORDER BY j.pos LIMIT greatest(wanted / 100, 1) FOR UPDATE SKIP LOCKED))
                    RETURNING b.pos, b.lane, b.created_at, b.jobs, b.last_id, b.all_ids, b.all_kinds, b.all_payloads
                )
                INSERT INTO pgwork.pack AS p (number, token, lease_until, queue, holder, first_id, last_id, ids, lanes, created, kinds, payloads)
                SELECT s.number, pgwork._token(s.number * 32 + 31, stamp), ends, q.id, claim_batch.holder, s.pos, s.last_id, s.all_ids,
                       array_fill(s.lane, ARRAY[s.jobs::integer]), array_fill(s.created_at, ARRAY[s.jobs::integer]), s.all_kinds, s.all_payloads
                  FROM (SELECT nextval('pgwork.place') AS number, d.* FROM d ORDER BY d.pos OFFSET 0) s
                RETURNING q.name, NULL::bigint, p.token, 1, q.max_attempts::integer, p.lanes[1] / 2, NULL::text, NULL::jsonb, NULL::bytea, NULL::text[],
                          p.created[1], p.lease_until, until, p.ids, NULL::smallint[], p.kinds, p.payloads, NULL::timestamptz[], false
                LOOP
                    got := got + cardinality(one.ids);
                    RETURN NEXT one;
                END LOOP;
            ELSIF head_jobs IS NOT NULL THEN
                EXIT WHEN came; -- what is in our hands will do
                -- It is opened: the others are handed back, at new places in the lane in front, where no mark can have passed them.
                opened := true;
                IF q.believed THEN
                    PERFORM setval('pgwork.lesson', q.id * 2::bigint);
                END IF;
                RETURN QUERY
                WITH d AS (
                    DELETE FROM pgwork.live_job b
                     WHERE b.ctid = ANY (ARRAY(SELECT j.ctid FROM pgwork.live_job j
                                                WHERE j.queue = q.id AND j.lane = head_lane AND j.pos >= head_pos AND j.jobs IS NOT NULL
                                                  AND (j.xmax = '0' OR age(j.xmax) > newest AND j.xmax <> ALL (running))
                                                ORDER BY j.pos LIMIT 1 FOR UPDATE SKIP LOCKED))
                    RETURNING b.pos, b.queue, b.lane, b.created_at, b.jobs, b.last_id, b.all_ids, b.all_kinds, b.all_payloads
                ), s AS MATERIALIZED ( -- the pack; NULL: what is claimed is leased in rows
                    SELECT s.*, least(s.jobs, wanted) AS some, pgwork._token(s.number * 32 + 31, stamp) AS pack_token
                      FROM (SELECT CASE WHEN wanted > few THEN nextval('pgwork.place') END AS number, d.* FROM d OFFSET 0) s
                ), r AS (
                    INSERT INTO pgwork.live_job (pos, token, lease_until, created_at, queue, lane, attempt, id, kind, holder, payload)
                    SELECT u.place, CASE WHEN u.i <= wanted THEN pgwork._token(u.place * 32 + s.lane - 1, stamp) END,
                           CASE WHEN u.i <= wanted THEN ends END, s.created_at, s.queue, s.lane - 1, CASE WHEN u.i <= wanted THEN 1 ELSE 0 END,
                           u.id, u.kind, CASE WHEN u.i <= wanted THEN claim_batch.holder END, u.payload
                      FROM s CROSS JOIN LATERAL (SELECT nextval('pgwork.place') AS place, u.*
                                                   FROM unnest(s.all_ids, s.all_kinds, s.all_payloads) WITH ORDINALITY u (id, kind, payload, i)
                                                  WHERE u.i > s.some OR s.number IS NULL OFFSET 0) u
                    RETURNING token, id, lane, kind, payload, created_at
                ), p AS (
                    INSERT INTO pgwork.pack (number, token, lease_until, queue, holder, first_id, last_id, ids, lanes, created, kinds, payloads)
                    SELECT s.number, s.pack_token, ends, q.id, claim_batch.holder, s.pos, s.last_id, s.all_ids[:s.some], array_fill(s.lane, ARRAY[s.some]),
                           array_fill(s.created_at, ARRAY[s.some]), s.all_kinds[:s.some], s.all_payloads[:s.some]
                      FROM s WHERE s.number IS NOT NULL
                )
                SELECT q.name, r.id, r.token, 1, q.max_attempts::integer, r.lane / 2, r.kind, r.payload, NULL::bytea, NULL::text[], r.created_at, ends, until,
                       NULL::bigint[], NULL::smallint[], NULL::text[], NULL::jsonb[], NULL::timestamptz[], false
                  FROM r WHERE r.token IS NOT NULL
                UNION ALL
                SELECT q.name, NULL, s.pack_token, 1, q.max_attempts::integer, s.lane / 2, NULL, NULL, NULL, NULL, s.created_at, ends, until,
                       s.all_ids[:s.some], NULL, s.all_kinds[:s.some], s.all_payloads[:s.some], NULL, false
                  FROM s WHERE s.number IS NOT NULL;
                GET DIAGNOSTICS got = ROW_COUNT;
                IF wanted > few AND got > 0 THEN
                    got := wanted; -- or all that it held, where it was smaller than the first one
                END IF;
            ELSE
                IF q.bundles OR sure THEN
                    -- Rows up to the first bundle. Behind stragglers from long ago lie the remains of all that was claimed since: it is looked for
                    -- where they are.
                    reach := CASE WHEN late IS NULL THEN 1::bigint << 61 ELSE 1001 END;
                    SELECT h.lane, h.pos INTO bundle_lane, bundle_pos
                      FROM unnest(marks) AS l (mark)
                     CROSS JOIN LATERAL (SELECT j.lane, j.pos FROM pgwork.live_job j
                                          WHERE j.queue = q.id AND j.lane = (l.mark & 31)::smallint AND j.pos > l.mark >> 5 AND j.pos <= (l.mark >> 5) + reach
                                            AND j.jobs IS NOT NULL AND j.lane > held_lane AND (j.xmax = '0' OR age(j.xmax) > newest AND j.xmax <> ALL (running))
                                          ORDER BY j.pos LIMIT 1) h
                     LIMIT 1;
                    any_bundle := FOUND;
                END IF;
                IF wanted <= few AND NOT (learns OR any_bundle) THEN
                    -- One statement, for who need not know what it gets: each that is started costs as much as several jobs.
                    picked := NULL;
                    RETURN QUERY
                    WITH p AS MATERIALIZED ( -- picked under the limit first: no plan takes more
                        SELECT j.at FROM unnest(marks) AS l (mark)
                         CROSS JOIN LATERAL (SELECT j.ctid AS at FROM pgwork.live_job j
                                              WHERE j.queue = q.id AND j.lane = (l.mark & 31)::smallint AND j.pos > l.mark >> 5 AND j.token IS NULL
                                                AND j.flags & 8 = 0 AND (j.flags & 2 = 0 OR alone)
                                                AND (j.xmax = '0' OR age(j.xmax) > newest AND j.xmax <> ALL (running))
                                              ORDER BY j.pos LIMIT wanted FOR NO KEY UPDATE SKIP LOCKED) j
                         LIMIT wanted
                    )
                    UPDATE pgwork.live_job j
                       SET token = pgwork._token(j.pos * 32 + j.lane, stamp), holder = claim_batch.holder, attempt = j.attempt + 1,
                           lease_until = until + coalesce(j.lease_ms, claim_batch.lease_ms, q.lease_ms) * interval '1 ms'
                      FROM p
                     WHERE j.ctid = p.at AND j.token IS NULL
                    RETURNING q.name, coalesce(j.id, j.pos), j.token, j.attempt::integer, coalesce(j.max_attempts, q.max_attempts)::integer, j.lane / 2,
                              j.kind, j.payload, j.body, j.tags, j.created_at, j.lease_until, until,
                              NULL::bigint[], NULL::smallint[], NULL::text[], NULL::jsonb[], NULL::timestamptz[], j.flags & 2 <> 0;
                    GET DIAGNOSTICS got = ROW_COUNT;
                ELSE
                    -- first: nothing is before it in the last lane that had some, nor in those before that lane
                    SELECT array_agg(c.at), bit_or(c.traits), min(c.pos) * 32 + max(c.lane), max(c.pos) - min(c.pos), count(*) INTO picked, traits, first, width, got
                      FROM (SELECT j.* FROM unnest(marks) AS l (mark)
                             CROSS JOIN LATERAL (SELECT j.ctid AS at, j.pos, j.lane, CASE WHEN wanted > few THEN pgwork._traits(j) END AS traits
                                                   FROM pgwork.live_job j
                                                  WHERE j.queue = q.id AND j.lane = (l.mark & 31)::smallint AND j.pos > l.mark >> 5 AND j.token IS NULL
                                                    AND j.flags & 8 = 0 AND (j.flags & 2 = 0 OR alone)
                                                    AND (j.xmax = '0' OR age(j.xmax) > newest AND j.xmax <> ALL (running))
                                                    AND j.pos < CASE WHEN NOT any_bundle OR l.mark & 31 < bundle_lane THEN 1::bigint << 62 -- or all behind it would be read
                                                                     WHEN l.mark & 31 = bundle_lane THEN bundle_pos ELSE 0 END
                                                  ORDER BY j.pos LIMIT wanted FOR UPDATE SKIP LOCKED) j
                             LIMIT wanted) c;
                END IF;
                IF picked IS NULL THEN
                    NULL; -- nothing is left to do
                ELSIF got <= few OR traits & 1 = 1 THEN
                    RETURN QUERY
                    WITH u AS (
                        UPDATE pgwork.live_job j
                           SET token = pgwork._token(j.pos * 32 + j.lane, stamp), holder = claim_batch.holder, attempt = j.attempt + 1,
                               lease_until = until + coalesce(j.lease_ms, claim_batch.lease_ms, q.lease_ms) * interval '1 ms'
                         WHERE j.ctid = ANY (picked) AND j.token IS NULL
                        RETURNING j.pos, j.token, j.lease_until, j.created_at, j.lane, j.attempt, j.flags, j.max_attempts, j.id, j.kind, j.tags, j.payload, j.body
                    )
                    SELECT q.name, coalesce(u.id, u.pos), u.token, u.attempt::integer, coalesce(u.max_attempts, q.max_attempts)::integer, u.lane / 2,
                           u.kind, u.payload, u.body, u.tags, u.created_at, u.lease_until, until,
                           NULL::bigint[], NULL::smallint[], NULL::text[], NULL::jsonb[], NULL::timestamptz[], u.flags & 2 <> 0
                      FROM u ORDER BY u.lane, u.pos;
                ELSE
                    IF NOT q.believed AND n >= 100 THEN
                        PERFORM setval('pgwork.lesson', q.id * 2::bigint + 1);
                    END IF;
                    number := nextval('pgwork.place');
                    pack_token := pgwork._token(number * 32 + 31, stamp);
                    IF traits = 16 << (first & 31)::integer THEN
                        -- As nearly always: payloads of one lane that lie where they were enqueued. Each aggregate less is worth a job.
                        RETURN QUERY
                        WITH d AS (
                            DELETE FROM pgwork.live_job j WHERE j.ctid = ANY (picked) AND j.token IS NULL
                            RETURNING j.pos, j.created_at, j.kind, j.payload
                        )
                        INSERT INTO pgwork.pack AS p (number, token, lease_until, queue, holder, first_id, last_id, ids, lanes, created, kinds, payloads)
                        SELECT number, pack_token, ends, q.id, claim_batch.holder, a.ids[1], a.ids[cardinality(a.ids)], a.ids,
                               array_fill((first & 31)::smallint, ARRAY[cardinality(a.ids)]), a.created, a.kinds, a.payloads
                          FROM (SELECT array_agg(s.pos) AS ids, array_agg(s.created_at) AS created, array_agg(s.kind) AS kinds, array_agg(s.payload) AS payloads
                                  FROM (SELECT * FROM d ORDER BY d.pos) s) a
                         WHERE a.ids IS NOT NULL
                        RETURNING q.name, NULL::bigint, p.token, 1, q.max_attempts::integer, (first & 31)::integer / 2, NULL::text, NULL::jsonb, NULL::bytea, NULL::text[],
                                  NULL::timestamptz, p.lease_until, until, p.ids, NULL::smallint[], p.kinds, p.payloads, p.created, false;
                    ELSE
                        RETURN QUERY
                        WITH d AS (
                            DELETE FROM pgwork.live_job j WHERE j.ctid = ANY (picked) AND j.token IS NULL
                            RETURNING coalesce(j.id, j.pos) AS id, j.pos, j.lane, j.created_at, j.kind, j.payload, j.body, j.tags
                        ), s AS MATERIALIZED (
                            SELECT * FROM d ORDER BY d.lane, d.pos
                        ), a AS MATERIALIZED (
                            SELECT min(s.id) AS first_id, max(s.id) AS last_id, array_agg(s.id) AS ids, array_agg(s.lane) AS lanes,
                                   array_agg((s.lane / 2)::smallint) AS priorities, array_agg(s.created_at) AS created, array_agg(s.kind) AS kinds,
                                   array_agg(s.payload) AS payloads, array_agg(s.body) FILTER (WHERE traits & 2 <> 0) AS bodies,
                                   array_agg(s.tags::text) FILTER (WHERE traits & 4 <> 0) AS tags
                              FROM s HAVING count(*) > 0
                        ), p AS (
                            INSERT INTO pgwork.pack (number, token, lease_until, queue, holder, first_id, last_id, ids, lanes, created, kinds, payloads, bodies, tags)
                            SELECT number, pack_token, ends, q.id, claim_batch.holder, a.first_id, a.last_id, a.ids, a.lanes, a.created, a.kinds, a.payloads, a.bodies, a.tags
                              FROM a
                        )
                        SELECT q.name, NULL::bigint, pack_token, 1, q.max_attempts::integer, NULL::integer, NULL::text, NULL::jsonb, NULL::bytea, NULL::text[],
                               NULL::timestamptz, ends, until, a.ids, a.priorities, a.kinds, a.payloads, a.created, false
                          FROM a WHERE traits & 6 = 0
                        UNION ALL -- with a body or tags
                        SELECT q.name, s.id, pack_token, 1, q.max_attempts::integer, s.lane / 2, s.kind, s.payload, s.body, s.tags, s.created_at, ends, until,
                               NULL::bigint[], NULL::smallint[], NULL::text[], NULL::jsonb[], NULL::timestamptz[], false
                          FROM s WHERE traits & 6 <> 0;
                    END IF;
                END IF;
            END IF;
            IF head_jobs IS NOT NULL THEN
                IF got = 0 THEN -- others hold them all; but a larger one may be behind them
                    IF opened OR came THEN
                        held_lane := head_lane;
                    END IF;
                    small_held := NOT (opened OR came);
                    CONTINUE;
                END IF;
                first := head_pos * 32 + head_lane;
            ELSIF got = 0 AND any_bundle AND NOT rows_held THEN
                rows_held := true;
                CONTINUE;
            END IF;
            IF got > 0 THEN
                rows_held := false;
                small_held := false;
            END IF;
            IF got > 0 AND (learns OR opened AND n <= few AND NOT (wrote OR wary OR stranger IS TRUE)) THEN
                -- Small claims that fill their hands may go the short way then. Where there are bundles it tells only of the first lane, where they are
                -- handed back when they are opened.
                noted := pgwork._advance(current_name, CASE WHEN head_jobs IS NULL THEN n ELSE 10000 * n END, greatest(width / got, 1), issued, first, now_ms, hint, marks,
                                         CASE WHEN got = wanted AND n <= few AND (NOT q.bundles OR first & 31 <= (marks[1] & 31) + opened::integer)
                                              THEN greatest(now_ms - short[1], 0) END,
                                         coalesce(cardinality(done_ids), 0) = 0, q.bundles);
            END IF;
            -- Our hands are full, and there may be more than we were woken for. (Short claims may do without: what came since the claim
            -- before has woken somebody itself.)
            IF got = wanted AND q.notify AND pgwork._held('sleep', q.id) THEN
                PERFORM pgwork._wake(q.id, q.name, 1);
            END IF;
            wanted := wanted - got;
            came := came OR got > 0;
            CONTINUE WHEN got > 0 AND wanted > 0 AND (any_bundle OR head_jobs IS NOT NULL) AND NOT (sure OR wary);
            EXIT WHEN sure OR came AND (q.suspects = 0 OR wary) OR wanted = 0 OR NOT surveyed AND now_ms < hint[3] AND marks = hint[12:];
            IF q.suspects <> 0 AND NOT wary THEN
                beyond := true;
            ELSE
                due := true;
                sure := true;
            END IF;
            held_lane := -1;
            rows_held := false;
            small_held := false;
        END LOOP;
        EXIT WHEN wanted = 0;
        had := had OR came;
    END LOOP;
    IF through IS NOT NULL THEN
        PERFORM pg_try_advisory_xact_lock(through);
    END IF;
END $$;

-- The same, a row for each job.
CREATE FUNCTION pgwork.claim(queues text[], n integer, holder text, lease_ms bigint DEFAULT NULL,
    done_ids bigint[] DEFAULT NULL, done_tokens uuid[] DEFAULT NULL)
RETURNS SETOF pgwork.claimed
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT u.queue, u.id, u.token, u.attempt, u.max_attempts, coalesce(u.its_priority, u.priority), coalesce(u.its_kind, u.kind), coalesce(u.its_payload, u.payload),
           u.body, u.tags, coalesce(u.its_created_at, u.created_at), u.lease_until, u.server_time
      FROM (SELECT c.queue, c.token, c.attempt, c.max_attempts, c.priority, c.kind, c.payload, c.body, c.tags, c.created_at, c.lease_until, c.server_time,
                   unnest(coalesce(c.ids, ARRAY[c.id])) AS id, unnest(c.priorities) AS its_priority, unnest(c.kinds) AS its_kind,
                   unnest(c.payloads) AS its_payload, unnest(c.created) AS its_created_at
              FROM pgwork.claim_batch(queues, n, holder, lease_ms, done_ids, done_tokens) c) u;
END $$;

-- Which of these are not there (yet): a claim does not tell.
CREATE FUNCTION pgwork.absent(queues text[]) RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY(SELECT n FROM unnest(queues) n WHERE NOT EXISTS (SELECT FROM pgwork.queue t WHERE t.name = n))
$$;

-- The sleeping sign of this session, for _wake(): listen, take it, look once more, then sleep. A queue that is not there gets none.
CREATE FUNCTION pgwork.idle(queues text[], slot integer DEFAULT 0) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    k bigint;
    its_name text;
    absent text[] := queues;
    ours bigint[] := '{}'; -- a session's locks, which a failure has to undo: by half a sign a job would call whom it finds deaf
BEGIN
    PERFORM pgwork._refuse_unless(slot BETWEEN 0 AND 255, 'slot', slot::text, '0 .. 255');
    FOR k, its_name IN
        SELECT unnest(ARRAY[pgwork._lock('sleep ' || slot, t.id), pgwork._lock('sleep group ' || slot / 16, t.id), pgwork._lock('sleep', t.id)]), t.name
          FROM pgwork.queue t WHERE t.name = ANY (queues)
    LOOP
        ours := ours || k;
        absent := array_remove(absent, its_name);
        PERFORM pg_advisory_lock_shared(k);
    END LOOP;
    RETURN absent;
EXCEPTION WHEN query_canceled OR OTHERS THEN -- such as no room in the server's table of locks
    PERFORM pg_advisory_unlock_shared(o) FROM unnest(ours) o; -- the server warns of the last one, which is not there
    RAISE;
END $$;

CREATE FUNCTION pgwork.awake(queues text[], slot integer DEFAULT 0) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_unlock_shared(pgwork._lock('sleep', t.id)), pg_advisory_unlock_shared(pgwork._lock('sleep group ' || slot / 16, t.id)),
            pg_advisory_unlock_shared(pgwork._lock('sleep ' || slot, t.id))
       FROM pgwork.queue t WHERE t.name = ANY (queues);
END $$;

COMMENT ON TYPE pgwork.claimed IS 'What claim() returns for each job.';
COMMENT ON TYPE pgwork.claimed_batch IS 'What claim_batch() returns for each job, or for jobs that share a token.';
COMMENT ON FUNCTION pgwork.claim_batch(text[], integer, text, bigint, bigint[], uuid[]) IS
    'As claim(), but jobs that share a token come as one row: with ids, kinds and payloads in one order; priorities and created where they differ; suspect: its last holder died, so it comes alone. Finish them with ids and ARRAY[token].';
COMMENT ON FUNCTION pgwork.claim(text[], integer, text, bigint, bigint[], uuid[]) IS
    'Takes up to n jobs for a holder under a lease (the job''s, else lease_ms, else the queue''s) and charges an attempt. Before that it completes done_ids of the first queue, as complete() does: refused ones come first, as rows with attempt 0 and the reason in kind. Commit, then work; finish with id and token.';
COMMENT ON FUNCTION pgwork.token_number(uuid) IS 'The fencing number in a token: grows with every claim of a job.';
COMMENT ON FUNCTION pgwork.absent(text[]) IS 'Those of these queues that are not there: the first job makes a queue, but a name may be wrong.';
COMMENT ON FUNCTION pgwork.idle(text[], integer) IS 'Says that this session sleeps and listens for jobs of these queues, to pgwork_wake_<schema>, and _<slot> if that is not 0; needs a session of its own. LISTEN first, claim once more afterwards. Returns those that are not there: nobody calls for them. A job wakes the sleepers of one slot: choose any of 0 .. 255, other sessions others.';
COMMENT ON FUNCTION pgwork.awake(text[], integer) IS 'Takes back idle() for the same queues and slot.';
