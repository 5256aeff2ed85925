-- job_short_claim.sql for a single job: how far others have come costs more than to pass over what they have.
-- params: queue int, name text, version xid, marks bigint[], tos bigint[], nonce bytea, holder text, lease_ms bigint
-- returns: queue text, id bigint, token uuid, attempt int2, max_attempts int2, kind text, payload jsonb, body bytea, tags text[], created_at timestamptz, lease_until timestamptz, lease_ms int
UPDATE pgwork.live_job j
   SET token = encode(int8send(j.pos * 32 + j.lane) || $6, 'hex')::uuid, holder = $7, attempt = j.attempt + 1,
       lease_until = clock_timestamp() + coalesce(j.lease_ms, $8) * interval '1 ms'
 WHERE j.token IS NULL
   AND j.ctid = (SELECT p.ctid
                   FROM (SELECT unnest($4::bigint[]) AS mark, unnest($5::bigint[]) AS until FROM pgwork.queue t WHERE t.id = $1 AND t.xmin = $3) l
                  CROSS JOIN LATERAL (SELECT j.ctid FROM pgwork.live_job j
                                       WHERE j.queue = $1 AND j.lane = (l.mark & 31)::smallint AND j.token IS NULL
                                         AND j.pos > l.mark >> 5 AND j.pos <= l.until AND j.flags & 10 = 0 AND j.xmax = '0'
                                       ORDER BY j.pos LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) p
                  LIMIT 1)
RETURNING $2, j.id, j.token, j.attempt, j.max_attempts, j.kind, j.payload, j.body, j.tags, j.created_at, j.lease_until, j.lease_ms
