-- Operation ids that are no longer kept.
-- params: batch int
-- returns: pruned bigint
SELECT pgwork.table_prune($1)
