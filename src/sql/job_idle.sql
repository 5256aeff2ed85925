-- The sleeping sign of this session: which of these queues are not there?
-- params: queues text[], slot int
-- returns: absent text
SELECT absent FROM unnest(pgwork.idle($1, $2)) absent
