-- Releases the permits of a token. False: they were lost. It is safe not to wait for the disk, if
-- the transaction is ours (alone): after a crash the permits stay held until their lease ends. This
-- also keeps NOTIFY short, which blocks all other notifying commits.
-- params: name text, token uuid, alone boolean
-- returns: released boolean, synchronous_commit text
SELECT pgwork.sema_release($1, $2), CASE WHEN $3 THEN pg_catalog.set_config('synchronous_commit', 'off', true) END
