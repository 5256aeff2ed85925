-- May this role write the tables? Their owner may; everybody else goes through the functions.
-- params: none
-- returns: owner boolean
SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = 'pgwork.live_job'::regclass
