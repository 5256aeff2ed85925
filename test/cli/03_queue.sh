# Queues: create, configure, pause, drain, hold, purge, drop.
. "$(dirname "$0")/tap"
pgwork -q migrate

code 'no queues yet' 1 pgwork queue list
code 'create' 0 pgwork queue create a --lease 2m --max-attempts 5 --backoff 500ms --backoff-cap 1h30m --retention 7d --dead-retention 30d --max-bytes 1000 --notify off
is 'settings' "$(pgwork --json queue list | sed 's/.*"lease_ms"/"lease_ms"/')" \
    '"lease_ms":120000,"max_attempts":5,"backoff_ms":500,"backoff_cap_ms":5400000,"retention_ms":604800000,"dead_retention_ms":2592000000,"max_bytes":1000,"notify":false,"expired":"dead","payload_visible":false}'
code 'set' 0 pgwork queue set a --lease 10
is 'set changes what is given only' "$(pgwork --json queue list | sed 's/.*"lease_ms":\([0-9]*\),"max_attempts":\([0-9]*\).*/\1 \2/')" '10000 5'
refused 'set of a queue that is not there' 1 'none_such' pgwork queue set none_such --lease 10
code 'list' 0 pgwork queue list
yes 'list in columns' grep -q '^a  *open  *0  *0  *0  *0  *0  *-  *10s  *5  *7d00h  *-  *-  *-$' "$tmp/out"
code 'list --json' 0 pgwork queue list --json
json 'list --json is JSON' "$tmp/out"

code 'pause' 0 pgwork queue pause a
yes 'paused shows' sh -c 'pgwork queue list | grep -q "^a  *paused"'
pgwork enqueue a x >/dev/null
code 'no claims while paused' 1 pgwork claim a
code 'drain' 0 pgwork queue drain a
yes 'closed shows' sh -c 'pgwork queue list | grep -q "^a  *closed"'
refused 'no enqueues while draining' 1 . pgwork enqueue a y
code 'resume' 0 pgwork queue resume a
yes 'open shows' sh -c 'pgwork queue list | grep -q "^a  *open"'
code 'claims again' 0 pgwork claim a

pgwork queue create shared
pgwork sem create partner 1
code 'semaphore' 0 pgwork queue semaphore shared partner
yes 'list shows the semaphore' sh -c 'pgwork queue list | grep -q "^shared .* partner  *-$"'
pgwork enqueue shared one two >/dev/null
is 'one job is claimed at a time' "$(pgwork claim shared -n 2 | wc -l)" 1
yes 'the semaphore names the job' sh -c 'pgwork sem list partner | grep -q "^ *[0-9]*  *1  *job [0-9]* of queue \"shared\"  *[^ ]*Z  *-  *0$"'
refused 'a semaphore that limits a queue stays' 1 'semaphore "partner" limits queue "shared"' pgwork sem drop partner --force
refused 'no such semaphore' 1 'there is no semaphore "nope"' pgwork queue semaphore shared nope
refused 'which semaphore' 2 'NAME and SEMAPHORE' pgwork queue semaphore shared
code 'no semaphore' 0 pgwork queue semaphore shared none
is 'no limit any more' "$(pgwork claim shared -n 2 | wc -l)" 1
code 'the semaphore can be dropped then' 0 pgwork sem drop partner --force
code 'the queue, too' 0 pgwork queue drop shared --force

refused 'one of several is not there' 1 'none_such' pgwork queue pause none_such a
is 'the others are done all the same' "$(pgwork queue list --json | grep -c '"queue":"a","paused":true')" 1
yes 'the hint for a missing queue is a command' grep -q '^hint: .*pgwork queue create' "$tmp/err"
pgwork queue resume a
code 'options of every command before the verb' 0 pgwork queue --json -q list
json 'count' "$tmp/out"
refused 'those of a verb do not' 2 'unknown option --lease' pgwork queue --lease 10 set a
yes 'the hint says where options of a verb stand' grep -q '^hint: .*after it' "$tmp/err"
refused 'options and no verb' 2 'missing: list' pgwork queue --json
code 'help before the verb' 0 pgwork queue -q --help
code 'options before a verb that may be left out' 0 pgwork migrate --json --dry-run
code 'options before a verb that may not be left out' 0 pgwork migrate --json status
json 'count there, too' "$tmp/out"

refused 'a payload over the limit of the queue' 2 . pgwork enqueue a "$(printf '%2000s' x)"
code 'depth' 0 pgwork queue depth a
code 'depth --json' 0 pgwork queue depth a --json
json 'depth --json is JSON' "$tmp/out"
is 'depth counts' "$(sed 's/,"oldest.*//' "$tmp/out")" '{"queue":"a","ready":0,"leased":1,"delayed":0,"gated":0,"dead":0,"done":0'
refused 'depth of none' 1 . pgwork queue depth none_such

pgwork enqueue a 1 2 3 >/dev/null
pgwork enqueue a 4 --delay 1h >/dev/null
is 'depth --at-most counts no further' "$(pgwork queue depth a --at-most 2 --json | sed 's/,"oldest.*//')" '{"queue":"a","ready":1,"leased":1,"delayed":1,"gated":0,"dead":0,"done":0'
is 'list --at-most counts no further' "$(pgwork queue list --at-most 2 --json | sed 's/.*\("ready":.*\),"oldest.*/\1/')" '"ready":1,"leased":1,"delayed":1,"gated":0,"dead":0,"done":0'
is 'list --at-most 0 counts all' "$(pgwork queue list --at-most 0 --json | sed 's/.*\("ready":.*\),"oldest.*/\1/')" '"ready":3,"leased":1,"delayed":1,"gated":0,"dead":0,"done":0'
code 'purge' 0 pgwork queue purge a --json
is 'purge takes the ready ones' "$(cat "$tmp/out")" '{"deleted":3}'
pgwork queue purge a --state all --json >"$tmp/out" 2>/dev/null
is 'purge all leaves the leased one' "$(cat "$tmp/out") $(sql 'SELECT count(*) FROM pgwork.job')" '{"deleted":1} 1'
refused 'purge of a state that is none' 2 . pgwork queue purge a --state frob
for state in gated leased cancelled; do
    refused "purge --state $state: the tool lists the states" 2 "--state is \"$state\": expected ready, delayed, dead, done or all" \
        pgwork queue purge a --state $state
done
refused 'drop with jobs' 1 . pgwork queue drop a
yes 'drop with jobs: what helps is a command' grep -q '^hint: .*pgwork queue purge' "$tmp/err"
code 'drop --force' 0 pgwork queue drop a --force
code 'is gone' 1 pgwork queue list
pgwork queue create kept --retention 1d
pgwork enqueue kept x >/dev/null
pgwork claim kept | pgwork complete kept
code 'drop with finished jobs that are kept' 0 pgwork queue drop kept

seq 1 10001 | pgwork -q enqueue stone
psql -XAtq <<'END'
CREATE FUNCTION stone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'a stone'; END $$;
CREATE TRIGGER stone BEFORE DELETE ON pgwork.live_job FOR EACH ROW WHEN (OLD.payload = '{"line": "10001"}') EXECUTE FUNCTION stone();
END
refused 'a purge that fails on its way' 8 'deleted 10000 jobs' pgwork queue purge stone
is 'one job is left' "$(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'stone'")" 1
sql 'DROP TRIGGER stone ON pgwork.live_job'
code 'nothing is left' 0 pgwork queue purge stone --json
is 'the purge deletes the one that is left' "$(cat "$tmp/out")" '{"deleted":1}'

long=$(printf '%200s' x | tr ' ' n)
code 'a name of 200 bytes' 0 pgwork queue create "$long"
refused 'a name of 201 bytes' 2 . pgwork queue create "${long}n"
refused 'an empty name' 2 . pgwork queue create ''
refused 'a name with a newline' 2 . pgwork queue create "$(printf 'a\nb')"
refused 'a name that is not UTF-8' 2 . pgwork queue create "$(printf 'a\377')"
code 'a name with blanks, quotes and more' 0 pgwork queue create "it's a \"queue\", héhé; -- DROP"
wide=$(printf '日本語e\314\201')
pgwork queue create "$wide" && pgwork queue create abcdefg
is 'a wide character takes two columns, an accent none' "$(LC_ALL=C pgwork queue list | sed -n "s/^$wide\( *open\).*/\1/p; s/^abcdefg\( *open\).*/\1/p" | uniq -c | awk '{ print $1, $2 }')" '2 open'
code 'listed as it is' 0 sh -c 'pgwork queue list | grep -qF "it'\''s a \"queue\", héhé; -- DROP"'
refused 'notify is on or off' 2 'on or off' pgwork queue create b --notify maybe

seq 1 10001 | pgwork -q enqueue stone
sql "CREATE TRIGGER stone BEFORE DELETE ON pgwork.live_job FOR EACH ROW WHEN (OLD.payload = '{\"line\": \"10001\"}') EXECUTE FUNCTION stone()"
refused 'a drop that fails on its way' 8 'deleted 10000 jobs' pgwork queue drop stone --force
is 'one job is left' "$(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'stone'")" 1
sql "CREATE OR REPLACE FUNCTION stone() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN PERFORM pg_sleep(60); RETURN OLD; END \$\$"
seq 1 10000 | pgwork -q enqueue stone
sql "UPDATE pgwork.live_job SET payload = CASE WHEN pos = (SELECT max(pos) FROM pgwork.live_job) THEN '{\"line\": \"10001\"}' ELSE '{}' END::jsonb"
pgwork queue purge stone 2>"$tmp/err" &
p=$! jobs_of_ours=$!
asleep() { count_is "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()" 1; }
yes 'a purge that is asked to stop' until_true 20 asleep
kill -TERM $p
until_true 5 heard $p
kill -TERM $p
wait $p
is 'ends by the second signal' $? 143
is 'an interrupted purge prints what it has deleted' "$(cat "$tmp/err") $(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'stone'")" 'pgwork: deleted 10000 jobs 1'
sql "CREATE OR REPLACE FUNCTION stone() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN PERFORM pg_sleep(1); RETURN OLD; END \$\$"
pgwork queue drop stone --force 2>"$tmp/err" &
p=$! jobs_of_ours=$!
yes 'a drop that is asked to stop' until_true 20 asleep
kill -TERM $p
wait $p
is 'does not go on' "$? $(cat "$tmp/err")" '143 pgwork: deleted 1 job'
is 'to drop the queue' "$(sql "SELECT count(*) FROM pgwork.queue WHERE name = 'stone'")" 1
sql 'DROP FUNCTION stone() CASCADE' 2>/dev/null

pgwork queue create b
sql "CREATE FUNCTION lost() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = 'XX000'; END \$\$;
     CREATE TRIGGER lost BEFORE UPDATE ON pgwork.queue FOR EACH ROW WHEN (OLD.name = 'b') EXECUTE FUNCTION lost()"
refused 'of several, what ends it counts more than a refusal' 8 'a: not tried' pgwork queue pause none_such b a
sql 'DROP FUNCTION lost() CASCADE' 2>/dev/null
exit 0
