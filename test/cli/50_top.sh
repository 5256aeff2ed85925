# top: findings, queues and workers on one screen.
. "$(dirname "$0")/tap"
pgwork -q migrate
sql "SET client_min_messages = warning; DROP ROLE IF EXISTS pgw_cli_top; CREATE ROLE pgw_cli_top LOGIN IN ROLE pgwork_viewer"
as_viewer() { PGWORK_DSN="host=$PGHOST port=$PGPORT user=pgw_cli_top dbname=$PGDATABASE" "$@"; }

code 'nothing there' 0 pgwork top --once
yes 'is said' grep -q '^there are no queues$' "$tmp/out"
yes 'a finding comes first' sh -c "head -n 1 '$tmp/out' | grep -q '^BAD \|^note'"
yes 'with a word about what to do' grep -q 'pgwork doctor. says what to do' "$tmp/out"

pgwork queue create busy
pgwork queue create idle
hostile=$(printf 'x\342\200\256y')
sql "SELECT pgwork.queue_create('$hostile')" >/dev/null
seq 1 5 | pgwork -q enqueue busy >/dev/null
pgwork enqueue busy late --delay 1h >/dev/null
busy_worker busy
until_true 30 count_is "SELECT count(*) FROM pgwork.workers WHERE cardinality(ids) = 1" 1

code 'a viewer may look' 0 as_viewer pgwork top --once
is 'the fullest queue comes first, with its counts and workers' "$(awk '/^QUEUE/ { getline; print $1, $2, $3, $4, $5, $7, $9 }' "$tmp/out")" 'busy active 4 1 1 0 1'
is 'top shows a worker with its rates and its longest job' "$(awk '/^WORKER/ { getline; print $1, $2, $4, $5, $6, ($9 ~ /^[0-9]+,$/) }' "$tmp/out")" 'me busy 1 1 0.0 1'
yes 'names are escaped' grep -q '^x.u202ey ' "$tmp/out"
is 'counts end at --at-most' "$(pgwork top --once --at-most 2 | awk '/^QUEUE/ { getline; print $3 + $4 }')" 2
is 'what is no terminal gets it once' "$(pgwork top | grep -c '^QUEUE')" 1
refused 'JSON' 2 'not for a screen' pgwork top --json
refused 'an interval under the limit' 2 'from 100ms' pgwork top -i 1ms
refused 'without a schema' 4 'schema' pgwork --schema none top --once

# A screen of a terminal. What it shows is everything since the last time that the cursor went home.
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then # in a bare root there may be no terminal to be had
    mkfifo "$tmp/keys"
    screens() { tr -d '\r' <"$tmp/screen" | grep -c '^.*pgwork  20.*q: quit'; }
    shown() { tr -d '\r' <"$tmp/screen" | awk '/pgwork  20.*q: quit/ { s = "" } { s = s $0 "\n" } END { printf "%s", s }'; }
    PGWORK_DSN="host=$PGHOST port=$PGPORT user=pgw_cli_top dbname=$PGDATABASE" script -qefc "stty rows 30 cols 100; pgwork top -i 100ms; echo ended \$?; stty -a | grep -o '[-]*icanon'" /dev/null <"$tmp/keys" >"$tmp/screen" 2>&1 &
    p=$!
    jobs_of_ours="$jobs_of_ours $p"
    exec 3>"$tmp/keys"
    more() { [ "$(screens)" -gt "$1" ]; }
    yes 'a terminal is drawn again and again' until_true 30 more 3
    yes 'with the queue' sh -c "grep -q '^busy .*active' '$tmp/screen'"
    printf p >&3
    yes 'p pauses' until_true 30 sh -c "tail -n 40 '$tmp/screen' | grep -q 'paused'"
    seq 1 20 | pgwork -q enqueue busy >/dev/null
    n=$(screens)
    sleep 0.5
    is 'nothing is drawn then' "$(screens)" "$n"
    printf p >&3
    yes 'p goes on' until_true 30 more "$n"
    fresh() { shown | awk '/^busy/ { found = $3 == 24 } END { exit !found }'; }
    yes 'with what is there now' until_true 30 fresh
    printf q >&3
    yes 'q ends it' until_true 30 grep -q 'ended 0' "$tmp/screen"
    wait $p
    is 'top leaves the terminal as it was' "$(tr -d '\r' <"$tmp/screen" | grep -o '^[-]*icanon$') $(grep -c '1049l' "$tmp/screen")" 'icanon 1'
    exec 3>&-

    # a small terminal
    # a shell has its background jobs ignore INT: env gives it back
    env --default-signal=INT script -qefc "stty rows 14 cols 60; exec pgwork top -i 100ms" /dev/null <"$tmp/keys" >"$tmp/screen" 2>&1 &
    p=$!
    jobs_of_ours="$jobs_of_ours $p"
    for i in $(seq 1 20); do pgwork queue create "q$i"; done
    exec 3>"$tmp/keys"
    yes 'a small one shows the first queues and counts the others' until_true 30 grep -q 'and [0-9]* more queues' "$tmp/screen"
    yes 'in as many lines as there are' sh -c "tr -d '\r' <'$tmp/screen' | awk '/q: quit/ { n = 0 } { if (++n > 14) exit 1 }'"
    sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'" >/dev/null
    n=$(screens)
    yes 'it goes on after its session was lost' until_true 30 more $((n + 2))
    printf '\003' >&3
    wait $p
    is 'the interrupt key ends it' "$(grep -c '1049l' "$tmp/screen")" 1
    exec 3>&-
fi
touch "$tmp/go"
kill -TERM $worker
wait $worker 2>/dev/null
sql "DROP ROLE pgw_cli_top"
exit 0
