-- Which of these queues are not there?
-- params: queues text[]
-- returns: absent text
SELECT absent FROM unnest(pgwork.absent($1)) absent
