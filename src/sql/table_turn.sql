-- This session alone adds to the table. False: another one does.
-- params: schema text, name text
-- returns: ours boolean
SELECT pg_try_advisory_lock(hashtextextended('pgwork.table ' || quote_ident($1) || '.' || quote_ident($2), 0))
