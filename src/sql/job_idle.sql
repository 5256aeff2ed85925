-- The sleeping sign of this session.
-- params: queues text[]
-- returns: idle void
SELECT pgwork.idle($1)
