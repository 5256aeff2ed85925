-- Lists the grants that are held.
-- params: name text
-- returns: number bigint, permits int, holder text, taken_at timestamptz, until timestamptz, pid int
SELECT g.number, g.permits, g.holder, g.taken_at, g.until, g.pid
  FROM pgwork.sema_holders($1) g
