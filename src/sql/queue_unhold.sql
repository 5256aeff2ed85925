-- The hold ends now. False: there was none.
-- params: queue text
-- returns: unheld boolean
SELECT pgwork.queue_unhold($1)
