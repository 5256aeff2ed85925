-- Has this database the schema? From the tables of the catalog and not by to_regclass(), which looks
-- into a cache that may not know yet what another session committed a moment ago. And can its name stand
-- in SQL as it is?
-- params: none
-- returns: there boolean, plain boolean
SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = split_part('pgwork.migration', '.', 1) AND c.relname = 'migration'),
       NOT EXISTS (SELECT FROM pg_get_keywords() k WHERE k.word = split_part('pgwork.migration', '.', 1) AND k.catcode <> 'U')
