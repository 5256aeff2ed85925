-- Out of the queue; true: it was our turn.
-- params: name text
-- returns: had_turn boolean
SELECT pgwork.sema_leave($1)
