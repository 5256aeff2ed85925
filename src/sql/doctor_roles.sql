-- Are the roles there, may they call what they are for, and nobody else?
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH f AS (
    SELECT p.oid, p.proname FROM pg_proc p WHERE p.pronamespace = split_part('pgwork.', '.', 1)::regnamespace
), need (role, proname) AS (
    VALUES ('pgwork_producer', 'enqueue'), ('pgwork_producer', 'enqueue_many'), ('pgwork_producer', 'cancel'), ('pgwork_producer', 'table_operation'),
           ('pgwork_worker', 'claim'), ('pgwork_worker', 'extend'), ('pgwork_worker', 'complete'), ('pgwork_worker', 'fail'),
           ('pgwork_worker', 'release'), ('pgwork_worker', 'maintain'), ('pgwork_worker', 'lock_acquire'), ('pgwork_worker', 'sema_acquire'),
           ('pgwork_worker', 'cron_claim'), ('pgwork_worker', 'table_operation'),
           ('pgwork_operator', 'queue_set'), ('pgwork_operator', 'redrive'), ('pgwork_operator', 'depth')
), lacks AS (
    SELECT n.role, string_agg(n.proname || '()', ', ' ORDER BY n.proname) AS calls
      FROM need n
     WHERE to_regrole(n.role) IS NOT NULL
       AND NOT EXISTS (SELECT FROM f WHERE f.proname = n.proname AND has_function_privilege(n.role, f.oid, 'EXECUTE'))
     GROUP BY n.role
), missing AS (
    SELECT DISTINCT n.role FROM need n WHERE to_regrole(n.role) IS NULL
), open AS (
    SELECT count(*) AS n, min(f.proname) AS one FROM f WHERE has_function_privilege('public', f.oid, 'EXECUTE')
)
SELECT 1, 'roles', format('role %s is missing', role),
       format('As a superuser: CREATE ROLE %s NOLOGIN; then as the owner of the schema: SELECT pgwork._grant();', role)
  FROM missing
UNION ALL
SELECT 2, 'roles', format('role %s may not call %s', role, calls), 'As the owner of the schema: SELECT pgwork._grant();'
  FROM lacks
UNION ALL
SELECT 2, 'roles', format('everybody may call %s functions, for example %s()', n, one), 'As the owner of the schema: SELECT pgwork._grant();'
  FROM open WHERE n > 0
UNION ALL
SELECT 0, 'roles', 'pgwork_producer, pgwork_worker and pgwork_operator may call what they are for', ''
 WHERE NOT EXISTS (SELECT FROM missing) AND NOT EXISTS (SELECT FROM lacks) AND (SELECT n = 0 FROM open)
