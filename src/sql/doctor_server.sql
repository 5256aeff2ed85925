-- Checks that the server keeps acknowledged commits, and its capacity. synchronous_commit is not checked: the
-- library sets it for its own sessions, and the settings of other clients cannot be read here.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH s AS (
    SELECT current_setting('server_version_num')::int / 10000 AS major,
           current_setting('fsync') AS fsync,
           current_setting('full_page_writes') AS pages,
           current_setting('autovacuum') AS autovacuum,
           current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
               - coalesce(current_setting('reserved_connections', true)::int, 0) AS capacity, -- the latter since PostgreSQL 16
           -- Without pg_read_all_stats the sessions of others have no type; those of clients have a user and a database.
           (SELECT count(*) FROM pg_stat_activity a
             WHERE coalesce(a.backend_type = 'client backend', a.usesysid IS NOT NULL AND a.datid IS NOT NULL)) AS used,
           pg_is_in_recovery() AS standby,
           current_setting('synchronous_standby_names') AS names,
           pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees,
           (SELECT count(*) FROM pg_stat_replication r WHERE r.sync_state IN ('sync', 'quorum')) AS standbys,
           (SELECT count(*) FROM pg_stat_activity a WHERE a.wait_event = 'SyncRep' AND a.query_start < clock_timestamp() - interval '5 s') AS waiting
)
SELECT CASE WHEN major BETWEEN 15 AND 18 THEN 0 WHEN major < 15 THEN 2 ELSE 1 END, 'server version',
       'PostgreSQL ' || current_setting('server_version'),
       CASE WHEN major BETWEEN 15 AND 18 THEN '' ELSE 'Use PostgreSQL 15 to 18: this library is not tested with others.' END
  FROM s
UNION ALL
SELECT CASE WHEN current_setting('server_encoding') = 'UTF8' THEN 0 ELSE 2 END, 'encoding',
       format('this database is encoded in %s', current_setting('server_encoding')),
       CASE WHEN current_setting('server_encoding') = 'UTF8' THEN ''
            ELSE 'Use another database: CREATE DATABASE name ENCODING ''UTF8'' LOCALE ''C'' TEMPLATE template0. In this one a text can stop every claim.' END
UNION ALL
SELECT CASE WHEN standby THEN 2 ELSE 0 END, 'primary',
       CASE WHEN standby THEN 'this server is a standby: nothing can be enqueued or claimed' ELSE 'this server accepts writes' END,
       CASE WHEN standby THEN 'Connect to the primary: list all hosts in `dsn` and add target_session_attrs=read-write.' ELSE '' END
  FROM s
UNION ALL
SELECT CASE WHEN fsync = 'on' AND pages = 'on' THEN 0 ELSE 2 END, 'durability',
       format('fsync is %s, full_page_writes is %s', fsync, pages),
       CASE WHEN fsync = 'on' AND pages = 'on' THEN ''
            ELSE 'Switch both on in postgresql.conf and reload. Otherwise a crash of the machine can destroy the database.' END
  FROM s
UNION ALL
-- If a standby is missing, every commit waits until an operator acts.
SELECT CASE WHEN NOT sees THEN 1 WHEN standbys = 0 OR waiting > 0 THEN 2 ELSE 0 END, 'synchronous standby',
       CASE WHEN NOT sees THEN format('commits wait for synchronous_standby_names (%s); %s cannot see whether they are connected', names, current_user)
            ELSE format('commits wait for synchronous_standby_names (%s): %s connected, %s sessions have been waiting for more than 5 s', names, standbys, waiting) END,
       CASE WHEN NOT sees THEN format('As a superuser: GRANT pg_read_all_stats TO %I', current_user)
            WHEN standbys = 0 OR waiting > 0
            THEN 'Start the standby again. To continue without its protection, as a superuser: ALTER SYSTEM SET synchronous_standby_names = '''' and SELECT pg_reload_conf().'
            ELSE '' END
  FROM s WHERE names <> '' AND NOT standby
UNION ALL
SELECT CASE WHEN autovacuum = 'on' THEN 0 ELSE 2 END, 'autovacuum', 'autovacuum is ' || autovacuum,
       CASE WHEN autovacuum = 'on' THEN '' ELSE 'Switch it on: every job leaves a dead row, and dead rows slow down claims.' END
  FROM s
UNION ALL
SELECT CASE WHEN capacity - used < 3 THEN 2 WHEN capacity - used < capacity / 10 THEN 1 ELSE 0 END, 'connections',
       format('%s of %s connections are in use', used, capacity),
       CASE WHEN capacity - used < greatest(3, capacity / 10)
            THEN 'Raise max_connections, start fewer workers, or use a pooler. A worker needs two connections, whatever its concurrency, and a reaper one.' ELSE '' END
  FROM s
UNION ALL
SELECT CASE WHEN n.used < 0.9 THEN 1 ELSE 2 END, 'notifications', -- the limit of _may_notify()
       format('the server''s notification queue is %s %% full%s', floor(n.used * 100), CASE WHEN n.used < 0.9 THEN '' ELSE ': workers are not woken up and find jobs by polling' END),
       'A listening session of some database keeps a transaction open. The server''s log names its pid. End it, with pg_signal_backend: SELECT pg_terminate_backend(pid).'
  FROM pg_notification_queue_usage() n (used) WHERE n.used >= 0.5
