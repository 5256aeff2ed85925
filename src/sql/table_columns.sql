-- The columns of a table in their order. collation: different texts may be equal by it. filled: no row can hold NULL, so not if
-- NOT NULL is NOT VALID (PostgreSQL 18). keyed: changing the column takes a lock that foreign keys to the row wait for.
-- params: oid bigint
-- returns: name text, type_schema text, type text, collation_schema text, collation text, pg_type boolean, not_null boolean, generated boolean, readable boolean, filled boolean, keyed boolean
SELECT a.attname::text, n.nspname::text, y.typname::text, m.nspname::text, c.collname::text, n.nspname = 'pg_catalog', a.attnotnull,
       a.attgenerated <> '' OR a.attidentity = 'a', has_column_privilege(a.attrelid, a.attnum, 'SELECT'),
       a.attnotnull AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'n'
                                       AND a.attnum = ANY (k.conkey) AND NOT k.convalidated),
       EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL
                  AND a.attnum = ANY ((i.indkey::smallint[])[:i.indnkeyatts - 1]))
  FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
  JOIN pg_catalog.pg_namespace n ON n.oid = y.typnamespace
  LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation AND NOT c.collisdeterministic
  LEFT JOIN pg_catalog.pg_namespace m ON m.oid = c.collnamespace
 WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attnum
