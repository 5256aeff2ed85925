-- Who keeps all others from pgwork's tables? The first that is asked of the schema: what is asked next waits for such a lock, too.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH holder AS (
    SELECT l.pid, string_agg(DISTINCT c.relname, ', ' ORDER BY c.relname) AS tables
      FROM pg_locks l
      JOIN pg_class c ON c.oid = l.relation AND c.relkind = 'r'
     WHERE l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND c.relnamespace = (SELECT q.relnamespace FROM pg_class q WHERE q.oid = 'pgwork.queue'::regclass)
       AND l.granted AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
     GROUP BY l.pid
), found AS ( -- without pg_read_all_stats nobody knows since when
    SELECT format('session %s (%s) has locked %s%s', h.pid,
                  concat_ws(', ', coalesce(nullif(a.application_name, ''), a.backend_type), 'user ' || a.usename, a.state), h.tables,
                  ' for ' || date_trunc('second', clock_timestamp() - a.xact_start)) AS finding,
           format('Wait for it, or end it, with pg_signal_backend: SELECT pg_terminate_backend(%s).', h.pid) AS advice
      FROM holder h JOIN pg_stat_activity a USING (pid)
     WHERE coalesce(a.xact_start < clock_timestamp() - interval '5 s', true)
     ORDER BY a.xact_start LIMIT 5
)
SELECT 2, 'locks', finding, advice FROM found
UNION ALL
SELECT 0, 'locks', 'no table of pgwork is locked', '' WHERE NOT EXISTS (SELECT FROM found)
