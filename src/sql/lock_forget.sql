-- After a failed acquisition: releases what this session may hold of the lock.
-- params: name text
-- returns: was_held boolean
SELECT pgwork.lock_forget($1)
