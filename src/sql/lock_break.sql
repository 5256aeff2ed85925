-- The sessions that hold the lock are ended.
-- params: name text
-- returns: ended bigint
SELECT pgwork.lock_break($1)
