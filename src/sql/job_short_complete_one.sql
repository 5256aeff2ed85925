-- job_short_complete.sql for a single job: of that the number of rows tells all.
-- params: queue int, version xid, lane int, pos bigint, token uuid, id bigint
-- returns: nothing
DELETE FROM pgwork.live_job j
 WHERE j.queue = (SELECT t.id FROM pgwork.queue t WHERE t.id = $1 AND t.xmin = $2)
   AND j.lane = $3 AND j.pos = $4 AND j.token = $5 AND coalesce(j.id, j.pos) = $6 AND j.flags & 4 = 0
