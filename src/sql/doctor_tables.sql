-- How large are the tables, and how much of them is dead? And which of the users' could no reaper serve?
-- params: none
-- returns: grade int, check_name text, finding text, advice text
(
SELECT CASE WHEN s.n_dead_tup > 1000000 AND s.n_dead_tup > 10 * s.n_live_tup THEN 2
            WHEN s.n_dead_tup > 100000 AND s.n_dead_tup > 2 * s.n_live_tup THEN 1 ELSE 0 END, 'tables',
       format('%s: %s, %s live and %s dead rows, last vacuum %s', s.relname, pg_size_pretty(pg_total_relation_size(s.relid)), s.n_live_tup, s.n_dead_tup,
              coalesce(date_trunc('second', clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum)) || ' ago', 'never')),
       CASE WHEN s.n_dead_tup > 100000 AND s.n_dead_tup > 2 * s.n_live_tup
            THEN format('Mend what holds the vacuum horizon first, then VACUUM pgwork.%I; a table that stays large though little lives in it: SELECT pgwork.compact(0), which stops the queues for as long as it reads the file: about a second per GB in memory, five or more from disk.', s.relname) ELSE '' END
  FROM pg_stat_user_tables s
 WHERE s.relid IN ('pgwork.live_job'::regclass, 'pgwork.pack'::regclass, 'pgwork.delayed_job'::regclass)
 ORDER BY s.relname DESC
)
UNION ALL
SELECT 1, 'registered tables', format('expired rows of table %I.%I are not freed: %s', t.schema_name, t.table_name, t.error),
       'Mend that, or have the reapers leave the table alone: `pgwork table unregister`.'
  FROM pgwork.table_list() t WHERE t.error <> ''
