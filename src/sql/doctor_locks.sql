-- Who keeps all others from pgwork's tables, by a lock or by waiting for one? The first that is asked of the schema: what is asked next waits
-- for such a lock, too.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH lock AS (
    SELECT l.pid, l.granted, min(l.waitstart) AS waits, string_agg(DISTINCT c.relname, ', ' ORDER BY c.relname) AS tables
      FROM pg_locks l
      JOIN pg_class c ON c.oid = l.relation AND c.relkind = 'r'
     WHERE l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND c.relnamespace = (SELECT q.relnamespace FROM pg_class q WHERE q.oid = 'pgwork.queue'::regclass)
       AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
     GROUP BY l.pid, l.granted
), session AS (
    SELECT l.*, CASE WHEN l.granted THEN a.xact_start ELSE l.waits END AS since,
           concat_ws(', ', coalesce(nullif(a.application_name, ''), a.backend_type), 'user ' || a.usename, a.state) AS who
      FROM lock l JOIN pg_stat_activity a USING (pid)
), found AS ( -- without pg_read_all_stats nobody knows since when a lock is held
    SELECT format('session %s (%s) %s %s%s%s', s.pid, s.who, CASE WHEN s.granted THEN 'has locked' ELSE 'waits to lock' END, s.tables,
                  ' for ' || date_trunc('second', clock_timestamp() - s.since),
                  CASE WHEN s.granted THEN '' ELSE ', and all others wait behind it' END) AS finding,
           CASE WHEN s.granted THEN format('Wait for it, or end it, with pg_signal_backend: SELECT pg_terminate_backend(%s).', s.pid)
                ELSE format('It waits for %s: end that, or this one, with pg_signal_backend: SELECT pg_terminate_backend(%s).',
                            array_to_string(pg_blocking_pids(s.pid), ', '), s.pid) END AS advice
      FROM session s
     WHERE CASE WHEN s.granted THEN coalesce(s.since < clock_timestamp() - interval '5 s', true) ELSE s.since < clock_timestamp() - interval '1 s' END
     ORDER BY s.granted DESC, s.since LIMIT 5
)
SELECT 2, 'locks', finding, advice FROM found
UNION ALL
SELECT 0, 'locks', 'no table of pgwork has been locked for 5 s or more', '' WHERE NOT EXISTS (SELECT FROM found)
