-- The next slice of an operation on all jobs that fit a filter. last_id is NULL when it was the last one.
-- params: queue text, state text, kind text, tag text, key text, grp text, holder text, error text, created_from timestamptz, created_to timestamptz, verb text, to_queue text, priority int, run_at timestamptz, delay_ms bigint, after_id bigint, at_most bigint, dry_run boolean, run uuid
-- returns: n bigint, last_id bigint
SELECT n, last_id
  FROM pgwork.bulk($11, jsonb_strip_nulls(jsonb_build_object('queue', $1::text, 'state', $2::text, 'kind', $3::text, 'tag', $4::text, 'key', $5::text,
       'group', $6::text, 'holder', $7::text, 'error', $8::text, 'created_from', $9::timestamptz, 'created_to', $10::timestamptz)),
       jsonb_strip_nulls(jsonb_build_object('to', $12::text, 'priority', $13::integer, 'run_at', $14::timestamptz, 'delay_ms', $15::bigint)),
       $16, $17, $18, $19)
