# Locks, semaphores, schedules and leases on a table at once, at random, while sessions are cancelled and killed. Locks are
# exclusive or shared, of sessions or transactions, and their names are pruned. Permits are waited for, extended, left to expire,
# and resized. Ticks become jobs, or are held by nodes that are slow, release or come late. Holders of rows return, come late or
# are killed. Each step, and the end, asks the database whether a promise was broken.
# For as long as you like, beside a private server:
#   make && sh test/support/with_pg.sh sh -c 'PATH=$PWD/build:$PATH PGW_SOAK_SECONDS=600 sh test/cli/27_coordination.sh'
. "$(dirname "$0")/tap"
seconds=${PGW_SOAK_SECONDS:-5}
pgwork -q migrate
sql "CREATE FUNCTION must(ok boolean, what text) RETURNS void LANGUAGE plpgsql AS
     \$\$ BEGIN IF ok IS NOT TRUE THEN RAISE EXCEPTION 'never: %', what; END IF; END \$\$;

     -- who holds a lock, by their own account, and its number
     CREATE TABLE inside (lock text, pid int, began timestamptz, shared boolean, PRIMARY KEY (lock, pid));
     CREATE TABLE number (lock text PRIMARY KEY, fence bigint DEFAULT 0, shared boolean);
     INSERT INTO number SELECT 'l' || g FROM generate_series(1, 4) g;
     CREATE FUNCTION holds(lock text, fence bigint, shared boolean) RETURNS void LANGUAGE plpgsql AS \$\$
     #variable_conflict use_column
     DECLARE
         other int;
     BEGIN
         FOR wait IN 1 .. 500 LOOP -- who was shot takes a moment to go
             SELECT i.pid INTO other FROM inside i JOIN pg_stat_activity a ON a.pid = i.pid AND a.backend_start = i.began
              WHERE i.lock = holds.lock AND i.pid <> pg_backend_pid() AND NOT (i.shared AND holds.shared);
             EXIT WHEN NOT FOUND;
             PERFORM pg_sleep(0.01);
         END LOOP;
         PERFORM must(other IS NULL, format('%s and %s hold %s', pg_backend_pid(), other, lock));
         UPDATE number n SET fence = holds.fence, shared = holds.shared
          WHERE n.lock = holds.lock AND (n.fence < holds.fence OR n.fence = holds.fence AND n.shared AND holds.shared);
         PERFORM must(FOUND, format('%s has the number %s, shared %s, after %s', lock, fence, holds.shared, (SELECT n FROM number n WHERE n.lock = holds.lock))),
                 must(pgwork.fence_ok(lock, fence), lock || ' has another number'), must(NOT pgwork.lock_is_free(lock), lock || ' is free'),
                 must((pid, state, fence) IN (SELECT l.pid, l.state, l.fence FROM pgwork.lock_list(holds.lock) l), 'the list does not know')
            FROM (SELECT pg_backend_pid() AS pid, 'held' AS state, holds.fence) me;
     END \$\$;

     -- what was out when, for certain, and how many there may have been
     CREATE TABLE grant_of (token uuid PRIMARY KEY, n int, since timestamptz, until timestamptz, session boolean);
     CREATE TABLE size_of (permits int, began timestamptz DEFAULT clock_timestamp(), ended timestamptz);
     SELECT pgwork.sema_create('s', 4);
     INSERT INTO size_of VALUES (4, now(), now());

     -- ticks that were finished
     CREATE TABLE finished (schedule text, slot timestamptz, fence bigint, PRIMARY KEY (schedule, slot));
     SELECT pgwork.queue_create('q'), pgwork.cron_create('job', '@every 1s', queue => 'q', misfire => 'all', misfire_max => 1000, grace_ms => 0),
            pgwork.cron_create('node ' || i, '@every 1s', misfire => 'all', misfire_max => 1000, grace_ms => 0, timeout_ms => 250, max_attempts => 1000)
       FROM generate_series(1, 8) i;

     -- rows that are leased, how often each was finished, and who had which for certain, until when
     CREATE TABLE leased (id int PRIMARY KEY, n int DEFAULT 0, locked_by text, expires_at timestamptz, token uuid);
     INSERT INTO leased SELECT generate_series(1, 5);
     CREATE TABLE lease_of (id int, number bigint, holder text, since timestamptz, until timestamptz, finished boolean DEFAULT false,
                            PRIMARY KEY (id, number))" >/dev/null
code 'a table for a reaper' 0 pgwork table register leased -k id
include=$(pkg-config --cflags libpq 2>/dev/null) || include=-I$(pg_config --includedir)
# shellcheck disable=SC2086  # words
code 'a holder of rows' 0 cc -D_DEFAULT_SOURCE -o "$tmp/leases" -I "$top/inc" $include "$top/test/cli/leases.c" "$top/build/libpgwork.a" -lpq -lpthread

script() { cat >"$tmp/$1.sql"; }
script lock <<'S'
\set k random(1, 4)
\set shared random(0, 1)
\set wait 30 * random(0, 2)
SELECT coalesce(pgwork.lock_acquire('l' || :k::int, :shared::int = 1, :wait::int), 0) AS fence \gset
\if :fence > 0
INSERT INTO inside SELECT 'l' || :k::int, pid, backend_start, :shared::int = 1 FROM pg_stat_activity WHERE pid = pg_backend_pid()
    ON CONFLICT (lock, pid) DO UPDATE SET began = excluded.began, shared = excluded.shared;
SELECT holds('l' || :k::int, :fence::bigint, :shared::int = 1);
DELETE FROM inside WHERE pid = pg_backend_pid();
SELECT must(pgwork.lock_release('l' || :k::int, :shared::int = 1), 'held, and not released');
\endif
S
script lock_xact <<'S'
\set k random(1, 4)
\set shared random(0, 1)
\set wait 30 * random(0, 2)
\set undo random(0, 1)
BEGIN;
SELECT coalesce(pgwork.lock_acquire_xact('l' || :k::int, :shared::int = 1, :wait::int), 0) AS fence \gset
\if :fence > 0
SELECT holds('l' || :k::int, :fence::bigint, :shared::int = 1);
\endif
\if :undo
ROLLBACK;
\else
COMMIT;
\endif
S
# got: to be taken with \gset from any function that grants
got="coalesce(token, pgwork._token(0, repeat('0', 16))) AS token, coalesce(until, now()) AS until, token IS NOT NULL AS got, coalesce(next_ms, 0) AS next_ms"
script sema <<S
\\set n random(1, 2)
\\set ttl_ms random(100, 400)
\\set how random(0, 2)
\\set session random(0, 1)
\\if :how = 0
SELECT $got FROM pgwork.sema_acquire('s', :n::int, :ttl_ms, NULL, :session::int = 1) \\gset
\\else
SELECT $got FROM pgwork.sema_wait('s', :n::int, :ttl_ms, NULL, :session::int = 1, 60 * (:how - 1), false) \\gset
\\if not :got and :next_ms > 0
SELECT pg_sleep(0.02);
SELECT $got FROM pgwork.sema_wait('s', :n::int, :ttl_ms, NULL, :session::int = 1, 0, true) \\gset
SELECT pgwork.sema_leave('s');
\\endif
\\endif
\\if :got
INSERT INTO grant_of VALUES (:token::uuid, :n::int, :until::timestamptz - :ttl_ms * interval '1 ms', CASE WHEN :session::int = 0 THEN :until::timestamptz ELSE clock_timestamp() END, :session::int = 1);
\\set what random(1, 4)
\\if :what < 3
SELECT pg_sleep(0.3 * random());
\\elif :what = 3
SELECT coalesce(e, :until::timestamptz) AS until, must(e IS NOT NULL OR :until::timestamptz <= clock_timestamp(), 'lost before its time') FROM pgwork.sema_extend('s', :token::uuid, 200) e \\gset
UPDATE grant_of SET until = CASE WHEN session THEN clock_timestamp() ELSE :until::timestamptz END WHERE token = :token::uuid;
\\endif
UPDATE grant_of SET until = least(:until::timestamptz, clock_timestamp()) WHERE token = :token::uuid;
SELECT must(ok OR :until::timestamptz <= clock_timestamp(), 'gone before its time') FROM pgwork.sema_release('s', :token::uuid) ok;
SELECT must(NOT pgwork.sema_release('s', :token::uuid) AND pgwork.sema_extend('s', :token::uuid) IS NULL, 'there after its return');
\\endif
S
script tick <<'S'
\set batch random(1, 10)
\set nap 1500 * random(0, 1)
SELECT fired FROM pgwork.cron_tick(:batch::int);
\sleep :nap ms
S
script node <<'S'
SELECT coalesce(schedule, '') AS schedule, coalesce(slot, now()) AS slot, coalesce(token, pgwork._token(0, repeat('0', 16))) AS token, token IS NOT NULL AS got, coalesce(until, now()) AS until FROM pgwork.cron_claim('node') \gset
\if :got
\set what random(1, 10)
\if :what = 1
SELECT must(pgwork.cron_release(:token::uuid) OR :until::timestamptz <= clock_timestamp(), 'the tick of another before its time');
SELECT must(NOT pgwork.cron_finish(:token::uuid), 'finished after its release');
\elif :what > 2
\if :what = 3
SELECT pg_sleep(0.4);
\elif :what = 4
SELECT coalesce(pgwork.cron_extend(:token::uuid), :until::timestamptz) AS until FROM pg_sleep(0.2) \gset
SELECT pg_sleep(0.2);
\endif
WITH f AS MATERIALIZED (SELECT pgwork.cron_finish(:token::uuid) AS ok), n AS (
    INSERT INTO finished SELECT :schedule, :slot::timestamptz, pgwork.token_number(:token::uuid) FROM f WHERE ok
) SELECT must(ok OR :until::timestamptz <= clock_timestamp(), 'the tick of another before its time') FROM f;
\endif
\else
\sleep 10 ms
\endif
S

script resize <<'S'
INSERT INTO size_of SELECT 6 - permits FROM pgwork.sema_list();
SELECT pgwork.sema_resize('s', permits) FROM size_of WHERE ended IS NULL;
UPDATE size_of SET ended = clock_timestamp() WHERE ended IS NULL;
\sleep 200 ms
S

troubles=
# again CMD...: all the time
again() { (while :; do "$@"; sleep 0.5; done) >>"$tmp/again" 2>&1 & troubles="$troubles $!"; }
trouble() { for how in terminate cancel; do sql "SELECT pg_${how}_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgbench' AND datname = current_database() ORDER BY random() LIMIT 1"; done; }
again trouble
again sql 'SELECT pgwork.lock_prune(0)'
again sh -c "pgwork -q table reap; psql -qc 'UPDATE pgwork.leased_table SET rests_until = NULL'" # as on a quick machine
jobs_of_ours=$troubles

some() { pgbench -n -M prepared -T 5 "$@" >>"$tmp/bench" 2>&1; }
rows() { # rows HOLDER: for some seconds, however often it dies
    ends=$(($(date +%s) + 6))
    while [ "$(date +%s)" -lt $ends ]; do PGAPPNAME=pgbench "$tmp/leases" "$1" $ends; done >>"$tmp/never" 2>/dev/null
}
some_of_all() {
    count_is "SELECT ((SELECT min(fence) > 4 FROM number) AND (SELECT count(*) > 10 FROM grant_of) AND (SELECT count(DISTINCT schedule) = 8 FROM finished)
        AND (SELECT count(DISTINCT id) = 5 AND count(DISTINCT holder) = 4 AND count(*) > 20 FROM lease_of))::int" 1
}
while [ "$seconds" -gt 0 ] || { [ "$seconds" -gt -60 ] && ! some_of_all; }; do # on a busy machine for longer
    for holder in anna bert cleo dora; do rows $holder & clients="${clients:-} $!"; done
    some -c 3 -f "$tmp/lock.sql@2" -f "$tmp/lock_xact.sql" & clients="$clients $!"
    some -c 5 -f "$tmp/sema.sql" & clients="$clients $!"
    some -c 2 -f "$tmp/tick.sql" & clients="$clients $!"
    some -c 3 -f "$tmp/node.sql" & clients="$clients $!"
    PGAPPNAME=nobody some -c 1 -f "$tmp/resize.sql" & clients="$clients $!" # is not to be shot
    # shellcheck disable=SC2086  # some numbers
    wait $clients
    clients=
    seconds=$((seconds - 5))
done
# shellcheck disable=SC2086
kill $troubles
sql 'SELECT fired FROM pgwork.cron_tick()' >/dev/null

grep 'ERROR: ' "$tmp/bench" | grep -vE 'canceling statement due to user request|prepared statement "P_[0-9]+" does not exist' >"$tmp/errors"
is 'nothing that may never be, and no other error' "$(head -n 3 "$tmp/errors")" ''
sql 'CREATE INDEX ON grant_of USING gist (tstzrange(since, greatest(since, until)))'
is 'never were more permits out than there were' "$(sql "SELECT count(*) FROM grant_of g
     WHERE (SELECT sum(n) FROM grant_of o WHERE tstzrange(o.since, greatest(o.since, o.until)) @> g.since)
         > (SELECT max(permits) FROM size_of z WHERE z.began <= g.since
               AND NOT EXISTS (SELECT FROM size_of y WHERE y.began > z.began AND y.ended < g.since))")" 0
no_permit_is_out() { count_is "SELECT sum(taken + waiting) FROM pgwork.sema_list(), pgwork.sema_resize('s', 4)" 0; }
yes 'permits are free again, whichever session held them' until_true 10 no_permit_is_out
is 'as many as there are' "$(sql "SELECT token IS NOT NULL FROM pgwork.sema_acquire('s', 4)")" t
yes 'no lock is left' until_true 10 count_is "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())" 0
is 'each second was one job' "$(sql "SELECT count(*) = count(DISTINCT tags) AND count(*) = extract(epoch FROM max(e) - min(e)) + 1
      FROM (SELECT tags, substr(t, 6)::timestamptz AS e FROM pgwork.job, unnest(tags) t WHERE t LIKE 'slot=%') j")" t
is 'the ticks of a schedule follow each other, with growing numbers' "$(sql "SELECT format('%s: %s with %s after %s with %s', schedule, slot, fence, last, before)
      FROM (SELECT schedule, fence, slot, lag(fence) OVER w AS before, lag(slot) OVER w AS last FROM finished WINDOW w AS (PARTITION BY schedule ORDER BY slot)) f
     WHERE NOT (fence > before AND slot = last + interval '1 s') LIMIT 3")" ''
is 'of no row what may never be' "$(head -n 3 "$tmp/never")" ''
is 'each had one holder at a time, and higher numbers' "$(sql 'SELECT count(*) FROM lease_of a JOIN lease_of b ON b.id = a.id AND b.number > a.number WHERE b.since < greatest(a.since, a.until)')" 0
is 'each was finished as often as was reported' "$(sql 'SELECT sum(n) = (SELECT count(*) FROM lease_of WHERE finished) FROM leased')" t
no_row_is_leased() { pgwork -q table reap; count_is 'UPDATE pgwork.leased_table SET rests_until = NULL; SELECT count(*) FROM leased WHERE locked_by IS NOT NULL' 0; }
yes 'each row is free in the end' until_true 10 no_row_is_leased
yes 'there were some of all' some_of_all
