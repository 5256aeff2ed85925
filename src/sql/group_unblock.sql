-- Ends what stops a group; how many jobs gave up their places.
-- params: queue text, grp text
-- returns: freed bigint
SELECT pgwork.group_unblock($1, $2) AS freed
