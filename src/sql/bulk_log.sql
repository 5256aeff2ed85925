-- Bulk operations, the newest first.
-- params: at_most bigint
-- returns: at timestamptz, who text, verb text, filter jsonb, change jsonb, n bigint
SELECT at, who, verb, filter, change, n FROM pgwork.log ORDER BY at DESC LIMIT $1
