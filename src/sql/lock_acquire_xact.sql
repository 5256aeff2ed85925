-- Acquires the lock for this transaction. NULL: other sessions held it all the time.
-- params: name text, shared boolean, timeout_ms bigint
-- returns: fence bigint
SELECT pgwork.lock_acquire_xact($1, $2, $3)
