-- One round of upkeep, and a sign of life.
-- params: batch int, name text
-- returns: reaped bigint, died bigint, promoted bigint, pruned bigint, next_ms bigint, stuck text, beat void
SELECT m.reaped, m.died, m.promoted, m.pruned, m.next_ms, m.stuck, pgwork.beat('reaper', $2)
  FROM pgwork.maintain($1) m
