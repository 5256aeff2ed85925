#!/bin/sh
# chaos.sh [SECONDS [SEED]]: a chaos run on a server of its own, and what the checker says of it.
# Exit status: 0 valid, 1 invalid, 2 the run failed, 3 unknown (a class of faults did not fire).
# From you: CHAOS_KEEP=DIR keeps the history there; CHAOS_KEEP_INVALID=DIR, of a run that is invalid (build/chaos/last);
# CHAOS_BIN (the programs; build/chaos); CHAOS_CALM_S: how long there are small faults only before the large ones (36: longer than 30 s);
# CHAOS_ROLES, CHAOS_FAULTS: only these; CHAOS_MUTANT: what spoils the SQL; CHAOS_DRAIN_S: how long the jobs have in
# the end; CHAOS_LATE_MS: how long producers stay open; CHAOS_PACE_MS: between two calls of a
# producer; CHAOS_OPEN: of so many claims that stay open one does so for long; CHAOS_COMMIT_FAILS: see below.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top"
. test/support/pg.sh
seconds=${1:-60} seed=${2:-$(date +%s)}
PATH=$PATH:/usr/sbin
export CHAOS_BIN="${CHAOS_BIN:-$top/build/chaos}"
excused='' code=0

dir=$(pg_mkdir)
export CHAOS_SERVER="$dir" CHAOS_FOLDER="$dir/run" CHAOS_SOCKET="$dir/.s.PGSQL.5432"
clean() {
    trap '' INT TERM HUP
    trap - EXIT
    [ -z "${driver:-}" ] || kill -s KILL -- "-$driver" 2>/dev/null || : # and all that it has started
    pg_stop "$dir" immediate || :
    if [ -z "${CHAOS_KEEP:-}" ] && [ "$code" = 1 ] && [ -z "${CHAOS_MUTANT:-}" ]; then
        CHAOS_KEEP=${CHAOS_KEEP_INVALID:-$top/build/chaos/last}
        echo "the history is kept in $CHAOS_KEEP"
    fi
    if [ -n "${CHAOS_KEEP:-}" ]; then
        rm -rf "$CHAOS_KEEP"
        cp -r "$dir/run" "$CHAOS_KEEP"
        cp "$dir/log" "$CHAOS_KEEP/server.log"
    fi
    rm -rf "$dir"
}
trap clean EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$dir/run/hist"
chmod 755 "$dir"

# The server, under a clock that can be set. (Each process looks at the file once a second: to open it takes malloc(),
# which must not happen in each of its signal handlers.)
fake=
for f in /usr/lib/*/faketime/libfaketime.so.1; do [ ! -e "$f" ] || fake=$f; done
if [ -n "$fake" ]; then
    export CHAOS_CLOCK="$dir/clock"
    echo '+0' >"$CHAOS_CLOCK"
    chmod 644 "$CHAOS_CLOCK"
    set -- env LD_PRELOAD="$fake" FAKETIME_TIMESTAMP_FILE="$CHAOS_CLOCK" FAKETIME_CACHE_DURATION=1 \
        FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_DISABLE_SHM=1
else
    set --
    excused="$excused clock_forward clock_back"
    echo 'libfaketime is not installed: the clock is not set'
fi
as=
[ "$(id -u)" != 0 ] || as="setpriv --reuid=$(pg_user) --regid=$(id -g "$(pg_user)") --init-groups"
CHAOS_CTL="cd / && setsid -w $as $* $(pg_bindir)/pg_ctl -D $dir/data -l $dir/log -t 60 -w"
export CHAOS_CTL
WITH_PG_CONF="wal_level = logical
max_connections = 90
max_wal_senders = 4
max_replication_slots = 4
logical_decoding_work_mem = '256MB'
autovacuum_naptime = 5
checkpoint_timeout = 60
restart_after_crash = on
log_min_messages = error # a warning for each call behind a pooler is too much
${CHAOS_CONF:-}" pg_create "$dir"
sh -c "$CHAOS_CTL start" >/dev/null
pg_env "$dir"
unset PGWORK_DSN
export CHAOS_DIRECT="host=$dir port=5432 dbname=chaos"
sql() { psql -qXAt -v ON_ERROR_STOP=1 -d "$CHAOS_DIRECT" "$@"; }
psql -qXc 'CREATE DATABASE chaos'
PGWORK_DSN="$CHAOS_DIRECT" "${CHAOS_TOOL:-build/pgwork}" -q migrate
sql >/dev/null <<'S'
SELECT pg_create_logical_replication_slot('truth', 'test_decoding');
CREATE ROLE chaos_producer LOGIN IN ROLE pgwork_producer;
CREATE ROLE chaos_worker LOGIN IN ROLE pgwork_worker;
CREATE ROLE chaos_operator LOGIN IN ROLE pgwork_operator;
SELECT pgwork.queue_create('q' || i, max_attempts => CASE i WHEN 1 THEN 3 ELSE 50 END, backoff_ms => 200)
  FROM generate_series(0, 12) i;
SELECT pgwork.group_set('q7', group_limit => 3, group_retry => 'pass'),
       pgwork.group_set('q8', group_limit => 2, group_retry => 'block'),
       pgwork.group_set('q9', group_limit => 2), pgwork.queue_limit('q9', 4);
SELECT pgwork.group_set('q10', group_limit => 8, group_retry => 'pass'), pgwork.queue_rate('q10', 12, 1000, 6),
       pgwork.group_set('q11', group_limit => 8), pgwork.queue_rate('q11', 20, 1000, 10),
       pgwork.group_rate('q11', NULL, 4, 1000, 3), pgwork.group_set('q12', group_limit => 2),
       pgwork.rate_set('t0', 20, 1000, 5), pgwork.rate_set('t1', 20, 1000, 40);
SELECT pgwork.cron_create('tick', '@every 1s', queue => 'q4', misfire => 'all', misfire_max => 1000, grace_ms => 0),
       pgwork.cron_create('node ' || i, '@every 1s', misfire => 'all', misfire_max => 1000, grace_ms => 0,
                          timeout_ms => 500, max_attempts => 1000)
  FROM generate_series(0, 1) i;
SELECT pgwork.sema_create('permits', 3);
CREATE TABLE counter (id int PRIMARY KEY, n bigint NOT NULL DEFAULT 0, version int NOT NULL DEFAULT 0);
INSERT INTO counter SELECT generate_series(0, 7);
CREATE TABLE leased (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, locked_by text, expires_at timestamptz, token uuid);
INSERT INTO leased SELECT generate_series(1, 3); -- few: so that expired leases are taken
GRANT SELECT, UPDATE ON counter, leased TO chaos_worker;
CREATE FUNCTION commit_fails() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE 'chaos: this commit fails' USING ERRCODE = 'serialization_failure'; END $$;
S
# One transaction in so many fails, however many rows it changes: one of thousands of rows has to come through as often.
failing=${CHAOS_COMMIT_FAILS:-5000}
case ${CHAOS_FAULTS:-commit_fails} in
*commit_fails*)
    sql -c "CREATE CONSTRAINT TRIGGER commit_fails AFTER INSERT OR UPDATE OR DELETE ON pgwork.live_job DEFERRABLE
        INITIALLY DEFERRED FOR EACH ROW WHEN (hashint8(pg_current_xact_id()::text::bigint) % $failing = 0)
        EXECUTE FUNCTION commit_fails()"
    ;;
esac
if [ -n "${CHAOS_MUTANT:-}" ]; then # a script for sed that spoils functions (mutants.sh)
    for f in $(sed -n 's/^# function: //p' "$CHAOS_MUTANT"); do
        sql -c "SELECT pg_get_functiondef(oid) || ';' FROM pg_proc WHERE proname = '$f' AND pronamespace = 'pgwork'::regnamespace" >"$dir/function"
        sed -f "$CHAOS_MUTANT" "$dir/function" >"$dir/mutant"
        if cmp -s "$dir/function" "$dir/mutant"; then echo "the mutant does not fit $f() any more"; exit 2; fi
        sql -f "$dir/mutant" >/dev/null || exit 2
    done
fi

export CHAOS_PROXY="host=127.0.0.1 dbname=chaos sslmode=disable gssencmode=disable"
if command -v pgbouncer >/dev/null; then
    mkdir -m 777 "$dir/pool"
    cat >"$dir/pool/ini" <<END
[databases]
chaos = host=$dir port=5432 user=postgres pool_size=12
[pgbouncer]
unix_socket_dir = $dir/pool
listen_port = 6432
auth_type = any
pool_mode = transaction
max_client_conn = 100
server_login_retry = 1
logfile = $dir/pool/log
END
    export CHAOS_POOLER="exec $as pgbouncer -q $dir/pool/ini"
    export CHAOS_POOL="host=$dir/pool port=6432 dbname=chaos user=postgres"
else
    export CHAOS_POOLER='' CHAOS_POOL=''
    excused="$excused pooler"
    echo 'PgBouncer is not installed: it takes no part'
fi

echo "chaos: $seconds s with seed $seed"
setsid "$CHAOS_BIN/chaos-driver" "$seconds" "$seed" &
driver=$!
code=0
wait "$driver" || code=$?
kill -s KILL -- "-$driver" 2>/dev/null || :
driver=
[ "$code" = 0 ] || { echo "chaos: the driver failed ($code)"; tail -n 5 "$dir"/run/*.err "$dir/log"; exit 2; }
[ -z "${PGW_TEST_STRICT:-}" ] || excused='' # then all has to be installed
# shellcheck disable=SC2086  # words
"$CHAOS_BIN/chaos-check" "$dir/run/hist" ${CHAOS_EXCUSED:-} $excused || code=$?
[ "$code" = 0 ] || echo "to see this again: test/chaos/chaos.sh $seconds $seed"
exit $code
