-- Registers this session as a waiter. Returns which of these queues do not exist.
-- params: queues text[], slot int
-- returns: absent text
SELECT absent FROM unnest(pgwork.idle($1, $2)) absent
