-- Lists the registered tables.
-- params: none
-- returns: schema text, table text, locked_by text, expires_at text, token text, key text[], error text, reaped_at timestamptz, rests boolean
SELECT t.schema_name, t.table_name, t.locked_by, t.expires_at, t.token, t.key, t.error, t.reaped_at,
       coalesce(t.rests_until > clock_timestamp(), false)
  FROM pgwork.table_list() t
