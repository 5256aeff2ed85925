-- Whether this role may write the tables. Their owner may; all other roles use the functions.
-- params: none
-- returns: owner boolean
SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = 'pgwork.live_job'::regclass
