-- Extends the lease of permits. False: they are lost.
-- params: name text, token uuid, ttl_ms bigint
-- returns: extended boolean
SELECT pgwork.sema_extend($1, $2, $3) IS NOT NULL
