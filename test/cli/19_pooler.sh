# PgBouncer in transaction mode: every verb of the queue works through it; what needs a session of its own is refused.
. "$(dirname "$0")/tap"
PATH=$PATH:/usr/sbin
pgwork -q migrate

# One session of the server for all clients: whatever one leaves behind, the next one meets.
chmod 755 "$tmp"
mkdir -m 777 "$tmp/pool"
cat >"$tmp/pool/ini" <<END
[databases]
$PGDATABASE = host=$PGHOST port=$PGPORT user=$PGUSER pool_size=2
[pgbouncer]
unix_socket_dir = $tmp/pool
listen_port = 6432
auth_type = any
pool_mode = transaction
max_client_conn = 100
logfile = $tmp/pool/log
END
as=
[ "$(id -u)" != 0 ] || as='setpriv --reuid=postgres --regid=postgres --init-groups'
$as pgbouncer -q "$tmp/pool/ini" &
jobs_of_ours="$jobs_of_ours $!"
export PGWORK_DSN="host=$tmp/pool port=6432 user=$PGUSER dbname=$PGDATABASE"
yes 'PgBouncer runs' until_true 20 psql -XAtqd "$PGWORK_DSN" -c 'SELECT 1'
is 'it is what answers' "$(psql -XAtqd "host=$tmp/pool port=6432 user=$PGUSER dbname=pgbouncer" -c 'SHOW VERSION' 2>&1 | grep -ci pgbouncer)" 1

state() { sql "SELECT state || ' ' || attempt FROM pgwork.job WHERE id = $1"; }
tab=$(printf '\t')
claim() { pgwork claim q >"$tmp/claim" && IFS=$tab read -r id token rest <"$tmp/claim"; }

pgwork work none_such -- true 2>"$tmp/err" &
worker=$!
yes 'a worker on a queue that is not there says so' until_true 20 grep -q 'there is no queue "none_such" yet' "$tmp/err"
kill $worker
wait $worker

code 'queue create' 0 pgwork queue create q --retention 1d --backoff 0
code 'enqueue' 0 pgwork enqueue q one
is 'without a word about the pooler' "$(cat "$tmp/err")" ''
code 'claim' 0 claim
code 'extend' 0 pgwork extend q "$id" "$token" --lease 1h
code 'release' 0 pgwork release q "$id" "$token"
refused 'a void token' 1 'refused' pgwork complete q "$id" "$token"
claim
code 'fail' 0 pgwork fail q "$id" "$token" --retry 0
is 'one attempt is charged' "$(state "$id")" 'ready 1'
claim
code 'snooze' 0 pgwork snooze q "$id" "$token" --delay 0
claim
code 'complete' 0 pgwork complete q "$id" "$token"
is 'a completion is counted once' "$(state "$id")" 'done 2'
id=$(pgwork enqueue q two)
code 'cancel' 0 pgwork cancel -q q "$id"
id=$(pgwork enqueue q three)
claim
pgwork fail q "$id" "$token" --dead
code 'retry' 0 pgwork retry q "$id"
is 'a dead letter comes back' "$(state "$id")" 'ready 0'
code 'ls' 0 pgwork ls q
code 'show' 0 pgwork show "$id"
code 'stats' 0 pgwork stats
code 'reap --once' 0 pgwork reap --once
code 'queue purge' 0 pgwork queue purge q

# Many at once, by COPY, worked off by several workers that share the two sessions with a reaper.
seq 2000 >"$tmp/lines"
yes 'enqueue 2000 lines' pgwork -q enqueue bulk -f "$tmp/lines"
is 'all are there' "$(sql "SELECT ready FROM pgwork.depth('bulk')")" 2000
pgwork -q reap >"$tmp/reap" 2>&1 &
reaper=$!
jobs_of_ours="$jobs_of_ours $reaper"
workers=
for w in 1 2 3; do
    pgwork -q work bulk --until-empty -j 4 -- echo '{line}' >"$tmp/done.$w" 2>"$tmp/words.$w" &
    workers="$workers $!"
done
jobs_of_ours="$jobs_of_ours $workers"
for w in $workers; do
    wait "$w"
    is "a worker ends well" $? 0
done
is 'each job once' "$(cat "$tmp"/done.* | sort -n | md5sum)" "$(md5sum <"$tmp/lines")"
kill "$reaper"
wait "$reaper"
is 'the reaper ends well' $? 0

refused 'a lock needs a session of its own' 5 'pooler' pgwork lock a -- true
is 'a refused lock leaves no advisory lock' "$(sql "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")" 0

# One that keeps a session of the server for each client, until that leaves.
sed 's/pool_mode = transaction/pool_mode = session/; s/6432/6433/; s/pool_size=2/pool_size=10/' "$tmp/pool/ini" >"$tmp/pool/session.ini"
$as pgbouncer -q "$tmp/pool/session.ini" &
jobs_of_ours="$jobs_of_ours $!"
export PGWORK_DSN="host=$tmp/pool port=6433 user=$PGUSER dbname=$PGDATABASE"
until_true 20 psql -XAtqd "$PGWORK_DSN" -c 'SELECT 1'
refused 'a pooler in session mode is taken for one in transaction mode' 5 'pooler' pgwork lock -n pooled -- true
yes 'the hint names the property of poolers in session mode' grep -q 'pooler=session' "$tmp/err"
# shellcheck disable=SC2016  # for the shell that holds
code 'unless the property says so: then locks work' 0 pgwork -X pooler=session lock pooled -- sh -c '! env -u PGWORK_FENCES pgwork -X pooler=session lock -n pooled -- true 2>"$0"' "$tmp/held"
yes 'locks through a pooler in session mode exclude each other' grep -q 'another session holds the lock' "$tmp/held"
code 'locks through a pooler in session mode are free afterwards' 0 pgwork -X pooler=session lock -n pooled -- true
is 'a pooler in session mode keeps no advisory lock' "$(sql "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")" 0
exit 0
