# One worker on four servers, of which one is killed under load: the others go on, and all jobs are done.
. "$(dirname "$0")/tap"
. "$top/test/support/pg.sh"

# The first server is the one that is here already; the others are copies of each other.
a=$(pg_mkdir) b=$(pg_mkdir) c=$(pg_mkdir)
remove() { for s in "$a" "$b" "$c"; do pg_stop "$s" immediate; rm -rf "$s"; done; }
trap 'remove; leave' EXIT

dsn() { echo "host=$1 port=5432 user=postgres dbname=postgres"; }
echo "$PGWORK_DSN" >"$tmp/0.dsn"
dsn "$a" >"$tmp/1.dsn"
dsn "$b" >"$tmp/2.dsn"
dsn "$c" >"$tmp/3.dsn"
unset PGWORK_DSN
prepare() { # prepare FILE
    pgwork -q -d "$1" migrate
    pgwork -q -d "$1" queue create q --lease 2s --retention 1h
}
copy() { # copy DIR: a server like that in $a, which is stopped
    pg_as cp -R "$a/data" "$1/data"
    pg_as sed -i "s|'$a'|'$1'|" "$1/data/postgresql.conf"
    pg_as touch "$1/log"
    pg_start "$1"
}
prepare "$tmp/0.dsn"
pg_create "$a" && pg_start "$a" && prepare "$tmp/1.dsn" && pg_stop "$a" || fail 'a server is prepared'
yes 'four servers run' eval 'copy "$b" && copy "$c" && pg_start "$a"'
[ "$bad" = 0 ] || exit # there is nothing to wait for

# lose DIR: the server has no time for anything
lose() {
    master=$(head -n 1 "$1/data/postmaster.pid")
    kill -STOP "$master" # it starts no process any more
    kill -KILL "$master" $(ps -o pid= --ppid "$master") 2>/dev/null
    until_true 30 gone "$master"
}
gone() { ! kill -0 "$1" 2>/dev/null; }
started() { grep -c "/$1.dsn\$" "$tmp/ran"; } # started NUMBER: jobs of that server
at_least() { [ "$(started "$1")" -ge "$2" ]; }
done_is() { [ "$(pgwork -d "$tmp/$1.dsn" ls q -s 'done' -n 100000 --json | wc -l)" = "$2" ]; }

: >"$tmp/ran"
for i in 0 1 2 3; do seq 100 | pgwork -q -d "$tmp/$i.dsn" enqueue q >/dev/null; done
seq 200 | pgwork -q -d "$tmp/2.dsn" enqueue q >/dev/null
pgwork -d "$tmp/0.dsn" work q -j4 -d "$tmp/1.dsn" -d "$tmp/2.dsn" -d "$tmp/3.dsn" -- \
    sh -c 'echo "$PGWORK_DSN_FILE" >>"$1"' sh "$tmp/ran" >"$tmp/work.out" 2>"$tmp/work.err" &
worker=$!
jobs_of_ours="$jobs_of_ours $worker"
yes 'the worker works on the third server' until_true 30 at_least 2 20
lose "$b"
for i in 0 1 3; do yes "while it is lost, all jobs of server $i are done" until_true 60 done_is $i 100; done
yes 'not those of the lost one' eval '[ "$(started 2)" -lt 300 ]'
seq 50 | pgwork -q -d "$tmp/3.dsn" enqueue q >/dev/null
yes 'new jobs are done, too' until_true 60 done_is 3 150
yes 'the log names the lost server' until_true 30 grep -q "source 2 (host=$b port=5432 dbname=postgres): " "$tmp/work.err"
yes 'the log names no other server' eval '! grep -q "source [013]" "$tmp/work.err"'
pg_start "$b"
pgwork -q -d "$tmp/2.dsn" reap 2>/dev/null & # for claims whose answer was lost
jobs_of_ours="$jobs_of_ours $!"
yes 'when the server is back, its jobs are done as well' until_true 120 done_is 2 300
kill -TERM $worker
all_well 'the worker ends as usual' $worker
counted() { sed -n "s|^pgwork: .*/$1\\.dsn: \\([0-9]*\\) completed,.*|\\1|p" "$tmp/work.err"; }
is 'it has counted by database' "$(counted 0) $(counted 1) $(counted 3)" '100 100 150'
yes 'the summary counts all databases together' eval '[ "$(sed -n "s|^pgwork: \([0-9]*\) completed,.*|\1|p" "$tmp/work.err")" = $((350 + $(counted 2))) ]'
exit 0
