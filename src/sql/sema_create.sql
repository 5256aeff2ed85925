-- Creates a semaphore. Does nothing if it exists with the same number of permits.
-- params: name text, permits int
-- returns: sema_create void
SELECT pgwork.sema_create($1, $2)
