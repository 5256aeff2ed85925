-- This session is a waiter no longer.
-- params: queues text[], slot int
-- returns: awake void
SELECT pgwork.awake($1, $2)
