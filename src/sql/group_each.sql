-- Groups of a queue, or one of them.
-- params: queue text, grp text, at_most bigint
-- returns: grp text, gated bigint, admitted bigint, leased bigint, group_limit int, group_retry text, held_until timestamptz, blocked_by bigint, next_id bigint, next_since timestamptz, rate_n int, rate_per_ms bigint, rate_burst int, next_at timestamptz
SELECT grp, gated, admitted, leased, group_limit, group_retry, held_until, blocked_by, next_id, next_since,
       rate_n, rate_per_ms, rate_burst, next_at
  FROM pgwork.group_list($1, $2, at_most => $3)
