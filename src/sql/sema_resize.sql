-- Changes the number of permits, even while some are held.
-- params: name text, permits int
-- returns: sema_resize void
SELECT pgwork.sema_resize($1, $2)
