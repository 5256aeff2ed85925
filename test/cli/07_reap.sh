# reap: once, and as a daemon under something like systemd.
. "$(dirname "$0")/tap"
pgwork -q migrate
pgwork queue create q --retention 1d --max-attempts 2
state() { sql "SELECT state || ' ' || attempt FROM pgwork.job WHERE id = $1"; }

code '--once with nothing to do' 0 pgwork reap --once --json
json 'is JSON' "$tmp/out"
id=$(pgwork enqueue q x --lease 100ms)
pgwork claim q --holder w1 >"$tmp/claim"
sleep 0.3
code '--once' 0 pgwork reap --once --json
is 'requeues it' "$(sed 's/.*"reaped":\([0-9]*\).*/\1/' "$tmp/out") $(state "$id")" '1 ready 1'
refused 'a late holder is refused' 1 'the lease is lost' pgwork complete q $(cut -f1,2 "$tmp/claim")
pgwork claim q >/dev/null
sleep 0.3
pgwork -q reap --once
is 'dead after exactly so many attempts' "$(state "$id")" 'dead 2'
id=$(pgwork enqueue q x --delay 200ms)
sleep 0.4
code '--once brings delayed jobs in' 0 pgwork reap --once
is 'in time' "$(state "$id")" 'ready 0'

sql "CREATE TABLE slow (id int PRIMARY KEY); INSERT INTO slow VALUES (1);
     CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(20); RETURN NEW; END'" >/dev/null
pgwork -q table init slow -k id --apply >/dev/null
pgwork table register slow -k id
sql "UPDATE slow SET locked_by = 'x', token = gen_random_uuid(), expires_at = now() - interval '1 second';
     CREATE TRIGGER slowly BEFORE UPDATE ON slow FOR EACH ROW EXECUTE FUNCTION slowly()" >/dev/null
pgwork reap --once >"$tmp/out" 2>"$tmp/err" &
p=$! jobs_of_ours=$!
yes '--once is at a table of ours' until_true 20 count_is "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()" 1
kill -TERM $p
until_true 20 heard $p
kill -TERM $p
wait $p
is 'TERM twice: ends by the signal' $? 143
is 'a stopped reaper prints what was done' "$(cat "$tmp/err")" 'pgwork: 0 requeued, 0 dead letters, 0 delayed jobs made ready, 0 old jobs deleted, 0 rows of tables freed'
pgwork table unregister slow
sql 'DROP TABLE slow; DROP FUNCTION slowly()' >/dev/null

pgwork reap --json >"$tmp/reap.out" 2>"$tmp/reap.err" &
p=$! jobs_of_ours=$!
until_true 20 grep -q reaping "$tmp/reap.err"
is 'the daemon says that it works' "$(grep -c '^pgwork: reaping$' "$tmp/reap.err")" 1
id=$(pgwork enqueue q x --delay 100ms)
yes 'delayed jobs come in' until_true 10 count_is "SELECT count(*) FROM pgwork.job WHERE id = $id AND state = 'ready'" 1
kill -HUP $p
yes 'HUP: reads again' until_true 10 grep -q 'configuration reloaded' "$tmp/reap.err"
id=$(pgwork enqueue q x --delay 100ms)
yes 'a reaper continues after HUP' until_true 10 count_is "SELECT count(*) FROM pgwork.job WHERE id = $id AND state = 'ready'" 1
is 'its connection is ended' "$(sql "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) > 0 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'pgwork'")" t
id=$(pgwork enqueue q x --delay 100ms)
yes 'a lost connection is opened again' until_true 20 count_is "SELECT count(*) FROM pgwork.job WHERE id = $id AND state = 'ready'" 1
kill -TERM $p
wait $p
is 'TERM: ends well' $? 0
json 'a reaper prints what it did in JSON' "$tmp/reap.out"

printf 'host=%s port=%s user=%s dbname=%s\n' "$PGHOST" "$PGPORT" "$PGUSER" "$PGDATABASE" >"$tmp/dsn"
: >"$tmp/reap.err" # the daemon before has said that it works, too
env -u PGWORK_DSN pgwork -d "$tmp/dsn" reap >"$tmp/reap.out" 2>"$tmp/reap.err" &
p=$! jobs_of_ours=$!
until_true 20 grep -q reaping "$tmp/reap.err"
rm "$tmp/dsn"
kill -HUP $p
yes 'HUP with a missing file is logged' until_true 10 grep -q 'cannot open' "$tmp/reap.err"
id=$(pgwork enqueue q x --delay 100ms)
yes 'a reaper keeps its settings if the new file is missing' until_true 10 count_is "SELECT count(*) FROM pgwork.job WHERE id = $id AND state = 'ready'" 1
kill -INT $p 2>/dev/null || :
kill -TERM $p
wait $p
yes 'something that listens as systemd does' cc -o "$tmp/listen" "$top/test/cli/listen.c"
for socket in "$tmp/notify" "@pgwork-cli-$$"; do
    "$tmp/listen" "$socket" >"$tmp/heard" &
    l=$! jobs_of_ours=$!
    until_true 10 grep -q listening "$tmp/heard"
    # from a shell that becomes pgwork, so that WATCHDOG_PID is right
    NOTIFY_SOCKET=$socket WATCHDOG_USEC=200000 sh -c 'WATCHDOG_PID=$$ exec pgwork -q reap' &
    p=$! jobs_of_ours="$l $!"
    yes "READY=1 (${socket%${socket#?}})" until_true 20 grep -q '^READY=1$' "$tmp/heard"
    yes 'WATCHDOG=1' until_true 20 grep -q '^WATCHDOG=1$' "$tmp/heard"
    kill -TERM $p
    wait $p
    wait $l
    is 'STOPPING=1, and nothing after it' "$(tail -n 1 "$tmp/heard")" STOPPING=1
done

# a worker is ready when it can claim, and not before
printf 'host=%s\n' "$tmp/nowhere" >"$tmp/nobody"
for way in '-d nobody|next try in|STOPPING=1' '|working on q, 1 at a time|READY=1 STOPPING=1'; do
    options=${way%%|*} rest=${way#*|}
    rm -f "$tmp/notify"
    "$tmp/listen" "$tmp/notify" >"$tmp/heard" &
    l=$! jobs_of_ours=$!
    until_true 10 grep -q listening "$tmp/heard"
    # shellcheck disable=SC2086  # words
    (cd "$tmp" && NOTIFY_SOCKET=$tmp/notify exec pgwork $options work q -- true) 2>"$tmp/work.err" &
    p=$! jobs_of_ours="$l $!"
    yes "a worker says: ${rest%%|*}" until_true 20 grep -q "${rest%%|*}" "$tmp/work.err"
    kill -TERM $p
    wait $p
    wait $l
    is "systemd hears: ${rest#*|}" "$(sed 1d "$tmp/heard" | tr '\n' ' ')" "${rest#*|} "
done
(cd "$tmp" && exec pgwork -q -d nobody reap) 2>"$tmp/reap.err" &
p=$! jobs_of_ours=$!
yes 'a reaper logs a server that it cannot reach under -q, too' until_true 20 grep -q "^pgwork: warning: .*nowhere" "$tmp/reap.err"
kill -TERM $p
wait $p
exit 0
