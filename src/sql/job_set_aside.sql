-- A claim has failed: ready jobs that make it fail are put aside. How many rows?
-- params: queues text[]
-- returns: put bigint
SELECT pgwork.set_aside($1)
