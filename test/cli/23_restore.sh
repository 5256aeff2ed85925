# The commands of the chapter on restores in doc/operations.md.
. "$(dirname "$0")/tap"
pgwork -q migrate
numbers="'{pgwork.position, pgwork.lock_fence, pgwork.schedule_fence, pgwork.semaphore_grant}'::regclass[]"

# typed N: the N-th block of commands of that chapter
typed() {
    awk -v n="$1" '/^### Restore/ { here = 1 } /^## / { here = 0 }
        here && /^ *```sh norun$/ { block++; on = 1; next } /^ *```$/ { on = 0 } on && block == n' "$top/doc/operations.md" >"$tmp/typed"
    code "$2" 0 sh -c 'cd "$1" && sh -e typed' sh "$tmp"
}

sql "SELECT pgwork.enqueue('q', kind => 'mine'), pgwork.cron_create('minute', '* * * * *', queue => 'q')" >/dev/null
sql "UPDATE pgwork.schedule SET base = base - interval '90 s', next_at = '-infinity'"
pg_dump -Fc -n pgwork -f "$tmp/pgwork.dump"
code 'after the dump its schedule ticks' 0 pgwork reap --once
tag=$(sql "SELECT tags[2] FROM pgwork.job WHERE 'schedule=minute' = ANY (tags)")
yes 'one job for a slot' test -n "${tag#slot=}"
drawn=$(sql "SELECT array_agg(nextval(s) ORDER BY s) FROM unnest($numbers) s")

typed 1 'the dump is restored'
is 'what came later is gone' "$(sql "SELECT count(*) FROM pgwork.job WHERE '$tag' = ANY (tags)")" 0
typed 2 'numbers are put forward'
is 'none comes a second time' "$(sql "SELECT bool_and(nextval(s) > n) FROM unnest((SELECT array_agg(s ORDER BY s) FROM unnest($numbers) s), '$drawn'::bigint[]) u (s, n)")" t
typed 3 'schedules are planned from now on'
code 'a reaper' 0 pgwork reap --once
is 'makes no second job of that slot' "$(sql "SELECT count(*) FROM pgwork.job WHERE '$tag' = ANY (tags)")" 0
sql "SELECT pgwork.enqueue('q', kind => 'mine')" >/dev/null
is 'jobs of before and after are claimed' "$(sql "SELECT count(*) FROM pgwork.claim('{q}', 10, 'me') WHERE kind = 'mine'")" 2

# Sequences are what logical replication leaves out: two databases that have the same rows, as it were.
OLD="dbname=$PGDATABASE" NEW="dbname=${PGDATABASE}_new"
export OLD NEW
sql "CREATE DATABASE ${PGDATABASE}_new"
pg_dump -n pgwork "$OLD" | psql -Xq "$NEW" >/dev/null
places() { psql -XAt -c "SELECT string_agg(sequencename || ' ' || last_value, ', ' ORDER BY sequencename) FROM pg_sequences WHERE schemaname = 'pgwork' AND last_value IS NOT NULL" "$1"; }
psql -XAt -c "SELECT format('ALTER SEQUENCE pgwork.%I RESTART;', sequencename) FROM pg_sequences WHERE schemaname = 'pgwork'" "$NEW" | psql -Xq "$NEW"
yes 'sequences begin again' test "$(places "$NEW")" != "$(places "$OLD")"
typed 4 'they are copied'
is 'as they were, of identities too' "$(places "$NEW")" "$(places "$OLD")"
sql "DROP DATABASE ${PGDATABASE}_new"
exit 0
