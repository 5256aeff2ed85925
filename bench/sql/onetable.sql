-- The textbook queue, tuned and written fairly: one table, a partial index on what is ready, claim by SKIP
-- LOCKED under LIMIT in a materialized CTE, random token, finished by DELETE that names it.
CREATE SCHEMA onetable;
CREATE TABLE onetable.job (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state       smallint NOT NULL DEFAULT 0,
    priority    smallint NOT NULL DEFAULT 0,
    attempt     smallint NOT NULL DEFAULT 0,
    run_at      timestamptz NOT NULL DEFAULT now(),
    lease_until timestamptz,
    token       bigint,
    kind        text NOT NULL DEFAULT '',
    payload     jsonb
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX job_ready ON onetable.job (priority, run_at, id) WHERE state = 0;

CREATE FUNCTION onetable.enqueue(n int, bytes int) RETURNS bigint LANGUAGE sql AS $$
    WITH i AS (INSERT INTO onetable.job (payload)
               SELECT jsonb_build_object('x', repeat('y', bytes)) FROM generate_series(1, n) RETURNING 1)
    SELECT count(*) FROM i
$$;

CREATE FUNCTION onetable.claim(n int) RETURNS TABLE (id bigint, token bigint, attempt smallint, priority smallint, kind text, payload jsonb, lease_until timestamptz)
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    stamp bigint := (random() * 9e18)::bigint + 1;
BEGIN
    RETURN QUERY
    WITH p AS MATERIALIZED (
        SELECT id FROM onetable.job WHERE state = 0 AND run_at <= clock_timestamp()
         ORDER BY priority, run_at, id LIMIT n FOR UPDATE SKIP LOCKED
    )
    UPDATE onetable.job j SET state = 1, attempt = j.attempt + 1, token = stamp, lease_until = clock_timestamp() + interval '30 s'
      FROM p WHERE j.id = p.id RETURNING j.id, j.token, j.attempt, j.priority, j.kind, j.payload, j.lease_until;
END $$;

CREATE FUNCTION onetable.complete(ids bigint[], tokens bigint[]) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    n bigint;
BEGIN
    DELETE FROM onetable.job j WHERE j.id = ANY (ids) AND j.token = tokens[1];
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;

-- Both in one call, as pgwork can.
CREATE FUNCTION onetable.complete_and_claim(done_ids bigint[], done_tokens bigint[], n int)
RETURNS TABLE (id bigint, token bigint, attempt smallint, priority smallint, kind text, payload jsonb, lease_until timestamptz) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM onetable.complete(done_ids, done_tokens);
    RETURN QUERY SELECT * FROM onetable.claim(n);
END $$;
