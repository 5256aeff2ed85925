-- The permits of a token come back. False: they were lost.
-- params: name text, token uuid
-- returns: released boolean
SELECT pgwork.sema_release($1, $2)
