# Everything at once, at random: producers that roll back or commit late, claims of 1 to 1000 jobs, holders that complete,
# fail, release, snooze, come late, die, are canceled or shot, two reapers, compactions, vacuum, and snapshots that hold it
# back. In the end each job that was committed was finished exactly once: what a completion accepts goes into a table with a primary key, in
# the same transaction.
# For as long as you like, beside a private server:
#   make && sh test/support/with_pg.sh sh -c 'PATH=$PWD/build:$PATH PGW_SOAK_SECONDS=600 sh test/cli/26_soak.sh'
. "$(dirname "$0")/tap"
seconds=${PGW_SOAK_SECONDS:-6}
pgwork -q migrate
sql "CREATE TABLE sent (id bigint PRIMARY KEY);
     CREATE TABLE finished (id bigint PRIMARY KEY);
     SELECT pgwork.queue_create('s', max_attempts => 1000, backoff_ms => 0)" >/dev/null

script() { cat >"$tmp/$1.sql"; }
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

pgwork reap >"$tmp/reap" 2>&1 & reapers=$!
pgwork reap >>"$tmp/reap" 2>&1 & reapers="$reapers $!"
troubles=
# again CMD...: every second
again() { (while :; do "$@"; sleep 1; done) >>"$tmp/again" 2>&1 & troubles="$troubles $!"; }
trouble() { shoot; sql "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgbench' AND datname = current_database() ORDER BY random() LIMIT 1"; }
upkeep() { sql 'SELECT pgwork.compact()'; sql 'VACUUM pgwork.live_job'; }
pin() { psql -XAtq -c 'BEGIN ISOLATION LEVEL REPEATABLE READ' -c 'SELECT 1' -c 'SELECT pg_sleep(2 * random())' -c COMMIT; }
again trouble
again upkeep
again pin
again sql "SELECT pgwork.redrive('s')"
jobs_of_ours="$reapers $troubles"

some() { pgbench -n -M prepared -T 2 -D ids={} -D tokens={} "$@" >>"$tmp/bench" 2>&1; }
while [ "$seconds" -gt 0 ]; do
    some -c 3 -f "$tmp/one.sql@6" -f "$tmp/many.sql@6" -f "$tmp/late.sql@2" -f "$tmp/never.sql@1" &
    clients=$!
    some -c 5 -f "$tmp/holder.sql" & clients="$clients $!"
    some -c 2 -D n=7 -f "$tmp/chain.sql" & clients="$clients $!"
    some -c 2 -D n=200 -f "$tmp/chain.sql" & clients="$clients $!"
    # shellcheck disable=SC2086  # some numbers
    wait $clients
    seconds=$((seconds - 2))
done
# shellcheck disable=SC2086
kill $troubles

# What the last ones left is given back by the reapers.
all_gone() {
    sql "SELECT pgwork.redrive('s')"
    sql "DO \$\$
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
    count_is "SELECT count(*) FROM pgwork.job WHERE queue = 's'" 0
}
yes 'each job comes to its end' until_true 60 all_gone
is 'there were some' "$(sql 'SELECT count(*) > 1000 FROM sent')" t
is 'none was lost' "$(sql 'SELECT count(*) FROM (TABLE sent EXCEPT TABLE finished) l')" 0
is 'none came whose enqueue was rolled back' "$(sql 'SELECT count(*) FROM (TABLE finished EXCEPT TABLE sent) l')" 0
# a job that was finished twice would be here, as would a deadlock (what was canceled while it was prepared is asked for once more)
grep 'ERROR: ' "$tmp/bench" | grep -vE 'canceling statement due to user request|prepared statement "P_[0-9]+" does not exist' >"$tmp/errors"
is 'nobody met an error but those that were canceled' "$(head -n 3 "$tmp/errors")" ''
# shellcheck disable=SC2086
kill $reapers
# shellcheck disable=SC2086
all_well 'the reapers were there until the end' $reapers
