-- What holds vacuum back, and for how long: sessions and prepared transactions by time, slots and standbys too by transactions. The age of
-- the reapers' last round; NULL: there was none. A statement, not a function: the caller's rights decide which sessions it sees.
-- params: none
-- returns: horizon_ms bigint, horizon_xids bigint, reaper_ms bigint, reapers bigint, stuck bigint
WITH h AS (
    SELECT a.xact_start AS since, greatest(age(a.backend_xmin), age(a.backend_xid)) AS xids FROM pg_stat_activity a
     WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND num_nonnulls(a.backend_xmin, a.backend_xid) > 0
       AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = a.pid)
    UNION ALL SELECT p.prepared, age(p.transaction) FROM pg_prepared_xacts p WHERE p.database = current_database()
    UNION ALL SELECT NULL, age(s.xmin) FROM pg_replication_slots s WHERE s.wal_status IS DISTINCT FROM 'lost'
    UNION ALL SELECT NULL, age(r.backend_xmin) FROM pg_stat_replication r
)
SELECT greatest((extract(epoch FROM clock_timestamp() - (SELECT min(h.since) FROM h)) * 1000)::bigint, 0) AS horizon_ms,
       (SELECT max(h.xids) FROM h)::bigint AS horizon_xids,
       (SELECT greatest((extract(epoch FROM clock_timestamp() - t.at) * 1000)::bigint, 0) FROM pgwork.last_tick t WHERE t.at IS NOT NULL) AS reaper_ms,
       (SELECT count(*) FROM pgwork.heartbeats b WHERE b.role = 'reaper' AND b.at > clock_timestamp() - interval '30 s') AS reapers,
       (SELECT count(*) FROM (SELECT FROM pgwork.stuck_jobs LIMIT 1000) s) AS stuck
