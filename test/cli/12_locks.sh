# Locks and semaphores: as flock, over the network.
. "$(dirname "$0")/tap"
pgwork -q migrate

# eventually CMD...: at last, within ten seconds
eventually() {
    n=0
    until "$@" >/dev/null 2>&1; do
        n=$((n + 1))
        [ $n -lt 100 ] || return 1
        sleep 0.1
    done
}
gone() { ! kill -0 "$1" || grep -q '^State:.*Z' "/proc/$1/status"; } # nobody may have asked how it ended
held() { pgwork locks "$1" | grep -q held; }
out_of() { [ "$(pgwork --json sem list | sed -n "s/.*\"semaphore\":\"$1\".*\"taken\":\([0-9]*\).*/\1/p")" = "$2" ]; }

code 'the exit code is the command'"'"'s' 7 pgwork lock a -- sh -c 'exit 7'
code 'a signal is 128 and its number' 143 pgwork lock a -- sh -c 'kill -TERM $$'
code 'the exit code, where SIGCHLD was ignored' 5 env --ignore-signal=CHLD pgwork lock a -- sh -c 'exit 5'
is 'stdin and stdout are ours' "$(echo hello | pgwork lock a -- cat)" hello
is 'the lock and its fence are in the environment' "$(pgwork lock a -- sh -c 'test "$PGWORK_FENCE" -gt 1 && echo "$PGWORK_LOCK"')" a
one=$(pgwork lock a -- printenv PGWORK_FENCE)
two=$(pgwork lock a -- printenv PGWORK_FENCE)
yes 'the fence grows' test "$two" -gt "$one"
refused 'no such command' 127 'cannot start' pgwork lock a -- /no/such/thing
code 'a command runs without PATH' 3 env -u PATH "$(command -v pgwork)" lock a -- sh -c 'exit 3'
printf '#!/bin/sh\nexit 6\n' >"$tmp/only-here"
chmod +x "$tmp/only-here"
for path in "$PATH:" ":$PATH" "/nowhere::$PATH"; do
    code 'a command in the current folder, if nothing stands in PATH' 6 env -C "$tmp" PATH="$path" pgwork lock a -- only-here
done
refused 'which command' 2 'no command' pgwork lock a
refused 'to wait and not to' 2 'not both' pgwork lock -n -w 1s a -- true
refused 'a wait of more than a year' 2 '\-\-wait.*from 0ms to 365d' pgwork lock -w 366d a -- true
refused 'nothing after --' 2 'no command' pgwork lock a --
refused 'an empty command' 2 'no command' pgwork lock a -- ''
refused 'which lock' 2 'missing: NAME' pgwork lock -- true
is 'a name that begins with a dash' "$(pgwork lock -- -n -- sh -c 'echo "$PGWORK_LOCK $*"' sh -- x)" '-n -- x'
refused 'two of them' 2 'too many: b' pgwork lock -- a b -- true
refused 'a name, and no command' 2 'no command' pgwork lock -- -n --
code 'no session holds a lock' 1 pgwork locks

pgwork lock a -- sleep 60 &
holder=$! jobs_of_ours="$jobs_of_ours $holder"
yes 'a session holds it' eventually held a
refused 'held, and no wait' 75 'another session holds the lock' pgwork lock -n a -- true
refused 'held, and a short wait' 75 'another session holds the lock' pgwork lock -w 100ms a -- true
refused 'held, with a code of our own' 9 'another session holds the lock' pgwork lock -n -E 9 a -- true
refused 'held, for a shared one too' 75 'another session holds the lock' pgwork lock -n -s a -- true
code 'locks' 0 pgwork locks a
yes 'locks prints the holder' grep -q '^a  *held  *exclusive' "$tmp/out"
code 'locks --json' 0 pgwork --json locks
json 'locks --json is JSON' "$tmp/out"
kill -TERM $holder
wait $holder
is 'TERM ends the command as well' $? 143
yes 'the lock is free after TERM' eventually pgwork lock -n a -- true

for signal in HUP QUIT; do
    rm -f "$tmp/pid"
    # a shell's background jobs ignore QUIT from their start on, and all ignore HUP under nohup: env gives them back
    # shellcheck disable=SC2016  # for the shell that holds
    env --default-signal=HUP,QUIT pgwork lock a -- sh -c 'echo $$ >"$0"; exec sleep 60' "$tmp/pid" </dev/null &
    holder=$! jobs_of_ours="$jobs_of_ours $holder"
    until_true 20 test -s "$tmp/pid"
    kill -s $signal $holder
    wait $holder
    is "$signal ends the command as well" $? 143
    yes 'it is gone' sh -c "! kill -0 $(cat "$tmp/pid")"
    yes 'the lock is free after the command' eventually pgwork lock -n a -- true
done
for signal in HUP INT QUIT; do
    # shellcheck disable=SC2016  # for the shell that holds
    code "an ignored $signal, as of nohup or of a shell's background job, stays so, for the command, too" 4 \
        env --ignore-signal=$signal pgwork lock a -- sh -c 'kill -'$signal' $PPID $$; sleep 0.3; exit 4'
done

if script -qec true /dev/null </dev/null >/dev/null 2>&1; then # in a bare root there may be no terminal to be had
    # a terminal that goes away is no terminal any more: the command is still to be found
    script -qec "pgwork lock terminal -- sh -c 'trap \"\" HUP; echo >$tmp/terminal; exec sleep 60'" /dev/null </dev/null >"$tmp/out" 2>&1 &
    holder=$! jobs_of_ours="$jobs_of_ours $holder"
    yes 'a command at a terminal' until_true 20 test -s "$tmp/terminal"
    kill -KILL $holder
    wait $holder 2>/dev/null
    yes 'is ended when that goes away, though it ignores HUP' eventually pgwork lock -n terminal -- true
fi

# shellcheck disable=SC2016  # for the shell that holds
pgwork lock --grace 1m family -- sh -c '(trap "sleep 0.5; pgwork locks family >\"$0\"; exit" TERM; echo ready >"$0"; while :; do sleep 0.1; done) & wait' "$tmp/family" 2>"$tmp/err" &
holder=$! jobs_of_ours="$jobs_of_ours $holder"
until_true 20 test -s "$tmp/family"
kill -TERM $holder
wait $holder
is 'TERM ends what the command started' $? 143
yes 'the lock is held until what the command started has ended' grep -q '^family  *held' "$tmp/family"

pgwork lock lost -- sleep 60 2>"$tmp/lost" &
holder=$! jobs_of_ours="$jobs_of_ours $holder"
yes 'held once more' eventually held lost
sql "SELECT pg_terminate_backend(pid) FROM pgwork.lock_list('lost')" >/dev/null
wait $holder
is 'a lost lock ends the command' $? 74
yes 'the loss of a lock is reported' grep -q 'the lock was lost' "$tmp/lost"

# a second request to stop is for the command as well: the lock is given back as ever
pgwork lock --grace 1m twice -- sh -c 'trap "sleep 1; exit 3" TERM; echo >"$0"; while :; do sleep 0.1; done' "$tmp/twice" 2>"$tmp/err" &
holder=$! jobs_of_ours="$jobs_of_ours $holder"
until_true 20 test -s "$tmp/twice"
kill -TERM $holder
until_true 20 heard $holder
kill -TERM $holder
wait $holder
is 'two TERMs: the exit code of the command' $? 3
is 'two TERMs are not reported as a lost lock' "$(grep -c lost "$tmp/err")" 0

pgwork sem create last 1
for holds in 'lock last' 'sem run last'; do
    # shellcheck disable=SC2086,SC2016  # two words; for the shell that holds
    pgwork $holds --grace 1m -- sh -c 'trap "" TERM; sleep 60 & echo $! >"$0"; wait' "$tmp/last" 2>"$tmp/err" &
    holder=$! jobs_of_ours="$jobs_of_ours $holder"
    until_true 20 test -s "$tmp/last"
    for n in 1 2 3; do kill -TERM $holder && until_true 20 heard $holder; done
    wait $holder
    is "$holds: three TERMs end it at once" $? 143
    yes "$holds: and what the command started" eventually gone "$(cat "$tmp/last")"
    rm -f "$tmp/last"
    # shellcheck disable=SC2086,SC2016
    pgwork $holds -- sh -c 'echo $$ >"$0"; exec sleep 60' "$tmp/last" 2>"$tmp/err" &
    holder=$! jobs_of_ours="$jobs_of_ours $holder"
    until_true 20 test -s "$tmp/last"
    kill -KILL $holder
    wait $holder 2>/dev/null
    yes "$holds: the command does not outlive who held it" eventually gone "$(cat "$tmp/last")"
    rm -f "$tmp/last"
done
printf '#!/no/such/thing\n' >"$tmp/broken"
chmod +x "$tmp/broken"
refused 'a command that is there, and cannot be started' 127 'cannot start' pgwork lock a -- "$tmp/broken"
code 'sem drop --force of the last' 0 pgwork sem drop last --force

pgwork lock -s both -- sh -c 'pgwork lock -n -s both -- true && ! pgwork lock -n both -- true' 2>/dev/null
is 'shared ones go together' $? 0

code 'sem create' 0 pgwork sem create s 2
code 'sem create again' 0 pgwork sem create s 2
refused 'sem create with another number' 1 'already exists with 2 permits, not 3' pgwork sem create s 3
refused 'no number' 2 'not a number of permits' pgwork sem create s many
refused 'no such semaphore' 1 'no semaphore' pgwork sem acquire nowhere
yes 'the hint for a missing semaphore is a command' grep -q '^hint: .*pgwork sem create' "$tmp/err"
token=$(pgwork sem acquire s)
code 'sem acquire --json' 0 pgwork --json sem acquire s --ttl 1h
json 'sem acquire --json is JSON' "$tmp/out"
refused 'all are held' 75 'not enough permits' pgwork sem acquire -n s
refused 'all are held, after a while' 75 'not enough permits' pgwork sem run -w 100ms s -- true
code 'sem list' 0 pgwork sem list
yes 'sem list counts' grep -q '^s  *2  *2  *0' "$tmp/out"
code 'sem list NAME' 0 pgwork sem list s
code 'sem list NAME --json' 0 pgwork --json sem list s
json 'sem list NAME --json is JSON' "$tmp/out"
code 'sem extend' 0 pgwork sem extend s "$token" --ttl 1h
code 'sem release' 0 pgwork sem release s "$token"
refused 'sem release twice' 1 'lost: .*released' pgwork sem release s "$token"
refused 'sem extend afterwards' 1 'lost' pgwork sem extend s "$token"
refused 'a word that is not a token' 2 'not a valid token' pgwork sem release s abc
refused 'more than there are' 2 'has 2 permits: cannot acquire 3' pgwork sem acquire s --permits 3
refused 'sem run, to wait and not to' 2 'not both' pgwork sem run -n -w 1s s -- true
refused 'sem acquire, too' 2 'not both' pgwork sem acquire s -n -w 0
code 'sem create of a name that begins with a dash' 0 pgwork sem create -- -s 1
code 'sem run of it' 5 pgwork sem run -n -- -s -- sh -c 'exit 5'
code 'sem drop of it' 0 pgwork sem drop -- -s
refused 'sem run of nothing' 2 'no command' pgwork sem run s --
refused 'sem run of an empty command' 2 'no command' pgwork sem run s -- ''
pgwork sem acquire s >/dev/full 2>"$tmp/err"
is 'a token that cannot be printed' "$? $(grep -c 'cannot write' "$tmp/err")" '8 1'
yes 'the permit is back after a token that cannot be printed' out_of s 1
code 'sem run' 5 env PGWORK_TOKEN=job pgwork sem run s -- sh -c 'test -n "$PGWORK_PERMIT" && test "$PGWORK_TOKEN" = job && exit 5'
yes 'the permit is back after sem run' out_of s 1
pgwork sem run s -- sleep 15 2>"$tmp/lost" &
holder=$! jobs_of_ours="$jobs_of_ours $holder"
yes 'sem run holds' eventually out_of s 2
kill -KILL $holder
wait $holder 2>/dev/null
yes 'a killed holder gives it back at once' eventually out_of s 1

# the session that a permit depends on, long before it is to be extended
pgwork sem run s --ttl 1h -- sleep 60 2>"$tmp/lost" &
holder=$! jobs_of_ours="$jobs_of_ours $holder"
yes 'sem run holds once more' eventually out_of s 2
sql "SELECT pg_terminate_backend($(pgwork --json sem list s | sed -n 's/.*"pid":\([1-9][0-9]*\).*/\1/p'))" >/dev/null
wait $holder
is 'a permit that is lost with its session ends the command' $? 74
yes 'the loss of a permit is reported' grep -q 'the permit was lost' "$tmp/lost"

# a server that says nothing any more: one process of it stands still, and has to go on whatever happens
ends() { pgwork --json sem list alone | sed -n 's/.*"until":"\([^"]*\)".*/\1/p'; }
extended() { [ "$(ends)" != "$first" ]; }
frozen=
thaw() {
    was=$?
    [ -z "$frozen" ] || kill -CONT "$frozen" 2>/dev/null || :
    frozen=
    return "$was"
}
trap 'thaw; leave' EXIT
code 'a semaphore for one' 0 pgwork sem create alone 1
timeout -k 1 20 pgwork sem run alone --ttl 3s --grace 300ms -- sleep 60 2>"$tmp/lost" &
holder=$! jobs_of_ours="$jobs_of_ours $holder"
yes 'it is taken' eventually out_of alone 1
first=$(ends)
yes 'a permit is extended' eventually extended # before its first extend it would connect anew, in time
frozen=$(pgwork --json sem list alone | sed -n 's/.*"pid":\([0-9]*\).*/\1/p')
kill -STOP "$frozen"
wait $holder
is 'without a word of the server the command is ended' $? 74
thaw
yes 'the loss of a permit without an answer of the server is reported' grep -q 'the permit was lost' "$tmp/lost"
yes 'the permit is back' eventually out_of alone 0
pgwork sem run alone --ttl 8s --grace 1m -- sh -c 'trap "sleep 10; pgwork sem run -n alone -- true; exit \$?" TERM; echo >"$0"; while :; do sleep 0.1; done' "$tmp/ready" 2>"$tmp/err" &
holder=$! jobs_of_ours="$jobs_of_ours $holder"
until_true 20 test -s "$tmp/ready"
kill -TERM $holder
wait $holder
is 'in its grace the command keeps its permit: no other session gets it' $? 75
code 'after the grace the permit is free' 0 pgwork sem drop alone

pgwork sem create later 1
pgwork sem acquire later --ttl 2s >/dev/null
code 'after a wait it has its permit for the whole time' 0 pgwork sem run later --ttl 3s -- true
is 'the permit is back after a wait' "$(pgwork --json sem list | sed -n 's/.*"semaphore":"later".*"taken":\([0-9]*\).*/\1/p')" 0
pgwork sem drop later

pgwork sem create open 3
token=$(pgwork sem acquire open --ttl 1h)
pgwork sem run open --ttl 15s -- sh -c 'until [ -e "$0" ]; do sleep 0.1; done' "$tmp/go" 2>"$tmp/told" &
holder=$! jobs_of_ours="$jobs_of_ours $holder"
yes 'sem run holds beside' eventually out_of open 2
echo "BEGIN; SELECT pgwork.sema_resize('open', 4); SELECT pg_sleep(300)" | psql -XAtq >/dev/null 2>&1 &
resizing="FROM pg_stat_activity WHERE datname = current_database() AND query = 'SELECT pg_sleep(300)'"
yes 'a session resizes, and does not commit' until_true 10 count_is "SELECT count(*) $resizing" 1
refused 'the process that resizes is named when nothing can be extended' 75 "resized .*: process $(sql "SELECT pid $resizing")\$" pgwork sem extend open "$token"
refused 'no permit is returned while a process resizes' 75 'resized' pgwork sem release open "$token"
refused 'no permit is taken while a process resizes' 75 'resized' pgwork sem run -n open -- true
yes 'sem run logs it, too, and keeps the permit' until_true 20 grep -q 'resized .*: process' "$tmp/told"
sql "SELECT pg_terminate_backend(pid, 10000) $resizing" >/dev/null
code 'then it is as before' 0 pgwork sem extend open "$token"
: >"$tmp/go"
wait $holder
is 'sem run has lost nothing' $? 0
code 'also to return it' 0 pgwork sem release open "$token"
pgwork sem drop open

code 'sem resize' 0 pgwork sem resize s 1
refused 'sem drop while some are held' 1 'are held' pgwork sem drop s
code 'sem drop --force' 0 pgwork sem drop s --force
code 'no semaphores' 1 pgwork sem list

code 'example: mailer' 0 "$build/examples/mailer" 10 5
yes 'each mailing once' grep -q '^10 mailings sent 10 times by 5 processes' "$tmp/out"
code 'example: mailer, without a server' 1 env PGWORK_DSN="host=$tmp" "$build/examples/mailer" 1 1
yes 'says so' test -s "$tmp/err"
sql "CREATE TABLE fork (number int PRIMARY KEY, used int NOT NULL DEFAULT 0, version bigint NOT NULL DEFAULT 0);
     INSERT INTO fork SELECT generate_series(0, 4)" >/dev/null
code 'example: philosophers' 0 "$build/examples/philosophers" 4
yes 'all had their meals' grep -q '^5 philosophers had 4 meals each' "$tmp/out"
is 'each fork was used by both neighbours' "$(sql 'SELECT min(used), max(used) FROM fork')" '8|8'
sql 'DELETE FROM fork WHERE number = 2' >/dev/null
code 'example: philosophers, a fork short' 1 "$build/examples/philosophers" 1
is 'each philosopher reports a missing fork' "$(grep -c '^philosopher [12]: a fork is missing$' "$tmp/err") $(grep -c '^3 philosophers' "$tmp/out")" '2 1'
exit 0
