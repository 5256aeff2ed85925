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

CREATE FUNCTION onetable.claim(n int, OUT ids bigint[], OUT tokens bigint[]) LANGUAGE plpgsql
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    stamp bigint := (random() * 9e18)::bigint + 1;
BEGIN
    WITH p AS MATERIALIZED (
        SELECT id FROM onetable.job WHERE state = 0 AND run_at <= clock_timestamp()
         ORDER BY priority, run_at, id LIMIT n FOR UPDATE SKIP LOCKED
    ), u AS (
        UPDATE onetable.job j SET state = 1, attempt = attempt + 1, token = stamp, lease_until = clock_timestamp() + interval '30 s'
          FROM p WHERE j.id = p.id RETURNING j.id, j.payload
    )
    SELECT array_agg(id), array_agg(stamp) INTO ids, tokens FROM u;
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
CREATE FUNCTION onetable.complete_and_claim(done_ids bigint[], done_tokens bigint[], n int, OUT ids bigint[], OUT tokens bigint[]) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM onetable.complete(done_ids, done_tokens);
    SELECT c.ids, c.tokens INTO ids, tokens FROM onetable.claim(n) c;
END $$;
