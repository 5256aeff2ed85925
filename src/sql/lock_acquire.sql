-- Acquires the lock for this session. NULL: other sessions held it all the time.
-- params: name text, shared boolean, timeout_ms bigint
-- returns: fence bigint
SELECT pgwork.lock_acquire($1, $2, $3)
