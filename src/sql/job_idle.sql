-- The sleeping sign of this session.
-- params: queues text[], slot int
-- returns: idle void
SELECT pgwork.idle($1, $2)
