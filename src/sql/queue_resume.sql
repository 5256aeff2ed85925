-- Allows claims and enqueues again.
-- params: queue text
-- returns: queue_resume void
SELECT pgwork.queue_resume($1)
