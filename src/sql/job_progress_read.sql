-- The last progress of a job.
-- params: queue text, id bigint
-- returns: queue text, id bigint, progress jsonb
SELECT $1::text, $2::bigint, pgwork.job_progress($1, $2)
