-- Moves delayed jobs to another time, by ids, by kind, or all: up to a limit, in the order of their ids from after_id on.
-- params: queue text, ids bigint[], kind text, run_at timestamptz, delay_ms bigint, at_most bigint, after_id bigint
-- returns: moved bigint, last_id bigint
SELECT moved, last_id FROM pgwork.reschedule($1, $2, $3, $4, $5, $6, $7)
