# TLS, through a proxy in front of the server.
. "$(dirname "$0")/tap"
pgwork -q migrate
ruby "$top/test/cli/tls.rb" "$tmp" "$PGHOST/.s.PGSQL.$PGPORT" &
proxy=$!
jobs_of_ours="$jobs_of_ours $proxy"
yes 'the proxy runs' until_true 20 test -s "$tmp/port"
through="host=localhost port=$(cat "$tmp/port") user=$PGUSER dbname=$PGDATABASE"
unset PGHOST PGPORT

# libpq reads as much of a record as its buffer holds: the end of an answer may lie in libpq, where no poll() sees it.
export PGWORK_DSN="$through sslmode=verify-full sslrootcert=$tmp/ca.crt"
seq 640 | awk '{ printf "%d %0" $1 * 7919 % 4999 + 1 "d\n", $1, 0 }' >"$tmp/lines"
yes 'jobs of many sizes' pgwork -q enqueue q -f "$tmp/lines"
for n in $(seq 16); do timeout 10 pgwork -q claim q -n 40 || break; done >"$tmp/claimed"
is 'no claim waits for its deadline' "$(cut -f1 "$tmp/claimed" | sort -u | wc -l)" 640

refused 'another CA' 3 'TLS (ssl' env PGWORK_DSN="$through sslmode=verify-full sslrootcert=$tmp/other.crt" pgwork stats
is 'libpq says what is wrong' "$(grep -c 'certificate verify failed' "$tmp/err")" 1
pgwork lock l -- sh -c 'echo holds; exec sleep 30' >"$tmp/held" 2>"$tmp/words" &
holder=$!
jobs_of_ours="$jobs_of_ours $holder"
yes 'a lock' until_true 20 test -s "$tmp/held"
kill -KILL "$proxy"
wait "$holder"
is 'is lost with its connection' $? 74
exit 0
