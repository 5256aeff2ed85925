-- Ends the turn.
-- params: schema text, name text
-- returns: ours boolean
SELECT pg_advisory_unlock(hashtextextended('pgwork.table ' || quote_ident($1) || '.' || quote_ident($2), 0))
