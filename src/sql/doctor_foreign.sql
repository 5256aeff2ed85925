-- Finds sessions without a role of pgwork that hold or await our advisory locks. An application may take a named lock by its key, but nothing else.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
SELECT CASE WHEN starts_with(f.what, 'lock ') THEN 1 ELSE 2 END, 'foreign locks',
       format('session %s of user %I, which has no role of pgwork, %s an advisory lock of %s', f.pid, f.username,
              CASE WHEN bool_or(f.granted) THEN 'holds' ELSE 'waits for' END, f.what),
       format('If it must not, end it, with pg_signal_backend: SELECT pg_terminate_backend(%s). As the owner of the database: REVOKE CONNECT ON DATABASE %I FROM PUBLIC, %I.',
              f.pid, current_database(), f.username)
  FROM pgwork.foreign_locks() f GROUP BY f.pid, f.username, f.what
