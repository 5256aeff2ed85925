-- Whether no session holds the lock.
-- params: name text
-- returns: is_free boolean
SELECT pgwork.lock_is_free($1)
