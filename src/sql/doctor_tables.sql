-- Sizes, dead rows and indexes of the tables, and users' tables that no reaper could serve.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH s AS (SELECT t.* FROM pg_stat_user_tables t)
(
SELECT CASE WHEN s.n_dead_tup > 1000000 AND s.n_dead_tup > 10 * s.n_live_tup THEN 2
            WHEN s.n_dead_tup > 100000 AND s.n_dead_tup > 2 * s.n_live_tup THEN 1 ELSE 0 END, 'tables',
       format('%s: %s, %s live and %s dead rows, last vacuum %s', s.relname, pg_size_pretty(pg_total_relation_size(s.relid)), s.n_live_tup, s.n_dead_tup,
              coalesce(date_trunc('second', clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum)) || ' ago', 'never')),
       CASE WHEN s.n_dead_tup > 100000 AND s.n_dead_tup > 2 * s.n_live_tup
            THEN format('End what holds the vacuum horizon first, then VACUUM pgwork.%I.', s.relname)
                 || CASE s.relname WHEN 'live_job' THEN ' If the file stays large: SELECT pgwork.compact(); all other sessions wait while it copies the live rows.' ELSE '' END ELSE '' END
  FROM s
 WHERE s.relid IN ('pgwork.live_job'::regclass, 'pgwork.delayed_job'::regclass)
 ORDER BY s.relname DESC
)
UNION ALL -- each use of a lock or a permit writes its row, and a search for the row passes its dead versions
SELECT CASE WHEN s.n_dead_tup > 100000 THEN 2 ELSE 1 END, 'tables',
       format('%s: %s live and %s dead rows, which slow down %s', s.relname, s.n_live_tup, s.n_dead_tup,
              CASE WHEN s.relid = 'pgwork.permit'::regclass THEN 'semaphores' ELSE 'locks' END),
       format('Fix what holds the vacuum horizon. Then autovacuum removes the dead rows within minutes, or VACUUM pgwork.%I at once.', s.relname)
  FROM s
 WHERE s.relid IN ('pgwork.named_lock'::regclass, 'pgwork.permit'::regclass) AND s.n_dead_tup > 10000 AND s.n_dead_tup > 10 * s.n_live_tup
UNION ALL -- the indexes that the migrations create; without statistics some seem to be useless
SELECT 2, 'indexes', format('index %s is missing: statements may read all of its table', i.name),
       format('As the owner of the schema: CREATE INDEX CONCURRENTLY %s ON pgwork.%s;', i.name, i.definition)
  FROM (VALUES ('live_job_place', 'live_job (queue, lane, pos)'), ('live_job_id', 'live_job (queue, id, last_id) WHERE id IS NOT NULL'),
               ('delayed_job_due', 'delayed_job (queue, run_at, id) WHERE run_at < ''infinity'''),
               ('expiring_job_at', 'expiring_job (at)'), ('delayed_job_gate', 'delayed_job (queue, gate, place) WHERE gate IS NOT NULL'),
               ('admitted_job_gate', 'admitted_job (queue, gate, seq) WHERE seq > 0'), ('admitted_job_dead', 'admitted_job (queue, gate) WHERE dead'),
               ('gate_event_id', 'gate_event (queue, id)'), ('gate_rate_at', 'gate_rate (queue, waits, at)'), ('job_history_check_at', 'job_history (check_at)'),
               ('group_rule_held', 'group_rule (held_until) WHERE held_until IS NOT NULL'),
               ('dead_job_died', 'dead_job (queue, died_at) WHERE died_at < ''infinity'''), ('done_job_finished', 'done_job (queue, finished_at) WHERE finished_at < ''infinity'''), ('done_job_cancelled', 'done_job (queue, id) WHERE cancelled'),
               ('unique_key_free', 'unique_key (free_after) WHERE free_after IS NOT NULL'), ('operation_at', 'operation (at)'),
               ('table_operation_at', 'table_operation (at)'), ('minute_at', 'minute (at)'), ('log_entry_at', 'log_entry (at)'), ('schedule_next', 'schedule (next_at) WHERE NOT paused AND queue IS NOT NULL'),
               ('schedule_planned', 'schedule (planned_at) WHERE NOT paused'), ('schedule_held', 'schedule (next_at) WHERE queue IS NULL'),
               ('queue_semaphore', 'queue (((rate).semaphore)) WHERE (rate).semaphore IS NOT NULL')) i (name, definition)
 WHERE to_regclass('pgwork.' || i.name) IS NULL
UNION ALL -- CREATE INDEX CONCURRENTLY was ended before it was done
SELECT CASE WHEN r.left_over THEN 1 ELSE 2 END, 'indexes', format('index %s is not valid: the server does not use it', r.name),
       format('As the owner of the schema: %s INDEX CONCURRENTLY pgwork.%I;', CASE WHEN r.left_over THEN 'DROP' ELSE 'REINDEX' END, r.name)
  FROM (SELECT c.relname AS name, c.relname ~ '_cc(new|old)[0-9]*$' AS left_over
          FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
         WHERE NOT i.indisvalid AND c.relnamespace = (SELECT q.relnamespace FROM pg_class q WHERE q.oid = 'pgwork.queue'::regclass)
           AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.relid = i.indrelid)) r
UNION ALL
SELECT 1, 'registered tables', format('expired rows of table %I.%I are not freed: %s', t.schema_name, t.table_name, t.error),
       'Fix the cause, or run `pgwork table unregister`.'
  FROM pgwork.table_list() t WHERE t.error <> ''
