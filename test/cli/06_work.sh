# work: what commands receive, and what their exit codes do.
. "$(dirname "$0")/tap"
pgwork -q migrate
fresh() { # fresh QUEUE [SETTINGS]
    q=$1
    shift
    pgwork queue create "$q" --retention 1d --backoff 0 "$@"
}
state() { sql "SELECT string_agg(state || ' ' || attempt, ', ' ORDER BY id) FROM pgwork.job WHERE queue = '$1'"; }
error() { sql "SELECT error FROM pgwork.job WHERE queue = '$1'"; }

fresh a
pgwork enqueue a -J '{"file": "a b.png", "n": 17, "list": [1, "x"], "no": null, "id": "mine", "$x": 1, "quote": "\"; echo `id` $(id)"}' -k resize >/dev/null
code 'places' 0 pgwork work a --until-empty -- printf '[%s]' '{file}' 'n={n}' '{list}' '<{no}>' '{.id}' '{kind}' '{queue}' '{attempt}' '{{file}}' '{ print $1 }' '{}' '{quote}'
is 'are filled, whole, by no shell' "$(cat "$tmp/out")" '[a b.png][n=17][[1, "x"]][<>][mine][resize][a][1][{file}][{ print $1 }][{}]["; echo `id` $(id)]'
id=$(pgwork enqueue a x)
code 'the job in the environment' 0 pgwork work a --until-empty -- sh -c 'echo $PGWORK_JOB_ID $PGWORK_QUEUE $PGWORK_ATTEMPT $PGWORK_MAX_ATTEMPTS ${#PGWORK_TOKEN}'
is 'is this one' "$(cat "$tmp/out")" "$id a 1 10 36"
id=$(pgwork enqueue a x)
code 'where another one has left some' 0 env PGWORK_JOB_ID=0 PGWORK_QUEUE=other PGWORK_TOKEN=0 pgwork work a --until-empty -- sh -c 'echo $PGWORK_JOB_ID $PGWORK_QUEUE ${#PGWORK_TOKEN}'
is 'is this one all the same' "$(cat "$tmp/out")" "$id a 36"
pgwork enqueue a -J '{"a": "é"}' >/dev/null
code 'the payload on stdin' 0 pgwork work a --until-empty -- cat
is 'is the payload' "$(cat "$tmp/out")" '{"a": "é"}'
code 'a queue that is not there' 0 pgwork work A --until-empty -- true
yes 'is named' grep -q 'there is no queue "A"' "$tmp/err"
code 'one that is empty' 0 pgwork work a --until-empty -- true
yes 'is not' test "$(grep -c 'there is no' "$tmp/err")" = 0
pgwork enqueue a -J '{"file": "x"}' >/dev/null
code '--literal' 0 pgwork work a --until-empty --literal -- echo '{file}'
is 'fills nothing' "$(cat "$tmp/out")" '{file}'
printf 'by\000tes\377' >"$tmp/body"
pgwork enqueue a x --body "$tmp/body" >/dev/null
pgwork work a --until-empty -b -- cat >"$tmp/out" 2>/dev/null
yes '--body' cmp "$tmp/body" "$tmp/out"
yes 'a payload that the command does not read' sh -c 'head -c 1000000 /dev/zero | tr "\0" x | pgwork enqueue a 2>/dev/null && pgwork -q work a --until-empty -- true'
is 'all of them are done' "$(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'a' AND state <> 'done'")" 0
pgwork enqueue a big >/dev/null
yes 'a lot of output' sh -c 'test "$(pgwork -q work a --until-empty -- head -c 3000000 /dev/zero | wc -c)" = 3000000'

refused 'more queues than a worker serves are counted, with the limit' 2 '65 queues: a worker serves 1 to 64' pgwork work $(seq 65) -- true
refused 'more queues than are looked at at once are counted, too' 2 '65 arguments: at most 64' pgwork stats $(seq 65)
refused 'no file descriptors left is not called a lack of memory' 8 'Too many open files' sh -c 'ulimit -n 6; exec pgwork work a --until-empty -- true'

fresh b
pgwork enqueue b x >/dev/null
code '--keep-output' 0 pgwork work b --until-empty -k -- printf 'a\n"b"\t\377'
is 'is kept as JSON' "$(sql "SELECT output->>'exit' || ' ' || (output->'stdout')::text FROM pgwork.job WHERE queue = 'b'")" '0 "a\n\"b\"\t�"'
fresh b2
pgwork enqueue b2 x >/dev/null
code 'a lot of output to keep' 0 pgwork work b2 --until-empty -k -- head -c 100000 /etc/../dev/zero
is 'is cut' "$(sql "SELECT length(output->>'stdout') || ' ' || (output->>'truncated') FROM pgwork.job WHERE queue = 'b2'")" '65536 true'

fresh c --max-attempts 1
pgwork enqueue c x >/dev/null
code 'a command that fails' 0 pgwork work c --until-empty -- sh -c 'echo out; echo first >&2; echo why >&2; exit 3'
yes 'for the last time, and says so' grep -q '^pgwork: job [0-9]*, attempt 1 of 1: exit 3, dead letter$' "$tmp/err"
yes 'its words go to our stderr' grep -q '^why$' "$tmp/err"
yes 'the summary counts the job as dead' grep -q ' 0 failed, 1 dead,' "$tmp/err"
is 'for the last time: the job is dead' "$(state c)" 'dead 1'
is 'with its words' "$(error c | tr '\n' '|')" 'exit 3|first|why|'
yes 'the last of which the list shows' sh -c 'pgwork dead list c | grep -q "  why$"'
fresh shut
pgwork enqueue shut x >/dev/null
pgwork queue pause shut
code 'a claim from a paused queue' 1 pgwork claim shut
yes 'says that it is paused' grep -q '^pgwork: queue "shut" is paused' "$tmp/err"
is 'so does stats' "$(pgwork stats shut | awk 'NR == 2 { print $2 }') $(pgwork --json stats shut | grep -c '"state":"paused"')" 'paused 1'
pgwork -q work shut -- true 2>"$tmp/paused" &
p=$! jobs_of_ours=$!
yes 'a worker of a paused queue says so' until_true 20 grep -q 'queue "shut" is paused' "$tmp/paused"
kill -TERM $p
wait $p
is 'once' "$(grep -c 'is paused' "$tmp/paused")" 1
code 'one that ends when nothing can be claimed, too' 0 pgwork work shut --until-empty -- true
yes 'says so' grep -q 'queue "shut" is paused' "$tmp/err"
sql 'CREATE ROLE pgw_cli_plain LOGIN IN ROLE pgwork_worker' 2>/dev/null
plain() { PGWORK_DSN="$PGWORK_DSN user=pgw_cli_plain" "$@"; }
code 'one with the rights of a worker alone' 0 plain pgwork work shut --until-empty -- true
yes 'says so' grep -q 'queue "shut" is paused' "$tmp/err"
code 'a claim with these rights' 1 plain pgwork claim shut
yes 'says so, too' grep -q '^pgwork: queue "shut" is paused' "$tmp/err"
pgwork queue resume shut
is 'stats shows that no worker claims' "$(pgwork stats shut | awk 'NR == 2 { print $2 }')" waiting
pgwork -q queue purge shut
pgwork enqueue shut --delay 1h x >/dev/null
code 'a claim where all jobs are delayed' 1 pgwork claim shut
yes 'says so' grep -q '^pgwork: queue "shut" has only delayed jobs' "$tmp/err"
code 'a worker with the rights of one alone' 0 plain pgwork work shut --until-empty -- true
yes 'says that all are delayed' grep -q 'queue "shut" has only delayed jobs' "$tmp/err"
sql 'DROP ROLE pgw_cli_plain' >/dev/null
is 'as does stats' "$(pgwork stats shut | awk 'NR == 2 { print $2 }')" delayed

fresh deep --max-attempts 2
sql "SELECT pgwork.enqueue('deep', ('{\"file\": \"x\", \"a\": ' || repeat('[', 1500) || repeat(']', 1500) || '}')::jsonb)" >/dev/null
code 'a payload that is nested deeper than we read' 0 pgwork work deep --until-empty -- echo '{file}'
is 'fails with the limit as the reason, and is not a dead letter at its first attempt' "$(state deep | sed s/ready/delayed/) $(error deep | sed 's/ at column.*//')" \
    'delayed 1 cannot replace {file}: the payload is nested deeper than 1000 levels'
fresh d
pgwork enqueue d x >/dev/null
code 'exit 65' 0 pgwork work d --until-empty -- sh -c 'exit 65'
is 'is dead at once' "$(state d)" 'dead 1'
fresh e
pgwork enqueue e x >/dev/null
code 'exit 75' 1 pgwork work e --once --later 1h -- sh -c 'exit 75'
is 'waits, nothing charged' "$(state e)" 'delayed 0'
fresh f --max-attempts 1
pgwork enqueue f x >/dev/null
code 'a command that is killed' 0 pgwork work f --until-empty -- sh -c 'kill -SEGV $$'
is 'has failed' "$(state f) $(error f)" 'dead 1 killed by signal 11'
fresh f3 --max-attempts 1
pgwork enqueue f3 x >/dev/null
pgwork -q work f3 --until-empty -- sh -c 'echo at work >&2; kill -SEGV $$' 2>/dev/null
yes 'the list shows that, not its last words' sh -c 'pgwork dead list f3 | grep -q "  killed by signal 11$"'
fresh f2
pgwork enqueue f2 x >/dev/null
code 'a command that fails, where SIGCHLD was ignored' 1 env --ignore-signal=CHLD pgwork work f2 --once -- sh -c 'exit 3'
is 'has failed, too' "$(state f2) $(error f2)" 'delayed 1 exit 3'
yes 'a failed attempt is logged with its status' grep -q '^pgwork: job [0-9]*, attempt 1 of 10: exit 3$' "$tmp/err"
fresh g
pgwork enqueue g -J '{"a": 1}' '[1]' >/dev/null
code 'a member that is not there' 0 pgwork work g --until-empty -- echo '{file}'
is 'is for the dead letters' "$(state g) $(error g | head -n 1)" 'dead 1, dead 1 the payload has no member "file"'
fresh h --max-attempts 1
pgwork enqueue h x >/dev/null
code '--timeout' 0 pgwork work h --until-empty --timeout 300ms --grace 300ms -- sh -c 'trap "" TERM; echo started >&2; while :; do sleep 1; done'
is 'ends the command, grace and all' "$(state h) $(error h | tail -n 1)" 'dead 1 took too long, the command was stopped'
fresh i
pgwork enqueue i x >/dev/null
yes 'a grandchild that stays' sh -c 'timeout 20 pgwork -q work i --until-empty -- sh -c "sleep 30 & exit 0"'
is 'is not waited for' "$(state i)" 'done 1'
# flood QUEUE ARG...: work, whose stderr is read more slowly than a flood comes; says how it ended
flood() {
    { timeout -k 1 20 pgwork work "$@" 2>&1; echo $? >"$tmp/code"; } | while read -r _; do :; done
    cat "$tmp/code"
}
fresh i2
pgwork enqueue i2 x >/dev/null
is 'a flood on stderr does not keep --timeout from it' "$(flood i2 --once --timeout 1s --grace 1s -- sh -c 'exec yes >&2') $(state i2) $(error i2 | tail -n 1)" '1 delayed 1 took too long, the command was stopped'
fresh i3
pgwork enqueue i3 x >/dev/null
is 'a flood on stderr from a grandchild keeps nothing from its end' "$(flood i3 --once -- sh -c 'yes >&2 & exit 0') $(state i3)" '0 done 1'

fresh j
seq 1 200 | pgwork -q enqueue j
code '-j and --until-empty' 0 pgwork --json work j -j8 --until-empty -- true
json 'the summary is JSON' "$tmp/out"
is 'counts' "$(sed 's/.*"completed":\([0-9]*\).*/\1/' "$tmp/out")" 200
seq 1 20 | pgwork -q enqueue j
code '-n' 0 pgwork --json work j k -j2 -n 5 -- true
yes 'says what it works on' grep -q '^pgwork: working on j, k, 2 at a time$' "$tmp/err"
is 'does so many' "$(sed 's/.*"completed":\([0-9]*\).*/\1/' "$tmp/out") $(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'j' AND state = 'ready'")" '5 15'
code '--once' 0 pgwork -q work j --once -- true
pgwork -q queue purge j
code 'one at a time without -j' 0 pgwork work j --until-empty -- true
yes 'says so' grep -q 'on j, 1 at a time' "$tmp/err"
code 'a concurrency of zero is refused' 0 pgwork work j --until-empty -X worker.concurrency=0 -- true
yes 'says so, too' grep -q 'on j, 1 at a time' "$tmp/err"
code '-j is stronger than -X' 0 pgwork work j --until-empty -X worker.concurrency=3 -j2 -- true
yes 'says that' grep -q 'on j, 2 at a time' "$tmp/err"
pgwork enqueue j 1 2 3 >/dev/null
# shellcheck disable=SC2016  # for the shell that works
code '-X worker.concurrency' 0 timeout -k 1 20 pgwork work j -n 3 -X worker.concurrency=3 -- sh -c '>"$0.$PGWORK_JOB_ID"; until [ $(ls "$0".* | wc -l) = 3 ]; do sleep 0.1; done' "$tmp/together"
is 'has them done together' "$(ls "$tmp"/together.* | wc -l) $(grep -c 'on j, 3 at a time' "$tmp/err")" '3 1'
fresh k
code '--once with nothing to do' 1 pgwork -q work k --once -- true
pgwork enqueue k x >/dev/null
code '--once with a job that fails' 1 pgwork -q work k --once -- false
code '--until-empty with nothing to do' 0 pgwork -q work none_such --until-empty -- true

fresh l
pgwork enqueue l 1 2 3 >/dev/null
# says in a file that it has begun, and goes on until there is that file with .go
held='echo started >>"$0"; until test -e "$0.go"; do sleep 0.05; done'
pgwork -v work l -j1 -- sh -c "$held" "$tmp/started" 2>"$tmp/err" &
p=$! jobs_of_ours=$!
until_true 20 test -s "$tmp/started"
kill -TERM $p
until_true 20 grep -q 'stopping: ' "$tmp/err"
: >"$tmp/started.go"
wait $p
is 'TERM: ends well' $? 0
is 'the running one is done, the others are back' "$(state l)" 'done 1, ready 0, ready 0'
: >"$tmp/started"
for signals in HUP QUIT 'TERM HUP'; do
    fresh "l $signals"
    rm -f "$tmp/started.go"
    : >"$tmp/started"
    : >"$tmp/err"
    pgwork enqueue "l $signals" 1 2 3 >/dev/null
    # a shell's background jobs ignore QUIT from their start on, and all ignore HUP under nohup: env gives them back
    env --default-signal=HUP,QUIT pgwork -v work "l $signals" -j1 -- sh -c "$held" "$tmp/started" 2>"$tmp/err" &
    p=$! jobs_of_ours=$!
    until_true 20 test -s "$tmp/started"
    for signal in $signals; do
        kill -s "$signal" $p
        until_true 20 grep -q 'stopping: ' "$tmp/err"
    done
    : >"$tmp/started.go"
    wait $p
    is "$signals: ends well, too" $? 0
    is 'the running one is done, the others are back' "$(state "l $signals")" 'done 1, ready 0, ready 0'
done
: >"$tmp/started"
# term_twice: ends $p, once its command has started, and returns as it does. Two signals of a kind that
# come at once may be one: the second is sent when -v has told of the first.
term_twice() {
    until_true 20 test -s "$tmp/started"
    kill -TERM $p
    yes 'TERM is noticed' until_true 20 grep -q 'stopping: ' "$tmp/err"
    kill -TERM $p
    wait $p
}
pgwork -v work l -j1 --grace 300ms -- sh -c 'trap "" TERM; echo started >>"$0"; while :; do sleep 0.1; done' "$tmp/started" 2>"$tmp/err" &
p=$! jobs_of_ours=$!
term_twice
is 'TERM twice: ends by the signal' $? 143
is 'a worker that is stopped charges no attempt' "$(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'l' AND state <> 'done' AND attempt > 0")" 0
: >"$tmp/started"
pgwork -v work l -X worker.stop_ms=200 --grace 1s -- sh -c 'trap "" TERM; echo $$ >"$0"; while :; do sleep 0.1; done' "$tmp/started" 2>"$tmp/err" &
p=$! jobs_of_ours=$!
term_twice
is 'TERM twice, with a long grace: ends by the signal, too' $? 143
is 'when the command was killed' "$(kill -0 "$(cat "$tmp/started")" 2>&1 | grep -c 'No such process')" 1
is 'a killed command is reported and requeued uncharged' "$(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'l' AND state <> 'done' AND (attempt > 0 OR state = 'leased')")" 0
: >"$tmp/started"
# shellcheck disable=SC2016  # for the shell that works
pgwork -v work l --grace 1m -- sh -c '(trap "sleep 0.5; echo clean >\"$0\"; exit" TERM; echo started >"$0"; while :; do sleep 0.1; done) & wait' "$tmp/started" 2>"$tmp/err" &
p=$! jobs_of_ours=$!
term_twice
is 'what the command started has its grace, too' "$(cat "$tmp/started")" clean
: >"$tmp/started"
mkfifo "$tmp/alive"
{ cat "$tmp/alive"; echo all gone; } >"$tmp/eof" &
jobs_of_ours="$jobs_of_ours $!"
pgwork -v work l --grace 300ms -- sh -c '(trap "" TERM; echo started >"$0"; while :; do sleep 0.1; done) >"$1" & wait' "$tmp/started" "$tmp/alive" 2>"$tmp/err" &
p=$! jobs_of_ours="$jobs_of_ours $!"
term_twice
yes 'what the command started ends with the grace' until_true 20 grep -q gone "$tmp/eof"
refused 'a grace of more than a day' 2 'to 1d00h' pgwork work l --grace 2d -- true

fresh m
id=$(pgwork enqueue m x --lease 1s)
: >"$tmp/started"
pgwork work m -j1 --grace 300ms -- sh -c 'echo started >>"$0"; sleep 60' "$tmp/started" >/dev/null 2>"$tmp/err" &
p=$! jobs_of_ours=$!
until_true 20 test -s "$tmp/started"
pgwork -q cancel m "$id"
until_true 20 count_is "SELECT count(*) FROM pgwork.job WHERE id = $id AND state = 'cancelled'" 1
is 'a cancelled job is ended' "$(state m)" 'cancelled 1'
kill -TERM $p
wait $p

sql "ALTER TABLE pgwork.done_job ADD CONSTRAINT no_poison CHECK (kind <> 'poison')" >/dev/null
fresh m2
pgwork enqueue m2 x -k poison >/dev/null
code 'a result that the server refuses' 1 timeout -k 1 20 pgwork -q work m2 --once -- true
yes 'is printed under -q, too' grep -q '^pgwork: result of job .* refused: .*no_poison' "$tmp/err"
sql 'ALTER TABLE pgwork.done_job DROP CONSTRAINT no_poison' >/dev/null

pgwork enqueue -- -q x >/dev/null
is 'queues that begin with a dash' "$(pgwork -q work --until-empty -- a -q -- sh -c 'echo "$*"' sh '{queue}' --)" '-q --'
refused 'no command' 2 'no command' pgwork work a
refused 'nothing after --' 2 'no command' pgwork work a --
refused 'an empty command' 2 'no command' pgwork work a -- ''
refused 'a command that is not there' 127 'cannot start' pgwork work a -- no-such-command
refused 'a command that is not a program' 126 'cannot start' pgwork work a -- /etc/passwd
refused 'a place in a shell script' 2 'argument' pgwork work a -- sh -c 'echo {file}'
refused 'in any shell' 2 'argument' pgwork work a -- /bin/bash -ec 'echo {file}'
refused 'with any options' 2 'argument' pgwork work a -- bash -euo pipefail -c 'echo {file}'
refused 'behind env' 2 'argument' pgwork work a -- env -u HOME A=1 sh -o errexit -c 'echo {file}'
refused 'behind others that run it' 2 'argument' pgwork work a -- timeout 10 nice sh -c 'echo {file}'
code 'a place that is an argument of the script is none' 0 pgwork work no_jobs --until-empty -- timeout 10 sh -c 'echo "$1"' sh '{file}'
refused 'no jobs at a time' 2 '1 to 1024' pgwork work a -j0 -- true
refused 'a queue name that is none' 2 . pgwork work '' --until-empty -- true
pgwork queue create n --retention 1d --backoff 1h
pgwork enqueue n -J '{"c": "no-such\ncommand"}' '{"c": "/etc/passwd"}' '{"c": "true"}' >/dev/null
code 'commands that cannot be started, by their payload' 0 timeout -k 1 20 pgwork work n --until-empty -- '{c}'
is 'have failed, and keep no other from its turn' "$(state n)" 'delayed 1, delayed 1, done 1'
is 'with their names' "$(sql "SELECT string_agg(error, '|' ORDER BY id) FROM pgwork.job WHERE queue = 'n'")" 'cannot start no-such\x0acommand: No such file or directory|cannot start /etc/passwd: Permission denied'
fresh n2
pgwork enqueue n2 1 2 >/dev/null
printf '#!/bin/sh\nrm "$0"\n' >"$tmp/gone"
chmod +x "$tmp/gone"
refused 'a command that is not there any more' 127 'cannot start' timeout -k 1 20 pgwork work n2 --until-empty -- "$tmp/gone"
is 'requeues its job' "$(state n2)" 'done 1, ready 0'

pgwork enqueue many 1 2 3 4 5 6 7 8 >/dev/null
pgwork enqueue few 1 2 >/dev/null
is '--fair: the queues take turns' "$(pgwork -q work many few --fair -n 4 -X worker.prefetch=0 -- echo '{queue}' | sort | uniq -c | tr -s ' \n' ' ')" ' 2 few 2 many '
pgwork enqueue few 3 >/dev/null
is 'claim --in-order: the first queue that has jobs' "$(pgwork claim nothing few many -n 2 --in-order | cut -f 3 | tr '\n' ' ')" 'few many '

pgwork queue create stopped
seq 40 | pgwork -q enqueue stopped >/dev/null
"$build/examples/worker" stopped >/dev/null 2>"$tmp/err" &
p=$! jobs_of_ours=$!
until_true 20 count_is "SELECT least(count(*), 1) FROM pgwork.job WHERE queue = 'stopped' AND state = 'leased'" 1
kill -TERM $p
sleep 0.1
kill -TERM $p
wait $p
is 'example: worker, stopped twice' "$? $(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'stopped' AND attempt > 0")" '0 0'

fresh script
pgwork enqueue script 1 >/dev/null
echo 'exit $(($1 + 3))' >"$tmp/script"
chmod +x "$tmp/script"
code 'a script that names no interpreter is the shell'\''s' 0 env PATH="$tmp:$PATH" pgwork work script --once -- script -3
is 'as it is for execvp' "$(state script)" 'done 1'
: >"$tmp/script"
pgwork enqueue script 2 >/dev/null
refused 'an empty file is not a script' 126 'cannot start' timeout -k 1 20 env PATH="$tmp:$PATH" pgwork work script --once -- script
printf '\177ELF\001\001\001\0\0\0\0\0\0\0\0\0' >"$tmp/script"
refused 'a program of another machine cannot be started' 126 'cannot start' timeout -k 1 20 env PATH="$tmp:$PATH" pgwork work script --once -- script
is 'a job whose program cannot be started stays as it was' "$(state script)" 'done 1, ready 0'
pgwork enqueue tty 1 >/dev/null
# shellcheck disable=SC2016  # for the shell that is run
code 'a command has a session of its own, without a terminal that would stop it' 0 \
    pgwork work tty --once -- sh -c 'read -r _ _ _ _ _ session terminal _ </proc/self/stat; [ "$session $terminal" = "$$ 0" ]'
exit 0
