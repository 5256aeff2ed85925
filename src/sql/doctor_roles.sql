-- Checks that the roles exist, have their rights, and that no other role has rights.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH s AS (
    SELECT split_part('pgwork.', '.', 1)::regnamespace AS oid
), f AS (
    SELECT p.* FROM s JOIN pg_proc p ON p.pronamespace = s.oid
), need (role, proname) AS (
    VALUES ('pgwork_producer', 'enqueue'), ('pgwork_producer', 'enqueue_many'), ('pgwork_producer', 'cancel'), ('pgwork_producer', 'table_operation'),
           ('pgwork_worker', 'claim'), ('pgwork_worker', 'extend'), ('pgwork_worker', 'complete'), ('pgwork_worker', 'fail'),
           ('pgwork_worker', 'release'), ('pgwork_worker', 'maintain'), ('pgwork_worker', 'lock_acquire'), ('pgwork_worker', 'sema_acquire'),
           ('pgwork_worker', 'cron_claim'), ('pgwork_worker', 'table_operation'),
           ('pgwork_viewer', 'depth'), ('pgwork_viewer', 'job_list'), ('pgwork_viewer', 'lock_list'), ('pgwork_viewer', 'sema_list'),
           ('pgwork_operator', 'queue_set'), ('pgwork_operator', 'redrive'), ('pgwork_operator', 'depth')
), lacks AS (
    SELECT n.role, string_agg(n.proname || '()', ', ' ORDER BY n.proname) AS calls
      FROM need n
     WHERE to_regrole(n.role) IS NOT NULL
       AND NOT EXISTS (SELECT FROM f WHERE f.proname = n.proname AND has_function_privilege(n.role, f.oid, 'EXECUTE'))
     GROUP BY n.role
), missing AS (
    SELECT DISTINCT n.role FROM need n WHERE to_regrole(n.role) IS NULL
), object (name, owner, acl, fine) AS ( -- fine: the harmless right on it
    SELECT f.proname || '()', f.proowner, coalesce(f.proacl, acldefault('f', f.proowner)), CASE WHEN starts_with(f.proname, '_') THEN '' ELSE 'EXECUTE' END FROM f
    UNION ALL
    SELECT c.relname, c.relowner, c.relacl, CASE c.relkind WHEN 'v' THEN 'SELECT' ELSE '' END FROM s JOIN pg_class c ON c.relnamespace = s.oid
    UNION ALL
    SELECT c.relname || '.' || a.attname, c.relowner, a.attacl, '' FROM s JOIN pg_class c ON c.relnamespace = s.oid JOIN pg_attribute a ON a.attrelid = c.oid
    UNION ALL
    SELECT 'the schema', n.nspowner, n.nspacl, 'USAGE' FROM s JOIN pg_namespace n ON n.oid = s.oid
), given AS (
    SELECT CASE a.grantee WHEN 0 THEN 'everybody' ELSE 'role ' || a.grantee::regrole END AS who,
           a.privilege_type || ' on ' || o.name AS may, a.grantee = 0 OR a.privilege_type <> o.fine AS bad
      FROM object o
     CROSS JOIN LATERAL aclexplode(o.acl) a
     WHERE a.grantee <> o.owner
       AND NOT (a.privilege_type = o.fine AND EXISTS (SELECT FROM need n WHERE to_regrole(n.role) = a.grantee))
), beyond AS (
    SELECT who, count(*) AS n, bool_or(bad) AS bad, (array_agg(may ORDER BY bad DESC, may))[1] AS one FROM given GROUP BY who
)
SELECT 1, 'roles', format('role %s is missing', role),
       format('As a superuser: CREATE ROLE %s NOLOGIN; then as the owner of the schema: SELECT pgwork._grant();', role)
  FROM missing
UNION ALL
SELECT 2, 'roles', format('role %s may not call %s', role, calls), 'As the owner of the schema: SELECT pgwork._grant();'
  FROM lacks
UNION ALL
SELECT CASE WHEN bad THEN 2 ELSE 1 END, 'roles', format('%s has %s rights that pgwork does not grant, for example %s', who, n, one),
       'As the owner of the schema: SELECT pgwork._grant(); it revokes all these. Grant one of the four roles instead.'
  FROM beyond
UNION ALL
SELECT 0, 'roles', 'pgwork_producer, pgwork_worker, pgwork_viewer and pgwork_operator have their rights', ''
 WHERE NOT EXISTS (SELECT FROM missing) AND NOT EXISTS (SELECT FROM lacks) AND NOT EXISTS (SELECT FROM beyond)
