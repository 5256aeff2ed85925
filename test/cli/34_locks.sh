# Locks: the order of waiters, and waiters that lose their session.
. "$(dirname "$0")/tap"
pgwork -q migrate
waiting() { [ "$(pgwork --json locks "$1" | grep -c '"state":"waits"')" = "$2" ]; } # waiting NAME COUNT
# holds a lock until there is this file
hold() { # hold NAME FILE [OPTION...]
    name=$1 file=$2
    shift 2
    # shellcheck disable=SC2016  # for the shell that holds
    pgwork -q lock "$@" "$name" -- sh -c 'echo $$ >"$0.held"; until test -e "$0"; do sleep 0.05; done' "$file" 2>"$file.err" &
    until_true 20 test -s "$file.held"
}

# The first eight keep their places, from statement to statement.
hold order "$tmp/order"
p=$! jobs_of_ours=$!
all=
for n in 1 2 3 4 5 6; do
    pgwork -q lock order -- sh -c 'echo $1 >>"$0"' "$tmp/came" $n &
    all="$all $!" jobs_of_ours="$jobs_of_ours $!"
    until_true 20 waiting order $n
done
sleep 1.2 # some turns
: >"$tmp/order"
# shellcheck disable=SC2086  # a list of numbers
all_well 'waiters get the lock one after the other' $p $all
is 'in the order of their coming' "$(tr '\n' ' ' <"$tmp/came")" '1 2 3 4 5 6 '

refused 'a command that would wait for the lock of the one that runs it' 2 'held for the command' pgwork lock self -- pgwork lock self -- true
refused 'with others in between' 2 'held for the command' pgwork lock self -- pgwork lock other -- pgwork lock -s self -- true
code 'unless it shares with it' 0 pgwork lock -s self -- pgwork lock -s self -- true

hold stuck "$tmp/stuck"
p=$! jobs_of_ours=$!
fence=$(sql "SELECT fence FROM pgwork.lock_list('stuck')")
code 'lock --break' 0 pgwork lock --break stuck
wait $p
is 'ends the command of the holder' $? 74
is 'a broken lock makes the number of its holder stale' "$(sql "SELECT pgwork.fence_ok('stuck', $fence)")" f
yes 'a broken lock is free' pgwork lock -n stuck -- true
code 'lock --break of one that no session holds' 1 pgwork lock --break stuck

# A waiter's statement holds a snapshot, for whose end an index that is made concurrently waits.
sql 'CREATE TABLE big AS SELECT i FROM generate_series(1, 1000) i'
# shellcheck disable=SC2016  # for the shell that holds
pgwork -q lock migration -- sh -c 'echo >"$0"; until test -e "$0.go"; do sleep 0.05; done; psql -qXc "CREATE INDEX CONCURRENTLY big_i ON big (i)"' "$tmp/migration" 2>"$tmp/err" &
p=$! jobs_of_ours=$!
until_true 20 test -s "$tmp/migration"
all=
for n in 1 2 3; do
    pgwork -q lock migration -- true &
    all="$all $!" jobs_of_ours="$jobs_of_ours $!"
    until_true 20 waiting migration $n
done
for n in 4 5; do # plain SQL
    psql -qXAtc "CALL pgwork.lock_wait('migration')" >"$tmp/fence$n" 2>>"$tmp/err" &
    all="$all $!" jobs_of_ours="$jobs_of_ours $!"
    until_true 20 waiting migration $n
done
: >"$tmp/migration.go"
# shellcheck disable=SC2086
all_well 'CREATE INDEX CONCURRENTLY under a lock that others wait for ends' $p $all
yes 'a waiter in plain SQL gets a fencing number' grep -q '^[1-9]' "$tmp/fence4"
is 'with a valid index' "$(sql "SELECT indisvalid FROM pg_index WHERE indexrelid = 'big_i'::regclass")" t

hold restart "$tmp/restart"
p=$! jobs_of_ours=$!
pgwork -q lock -w 1m restart -- sh -c 'echo got >"$0"' "$tmp/got" &
w=$! jobs_of_ours="$jobs_of_ours $!"
until_true 20 waiting restart 1
sql "SELECT pg_terminate_backend(pid) FROM pgwork.lock_list('restart') WHERE state = 'waits'" >/dev/null
yes 'a waiter whose session ends waits on in another one' until_true 20 waiting restart 1
: >"$tmp/restart"
all_well 'a waiter whose session ended gets the lock' $p $w
is 'for its command' "$(cat "$tmp/got")" got
