-- Lists one semaphore or (NULL) all.
-- params: name text
-- returns: name text, permits int, taken int, waiting int
SELECT l.name, l.permits, l.taken, l.waiting
  FROM pgwork.sema_list($1) l
