-- Which of these queues do not exist.
-- params: queues text[]
-- returns: absent text
SELECT absent FROM unnest(pgwork.absent($1)) absent
