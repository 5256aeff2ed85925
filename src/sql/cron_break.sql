-- Takes a held tick from its node.
-- params: name text
-- returns: was_held boolean
SELECT pgwork.cron_break($1)
