# shellcheck shell=sh disable=SC2034  # variables for those that source it
# pgload.sh: a load of pgbench scripts whose bookkeeping lies in the same database. Sourced, POSIX sh.
# `sent` has the jobs that were committed, `finished` those whose completion was: in any snapshot the jobs that are
# there are those of `sent` without those of `finished`.
pgload_tables="CREATE TABLE sent (id bigint PRIMARY KEY);
     CREATE TABLE finished (id bigint PRIMARY KEY);
     SELECT pgwork.queue_create('s', max_attempts => 1000, backoff_ms => 0)"

# pgload_scripts DIR: one.sql, many.sql, late.sql, never.sql (rolled back), holder.sql, chain.sql
pgload_scripts() {
pgload_dir=$1
script() { cat >"$pgload_dir/$1.sql"; }
script one <<'S'
\set urgent random(0, 3)
\set later random(0, 9)
INSERT INTO sent SELECT id FROM pgwork.enqueue('s', '{"a": 1}', priority => CASE WHEN :urgent::int = 0 THEN 2 ELSE 0 END, delay_ms => CASE WHEN :later::int = 0 THEN 300 END);
S
script many <<'S'
\set n random(1, 400)
INSERT INTO sent SELECT id FROM pgwork.enqueue_many('s', array_fill('{"a": 1}'::jsonb, ARRAY[:n::int]));
S
script late <<'S'
\set n random(1, 300)
BEGIN;
INSERT INTO sent SELECT id FROM pgwork.enqueue_many('s', array_fill('{"a": 1}'::jsonb, ARRAY[:n::int]));
\sleep 700 ms
COMMIT;
S
script never <<'S'
BEGIN;
INSERT INTO sent SELECT id FROM pgwork.enqueue_many('s', array_fill('{"a": 1}'::jsonb, ARRAY[150]));
\sleep 30 ms
ROLLBACK;
S
finish="INSERT INTO finished SELECT unnest(:ids::bigint[]) EXCEPT SELECT id FROM pgwork.complete('s', :ids, :tokens);"
script holder <<S
\\set n 10 ^ random(0, 3)
\\set lease_ms random(150, 1500)
SELECT coalesce(array_agg(id)::text, '{}') ids, coalesce(array_agg(token)::text, '{}') tokens FROM pgwork.claim('{s}', :n::int, 'holder', :lease_ms) \\gset
\\set what random(1, 16)
\\if :what = 1
SELECT count(*) FROM pgwork.fail('s', :ids, :tokens, 'again', 50);
\\elif :what = 2
SELECT count(*) FROM pgwork.fail('s', :ids, :tokens, 'never again', NULL, true);
\\elif :what = 3
SELECT count(*) FROM pgwork.release('s', :ids, :tokens);
\\elif :what = 4
SELECT count(*) FROM pgwork.snooze('s', :ids, :tokens, 100);
\\elif :what = 5
SELECT pg_sleep(0.4);
$finish
\\elif :what = 6
SELECT count(*) FROM pgwork.extend('s', :ids, :tokens, 1000);
$finish
\\elif :what = 7
BEGIN;
$finish
ROLLBACK;
\\elif :what > 8
$finish
\\endif
S
# a call completes what the one before has claimed, now and then too late
script chain <<'S'
\set nap random(0, 30)
\if :nap = 0
SELECT pg_sleep(0.3);
\endif
WITH c AS MATERIALIZED (
    SELECT * FROM pgwork.claim_batch('{s}', :n, 'chain', 250, nullif(:ids, '{}')::bigint[], nullif(:tokens, '{}')::uuid[])
), f AS (
    INSERT INTO finished SELECT unnest(:ids::bigint[]) EXCEPT SELECT id FROM c WHERE attempt = 0
), j AS (
    SELECT unnest(coalesce(ids, ARRAY[id])) AS id, token FROM c WHERE attempt > 0
)
SELECT coalesce(array_agg(id)::text, '{}') ids, coalesce(array_agg(token)::text, '{}') tokens FROM j \gset
S
}

# pgload_some DIR ARGS: pgbench with some of them
pgload_some() {
    pgload_dir=$1
    shift
    pgbench -n -M prepared -D ids={} -D tokens={} "$@" >>"$pgload_dir/bench" 2>&1
}

# the jobs that are left, each completed once; `finished` refuses a second time
pgload_drain="DO \$\$
     DECLARE
         ids bigint[];
         tokens uuid[];
     BEGIN
         LOOP
             SELECT array_agg(id), array_agg(token) INTO ids, tokens FROM pgwork.claim('{s}', 1000, 'last', 60000);
             EXIT WHEN ids IS NULL;
             INSERT INTO finished SELECT unnest(ids) EXCEPT SELECT id FROM pgwork.complete('s', ids, tokens);
             COMMIT;
         END LOOP;
     END \$\$"
