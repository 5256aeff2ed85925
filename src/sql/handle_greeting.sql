-- What a new session has to know of the schema.
-- params: none
-- returns: version int4, checksums text
SELECT pgwork.version(), pgwork.checksums()
