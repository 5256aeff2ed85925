# Signals: commands end with pgwork, and signals reach the right process.
. "$(dirname "$0")/tap"
pgwork -q migrate
ended() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:.*Z' "/proc/$1/status"; }
buried() { ! test -e "/proc/$1"; }
child_of() { grep -q "^PPid:[[:space:]]*$2\$" "/proc/$1/status"; } # child_of PID PARENT
# says its process number in a file, and goes on until there is that file with .go
# shellcheck disable=SC2016  # for the shell that works
held='echo $$ >>"$0"; until test -e "$0.go"; do sleep 0.05; done'

pgwork queue create killed --retention 1d
pgwork enqueue killed x >/dev/null
pgwork -q work killed -- sh -c "$held" "$tmp/killed" 2>/dev/null &
p=$! jobs_of_ours=$!
until_true 20 test -s "$tmp/killed"
kill -KILL $p
wait $p 2>/dev/null
yes 'work: a command does not outlive a worker that was killed' until_true 20 ended "$(cat "$tmp/killed")"

pgwork sem create one 1
# shellcheck disable=SC2016  # for the shell that holds
ends='trap "pgwork lock -n last -- true || echo held >>\"$0\"; exit 3" TERM; echo >"$0"; while :; do sleep 0.05; done'
for signal in USR1 USR2 ALRM VTALRM PROF XCPU XFSZ IO RTMIN; do
    rm -f "$tmp/last"
    pgwork lock last -- sh -c "$ends" "$tmp/last" 2>/dev/null &
    p=$! jobs_of_ours=$!
    until_true 20 test -s "$tmp/last"
    kill -s $signal $p
    wait $p
    is "lock: $signal ends the command, which holds the lock until then" "$? $(tail -n 1 "$tmp/last")" '3 held'
done
for holds in 'lock last' 'sem run one' 'work killed'; do
    rm -f "$tmp/last" "$tmp/last.go"
    sql "SELECT pgwork.cancel('killed', array_agg(id)) FROM pgwork.job WHERE queue = 'killed' AND state NOT IN ('done', 'cancelled')" >/dev/null
    pgwork enqueue killed x >/dev/null
    # shellcheck disable=SC2086  # two words
    pgwork $holds -- sh -c "$held" "$tmp/last" 2>/dev/null &
    p=$! jobs_of_ours=$!
    until_true 20 test -s "$tmp/last"
    kill -ABRT $p
    wait $p 2>/dev/null
    is "$holds: a fault ends it" $? 134
    yes "$holds: and its command" until_true 20 ended "$(cat "$tmp/last")"
done

# shellcheck disable=SC2016  # for the shell that holds
told='for s in USR1 USR2 HUP; do trap "echo $s >>\"$0\"" $s; done; echo ready >"$0"; until test -e "$0.go"; do sleep 0.05; done; exit 4'
pgwork lock --pass USR1,USR2,HUP passed -- sh -c "$told" "$tmp/passed" &
p=$! jobs_of_ours=$!
until_true 20 grep -q ready "$tmp/passed"
for signal in USR1 USR2 HUP; do
    kill -s $signal $p
    yes "--pass: $signal is for the command" until_true 20 grep -q $signal "$tmp/passed"
done
: >"$tmp/passed.go"
wait $p
is 'which goes on' $? 4
pgwork queue create passed --retention 1d
pgwork enqueue passed 1 2 >/dev/null
rm -f "$tmp/passed.go"
pgwork -q work passed -j2 --until-empty --pass USR1 -- sh -c 'trap "echo got >>\"$0.$$\"" USR1; echo ready >"$0.$$"; until test -e "$0.go"; do sleep 0.05; done' "$tmp/both" &
p=$! jobs_of_ours=$!
until_true 20 sh -c "test \$(cat $tmp/both.* | grep -c ready) = 2"
kill -USR1 $p
yes 'work --pass: for each of them' until_true 20 sh -c "test \$(cat $tmp/both.* | grep -c got) = 2"
: >"$tmp/both.go"
wait $p
is 'which go on, too' "$? $(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'passed' AND state = 'done'")" '0 2'
refused 'one that cannot be passed on' 2 'USR1, USR2 and HUP' pgwork lock --pass KILL x -- true

env --block-signal=TERM pgwork lock blocked -- sh -c "$held" "$tmp/blocked" 2>/dev/null &
p=$! jobs_of_ours=$!
until_true 20 test -s "$tmp/blocked"
kill -TERM $p
wait $p
is 'a TERM that was blocked when we came is heard' $? 143

pgwork queue create strays --retention 1d
pgwork enqueue strays 1 2 3 4 5 >/dev/null
# shellcheck disable=SC2016  # for the shell that works
pgwork -q work strays -j2 -- sh -c 'sh -c "until test -e $0.go; do sleep 0.05; done" & echo $! >>"$0"' "$tmp/strays" 2>/dev/null &
p=$! jobs_of_ours=$!
until_true 20 count_is "SELECT count(*) FROM pgwork.job WHERE queue = 'strays' AND state = 'done'" 5
for stray in $(cat "$tmp/strays"); do until_true 20 child_of "$stray" $p || echo "$stray"; done >"$tmp/said"
is 'what commands leave behind is ours, whatever process 1 does' "$(wc -l <"$tmp/strays") $(cat "$tmp/said")" '5 '
: >"$tmp/strays.go"
for stray in $(cat "$tmp/strays"); do until_true 20 buried "$stray" || echo "$stray"; done >"$tmp/said"
is 'a child of a command is reaped when it ends' "$(cat "$tmp/said")" ''
kill -TERM $p
wait $p

if script -qec true /dev/null </dev/null >/dev/null 2>&1; then # in a bare root there may be no terminal to be had
    mkfifo "$tmp/keys"
    # shellcheck disable=SC2016  # for the shell that holds
    # a shell has its background jobs ignore INT: env gives it back
    env --default-signal=INT script -qc "trap : INT; pgwork lock tty -- sh -c 'trap \"echo INT >>$tmp/tty\" INT; echo ready >$tmp/tty; until test -e $tmp/tty.go; do sleep 0.05; done; exit 4'; echo \$? >$tmp/status" /dev/null <"$tmp/keys" >"$tmp/out" 2>&1 &
    p=$! jobs_of_ours=$!
    exec 3>"$tmp/keys"
    until_true 20 grep -q ready "$tmp/tty"
    for n in 1 2 3; do
        printf '\003' >&3
        until_true 20 sh -c "test \$(grep -c INT $tmp/tty) = $n"
    done
    is 'at a terminal the interrupt key is for the command' "$(grep -c INT "$tmp/tty")" 3
    : >"$tmp/tty.go"
    wait $p
    is 'which ends as it likes' "$(cat "$tmp/status"; tr -d '^C\r\n' <"$tmp/out")" 4
    exec 3>&-
fi
