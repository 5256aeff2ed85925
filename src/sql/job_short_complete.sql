-- Completes jobs that were claimed together, on the short way of small claims (src/job_short.c), by the rights of who owns the tables: the
-- fence of claim_batch() there. What has a key to free, lies elsewhere, has another token, or is of a queue that has changed, stays.
-- params: queue int, version xid, lane int, first bigint, last bigint, tokens uuid[], ids bigint[]
-- returns: id bigint
DELETE FROM pgwork.live_job j
 WHERE j.queue = (SELECT t.id FROM pgwork.queue t WHERE t.id = $1 AND t.xmin = $2)
   AND j.lane = $3 AND j.pos BETWEEN $4 AND $5
   AND j.token = ($6::uuid[])[array_position($7::bigint[], coalesce(j.id, j.pos))] AND j.flags & 4 = 0
RETURNING coalesce(j.id, j.pos)
