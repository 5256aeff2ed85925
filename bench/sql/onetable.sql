-- The one-table queue, tuned and written fairly: one table, a partial index on what is ready, claim by SKIP LOCKED
-- under LIMIT, random token, finished by a DELETE that names it. Its statements: ../lib.sh.
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
