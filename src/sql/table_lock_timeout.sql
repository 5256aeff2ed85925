-- Sets lock_timeout for the rest of the transaction, and returns the old value. All settings are
-- read before the first row is made, so the old value is correct.
-- params: timeout_ms bigint
-- returns: old bigint, new text
SELECT s.setting::bigint, set_config('lock_timeout', $1::text, true)
  FROM pg_catalog.pg_settings s
 WHERE s.name = 'lock_timeout'
