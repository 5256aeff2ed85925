# work: connections that hang, and a server that allows too few connections.
. "$(dirname "$0")/tap"
pgwork -q migrate

# sessions NAME: the server's processes for application NAME, the oldest first
sessions() { sql "SELECT pid FROM pg_stat_activity WHERE application_name = '$1' ORDER BY backend_start"; }
sessions_are() { [ "$(sessions "$1" | wc -l)" = "$2" ]; } # sessions_are NAME COUNT
member() { sed 's/.*"'"$1"'":\([0-9]*\).*/\1/' "$tmp/out"; }
# says in a file that it has begun, and goes on until there is that file with .go
held='echo started >>"$0"; until test -e "$0.go"; do sleep 0.05; done'

# hang QUEUE WHICH: works on one job in sessions named QUEUE; while it runs, these processes (numbers for
# sed) of the server stop; when they have been replaced where they must be, the job may end
hang() {
    q=$1 which=$2
    pgwork queue create "$q" --retention 1d
    pgwork -q enqueue "$q" --lease 9s x >/dev/null
    pgwork --json work "$q" -j1 --once -X application_name="$q" -- sh -c "$held" "$tmp/$q" >"$tmp/out" 2>"$tmp/err" &
    p=$! jobs_of_ours=$!
    until_true 20 test -s "$tmp/$q"
    stuck=$(sessions "$q" | sed -n "$which")
    for s in $stuck; do kill -STOP "$s"; done
}
end_hang() { # end_hang NAME: what it came to
    : >"$tmp/$q.go"
    wait $p
    is "$1" "$? $(wc -l <"$tmp/$q") $(sql "SELECT state || ' ' || attempt FROM pgwork.job WHERE queue = '$q'") $(member completed) $(member lost)" '0 1 done 1 1 0'
    # shellcheck disable=SC2086  # a list of numbers
    kill -CONT $stuck
}
hang beat 2p
yes 'a heartbeat that hangs gets a new session' until_true 30 sessions_are beat 3
end_hang 'before the lease ends, and the job is done once'
hang report 1p
end_hang 'a report that hangs is made again in a new session before the lease ends'
hang both 1,2p
yes 'where both hang the heartbeat comes first' until_true 30 sessions_are both 3
end_hang 'where both hang the job is done once'

sql "CREATE ROLE short LOGIN IN ROLE pgwork_worker CONNECTION LIMIT 1" >/dev/null
pgwork -q queue create few --retention 1d
PGWORK_DSN="$PGWORK_DSN user=short" pgwork work few -j1 -X application_name=few -- true >/dev/null 2>"$tmp/err" &
p=$! jobs_of_ours=$!
yes 'a worker that cannot have its second connection' until_true 30 grep -q 'next try' "$tmp/err"
as_short() { PGUSER=short psql -XAtqc 'SELECT 1'; }
yes 'does not hold its first one meanwhile' until_true 30 as_short
sql "ALTER ROLE short CONNECTION LIMIT 2" >/dev/null
yes 'a worker on one connection gets its second when the server has one' until_true 30 grep -q 'working on few' "$tmp/err"
sql "ALTER ROLE short CONNECTION LIMIT 1" >/dev/null
sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'few'" >/dev/null
: >"$tmp/err"
yes 'after a restart of the server' until_true 30 grep -q 'next try' "$tmp/err"
for _ in 1 2 3; do yes 'it does not hold one either' until_true 60 as_short; sleep 0.3; done
sql "ALTER ROLE short CONNECTION LIMIT 4" >/dev/null
PGWORK_DSN="$PGWORK_DSN user=short" pgwork work few -j1 -X application_name=few -- true >/dev/null 2>&1 &
p2=$! jobs_of_ours="$p $!"
sql "ALTER ROLE short CONNECTION LIMIT 2" >/dev/null
pgwork -q enqueue few 1 2 3 4 >/dev/null
yes 'of two workers with two connections one works' until_true 60 count_is "SELECT count(*) FROM pgwork.job WHERE queue = 'few' AND state = 'done'" 4
kill $p $p2
wait $p $p2

pgwork queue create ahead --retention 1d
pgwork enqueue ahead 1 2 3 4 >/dev/null
: >"$tmp/ahead"
pgwork -q work ahead -j1 -- sh -c "$held" "$tmp/ahead" &
p=$! jobs_of_ours=$!
until_true 20 test -s "$tmp/ahead"
code 'jobs behind a long one are free for another worker' 0 timeout -k 1 20 pgwork work ahead -j1 -n 3 -- true
: >"$tmp/ahead.go"
until_true 20 count_is "SELECT count(*) FROM pgwork.job WHERE queue = 'ahead' AND state = 'done'" 4
kill $p
wait $p
