-- Deletes operation ids after their retention.
-- params: batch int
-- returns: pruned bigint
SELECT pgwork.table_prune($1)
