-- Enqueues many jobs, all or none. A row for each, in the order of the input. 0 in a delay, lease or ttl, -2 in a count of attempts: not given.
-- params: queue text, payloads jsonb[], kinds text[], bodies bytea[], priorities int[], run_ats timestamptz[], delays_ms bigint[], max_attempts int[], leases_ms bigint[], tags text[], keys text[], key_scope text, key_policy text, key_period_ms bigint, op uuid, grps text[], expires_ats timestamptz[], metas jsonb[], ttls_ms bigint[], key_replace text[]
-- returns: id bigint, outcome text
SELECT id, outcome
  FROM pgwork.enqueue_many($1, $2, $3, $4, $5, $6, array_replace($7::bigint[], 0, NULL),
                           array_replace($8::int[], -2, NULL), array_replace($9::bigint[], 0, NULL),
                           $10, $11, $12, $13, $14, $15, $16, $17, $18, array_replace($19::bigint[], 0, NULL), $20)
