-- Takes permits through the queue. token NULL with next_ms: this session is at the head, and waits for permits.
-- params: name text, n int, ttl_ms bigint, holder text, session boolean, wait_ms bigint, turn boolean, patience_ms bigint
-- returns: token uuid, next_ms bigint
SELECT w.token, w.next_ms
  FROM pgwork.sema_wait($1, $2, $3, $4, $5, $6, $7, $8) w
