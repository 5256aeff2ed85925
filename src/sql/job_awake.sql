-- Unregisters this session as a waiter.
-- params: queues text[], slot int
-- returns: awake void
SELECT pgwork.awake($1, $2)
