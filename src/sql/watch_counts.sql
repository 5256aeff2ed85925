-- What the workers of a queue, or of each, ever did.
-- params: queue text
-- returns: queue text, workers bigint, running bigint, claimed bigint, done bigint, failed bigint, dead bigint, refused bigint, lost bigint, wait_us bigint, run_us bigint, wait_jobs bigint[], run_jobs bigint[]
SELECT queue, workers, running, claimed, done, failed, dead, refused, lost, wait_us, run_us, wait_jobs, run_jobs FROM pgwork.queue_counts($1)
