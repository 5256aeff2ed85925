-- After an acquisition that failed halfway: whatever this session holds of the lock goes back.
-- params: name text
-- returns: was_held boolean
SELECT pgwork.lock_forget($1)
