-- Dead letters by kind and sort of error; NULL: of all queues.
-- params: queue text
-- returns: queue text, kind text, error text, n bigint, first_at timestamptz, last_at timestamptz, last_id bigint
SELECT queue, kind, error, n, first_at, last_at, last_id FROM pgwork.dead_errors($1)
