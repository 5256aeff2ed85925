-- Leaves the queue of waiters. True: this session was at its head.
-- params: name text
-- returns: had_turn boolean
SELECT pgwork.sema_leave($1)
