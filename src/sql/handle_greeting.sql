-- What a new session needs to know about the schema.
-- params: none
-- returns: version int4, checksums text
SELECT pgwork.version(), pgwork.checksums()
