-- The whole life of jobs, by psql alone, on a database with the schema pgwork:
--   psql -qAtX -v ON_ERROR_STOP=1 -f test/sql/life.sql
-- Prints `ok - ...` or `not ok - ...` for each thing that should be so, and leaves nothing behind.

\set q 'the life of a job'

CREATE FUNCTION pg_temp.is(so boolean, what text) RETURNS text LANGUAGE sql
    RETURN CASE WHEN so THEN 'ok - ' ELSE 'not ok - ' END || what;

-- A producer makes a queue by its first job. The transaction of the caller decides.

BEGIN;
SELECT id FROM pgwork.enqueue(:'q', '{"to": "ann"}') \gset
ROLLBACK;
SELECT pg_temp.is(count(*) = 0, 'a job of a transaction that rolled back never was') FROM pgwork.job WHERE queue = :'q';

\set op 3f1a8c12-0000-4000-8000-000000000001
SELECT id, outcome FROM pgwork.enqueue(:'q', '{"to": "ann"}', kind => 'mail', tags => '{hello}', key => 'ann', op => :'op') \gset
SELECT pg_temp.is(:'outcome' = 'new', 'a job is enqueued');
SELECT id AS again, outcome FROM pgwork.enqueue(:'q', '{"to": "ann"}', kind => 'mail', key => 'ann', op => :'op') \gset
SELECT pg_temp.is(:'outcome' = 'repeated' AND :again = :id, 'the same operation again is the same job');
SELECT outcome FROM pgwork.enqueue(:'q', '{"to": "ann again"}', key => 'ann') \gset
SELECT pg_temp.is(:'outcome' = 'exists', 'its unique key is taken');
SELECT pg_temp.is(state = 'ready' AND attempt = 0 AND kind = 'mail' AND payload ->> 'to' = 'ann' AND tags = '{hello}', 'it is ready')
  FROM pgwork.job WHERE queue = :'q';

-- A worker claims it, is late, and loses it.

SELECT token, attempt, lease_until > server_time AS lease FROM pgwork.claim(ARRAY[:'q'], 10, 'worker one', 100) \gset
SELECT pg_temp.is(:attempt = 1 AND :'lease', 'it is claimed under a lease');
SELECT pg_temp.is(count(*) = 0, 'nobody else gets it') FROM pgwork.claim(ARRAY[:'q'], 10, 'worker two');
SELECT pg_temp.is(status = 'ok', 'its lease is extended') FROM pgwork.extend(:'q', ARRAY[:id], ARRAY[:'token'::uuid], 100);
SELECT FROM pg_sleep(0.12) \gset
SELECT pg_temp.is(returned = 1 AND died = 0, 'a job of an expired lease is requeued') FROM pgwork.reap(:'q');
SELECT pg_temp.is(status = 'stale', 'the late worker is refused') FROM pgwork.complete(:'q', ARRAY[:id], ARRAY[:'token'::uuid]);

-- Another one fails; the job waits for its retry.

SELECT token AS next, attempt FROM pgwork.claim(ARRAY[:'q'], 10, 'worker two') \gset
SELECT pg_temp.is(:attempt = 2 AND pgwork.token_number(:'next') > pgwork.token_number(:'token'), 'the next claim has a greater number');
SELECT pg_temp.is(count(*) = 0, 'its holder says that it failed') FROM pgwork.fail(:'q', ARRAY[:id], ARRAY[:'next'::uuid], 'the server is down', 50);
SELECT pg_temp.is(state = 'delayed' AND error = 'the server is down', 'a failed job is delayed') FROM pgwork.job WHERE queue = :'q';
SELECT FROM pg_sleep(0.06) \gset
SELECT pg_temp.is(promoted = 1, 'it becomes ready at its time') FROM pgwork.maintain();

-- Told so, it dies; an operator gives it another chance.

SELECT token FROM pgwork.claim(ARRAY[:'q'], 1, 'worker one') \gset
SELECT pg_temp.is(count(*) = 0, 'its holder gives it up') FROM pgwork.fail(:'q', ARRAY[:id], ARRAY[:'token'::uuid], 'no such address', dead => true);
SELECT pg_temp.is(state = 'dead' AND attempt = 3 AND error = 'no such address', 'it is a dead letter') FROM pgwork.job WHERE queue = :'q';
SELECT pg_temp.is(pgwork.redrive(:'q', ARRAY[:id]) = 1, 'it is driven back');

-- Released unstarted, claimed again, done. Its output is kept as long as the queue says.

SELECT pgwork.queue_set(:'q', retention_ms => 50) AS done \gset
SELECT token, attempt AS before FROM pgwork.claim(ARRAY[:'q'], 1, 'worker one') \gset
SELECT pg_temp.is(count(*) = 0, 'its holder hands it back') FROM pgwork.release(:'q', ARRAY[:id], ARRAY[:'token'::uuid]);
SELECT token, attempt FROM pgwork.claim(ARRAY[:'q'], 1, 'worker one') \gset
SELECT pg_temp.is(:before = 1 AND :attempt = 1, 'a released job has not been charged');
SELECT pg_temp.is(count(*) = 0, 'its holder completes it')
  FROM pgwork.complete(:'q', ARRAY[:id], ARRAY[:'token'::uuid], ARRAY['{"sent": true}'::jsonb]);
SELECT pg_temp.is(state = 'done' AND output = '{"sent": true}', 'it is done, with its output') FROM pgwork.job WHERE queue = :'q';
SELECT id AS other, outcome FROM pgwork.enqueue(:'q', key => 'ann', delay_ms => 3600000) \gset
SELECT pg_temp.is(:'outcome' = 'new', 'its unique key is free again');
SELECT FROM pg_sleep(0.06) \gset
SELECT pg_temp.is(pgwork.prune() >= 1, 'it is forgotten in time');

-- Cancel, pause, and the end of the queue.

SELECT pg_temp.is(status = 'cancelled', 'a waiting job is cancelled') FROM pgwork.cancel(:'q', ARRAY[:other]);
SELECT pg_temp.is(count(*) = 3, 'many jobs are enqueued at once') FROM pgwork.enqueue_many(:'q', '{1,2,3}');
SELECT pgwork.queue_pause(:'q') AS done \gset
SELECT pg_temp.is(count(*) = 0, 'a paused queue gives nothing') FROM pgwork.claim(ARRAY[:'q'], 10, 'worker one');
SELECT pgwork.queue_resume(:'q') AS done \gset
SELECT pg_temp.is(ready = 3 AND leased + delayed + dead = 0, 'its depth is told') FROM pgwork.depth(:'q');
SELECT pg_temp.is(pgwork.queue_purge(:'q') = 3, 'it is purged');
SELECT pgwork.queue_drop(:'q') AS done \gset
SELECT pg_temp.is(count(*) = 0, 'it is gone') FROM pgwork.queue_stats WHERE queue = :'q';
