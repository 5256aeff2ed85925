-- The sleeping sign comes down.
-- params: queues text[], slot int
-- returns: awake void
SELECT pgwork.awake($1, $2)
