-- No job of the group is admitted for so many ms; NULL: until it is unblocked.
-- params: queue text, grp text, for_ms bigint
-- returns: until timestamptz
SELECT pgwork.group_hold($1, $2, $3) AS until
