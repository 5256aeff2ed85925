-- The permits of a token come back. False: they were lost. Not waiting for the disk is safe, where the transaction is ours
-- (alone): a release that a crash undoes leaves the permits out until their time is over. It is also what keeps NOTIFY
-- short, which locks out all other notifying commits.
-- params: name text, token uuid, alone boolean
-- returns: released boolean, synchronous_commit text
SELECT pgwork.sema_release($1, $2), CASE WHEN $3 THEN pg_catalog.set_config('synchronous_commit', 'off', true) END
