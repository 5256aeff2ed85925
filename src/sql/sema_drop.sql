-- The semaphore goes; while permits are out only when forced.
-- params: name text, force boolean
-- returns: sema_drop void
SELECT pgwork.sema_drop($1, $2)
