-- Whether this role may read everything: a member of pgwork_operator, or of the schema's owner.
-- params: none
-- returns: may boolean
SELECT EXISTS (SELECT FROM pg_roles r
                WHERE (r.rolname = 'pgwork_operator' OR r.oid = (SELECT n.nspowner FROM pg_namespace n WHERE n.oid = split_part('pgwork.', '.', 1)::regnamespace))
                  AND pg_has_role(r.oid, 'USAGE'))
