-- The short way of small claims (src/job_short.c), where it is to be had: the setting that the last claim of this session has left
-- (migrations/0004_marks.sql). It is good for `left_ms`, and as long as nobody changes the queue's row: `version`.
-- suspects: some wait. They are passed over, and come alone: who has got less than he asked for is not to ask for more.
-- params: queue text
-- returns: id int, version text, lease_ms int, max_attempts int2, left_ms bigint, way bigint[], suspects boolean
SELECT t.id, t.xmin::text, t.lease_ms, t.max_attempts, s.way[1] - (date_part('epoch', clock_timestamp()) * 1000)::bigint, s.way, t.suspects <> 0
  FROM (SELECT nullif(current_setting(pgwork._short($1), true), '')::bigint[] AS way OFFSET 0) s
  JOIN pgwork.queue t ON t.id = s.way[2]
 WHERE t.name = $1 AND t.retention_ms = 0 AND NOT t.paused AND t.priorities + (t.suspects << 10) + (t.bundles::integer << 30) & ~s.way[3] = 0
