-- Each leased job of a queue has a permit of the semaphore; NULL: no semaphore.
-- params: queue text, semaphore text
-- returns: queue_semaphore void
SELECT pgwork.queue_semaphore($1, $2)
