-- Workers that have reported lately, a row for each of their queues; NULL: of any queue.
-- params: queue text
-- returns: name text, queue text, since timestamptz, at timestamptz, concurrency int, running int, claimed bigint, done bigint, failed bigint, dead bigint, refused bigint, lost bigint, wait_us bigint, run_us bigint, ids bigint[], attempts int[], began timestamptz[]
SELECT name, queue, since, at, concurrency, running, claimed, done, failed, dead, refused, lost, wait_us, run_us, ids, attempts, began
  FROM pgwork.worker_list($1)
