-- Attempts of a job that failed, the oldest first. Queue NULL: any.
-- params: queue text, id bigint
-- returns: attempt int, ended_at timestamptz, ended text, holder text, error text
SELECT attempt, ended_at, ended, holder, error FROM pgwork.job_attempts($1, $2)
