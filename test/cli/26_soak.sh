# Everything at once, at random: producers that roll back or commit late, claims of 1 to 1000 jobs, two reapers, compactions,
# vacuum, and held snapshots. Holders complete, fail, release and snooze, come late, die, are cancelled or killed. In the end each
# committed job was finished exactly once: each accepted completion is inserted into a table with a primary key, in the same
# transaction.
# For as long as you like, beside a private server:
#   make && sh test/support/with_pg.sh sh -c 'PATH=$PWD/build:$PATH PGW_SOAK_SECONDS=600 sh test/cli/26_soak.sh'
. "$(dirname "$0")/tap"
. "$top/test/support/pgload.sh"
seconds=${PGW_SOAK_SECONDS:-6}
pgwork -q migrate
sql "$pgload_tables" >/dev/null
pgload_scripts "$tmp"

pgwork reap >"$tmp/reap" 2>&1 & reapers=$!
pgwork reap >>"$tmp/reap" 2>&1 & reapers="$reapers $!"
troubles=
# again CMD...: every second
again() { (while :; do "$@"; sleep 1; done) >>"$tmp/again" 2>&1 & troubles="$troubles $!"; }
trouble() { shoot; sql "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgbench' AND datname = current_database() ORDER BY random() LIMIT 1"; }
upkeep() { sql 'SELECT pgwork.compact()'; sql 'VACUUM pgwork.live_job'; }
pin() { psql -XAtq -c 'BEGIN ISOLATION LEVEL REPEATABLE READ' -c 'SELECT 1' -c 'SELECT pg_sleep(2 * random())' -c COMMIT; }
again trouble
again upkeep
again pin
again sql "SELECT pgwork.redrive('s')"
jobs_of_ours="$reapers $troubles"

some() { pgload_some "$tmp" -T 2 "$@"; }
while [ "$seconds" -gt 0 ]; do
    some -c 3 -f "$tmp/one.sql@6" -f "$tmp/many.sql@6" -f "$tmp/late.sql@2" -f "$tmp/never.sql@1" &
    clients=$!
    some -c 5 -f "$tmp/holder.sql" & clients="$clients $!"
    some -c 2 -D n=7 -f "$tmp/chain.sql" & clients="$clients $!"
    some -c 2 -D n=200 -f "$tmp/chain.sql" & clients="$clients $!"
    # shellcheck disable=SC2086  # some numbers
    wait $clients
    seconds=$((seconds - 2))
done
# shellcheck disable=SC2086
kill $troubles

# What the last ones left is given back by the reapers.
all_gone() {
    sql "SELECT pgwork.redrive('s')"
    sql "$pgload_drain"
    count_is "SELECT count(*) FROM pgwork.job WHERE queue = 's'" 0
}
yes 'each job comes to its end' until_true 60 all_gone
is 'there were some' "$(sql 'SELECT count(*) > 1000 FROM sent')" t
is 'none was lost' "$(sql 'SELECT count(*) FROM (TABLE sent EXCEPT TABLE finished) l')" 0
is 'none came whose enqueue was rolled back' "$(sql 'SELECT count(*) FROM (TABLE finished EXCEPT TABLE sent) l')" 0
# a job that was finished twice would be here, as would a deadlock (what was canceled while it was prepared is asked for once more)
grep 'ERROR: ' "$tmp/bench" | grep -vE 'canceling statement due to user request|prepared statement "P_[0-9]+" does not exist' >"$tmp/errors"
is 'there were no errors except of canceled calls' "$(head -n 3 "$tmp/errors")" ''
# shellcheck disable=SC2086
kill $reapers
# shellcheck disable=SC2086
all_well 'the reapers were there until the end' $reapers
