-- Takes permits without waiting. token NULL: not now.
-- params: name text, n int, ttl_ms bigint, holder text, session boolean
-- returns: token uuid, next_ms bigint
SELECT a.token, a.next_ms
  FROM pgwork.sema_acquire($1, $2, $3, $4, $5) a
