-- Sets the rate of a group, or of all groups of a queue that have none of their own; n NULL: none.
-- params: queue text, grp text, n int, per_ms bigint, burst int
-- returns: group_rate void
SELECT pgwork.group_rate($1, $2, $3, $4, $5)
