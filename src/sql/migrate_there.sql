-- Has this database the schema?
-- params: none
-- returns: there boolean
SELECT to_regclass('pgwork.migration') IS NOT NULL
