-- Drops a semaphore; while permits are held only if forced.
-- params: name text, force boolean
-- returns: sema_drop void
SELECT pgwork.sema_drop($1, $2)
