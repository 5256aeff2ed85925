-- One migration at a time; the lock ends with the transaction.
-- params: none
-- returns: lock void
SELECT pg_advisory_xact_lock(hashtextextended('pgwork.migration', 0))
