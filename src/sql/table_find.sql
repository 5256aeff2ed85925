-- The object behind a name, and the rights of this role on it. No row: the schema does not exist.
-- params: schema text, name text, lease_index text, holder_index text
-- returns: oid bigint, relkind text, temporary boolean, readable boolean, writable boolean, rules boolean, parent boolean, lease_index text, holder_index text, operations boolean, xmin boolean, after text
SELECT c.oid::bigint, c.relkind::text, c.relpersistence = 't',
       has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT'),
       has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'UPDATE'),
       EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type IN ('2', '4')),
       c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid),
       (SELECT CASE WHEN i.indisvalid THEN 'valid' ELSE 'invalid' END
          FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
         WHERE i.indrelid = c.oid AND x.relname = $3),
       (SELECT CASE WHEN i.indisvalid THEN 'valid' ELSE 'invalid' END
          FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
         WHERE i.indrelid = c.oid AND x.relname = $4),
       EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace s ON s.oid = p.pronamespace
                WHERE s.nspname = split_part('pgwork.', '.', 1) AND p.proname = 'table_operation'
                  AND has_schema_privilege(s.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')),
       c.relkind = 'r' AND has_table_privilege(c.oid, 'SELECT'),
       -- triggers that may write a row again behind an UPDATE of it; deferred ones at the commit
       (SELECT CASE WHEN bool_or(g.tginitdeferred) THEN 'deferred' WHEN count(*) > 0 THEN 'immediate' END
          FROM pg_catalog.pg_trigger g
         WHERE (g.tgrelid = c.oid OR g.tgrelid IN (SELECT p.relid FROM pg_catalog.pg_partition_tree(c.oid) p))
           AND NOT g.tgisinternal AND g.tgenabled IN ('O', 'A') AND g.tgtype & 16 <> 0 AND g.tgtype & 66 = 0)
  FROM pg_catalog.pg_namespace n
  LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = $2
 WHERE n.nspname = $1
