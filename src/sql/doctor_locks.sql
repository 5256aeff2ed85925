-- Finds sessions that block others from pgwork's tables, by a lock or by waiting for one. It is the
-- first check of the schema, because later checks would wait for such a lock, too.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH lock AS (
    SELECT l.pid, l.virtualtransaction, l.granted, min(l.waitstart) AS waits, string_agg(DISTINCT c.relname, ', ' ORDER BY c.relname) AS tables
      FROM pg_locks l
      JOIN pg_class c ON c.oid = l.relation AND c.relkind = 'r'
     WHERE l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND c.relnamespace = (SELECT q.relnamespace FROM pg_class q WHERE q.oid = 'pgwork.queue'::regclass)
       AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
     GROUP BY l.pid, l.virtualtransaction, l.granted
), holder AS (
    SELECT l.granted, l.tables, CASE WHEN l.granted THEN a.xact_start ELSE l.waits END AS since,
           format('session %s (%s)', l.pid, concat_ws(', ', coalesce(nullif(a.application_name, ''), a.backend_type), 'user ' || a.usename, a.state)) AS who,
           CASE WHEN l.granted THEN format('Wait for it, or end it, with pg_signal_backend: SELECT pg_terminate_backend(%s).', l.pid)
                ELSE format('It waits for %s: end that, or this one, with pg_signal_backend: SELECT pg_terminate_backend(%s).',
                            (SELECT string_agg(DISTINCT CASE b.pid WHEN 0 THEN 'a prepared transaction (see pg_prepared_xacts)' ELSE b.pid::text END, ', ')
                               FROM unnest(pg_blocking_pids(l.pid)) b (pid)), l.pid) END AS advice
      FROM lock l JOIN pg_stat_activity a USING (pid)
    UNION ALL -- which has no session
    SELECT true, l.tables, p.prepared, format('prepared transaction "%s" of %s', p.gid, p.owner),
           format('Ask its owner to finish it, or, as that user or a superuser, ROLLBACK PREPARED %L, in database %I.', p.gid, p.database)
      FROM lock l
      JOIN pg_locks x ON x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction AND x.locktype = 'transactionid'
      JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
     WHERE l.pid IS NULL
), found AS ( -- without pg_read_all_stats the age of a lock is unknown
    SELECT format('%s %s %s%s%s', h.who, CASE WHEN h.granted THEN 'has locked' ELSE 'waits to lock' END, h.tables,
                  ' for ' || date_trunc('second', clock_timestamp() - h.since),
                  CASE WHEN h.granted THEN '' ELSE ', and all other sessions wait behind it' END) AS finding, h.advice
      FROM holder h
     WHERE CASE WHEN h.granted THEN coalesce(h.since < clock_timestamp() - interval '5 s', true) ELSE h.since < clock_timestamp() - interval '1 s' END
     ORDER BY h.granted DESC, h.since LIMIT 5
)
SELECT 2, 'locks', finding, advice FROM found
UNION ALL
SELECT 0, 'locks', 'no table of pgwork has been locked for 5 s or more', '' WHERE NOT EXISTS (SELECT FROM found)
