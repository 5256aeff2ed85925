-- A claim has failed: sets ready jobs aside that make it fail. Returns the number of rows.
-- params: queues text[]
-- returns: put bigint
SELECT pgwork.set_aside($1)
