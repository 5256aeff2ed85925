# The example settle: the writes of a job and its completion are one transaction, so sums are exact whoever dies.
. "$(dirname "$0")/tap"
settle=$build/examples/settle
pgwork -q migrate
pgwork -q queue create payments --lease 1s --backoff 0s --max-attempts 1000
sql 'CREATE TABLE account (name text PRIMARY KEY, balance bigint NOT NULL)' >/dev/null
seq 1 2000 | sed 's/.*/{"to": "ada", "amount": &}/' | pgwork -q enqueue payments --json-lines

PGWORK_DSN="host=$tmp" "$settle" payments >"$tmp/out" 2>"$tmp/err" &
lonely=$!
yes 'without a server it waits, and says so' until_true 20 grep -q '^worker: .*next try in' "$tmp/err"
kill -TERM $lonely
all_well 'it runs until a signal' $lonely
workers=
for w in 1 2 3; do
    PGCLIENTENCODING=LATIN1 "$settle" payments >"$tmp/$w" 2>"$tmp/$w.err" &
    workers="$workers $!"
done
"$settle" payments >"$tmp/killed" 2>&1 &
victim=$!
jobs_of_ours="$workers $victim"

waiting() { sql "SELECT ready + leased + delayed FROM pgwork.depth('payments')"; }
some_done() { [ "$(waiting)" -le 1500 ]; }
until_true 60 some_done
kill -KILL $victim
n=0 hit=0
while [ "$(waiting)" != 0 ] && [ $n -lt 600 ]; do
    n=$((n + 1))
    hit=$((hit + $(shoot)))
    pgwork -q reap --once >/dev/null 2>&1 || :
    sleep 0.1
done
yes 'sessions are ended' [ $hit -gt 0 ]
is 'all jobs are done' "$(waiting)" 0
is 'each took effect once' "$(sql 'SELECT balance FROM account')" 2001000
# shellcheck disable=SC2086  # several
{
    kill -TERM $workers
    all_well 'the workers end well' $workers
}
yes 'the workers print what they settled' grep -q '^[1-9][0-9]* settled, ' "$tmp/1"

sql "CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM set_config(''client_encoding'', ''LATIN1'', true); RETURN NEW; END';
     CREATE TRIGGER odd BEFORE INSERT ON account FOR EACH ROW EXECUTE FUNCTION odd()" >/dev/null
pgwork -q queue create refused --max-attempts 1
pgwork -q enqueue refused -J '{"to": "bob", "amount": 1}' >/dev/null
"$settle" refused >"$tmp/out" 2>"$tmp/err" &
settler=$!
jobs_of_ours="$jobs_of_ours $settler"
yes 'a job that cannot be completed' until_true 60 count_is "SELECT count(*) FROM pgwork.job WHERE queue = 'refused' AND state = 'dead'" 1
is 'says why, in words of the library' "$(sql "SELECT error FROM pgwork.job WHERE queue = 'refused'" | grep -c client_encoding)" 1
is 'a refused transfer has no effect' "$(sql "SELECT count(*) FROM account WHERE name = 'bob'")" 0
kill -TERM $settler
all_well 'that worker ends well' $settler
exit 0
