-- Deletes jobs of a group that wait, `batch` of them; older_ms: enqueued this long ago, or longer.
-- params: queue text, grp text, batch bigint, older_ms bigint
-- returns: deleted bigint
SELECT pgwork.group_purge($1, $2, $3, $4) AS deleted
