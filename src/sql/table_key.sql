-- The operators that compare the columns of a key, in the given order. They are those of a valid
-- unique index on exactly these columns. Its collations must be those of the columns, because
-- statements compare by these. It must be a btree, because other methods number their operators
-- differently, and WITHOUT OVERLAPS is not equality. No row: no such index. A domain over an enum
-- has an index, but no operators.
-- params: oid bigint, columns text[]
-- returns: equal_schema text, equal text, less_schema text, less text, enum_domain boolean
SELECT es.nspname::text, e.oprname::text, ls.nspname::text, l.oprname::text,
       c.opcintype = 'anyenum'::regtype AND EXISTS (SELECT FROM pg_catalog.pg_type y WHERE y.oid = a.atttypid AND y.typtype = 'd')
  FROM (SELECT i.* FROM pg_catalog.pg_index i
          JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
          JOIN pg_catalog.pg_am m ON m.oid = x.relam AND m.amname = 'btree'
         WHERE i.indrelid = $1::oid AND i.indisunique AND i.indisvalid AND i.indimmediate
           AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = cardinality($2)
           AND NOT EXISTS (SELECT FROM unnest($2) u (name)
                            WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                                               CROSS JOIN generate_series(0, i.indnkeyatts - 1) p
                                               WHERE a.attrelid = i.indrelid AND a.attname = u.name AND a.attnum = i.indkey[p]
                                                 AND a.attcollation = i.indcollation[p]))
         ORDER BY i.indisprimary DESC, i.indexrelid LIMIT 1) i
 CROSS JOIN unnest($2) WITH ORDINALITY u (name, k)
  JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attname = u.name
  JOIN LATERAL generate_series(0, i.indnkeyatts - 1) p ON i.indkey[p] = a.attnum
  JOIN pg_catalog.pg_opclass c ON c.oid = i.indclass[p]
  JOIN pg_catalog.pg_amop ae ON ae.amopfamily = c.opcfamily AND ae.amoplefttype = c.opcintype
                            AND ae.amoprighttype = c.opcintype AND ae.amopstrategy = 3
  JOIN pg_catalog.pg_operator e ON e.oid = ae.amopopr
  JOIN pg_catalog.pg_namespace es ON es.oid = e.oprnamespace
  JOIN pg_catalog.pg_amop al ON al.amopfamily = c.opcfamily AND al.amoplefttype = c.opcintype
                            AND al.amoprighttype = c.opcintype AND al.amopstrategy = 1
  JOIN pg_catalog.pg_operator l ON l.oid = al.amopopr
  JOIN pg_catalog.pg_namespace ls ON ls.oid = l.oprnamespace
 ORDER BY u.k
