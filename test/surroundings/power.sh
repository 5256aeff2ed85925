#!/bin/sh
# power.sh [TIMES]: the server and everybody who uses it are killed at once under load (kill -9), TIMES times (20), and
# start again. fsync is on, and synchronous_commit is off by default: the library must ask for it. Nothing acknowledged
# is lost, and no finished job comes back. (The operating system lives on: a disk that lies is not tested.)
# Exit status: 0 valid, 1 invalid, 2 the run failed, 3 proves nothing. KEEP=DIR keeps the histories and the server's log.
. "$(dirname "$0")/kit.sh"
times=${1:-20}
server db
db=$made
WITH_PG_FSYNC=1 WITH_PG_CONF='synchronous_commit = off
wal_writer_delay = 10s
wal_writer_flush_after = 0
log_min_messages = error' pg_create "$db"
pg_start "$db" || die 'the server starts'
schema "$db"
dsn="host=$db port=5432 user=postgres dbname=postgres"
load "$dsn"
since=$(now)
within 60 served "$since"
turn=0
while [ $turn -lt "$times" ]; do
    turn=$((turn + 1))
    sleep 0.$((turn * 37 % 9 + 1))
    begin=$(now)
    lose "$db"
    unload
    dead=$(now)
    pg_start "$db" || die 'the server starts again'
    load "$dsn"
    end=$(now)
    fault "$begin" "$dead" "$begin" "$end"
    within 60 served "$end"
done
drain "$db"
on "$db" 'CREATE EXTENSION IF NOT EXISTS amcheck' >/dev/null 2>&1 &&
    on "$db" "SELECT count(bt_index_check(c.oid, true)) FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
               JOIN pg_am a ON a.oid = c.relam AND a.amname = 'btree' WHERE c.relnamespace = 'pgwork'::regnamespace" >/dev/null
verdict sync
