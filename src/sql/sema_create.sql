-- A semaphore; nothing when it is there with as many permits.
-- params: name text, permits int
-- returns: sema_create void
SELECT pgwork.sema_create($1, $2)
