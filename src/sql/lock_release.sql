-- Releases the lock. False: this session does not hold it.
-- params: name text, shared boolean
-- returns: released boolean
SELECT pgwork.lock_release($1, $2)
