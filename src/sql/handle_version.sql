-- returns: version int4
SELECT pgwork.version()
