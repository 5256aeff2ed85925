-- Ends the sessions that hold the lock.
-- params: name text
-- returns: ended bigint
SELECT pgwork.lock_break($1)
