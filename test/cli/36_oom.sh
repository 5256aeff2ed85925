# Out of memory: the n-th allocation of a command fails, in pgwork or in libpq. The command ends by itself and prints why. Exit
# code 0 means done; any code except 0 and 6 means that nothing was applied. Claimed jobs and permits return with their leases.
# Runs some n of each command. PGWORK_OOM=all: every n. PGWORK_OOM_ONLY='work|lock': only commands whose names match.
. "$(dirname "$0")/tap"
cc -shared -fPIC -o "$tmp/oom.so" "$top/test/cli/oom.c" 2>"$tmp/err" || { fail 'the shim compiles'; exit 1; }
pgwork -q migrate
pgwork -q queue create full
seq 400 | pgwork -q enqueue full -f - >/dev/null
pgwork -q cron add nightly '0 3 * * *' --queue full >/dev/null
pgwork -q sem create slots 9999
points=${PGWORK_OOM:-8}

# starve NAME COUNT PREPARE CMD...: COUNT: SQL for a number that the command raises by 1 ('': it only reads). PREPARE:
# what comes before each run; `$it` in CMD is what it printed. A NAME that ends with "*": a failure may have done it.
starve() {
    name=$1 count=$2 prepare=$3
    shift 3
    if [ -n "${PGWORK_OOM_ONLY:-}" ] && ! echo "$name" | grep -qE "$PGWORK_OOM_ONLY"; then return; fi
    it=$(eval "$prepare" 2>/dev/null)
    normal=0
    eval "LD_PRELOAD=\$tmp/oom.so OOM_COUNT=1 $*" 2>"$tmp/why" >"$tmp/whole" </dev/null || normal=$?
    n=$(tail -n 1 "$tmp/why")
    case $n in '' | *[!0-9]*) fail "$name: allocations are counted ($n)"; return ;; esac
    lines=$(wc -l <"$tmp/whole")
    step=1
    if [ "$points" != all ] && [ "$n" -gt $((2 * points)) ]; then step=$((n / points)); fi
    if [ -n "$count" ] && [ $normal != 0 ]; then fail "$name: ended with $normal"; return; fi
    i=1 wrong='' after=''
    if [ -n "$count" ]; then after=$(sql "$count"); fi
    while [ "$i" -le "$n" ]; do
        before=$after code=0
        # shellcheck disable=SC2034  # CMD names it
        if [ "$prepare" != : ]; then it=$(eval "$prepare" 2>/dev/null); fi
        if [ -n "$count" ] && [ "$prepare" != : ]; then before=$(sql "$count"); fi
        eval "LD_PRELOAD=\$tmp/oom.so OOM_AT=$i timeout -k 1 30 $*" >"$tmp/got" 2>"$tmp/why" </dev/null || code=$?
        if [ $code -ge 124 ]; then wrong="$wrong $i: ended with $code;"; fi
        if [ $code != $normal ] && [ ! -s "$tmp/why" ]; then wrong="$wrong $i: $code without a word;"; fi
        if [ -n "$count" ]; then
            after=$(sql "$count")
            if [ $code = 0 ] && [ $((after - before)) != 1 ]; then wrong="$wrong $i: 0, and not done;"; fi
            if [ $code != 0 ] && [ $code != 6 ] && [ "${name%\*}" = "$name" ] && [ "$after" != "$before" ]; then wrong="$wrong $i: $code, and done;"; fi
        elif [ $code = $normal ] && [ ! -s "$tmp/why" ] && [ "$(wc -l <"$tmp/got")" != "$lines" ]; then
            wrong="$wrong $i: $code with a part of the output;"
        fi
        # the first allocations one by one, and the last ones, where the answer is read
        if [ "$i" -lt 3 ] || [ "$i" -ge $((n - 3)) ]; then i=$((i + 1)); else
            i=$((i + step))
            if [ "$i" -gt $((n - 3)) ]; then i=$((n - 3)); fi
        fi
    done
    is "${name%\*} without memory, of $n allocations" "$wrong" ''
}

one() { pgwork -q claim full 2>/dev/null | cut -f 1,2; }
there="SELECT -count(*) FROM pgwork.job WHERE queue = 'full'"

starve enqueue "SELECT count(*) FROM pgwork.job WHERE queue = 'new'" : 'pgwork enqueue new 1'
starve 'enqueue with a key' "SELECT count(*) FROM pgwork.job WHERE queue = 'keyed'" 'sql "SELECT gen_random_uuid()"' 'pgwork enqueue keyed --key $it 1'
for command in ls stats metrics locks 'queue list' 'queue depth full' 'cron list' 'cron next nightly' 'sem list' 'dead list full' 'show full 1' doctor; do
    starve "$command" '' : "pgwork $command"
done
starve 'queue create' 'SELECT count(*) FROM pgwork.queue' 'sql "SELECT gen_random_uuid()"' 'pgwork queue create q$it'
starve 'cron add' 'SELECT count(*) FROM pgwork.schedule' 'sql "SELECT gen_random_uuid()"' "pgwork cron add s\$it '0 4 * * *' --queue full"
starve 'cron run' "SELECT count(*) FROM pgwork.job WHERE queue = 'full'" : 'pgwork cron run nightly'
starve 'sem create' 'SELECT count(*) FROM pgwork.semaphore' 'sql "SELECT gen_random_uuid()"' 'pgwork sem create m$it 3'
starve 'sem acquire' 'SELECT count(*) FROM pgwork.permit WHERE nonce IS NOT NULL' : 'pgwork sem acquire slots'
starve 'claim*' "SELECT count(*) FROM pgwork.job WHERE state = 'leased'" : 'pgwork claim full'
starve complete "$there" one 'pgwork complete full $it'
starve fail "SELECT count(*) FROM pgwork.job WHERE state = 'delayed'" one 'pgwork fail full $it'
starve snooze "SELECT count(*) FROM pgwork.job WHERE state = 'delayed'" one 'pgwork snooze full --delay 1h $it'
starve release "SELECT -count(*) FROM pgwork.job WHERE state = 'leased'" one 'pgwork release full $it'
starve cancel "$there" "sql \"SELECT id FROM pgwork.job WHERE queue = 'full' AND state = 'ready' LIMIT 1\"" 'pgwork cancel full $it'

# rows of tables
sql 'CREATE TABLE seat (id int PRIMARY KEY); INSERT INTO seat SELECT generate_series(1, 3)' >/dev/null
pgwork -q table init seat -k id --apply >/dev/null
expired() { sql "UPDATE seat SET locked_by = 'x', token = gen_random_uuid(), expires_at = now() - interval '1 s' WHERE id = 1"; }
free="SELECT count(*) FROM seat WHERE expires_at IS NULL"
starve 'table check' '' : 'pgwork table check seat -k id'
starve 'table init' '' 'sql "DROP TABLE IF EXISTS bare; CREATE TABLE bare (id int PRIMARY KEY)"' 'pgwork table init bare -k id --apply'
starve 'table reap' "$free" expired 'pgwork table reap seat -k id'
starve 'table register' 'SELECT count(*) FROM pgwork.leased_table' 'pgwork -q table unregister seat' 'pgwork table register seat -k id'
starve 'table list' '' : 'pgwork table list'
starve 'table reap of all*' "$free" 'pgwork -q table register seat -k id; sql "UPDATE pgwork.leased_table SET rests_until = NULL"; expired' 'pgwork table reap'
starve 'table unregister' '-- registered
SELECT -count(*) FROM pgwork.leased_table' 'pgwork -q table register seat -k id' 'pgwork table unregister seat'

# programs that are started: each run of them counts
sql 'CREATE TABLE run (n int)' >/dev/null
export RUN="psql -XAtqc 'INSERT INTO run VALUES (1)'"
runs='SELECT count(*) FROM run'
starve 'lock*' "$runs" : 'pgwork lock L -- sh -c "$RUN"'
starve 'sem run*' "$runs" : 'pgwork sem run slots -- sh -c "$RUN"'
permit() { pgwork -q sem acquire slots --ttl 1h; }
starve 'sem extend' '' permit 'pgwork sem extend slots $it'
starve 'sem release' 'SELECT -count(*) FROM pgwork.permit WHERE nonce IS NOT NULL' permit 'pgwork sem release slots $it'
starve 'sem resize' "SELECT permits FROM pgwork.semaphore WHERE name = 'few'" 'pgwork -q sem drop few; pgwork -q sem create few 3' 'pgwork sem resize few 4'
starve 'sem drop' 'SELECT -count(*) FROM pgwork.semaphore' 'pgwork -q sem create few 3' 'pgwork sem drop few'
starve 'work*' "$there" : 'pgwork work full -n 1 -- true'
due() { pgwork -q enqueue later 1 --delay 1h && sql 'UPDATE pgwork.delayed_job SET run_at = now()'; }
starve 'reap*' "SELECT count(*) FROM pgwork.job WHERE queue = 'later' AND state = 'ready'" due 'pgwork reap --once'
exit 0
