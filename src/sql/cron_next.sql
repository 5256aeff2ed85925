-- Lists the next times of an expression.
-- params: expression text, zone text, n int, after timestamptz
-- returns: at timestamptz, local text
SELECT at, local FROM pgwork.cron_times($1, $2, $3, coalesce($4, clock_timestamp()))
