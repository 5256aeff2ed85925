#!/bin/sh
# full.sh [TIMES]: the disk of the server fills up under load, TIMES times (10), and is emptied again: first the disk of
# the data, which makes calls fail, then that of the WAL, which stops the server. Nothing acknowledged is lost, nothing is
# done that was reported as not done, and all processes go on by themselves.
# The disks are a tmpfs of 160 MB and one of 24 MB. Where none may be mounted, or with FULL_MOUNT=no, a library that the
# server preloads makes them full (full.c).
# Exit status: 0 valid, 1 invalid, 2 the run failed, 3 proves nothing. KEEP=DIR keeps the histories and the server's log.
. "$(dirname "$0")/kit.sh"
times=${1:-10} preload=''
server db
db=$made
disk() { # disk FOLDER SIZE
    pg_as mkdir -m 700 "$1"
    echo 'FULL_MOUNT is no' >"$home/why"
    if [ "${FULL_MOUNT:-}" != no ] && mount -t tmpfs -o size="$2" pgwork "$1" 2>"$home/why"; then
        mounted="$1 $mounted"
        chown "$(pg_user)" "$1"
        chmod 700 "$1"
    else
        preload=$home/full.so
    fi
}
disk "$db/data" 160m
disk "$db/wal" 24m
if [ -n "$preload" ]; then
    say "no tmpfs is mounted ($(cat "$home/why")): a library makes the disks full"
    cp "$bin/full.so" "$preload" # where the server's user can read it
fi
start() (
    if [ -n "$preload" ]; then export LD_PRELOAD="$preload" FULL_DISKS="$db/data:$db/wal"; fi
    pg_start "$db"
)
WITH_PG_CONF='max_wal_size = 8MB
min_wal_size = 2MB
checkpoint_timeout = 30
restart_after_crash = on
log_min_messages = error' pg_create "$db"
pg_as "$(pg_bindir)/pg_resetwal" -D "$db/data" --wal-segsize=1 >>"$home/log" 2>&1 || die 'segments of WAL are small'
pg_as sh -c "mkdir $db/wal/it && mv $db/data/pg_wal/* $db/wal/it && rmdir $db/data/pg_wal && ln -s $db/wal/it $db/data/pg_wal"
start || die 'the server starts'
schema "$db"
load "host=$db port=5432 user=postgres dbname=postgres"
since=$(now)
within 60 served "$since"
complaints() { grep -c 'No space left on device' "$db/log" || :; }
more_than() { [ "$(complaints)" -gt "$1" ]; }
refused() { grep -qs "^[0-9]* [0-9]* [0-9]* o [a-z]* [23]" "$run"/hist/*; } # somebody was told that a call failed
revived() { answers "$db" || start; }
fill() { # fill DISK
    sleep 0.$((turn * 37 % 9 + 1))
    before=$(complaints)
    begin=$(now)
    dd if=/dev/zero of="$1/ballast" bs=64k ${preload:+count=0} >/dev/null 2>&1 || : # until there is no room
    within 120 more_than "$before"
    sleep 0.$((turn * 53 % 7 + 2))
    rm "$1/ballast"
    within 60 revived # by hand, if it has given up
    end=$(now)
    fault "$begin" "$begin" "$begin" "$end"
    within 60 served "$end"
}
unpin() { on "$db" "SELECT pg_drop_replication_slot('pin')"; }
turn=0
while [ $turn -lt "$times" ]; do
    turn=$((turn + 1))
    fill "$db/data"
    on "$db" "SELECT pg_create_physical_replication_slot('pin', true)" >/dev/null # no old segment is used again
    fill "$db/wal"
    within 60 unpin
done
drain "$db"
refused || die 'no call failed'
say "the server reported a full disk $(complaints) times, and gave up $(grep -c PANIC "$db/log" || :) times"
verdict sync
