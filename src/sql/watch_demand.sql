-- How many jobs there are to work on, up to at_most.
-- params: queue text, at_most bigint, within_ms bigint
-- returns: demand bigint
SELECT pgwork.demand($1, $2, $3)
