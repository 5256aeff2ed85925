-- The sleeping sign comes down.
-- params: queues text[]
-- returns: awake void
SELECT pgwork.awake($1)
