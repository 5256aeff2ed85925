-- Settings of a group, or of all groups of a queue. NULL: as it is.
-- params: queue text, grp text, group_limit int, group_retry text
-- returns: group_set void
SELECT pgwork.group_set($1, $2, $3, $4)
