-- Another number of permits, also while some are out.
-- params: name text, permits int
-- returns: sema_resize void
SELECT pgwork.sema_resize($1, $2)
