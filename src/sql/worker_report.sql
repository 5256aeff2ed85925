-- A worker reports how many jobs it runs and what it has counted since its last report. Nobody waits for the commit to reach the disk.
-- params: name text, queues text[], versions bigint[], running int[], counts bigint[], up_ms bigint, concurrency int, gone boolean, places int[], ids bigint[], attempts int[], ran_ms bigint[]
-- returns: versions bigint[]
SELECT pgwork.worker_report($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
  FROM (SELECT pg_catalog.set_config('synchronous_commit', 'off', true) OFFSET 0) s
