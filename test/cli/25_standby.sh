# A synchronous standby that goes away: calls that wait for it return unknown, not done. Calls that returned done are on the
# standby when it takes over. On two servers of its own, because every commit of such a server waits.
. "$(dirname "$0")/tap"
. "$top/test/support/pg.sh"

first=$(pg_mkdir) second=$(pg_mkdir)
remove() {
    pg_stop "$first" immediate
    pg_stop "$second" immediate
    rm -rf "$first" "$second"
}
trap 'remove; leave' EXIT

WITH_PG_CONF='wal_log_hints = on' pg_create "$first" && pg_start "$first" || fail 'the first server runs'
yes 'a copy of it' pg_as "$(pg_bindir)/pg_basebackup" -h "$first" -p 5432 -U postgres -D "$second/data" -R -c fast --no-sync
pg_as sh -c "sed -i 's/ sslmode/ application_name=second sslmode/' '$second/data/postgresql.auto.conf'
    echo \"unix_socket_directories = '$second'\" >>'$second/data/postgresql.conf'; touch '$second/log'"
yes 'the second server runs' pg_start "$second"
[ "$bad" = 0 ] || exit # there is nothing to wait for
export PGHOST="$first" PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
export PGWORK_DSN="host=$first,$second port=5432 user=postgres dbname=postgres target_session_attrs=read-write"
pgwork -q migrate
sql "ALTER SYSTEM SET synchronous_standby_names = 'second'" && sql 'SELECT pg_reload_conf()' >/dev/null
doctor_says() { pgwork doctor 2>&1 | grep -q "$1"; }
yes 'it is a synchronous standby, says the doctor' until_true 10 doctor_says '^ok *synchronous standby .*: 1 connected, 0 sessions'

export PGWORK_DSN="host=$second port=5432 user=postgres dbname=postgres"
sql "SELECT pgwork.queue_create('q'), pgwork.sema_create('s', 1)" >/dev/null
yes 'on the standby, too, there is a queue' until_true 10 pgwork queue list
refused 'a claim from a standby' 5 'read-only' pgwork claim q
yes 'the hint says what to do' grep -q target_session_attrs "$tmp/err"
refused 'a standby does not know the holders of locks' 5 'is a standby' pgwork locks
refused 'a standby does not know the holders of permits' 5 'is a standby' pgwork sem list
refused 'a standby does not know which permits are lost' 5 'is a standby' pgwork sem extend s 00000000-0000-0001-0000-000000000001
psql -h "$second" -XAtq -c "SELECT pgwork.lock_acquire('L')" -c "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'" >"$tmp/out" 2>"$tmp/err"
is 'a lock that it cannot give is not left behind' "$(cat "$tmp/out") $(grep -c read-only "$tmp/err")" '0 1'
pgwork work q -- true >"$tmp/out" 2>"$tmp/err" & # goes on, there may be a promotion
yes 'also to a worker' until_true 10 grep -q 'read-only.*target_session_attrs' "$tmp/err"
kill $!
export PGWORK_DSN="host=$first,$second port=5432 user=postgres dbname=postgres target_session_attrs=read-write"

uuid() { sql 'SELECT gen_random_uuid()'; }
one=$(uuid) two=$(uuid) three=$(uuid)
code 'what it has received' 0 pgwork enqueue q one --op "$one"
pgwork lock L -- sh -c 'echo "$PGWORK_FENCE"' >"$tmp/fence"
sql "SELECT pgwork.table_operation('$three')" >/dev/null
pg_stop "$second" fast
yes 'the doctor misses it' until_true 10 doctor_says '^BAD *synchronous standby .*: 0 connected'
brief() { # with more time where it was not enough to get as far as the commit, as on a busy machine
    for ms in 300 9000; do
        ended=0
        pgwork -X call.timeout_ms=$ms "$@" || ended=$?
        [ $ended = 3 ] || break
    done
    return $ended
}
refused 'what waits for it is unknown' 6 'no synchronous standby has confirmed it' brief enqueue q two --op "$two"
refused 'an unknown outcome stays unknown when it is repeated' 6 'no synchronous standby has confirmed it' brief enqueue q two --op "$two"
refused 'of several, too' 6 'no synchronous standby' brief enqueue q two three --op "$(uuid)"
printf 'a\nb\n' >"$tmp/lines"
refused 'the outcome of a load is unknown' 6 'no synchronous standby' brief enqueue q -f "$tmp/lines"
refused 'a claim' 6 'no synchronous standby' brief claim q
refused 'a lock, whose number would come again' 6 'no synchronous standby' brief lock -n L -- true
is 'which no session holds' "$(pgwork locks --json)" ''
psql -XqAt -c "SELECT pgwork.table_applied('$three')" >"$tmp/out" 2>"$tmp/err" &
yes 'a question that waits' until_true 10 count_is "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'" 1
wait $!
yes 'a write to a table of yours is not reported as applied before the standby has it' grep -q 'synchronous replication' "$tmp/err"
code 'a round of the reaper, which can be done again, does not wait for it' 0 brief reap --once

pg_start "$second"
code 'when it is back the call may be repeated' 0 pgwork enqueue q two --op "$two"
id=$(cat "$tmp/out")
pg_stop "$first" immediate
yes 'the standby takes over' pg_as "$(pg_bindir)/pg_ctl" -D "$second/data" -w -s promote
export PGHOST="$second"
sql "ALTER SYSTEM RESET synchronous_standby_names" && sql 'SELECT pg_reload_conf()' >/dev/null
is 'each acknowledged job is there' "$(pgwork enqueue q one --op "$one" 2>/dev/null)" 1
is 'once' "$(pgwork enqueue q two --op "$two" 2>/dev/null)" "$id"
yes 'a lock has a higher number' pgwork lock -n L -- sh -c "[ \"\$PGWORK_FENCE\" -gt $(cat "$tmp/fence") ]"
code 'the reaper runs' 0 pgwork reap --once
code 'jobs are claimed' 0 pgwork claim q
exit 0
