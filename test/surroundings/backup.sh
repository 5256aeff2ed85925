#!/bin/sh
# backup.sh [TIMES]: backups that are taken under load and restored, TIMES times each (5): pg_dump, pg_dump --snapshot,
# pg_basebackup, and logical replication (initial copy and stream). The bookkeeping of the load lies beside the jobs
# (test/support/pgload.sh), so each copy proves by itself: each committed job is there once or was finished, and no other.
# Then the copy is made to work as doc/operations.md says, and each of its jobs is completed exactly once.
# Exit status: 0 valid, 1 invalid, 2 the run failed.
. "$(dirname "$0")/kit.sh"
. "$top/test/support/pgload.sh"
times=${1:-5} bad=0 workers=''
for tool in pg_dump pg_restore pg_basebackup pgbench; do
    [ -x "$(pg_bindir)/$tool" ] || { echo "there is no $tool in $(pg_bindir)"; exit 2; }
done
PATH=$(pg_bindir):$PATH
unset PGWORK_DSN
export PGPORT=5432 PGUSER=postgres PGDATABASE=postgres

check() { # check NAME FOUND EXPECTED
    [ "$2" != "$3" ] || return 0
    say "$1: found $2, expected $3"
    bad=1
}
# whole NAME SERVER: what was committed before the copy began is in it, and each job is there once or was finished
whole() {
    on "$2" 'CREATE TABLE before (id bigint)'
    psql -qX -h "$2" -d "${database:-postgres}" -c "\\copy before FROM '$home/before'"
    check "$1: jobs that were committed before are missing" "$(on "$2" 'SELECT count(*) FROM (TABLE before EXCEPT TABLE sent) x')" 0
    check "$1: jobs are missing, there are too many, or they are there twice" "$(on "$2" "
        SELECT (SELECT count(*) FROM (TABLE sent EXCEPT TABLE finished EXCEPT SELECT id FROM pgwork.job) x),
               (SELECT count(*) FROM (SELECT id FROM pgwork.job EXCEPT (TABLE sent EXCEPT TABLE finished)) x),
               (SELECT count(*) - count(DISTINCT id) FROM pgwork.job)")" '0|0|0'
    jobs=$(on "$2" 'SELECT count(*) FROM pgwork.job')
}
done_there() {
    on "$1" "SELECT pgwork.redrive('s')" && on "$1" "$pgload_drain" &&
        PGDATABASE=${database:-postgres} PGHOST=$1 pgwork reap --once &&
        [ "$(on "$1" 'SELECT count(*) FROM pgwork.job')" = 0 ]
}
# works NAME SERVER: each job of the copy is completed once
works() {
    on "$2" "SELECT setval(s, nextval(s) + 1000000000)
        FROM unnest('{pgwork.position, pgwork.lock_fence, pgwork.schedule_fence, pgwork.semaphore_grant}'::regclass[]) s" >/dev/null
    within 60 done_there "$2"
    check "$1: jobs were not completed once each" "$(on "$2" "SELECT (SELECT count(*) FROM (TABLE sent EXCEPT TABLE finished) x),
        (SELECT count(*) FROM (TABLE finished EXCEPT TABLE sent) x)")" '0|0'
    say "$1: $(on "$2" 'SELECT count(*) FROM before') jobs committed before, $jobs in the copy, all $(on "$2" 'SELECT count(*) FROM sent') finished once"
}
before() { on "$db" 'COPY sent TO STDOUT' >"$home/before"; } # what is committed by now

start_load() {
    : >"$home/going"
    for some in '-c 3 -f one.sql@6 -f many.sql@6 -f late.sql@2 -f never.sql@1' '-c 4 -f holder.sql' '-c 2 -D n=7 -f chain.sql'; do
        # shellcheck disable=SC2086  # words
        (cd "$home/load" && while [ -e "$home/going" ]; do PGHOST=$db pgload_some . -T 2 $some; done) &
        workers="$workers $!"
    done
    PGHOST=$db pgwork reap >"$run/err" 2>&1 &
    sink=$!
    within 30 some_sent
}
some_sent() { [ "$(on "$db" 'SELECT count(*) FROM finished')" -gt 100 ]; }
stop_load() {
    rm -f "$home/going"
    # shellcheck disable=SC2086
    wait $workers || :
    workers=''
    kill "$sink"
    wait "$sink" || die 'the reaper ended by itself'
    sink=''
}

dump() {
    before
    pg_dump -Fc -h "$db" -f "$home/dump" || die 'pg_dump'
    restore pg_dump
}
restore() {
    on "$db" 'CREATE DATABASE copy'
    pg_restore -h "$db" -d copy "$home/dump" || die 'pg_restore'
    database=copy
    whole "$1" "$db"
    [ ! -s "$home/exact" ] || check "$1: not the jobs of the snapshot" "$(on "$db" 'COPY (SELECT id FROM pgwork.job ORDER BY id) TO STDOUT' | cksum)" "$(cksum <"$home/exact")"
    works "$1" "$db"
    database=postgres
    on "$db" 'DROP DATABASE copy'
    rm -f "$home/exact"
}
dump_snapshot() {
    rm -f "$home/pipe" "$home/told"
    mkfifo "$home/pipe"
    psql -qXAt -h "$db" <"$home/pipe" >"$home/told" &
    holder=$!
    exec 3>"$home/pipe"
    before
    echo "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_export_snapshot();" >&3
    within 60 test -s "$home/told"
    echo "\\copy (SELECT id FROM pgwork.job ORDER BY id) TO '$home/exact'" >&3
    sleep 0.5 # so that what comes meanwhile would be seen
    pg_dump -Fc -h "$db" --snapshot="$(head -n 1 "$home/told")" -f "$home/dump" || die 'pg_dump --snapshot'
    exec 3>&-
    wait "$holder"
    restore 'pg_dump --snapshot'
}
base() {
    server copy
    before
    pg_as pg_basebackup -h "$db" -U postgres -D "$made/data" -c fast --no-sync >>"$home/log" 2>&1 || die 'pg_basebackup'
    pg_as touch "$made/log"
    set_conf "$made" "unix_socket_directories = '$made'"
    pg_start "$made" || die 'the copy starts'
    whole pg_basebackup "$made"
    works pg_basebackup "$made"
    forget "$made"
}
forget() {
    pg_stop "$1" immediate
    rm -rf "$1"
    servers=$db
}
all_copied() { [ "$(on "$1" "SELECT count(*) > 0 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel")" = t ]; }
arrived() { [ "$(on "$db" "SELECT confirmed_flush_lsn >= '$1' FROM pg_replication_slots WHERE slot_name = 'copy'")" = t ]; }
logical() {
    server copy
    WITH_PG_CONF='max_logical_replication_workers = 12
max_sync_workers_per_subscription = 6' pg_create "$made"
    pg_start "$made" || die 'the copy starts'
    on "$db" "SELECT format('CREATE ROLE %I NOLOGIN;', rolname) FROM pg_roles WHERE rolname LIKE 'pgwork%'" | psql -qX -h "$made" -v ON_ERROR_STOP=1
    pg_dump -s -h "$db" | psql -qX -h "$made" -v ON_ERROR_STOP=1 >/dev/null || die 'the schema is copied'
    on "$db" 'CREATE PUBLICATION copy FOR ALL TABLES'
    before
    on "$made" "CREATE SUBSCRIPTION copy CONNECTION 'host=$db port=5432 user=postgres dbname=postgres' PUBLICATION copy" 2>>"$home/log"
    within 120 all_copied "$made"
    before # the stream: what comes after the copies
    sleep 2
    stop_load
    within 120 arrived "$(on "$db" 'SELECT pg_current_wal_lsn()')"
    on "$made" 'ALTER SUBSCRIPTION copy DISABLE'
    on "$made" 'ALTER SUBSCRIPTION copy SET (slot_name = NONE)'
    on "$made" 'DROP SUBSCRIPTION copy'
    psql -XAtq -h "$db" -c "SELECT format('SELECT setval(%L, %s);', format('%I.%I', schemaname, sequencename), last_value)
        FROM pg_sequences WHERE schemaname = 'pgwork' AND last_value IS NOT NULL" | psql -Xq -h "$made" -v ON_ERROR_STOP=1 >/dev/null
    check 'logical replication: not the jobs of the old server' "$(on "$made" "$everything" | cksum)" "$(on "$db" "$everything" | cksum)"
    whole 'logical replication' "$made"
    works 'logical replication' "$made"
    on "$db" 'DROP PUBLICATION copy' && within 60 on "$db" "SELECT pg_drop_replication_slot('copy')"
    forget "$made"
    start_load
}
everything='COPY (SELECT id, state, kind, priority, attempt, holder, lease_until, run_at FROM pgwork.job ORDER BY id) TO STDOUT'

server db
db=$made
WITH_PG_CONF='wal_level = logical
max_wal_senders = 12
max_replication_slots = 12
log_min_messages = error' pg_create "$db"
pg_start "$db" || die 'the server starts'
PGHOST=$db pgwork -q migrate
on "$db" "$pgload_tables" >/dev/null
mkdir "$home/load"
pgload_scripts "$home/load"
start_load
turn=0
while [ $turn -lt "$times" ]; do
    turn=$((turn + 1))
    for way in dump dump_snapshot base logical; do $way; done
done
stop_load
if grep 'ERROR: ' "$home/load/bench"; then bad=1; fi
[ $bad = 0 ] && echo 'verdict: VALID' || { echo 'verdict: INVALID'; exit 1; }
