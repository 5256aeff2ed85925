# Out of memory: the n-th allocation of a command fails, in pgwork or in libpq. The command ends by itself and prints why. Exit
# code 0 means done; any code except 0 and 6 means that nothing was applied. Claimed jobs and permits return with their leases.
# Runs some n of each command. PGWORK_OOM=own: every n after it has connected. PGWORK_OOM=all: every n.
# PGWORK_OOM_ONLY='work|lock': only commands whose names match.
. "$(dirname "$0")/tap"
cc -shared -fPIC -o "$tmp/oom.so" "$top/test/cli/oom.c" 2>"$tmp/err" || { fail 'the shim compiles'; exit 1; }
pgwork -q migrate
# PQfinish() of libpq 16 crashes if there was no memory for the list of hosts. (Seen in 16.2; 15 and 19 do not.)
own_crash='' && case $(pkg-config --modversion libpq 2>/dev/null) in 16.*) own_crash=139 ;; esac
points=${PGWORK_OOM:-2} turn=0 tried='' commands=0 hurt=0

# One session asks everything: a psql for each question takes as long as the command that is tried.
mkfifo "$tmp/asked" "$tmp/answered"
psql -XAtq <"$tmp/asked" >"$tmp/answered" 2>/dev/null &
jobs_of_ours="$jobs_of_ours $!"
exec 8>"$tmp/asked" 9<"$tmp/answered"
sql() {
    printf '%s;\n\\echo .\n' "$1" >&8
    while IFS= read -r row <&9 && [ "$row" != . ]; do echo "$row"; done
}

# measure CMD...: the number of its allocations: $n, its exit code: $normal, and its lines of output: $lines
measure() {
    normal=0
    rm -f "$tmp/n"
    eval "timeout -k 1 60 env LD_PRELOAD=\$tmp/oom.so OOM_COUNT=\$tmp/n $*" >"$tmp/whole" 2>"$tmp/why" </dev/null || normal=$?
    n=$(cat "$tmp/n" 2>/dev/null)
    lines=$(wc -l <"$tmp/whole")
}
is_partial() { [ "$(wc -l <"$tmp/got")" != "$lines" ]; } # the output

# those_of N: which n. To connect is the same for all commands: each tries another n of it.
those_of() {
    if [ "$points" = all ]; then seq "$1"; return; fi
    if [ "$points" = own ]; then seq $((connected + 1)) "$1"; return; fi
    echo $((turn * 2 % connected + 1))
    if [ "$1" -le "$connected" ]; then return; fi
    step=$((($1 - connected) / points + 1))
    seq $((connected + 1 + turn % step)) $step "$1"
}

# starve NAME COUNT PREPARE CMD...: COUNT: SQL for a number that the command raises by 1 ('': it only reads). PREPARE:
# what comes before each run; `$it` in CMD is what it printed. A NAME that ends with "*": a failure may have done it;
# with "+": and then says so.
starve() {
    name=$1 count=$2 prepare=$3
    shift 3
    tried="$tried$* |" turn=$((turn + 1))
    if [ -n "${PGWORK_OOM_ONLY:-}" ] && ! echo "$name" | grep -qE "$PGWORK_OOM_ONLY"; then return; fi
    it=$(eval "$prepare" 2>/dev/null) before='' after=''
    if [ -n "$count" ]; then before=$(sql "$count"); fi
    measure "$@"
    case $n in '' | *[!0-9]*) fail "$name: allocations are counted"; return ;; esac
    wrong='' tries=0 failed=0
    if [ -n "$count" ]; then
        after=$(sql "$count")
        if [ $((after - before)) != 1 ]; then wrong=" with memory: $before, then $after;"; fi
    fi
    case $count:$normal in *:0 | :1) ;; *) wrong="$wrong with memory: ended with $normal;" ;; esac
    for i in $(those_of "$n"); do
        before=$after code=0 tries=$((tries + 1))
        # shellcheck disable=SC2034  # CMD names it
        if [ "$prepare" != : ]; then it=$(eval "$prepare" 2>/dev/null); fi
        if [ -n "$count" ] && [ "$prepare" != : ]; then before=$(sql "$count"); fi
        eval "timeout -k 1 60 env LD_PRELOAD=\$tmp/oom.so OOM_AT=$i $*" >"$tmp/got" 2>"$tmp/why" </dev/null || code=$?
        if [ $code != $normal ]; then failed=$((failed + 1)); fi
        if [ $code = "$own_crash" ] && [ "$i" -le "$connected" ]; then continue; fi
        if [ $code -ge 124 ]; then wrong="$wrong $i: ended with $code;"; fi
        if [ $code != $normal ] && [ ! -s "$tmp/why" ]; then wrong="$wrong $i: $code without a word;"; fi
        if [ -n "$count" ]; then
            after=$(sql "$count")
            if [ $code = 0 ] && [ $((after - before)) != 1 ]; then wrong="$wrong $i: 0, and not done ($before, then $after);"; fi
            if [ $code != 0 ] && [ $code != 6 ] && [ "$after" != "$before" ]; then
                case $name in *\*) ;; *+) grep -q ' 1 ' "$tmp/why" ;; *) false ;; esac || wrong="$wrong $i: $code, and done;"
            fi
        # Measured again: the whole may be more now. metrics has one line more if a job has waited for five minutes.
        elif [ $code = $normal ] && [ ! -s "$tmp/why" ] && is_partial && { measure "$@"; is_partial; }; then
            wrong="$wrong $i: $code with a part of the output;"
        fi
    done
    commands=$((commands + 1))
    if [ $failed -gt 0 ]; then hurt=$((hurt + 1)); fi
    is "${name%[*+]} without memory, $tries of $n allocations" "$wrong" ''
}

# read NAME...: these commands read
reads() { for command; do starve "$command" '' : "pgwork $command"; done; }

# jobs, queues
for queue in full knob heap grouped due; do pgwork -q queue create $queue; done
pgwork -q queue create kept --retention 1d
seq 9999 | pgwork -q enqueue full -f - >/dev/null
measure pgwork demand full
connected=$((n - 5))
one() { pgwork -q claim full 2>/dev/null | cut -f 1,2; }
uuid='sql "SELECT gen_random_uuid()"'
there="SELECT -count(*) FROM pgwork.job WHERE queue = 'full'"
delayed="SELECT count(*) FROM pgwork.delayed_job"

tried='pgwork ui |' # only starts pgwork-ui
reads version help doctor 'demand full' 'queue depth full'
starve enqueue "SELECT count(*) FROM pgwork.job WHERE queue = 'new'" : 'pgwork enqueue new 1'
echo 1 >"$tmp/line"
starve 'enqueue of lines' "SELECT count(*) FROM pgwork.job WHERE queue = 'new'" : 'pgwork enqueue new -f "$tmp/line"'
starve 'enqueue --json' "SELECT count(*) FROM pgwork.job WHERE queue = 'new'" : 'pgwork --json enqueue new 1'
starve 'enqueue with a key' "SELECT count(*) FROM pgwork.job WHERE queue = 'keyed'" "$uuid" 'pgwork enqueue keyed --key $it 1'
starve 'claim*' "SELECT count(*) FROM pgwork.job WHERE state = 'leased'" : 'pgwork claim full'
starve complete "$there" one 'pgwork complete full $it'
starve 'complete of lines' "$there" 'one >"$tmp/line"' 'pgwork complete full <"$tmp/line"'
starve 'complete --json' "$there" one 'pgwork --json complete full $it'
starve fail "$delayed" one 'pgwork fail full $it'
starve snooze "$delayed" one 'pgwork snooze full --delay 1h $it'
starve extend "SELECT count(*) FROM pgwork.job WHERE lease_until > now() + interval '2 h'" one 'pgwork extend full --lease 9h $it'
starve release "SELECT -count(*) FROM pgwork.job WHERE state = 'leased'" one 'pgwork release full $it'
starve progress 'SELECT count(*) FROM pgwork.job_history WHERE progress IS NOT NULL' one 'pgwork progress full $it 1'
job=$(sql 'SELECT id FROM pgwork.job_history WHERE progress IS NOT NULL LIMIT 1')
reads "progress full ${job:-1}" "show ${job:-1}"
starve cancel "$there" "sql \"SELECT id FROM pgwork.job WHERE queue = 'full' AND state = 'ready' LIMIT 1\"" 'pgwork cancel full $it'
later() { sql "SELECT (pgwork.enqueue('later', delay_ms => 3600000, kind => gen_random_uuid()::text)).id"; }
moved="SELECT count(*) FROM pgwork.delayed_job WHERE run_at > now() + interval '2 h'"
starve reschedule "$moved" later 'pgwork reschedule later $it --delay 9h'

knob="FROM pgwork.queue WHERE name = 'knob'"
call() { sql "SELECT pgwork.$1" >/dev/null; } # call FUNCTION
starve 'queue create' 'SELECT count(*) FROM pgwork.queue' "$uuid" 'pgwork queue create q$it'
starve 'queue drop' 'SELECT -count(*) FROM pgwork.queue' "call \"queue_create('gone')\"" 'pgwork queue drop gone'
starve 'queue set' "SELECT max_attempts $knob" "sql \"SELECT max_attempts + 1 \$knob\"" 'pgwork queue set knob --max-attempts $it'
starve 'queue pause' "SELECT paused::int $knob" "call \"queue_resume('knob')\"" 'pgwork queue pause knob'
starve 'queue resume' "SELECT -paused::int $knob" "call \"queue_pause('knob')\"" 'pgwork queue resume knob'
starve 'queue drain' "SELECT draining::int $knob" "call \"queue_resume('knob')\"" 'pgwork queue drain knob'
starve 'queue hold' 'SELECT count(*) FROM pgwork.hold' "call \"queue_unhold('knob')\"" 'pgwork queue hold knob --for 1h'
starve 'queue unhold' 'SELECT -count(*) FROM pgwork.hold' "call \"queue_hold('knob', for_ms => 3600000)\"" 'pgwork queue unhold knob'
starve 'queue limit' "SELECT coalesce(queue_limit, 0) $knob" "sql \"SELECT coalesce(queue_limit, 0) + 1 \$knob\"" 'pgwork queue limit knob $it'
starve 'queue rate' "SELECT count(rate) $knob" "call \"queue_rate('knob', NULL)\"" 'pgwork queue rate knob 9'
pgwork -q sem create both 9
starve 'queue semaphore' "SELECT count(semaphore) FROM pgwork.queue_limits('knob')" "call \"queue_semaphore('knob', NULL)\"" 'pgwork queue semaphore knob both'
heap="SELECT -count(*) FROM pgwork.job WHERE queue = 'heap'"
starve 'queue purge+' "$heap" "call \"queue_purge('heap'), pgwork.enqueue('heap')\"" 'pgwork queue purge heap'

rule="FROM pgwork.group_rule WHERE grp = 'g'"
starve 'groups set' "SELECT coalesce(max(group_limit), 1) $rule" "sql \"SELECT coalesce(max(group_limit), 1) + 1 \$rule\"" 'pgwork groups set grouped g --limit $it'
starve 'groups hold' "SELECT count(held_until) $rule" "call \"group_unblock('grouped', 'g')\"" 'pgwork groups hold grouped g --for 1h'
starve 'groups unblock' "SELECT -count(held_until) $rule" "call \"group_hold('grouped', 'g', 3600000)\"" 'pgwork groups unblock grouped g'
starve 'groups reset' "SELECT -count(*) $rule" "call \"group_set('grouped', 'g', 7)\"" 'pgwork groups reset grouped g'
call "group_hold('grouped', 'h', 3600000)"
starve 'groups purge+' "SELECT -count(*) FROM pgwork.job WHERE queue = 'grouped'" "call \"group_purge('grouped', 'h'), pgwork.enqueue('grouped', grp => 'h')\"" 'pgwork groups purge grouped h'
call "enqueue('grouped', grp => 'h')"
reads 'groups list grouped'

# dead letters, operations by filter
seq 4999 | pgwork -q enqueue rot -f - >/dev/null
pgwork -q claim rot -n 1000 2>/dev/null | pgwork -q fail rot --dead >/dev/null
rot="SELECT -count(*) FROM pgwork.dead_job"
dead() { sql "SELECT id FROM pgwork.dead_job LIMIT 1"; }
reads 'dead list rot'
starve retry "$rot" dead 'pgwork retry rot $it'
starve 'dead redrive+' "$rot" : 'pgwork dead redrive rot -n 1'
starve 'dead purge' "$rot" dead 'pgwork dead purge rot $it'
starve 'bulk redrive+' "$rot" : 'pgwork bulk redrive rot --all -n 1'
starve 'bulk purge+' "$rot" : 'pgwork bulk purge rot -s dead -n 1'
starve 'bulk cancel+' "$there" : 'pgwork bulk cancel full -s ready -n 1'
starve 'bulk move+' "$there" : 'pgwork bulk move full -s ready -n 1 --to heap'
kind() { sql "SELECT kind FROM pgwork.job WHERE id = $(later)"; }
starve 'bulk priority+' 'SELECT count(*) FROM pgwork.delayed_job WHERE priority = 7' kind 'pgwork bulk priority later -k $it -p 7'
starve 'bulk reschedule+' "$moved" kind 'pgwork bulk reschedule later -k $it --delay 9h'

# schedules
pgwork -q cron add nightly '0 3 * * *' --queue full >/dev/null
pgwork -q cron add node '0 3 * * *' >/dev/null
pgwork -q cron add old '0 3 * * *' >/dev/null
schedules='SELECT count(*) FROM pgwork.schedule'
held='SELECT count(*) FROM pgwork.schedule WHERE holder IS NOT NULL'
node="FROM pgwork.schedule WHERE name = 'node'"
free() { sql "SELECT pgwork.cron_break('node'); SELECT pgwork.cron_run('node')" >/dev/null; }
tick() { free && pgwork -q cron claim node | cut -f 1; }
reads 'cron next "0 3 * * *"'
starve 'cron add' "$schedules" "$uuid" "pgwork cron add s\$it '0 4 * * *' --queue full"
starve 'cron apply' "$schedules" 'echo "$(sql "SELECT gen_random_uuid()") @daily" >"$tmp/table"' 'pgwork cron apply "$tmp/table"'
starve 'cron rm' 'SELECT -count(*) FROM pgwork.schedule' "call \"cron_create('gone', '@daily')\"" 'pgwork cron rm gone'
starve 'cron pause' "SELECT paused::int $node" "call \"cron_resume('node')\"" 'pgwork cron pause node'
starve 'cron resume' "SELECT -paused::int $node" "call \"cron_pause('node')\"" 'pgwork cron resume node'
starve 'cron rename' "SELECT count(*) FROM pgwork.schedule WHERE name = 'new'" "sql \"UPDATE pgwork.schedule SET name = 'old' WHERE name IN ('old', 'new')\"" 'pgwork cron rename old new'
starve 'cron run' "SELECT count(*) FROM pgwork.job WHERE queue = 'full'" : 'pgwork cron run nightly'
starve 'cron tick' "SELECT count(*) FROM pgwork.job WHERE queue = 'full'" "sql \"DELETE FROM pgwork.tick; UPDATE pgwork.schedule SET base = now() - interval '2 d', next_at = '-infinity' WHERE name = 'nightly'\"" 'pgwork cron tick'
starve 'cron claim*' "$held" free 'pgwork cron claim node'
starve 'cron extend' "SELECT (until > now() + interval '2 h')::int $node" tick 'pgwork cron extend $it --timeout 9h'
starve 'cron finish' 'SELECT count(*) FROM pgwork.tick WHERE finished_at IS NOT NULL' tick 'pgwork cron finish $it'
starve 'cron release' 'SELECT -count(*) FROM pgwork.schedule WHERE holder IS NOT NULL' tick 'pgwork cron release $it'
reads 'cron list'

# rows of tables
sql 'CREATE TABLE seat (id int PRIMARY KEY); INSERT INTO seat SELECT generate_series(1, 3)' >/dev/null
pgwork -q table init seat -k id --apply >/dev/null
expired() { sql "UPDATE seat SET locked_by = 'x', token = gen_random_uuid(), expires_at = now() - interval '1 s' WHERE id = 1"; }
free="SELECT count(*) FROM seat WHERE expires_at IS NULL"
starve 'table check' '' : 'pgwork table check seat -k id'
starve 'table init' "SELECT count(*) FROM pg_attribute WHERE attrelid = 'bare'::regclass AND attname = 'expires_at'" \
    'sql "DROP TABLE IF EXISTS bare; CREATE TABLE bare (id int PRIMARY KEY)"' 'pgwork table init bare -k id --apply'
starve 'table reap+' "$free" expired 'pgwork table reap seat -k id'
starve 'table register' 'SELECT count(*) FROM pgwork.leased_table' 'sql "DELETE FROM pgwork.leased_table"' 'pgwork table register seat -k id'
reads 'table list'
starve 'table reap of all*' "$free" 'pgwork -q table register seat -k id; sql "UPDATE pgwork.leased_table SET rests_until = NULL"; expired' 'pgwork table reap'
starve 'table unregister' 'SELECT -count(*) FROM pgwork.leased_table' 'pgwork -q table register seat -k id' 'pgwork table unregister seat'

# locks, semaphores, rates. Programs that are started: each run of them counts.
sql 'CREATE TABLE run (n int)' >/dev/null
export RUN="psql -XAtqc 'INSERT INTO run VALUES (1)'"
runs='SELECT count(*) FROM run'
permits='FROM pgwork.permit WHERE nonce IS NOT NULL'
permit() { pgwork -q sem acquire slots --ttl 1h; }
call "lock_acquire('held')"
pgwork -q sem create slots 9999
reads locks
starve 'lock*' "$runs" : 'pgwork lock L -- sh -c "$RUN"'
starve 'sem create' 'SELECT count(*) FROM pgwork.semaphore' "$uuid" 'pgwork sem create m$it 3'
starve 'sem acquire' "SELECT count(*) $permits" : 'pgwork sem acquire slots'
starve 'sem acquire --json' "SELECT count(*) $permits" : 'pgwork --json sem acquire slots'
starve 'sem run*' "$runs" : 'pgwork sem run slots -- sh -c "$RUN"'
starve 'sem extend' "SELECT count(*) $permits AND until > now() + interval '2 h'" permit 'pgwork sem extend slots $it --ttl 9h'
starve 'sem release' "SELECT -count(*) $permits" permit 'pgwork sem release slots $it'
starve 'sem resize' "SELECT permits FROM pgwork.semaphore WHERE name = 'few'" "call \"sema_drop('few')\"; call \"sema_create('few', 3)\"" 'pgwork sem resize few 4'
starve 'sem drop' 'SELECT -count(*) FROM pgwork.semaphore' "call \"sema_create('few', 3)\"" 'pgwork sem drop few'
starve 'rate set' 'SELECT count(*) FROM pgwork.rate' "$uuid" 'pgwork rate set r$it 9'
starve 'rate drop' 'SELECT -count(*) FROM pgwork.rate' "call \"rate_set('gone', 9, 1000)\"" 'pgwork rate drop gone'
pgwork -q rate set calls 10000 --per 365d
starve 'rate take' "SELECT -available FROM pgwork.rate_list('calls')" : 'pgwork rate take calls'
starve 'rate run*' "$runs" : 'pgwork rate run calls -- sh -c "$RUN"'
reads 'sem list' 'rate ls'

# workers, reapers, what one looks at
report="sql 'DELETE FROM pgwork.worker_report'; call \"worker_report('w', '{full}', '{1}', '{0}', array_fill(1, '{56}'), 1, 1)\""
for command in workers 'top --once' metrics; do starve "$command" '' "$report" "pgwork $command"; done
starve 'work*' "$there" : 'pgwork work full -n 1 -- true'
due() { call "queue_purge('due', 'all')" && sql "UPDATE pgwork.delayed_job SET run_at = now() WHERE id = $(sql "SELECT (pgwork.enqueue('due', delay_ms => 3600000)).id")"; }
starve 'reap*' "SELECT count(*) FROM pgwork.job WHERE queue = 'due' AND state = 'ready'" due 'pgwork reap --once'
job=$(pgwork -q enqueue kept 1)
pgwork -q work kept --once -- true
reads ls stats log 'queue list' "wait -Q kept $job --timeout 9s" 'migrate status'
starve 'migrate up*' "SELECT count(*) FROM pg_namespace WHERE nspname = 'tiny'" 'sql "SET client_min_messages = error; DROP SCHEMA IF EXISTS tiny CASCADE"' 'pgwork migrate up --schema tiny'

# With few n a command may happen to do without each of them.
if [ -z "${PGWORK_OOM_ONLY:-}" ]; then is "most commands missed an allocation ($hurt of $commands)" $((hurt * 3 > commands * 2)) 1; fi

# Each command was tried, and each word of its help that is one of its verbs.
for command in $(pgwork help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
    case "|$tried" in *"|pgwork $command "*) ;; *) echo "$command" ;; esac
    for verb in $(pgwork "$command" --help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
        case "|$tried" in *"pgwork $command $verb "*) continue ;; esac
        if pgwork "$command" "$verb" --help </dev/null 2>&1 | grep -q "^usage: pgwork $command $verb\b"; then echo "$command $verb"; fi
    done
done >"$tmp/untried"
is 'each command was tried' "$(cat "$tmp/untried")" ''
exit 0
