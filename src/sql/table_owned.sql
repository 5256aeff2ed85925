-- Whether a registered table and its partitions still have the owner of the registration.
-- params: schema text, table text
-- returns: same boolean
SELECT EXISTS (SELECT FROM pgwork.table_list() t
                 JOIN pg_catalog.pg_namespace n ON n.nspname = t.schema_name
                 JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = t.table_name
                WHERE t.schema_name = $1 AND t.table_name = $2 AND pg_catalog.pg_get_userbyid(c.relowner) = t.owner
                  AND NOT EXISTS (SELECT FROM pg_catalog.pg_partition_tree(c.oid) p JOIN pg_catalog.pg_class x ON x.oid = p.relid
                                   WHERE x.relowner <> c.relowner))
