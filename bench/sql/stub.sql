-- A server side that does nothing: pgwork's functions, over a migrated schema, without a table behind them. A claim answers
-- with as many ready-made jobs as were asked for, and whatever is said of them is right. What is left is the client.
CREATE OR REPLACE FUNCTION pgwork.claim_batch(queues text[], n integer, holder text, lease_ms bigint DEFAULT NULL,
    done_ids bigint[] DEFAULT NULL, done_tokens uuid[] DEFAULT NULL, apart boolean DEFAULT false,
    in_order boolean DEFAULT false)
RETURNS SETOF pgwork.claimed_batch
LANGUAGE sql STABLE AS $$
    SELECT queues[1], NULL::bigint, '01234567-89ab-cdef-0123-456789abcdef'::uuid, 1, 20, 0, '', NULL::jsonb, NULL::bytea, NULL::text[], now(),
           now() + interval '30 s', now(), NULL::jsonb, false, ARRAY(SELECT i::bigint FROM generate_series(1, n) i), NULL::text[],
           array_fill('{"x": "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}'::jsonb, ARRAY[n]), NULL::timestamptz[]
$$;

CREATE OR REPLACE FUNCTION pgwork.complete(queue text, ids bigint[], tokens uuid[], outputs jsonb[] DEFAULT NULL)
RETURNS TABLE (id bigint, status text)
LANGUAGE sql STABLE AS $$ SELECT NULL::bigint, NULL::text WHERE false $$;

CREATE OR REPLACE FUNCTION pgwork.release(queue text, ids bigint[], tokens uuid[]) RETURNS TABLE (id bigint, status text)
LANGUAGE sql STABLE AS $$ SELECT NULL::bigint, NULL::text WHERE false $$;

CREATE OR REPLACE FUNCTION pgwork.extend(queue text, ids bigint[], tokens uuid[], lease_ms bigint DEFAULT NULL)
RETURNS TABLE (id bigint, status text, lease_until timestamptz)
LANGUAGE sql STABLE AS $$ SELECT i, 'ok', now() + interval '30 s' FROM unnest(ids) i $$;
