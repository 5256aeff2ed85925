-- What should not be there while a reaper runs, by queue.
-- params: at_most bigint
-- returns: queue text, expired bigint, due bigint
SELECT queue, expired, due FROM pgwork.overdue($1)
