-- Takes the turn to add to the table. False: another session has it.
-- params: schema text, name text
-- returns: ours boolean
SELECT pg_try_advisory_lock(hashtextextended('pgwork.table ' || quote_ident($1) || '.' || quote_ident($2), 0))
