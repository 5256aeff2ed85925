-- Whether the database has the schema, and whether its name needs no quotes. Reads the catalog
-- instead of calling to_regclass(), whose cache may miss what another session has just committed.
-- params: none
-- returns: there boolean, plain boolean
SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = split_part('pgwork.migration', '.', 1) AND c.relname = 'migration'),
       NOT EXISTS (SELECT FROM pg_get_keywords() k WHERE k.word = split_part('pgwork.migration', '.', 1) AND k.catcode <> 'U')
