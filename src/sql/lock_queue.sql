-- One step of a wait for the lock. fence NULL: not yet. place: for the next step.
-- params: name text, shared boolean, xact boolean, wait_ms bigint, place int, last boolean, check_deadlock boolean
-- returns: fence bigint, place int
SELECT q.fence, q.place FROM pgwork.lock_queue($1, $2, $3, $4, $5, $6, $7) q
