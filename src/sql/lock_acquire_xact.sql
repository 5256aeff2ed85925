-- The lock for this transaction. NULL: held by others all the time.
-- params: name text, shared boolean, timeout_ms bigint
-- returns: fence bigint
SELECT pgwork.lock_acquire_xact($1, $2, $3)
