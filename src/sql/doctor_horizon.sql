-- Finds what holds back vacuum: old snapshots, forgotten prepared transactions, slots, and replicas
-- without a slot. Also checks how near transaction and multixact ids are to their limit.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH pin AS (
    SELECT format('session %s (%s, user %s, %s) has a transaction open for %s', a.pid, coalesce(nullif(a.application_name, ''), a.backend_type),
                  a.usename, a.state, date_trunc('second', clock_timestamp() - a.xact_start)) AS finding,
           CASE WHEN a.xact_start < clock_timestamp() - interval '10 min' THEN 2
                WHEN a.xact_start < clock_timestamp() - interval '1 min' THEN 1 ELSE 0 END AS grade,
           extract(epoch FROM clock_timestamp() - a.xact_start) AS weight,
           format('End it, with pg_signal_backend: SELECT pg_terminate_backend(%s); then set idle_in_transaction_session_timeout or statement_timeout to do so.', a.pid) AS advice
      FROM pg_stat_activity a
     WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL
       AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
       AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = a.pid) -- the snapshot of a VACUUM holds nothing back; the view does not list VACUUM FULL, whose snapshot does
    UNION ALL
    SELECT format('prepared transaction "%s" of %s has been left for %s', p.gid, p.owner, date_trunc('second', clock_timestamp() - p.prepared)),
           CASE WHEN p.prepared < clock_timestamp() - interval '1 min' THEN 2 ELSE 1 END,
           extract(epoch FROM clock_timestamp() - p.prepared),
           format('Ask its owner to finish it, or, as that user or a superuser, ROLLBACK PREPARED %L, in database %I.', p.gid, p.database)
      FROM pg_prepared_xacts p WHERE p.database = current_database()
    UNION ALL
    SELECT h.finding, CASE WHEN age(h.xmin) > 1000000 THEN 2 WHEN age(h.xmin) > 50000 THEN 1 ELSE 0 END, age(h.xmin), h.advice
      FROM (SELECT format('replication slot "%s" (%s) holds rows of the last %s transactions', s.slot_name,
                          CASE WHEN s.active THEN 'in use' ELSE 'not in use' END, age(s.xmin)) AS finding,
                   s.xmin,
                   format('If the slot is not needed, as a role with REPLICATION: SELECT pg_drop_replication_slot(%L). Otherwise find out why its standby lags or runs a long query.', s.slot_name) AS advice
              FROM pg_replication_slots s WHERE s.wal_status IS DISTINCT FROM 'lost' -- such a slot holds nothing any more, although it shows an xmin
            UNION ALL -- hot_standby_feedback without a slot
            SELECT format('replica "%s" (%s) holds rows of the last %s transactions', r.application_name, coalesce(host(r.client_addr), 'local'), age(r.backend_xmin)),
                   r.backend_xmin,
                   'End the long query on the replica, or set hot_standby_feedback = off there, so that replay cancels such queries.'
              FROM pg_stat_replication r) h
     WHERE h.xmin IS NOT NULL
), worst AS (
    SELECT grade, finding, advice FROM pin WHERE grade > 0 ORDER BY grade DESC, weight DESC LIMIT 5
)
SELECT grade, 'vacuum horizon', finding, advice FROM worst
UNION ALL
SELECT 0, 'vacuum horizon', 'nothing holds back vacuum', '' WHERE NOT EXISTS (SELECT FROM worst)
UNION ALL -- autovacuum begins at `usual`, and ignores its cost limits from 1600 million on; three million ids before the end the server refuses writes
SELECT CASE WHEN w.age > 1600000000 THEN 2 ELSE 1 END, 'wraparound',
       format('%s of database "%s" have an age of %s: at 2144000000 the server stops all writes, in all databases', w.what, d.datname, w.age),
       format('End what holds back vacuum, in any database. Then, as a superuser, VACUUM database %I.', d.datname)
  FROM pg_database d
 CROSS JOIN LATERAL (VALUES ('transaction ids', age(d.datfrozenxid), current_setting('autovacuum_freeze_max_age')::bigint),
                            ('multixact ids', mxid_age(d.datminmxid), current_setting('autovacuum_multixact_freeze_max_age')::bigint)) w (what, age, usual)
 WHERE w.age > greatest(1000000000, 1.1 * w.usual)
UNION ALL
SELECT 1, 'vacuum horizon', 'sessions of other users cannot be seen by ' || current_user, format('As a superuser: GRANT pg_read_all_stats TO %I', current_user)
 WHERE NOT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
