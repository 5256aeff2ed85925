-- Deletes unused names.
-- params: idle_ms bigint, batch int
-- returns: forgotten bigint
SELECT pgwork.lock_prune($1, $2)
