-- A group has the settings of its queue again.
-- params: queue text, grp text
-- returns: group_reset void
SELECT pgwork.group_reset($1, $2)
