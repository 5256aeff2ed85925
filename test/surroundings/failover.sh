#!/bin/sh
# failover.sh [sync|async [TIMES]]: the primary is lost under load, TIMES times (50), and its standby is promoted.
# Producers, workers, a reaper and users of locks name both servers in their connection strings, and are never restarted.
#   sync    nothing acknowledged is lost, no finished job comes back, fences of locks grow
#   async   the walsender is stopped first, so that acknowledged commits are lost for certain: only these are lost,
#           and no token of the old server is accepted where the new one has given another
# Exit status: 0 valid, 1 invalid, 2 the run failed, 3 proves nothing. KEEP=DIR keeps the histories and the servers' logs.
. "$(dirname "$0")/kit.sh"
mode=${1:-sync} times=${2:-50}
case $mode in sync | async) ;; *) sed -n '2,8s/^# //p' "$0" >&2; exit 2 ;; esac
for tool in pg_basebackup pg_rewind; do
    [ -x "$(pg_bindir)/$tool" ] || { echo "there is no $tool in $(pg_bindir)"; exit 2; }
done

follow() { # follow SERVER PRIMARY: a standby of it; nothing of its own is kept that the primary does not have
    set_conf "$1" "unix_socket_directories = '$1'" "synchronous_standby_names = ''" \
        "primary_conninfo = 'host=$2 port=5432 user=postgres application_name=standby'"
    pg_as touch "$1/data/standby.signal"
    pg_start "$1" || die 'the standby starts'
    within 60 streams "$2"
    [ "$mode" = async ] || set_conf "$2" "synchronous_standby_names = 'standby'"
    [ "$mode" = async ] || on "$2" 'SELECT pg_reload_conf()' >/dev/null
    [ "$mode" = async ] || within 60 is_sync "$2"
    caught_up "$2"
}
streams() { [ "$(on "$1" "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND application_name = 'standby'")" = 1 ]; }
is_sync() { [ "$(on "$1" "SELECT sync_state FROM pg_stat_replication WHERE application_name = 'standby'")" = sync ]; }
caught_up() { # what has been committed by now is on the standby's disk
    lsn=$(on "$1" 'SELECT pg_current_wal_insert_lsn()')
    within 60 has "$1" "$lsn"
}
has() { [ "$(on "$1" "SELECT flush_lsn >= '$2' FROM pg_stat_replication WHERE application_name = 'standby'")" = t ]; }

server one
one=$made
server two
two=$made
WITH_PG_CONF='wal_log_hints = on
full_page_writes = on
wal_keep_size = 512
max_wal_senders = 8
hot_standby = on
autovacuum_naptime = 5
log_min_messages = error' pg_create "$one"
pg_start "$one" || die 'the first server starts'
pg_as "$(pg_bindir)/pg_basebackup" -h "$one" -p 5432 -U postgres -D "$two/data" -c fast --no-sync >>"$home/log" 2>&1 || die 'a copy is made'
pg_as touch "$two/log"
schema "$one"
follow "$two" "$one"
load "host=$one,$two port=5432 user=postgres dbname=postgres target_session_attrs=read-write"
since=$(now)
within 60 served "$since"

primary=$one standby=$two turn=0
while [ $turn -lt "$times" ]; do
    turn=$((turn + 1))
    sleep 0.$((turn * 37 % 9 + 1))
    safe=$(now)
    if [ "$mode" = async ]; then
        caught_up "$primary"
        kill -STOP "$(on "$primary" "SELECT pid FROM pg_stat_replication WHERE application_name = 'standby'")"
        sleep 0.$((turn * 53 % 7 + 2))
    fi
    begin=$(now)
    lose "$primary"
    dead=$(now)
    # it first replays what it has received, which under load may be much
    pg_as "$(pg_bindir)/pg_ctl" -D "$standby/data" -t 300 -w -s promote >>"$home/log" 2>&1 || die 'the standby is promoted'
    end=$(now)
    fault "$begin" "$dead" "$safe" "$end"
    within 60 served "$end"
    all_there || die 'a process has ended by itself'
    on "$standby" CHECKPOINT # pg_rewind reads the new timeline from the control file, up to PostgreSQL 16
    pg_as "$(pg_bindir)/pg_rewind" -D "$primary/data" --no-sync --source-server="host=$standby port=5432 user=postgres dbname=postgres" \
        >>"$primary/log" 2>&1 || die 'the old primary is rewound'
    follow "$primary" "$standby"
    was=$primary primary=$standby standby=$was
done
drain "$primary"
verdict "$mode"
[ "$mode" = sync ] && exit
# a checker that finds nothing proves nothing: with a synchronous standby these losses would have been faults
said=$("$bin/chaos-survive" "$run" sync) && die 'the checker takes losses of acknowledged jobs for right'
case $said in *'broken: lost'*) ;; *) die "the checker does not find what was lost: $said" ;; esac
