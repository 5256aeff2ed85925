# Late commits on a server whose transaction ids have wrapped around once. On a server of its own.
. "$(dirname "$0")/tap"
. "$top/test/support/pg.sh"

dir=$(pg_mkdir)
trap 'pg_stop "$dir" immediate; rm -rf "$dir"; leave' EXIT
pg_create "$dir" && pg_as "$(pg_bindir)/pg_resetwal" -f -e 1 -D "$dir/data" >/dev/null && pg_start "$dir" || fail 'a server runs'
[ "$bad" = 0 ] || exit
export PGHOST="$dir" PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
export PGWORK_DSN="host=$dir port=5432 user=postgres dbname=postgres"
pgwork -q migrate
is 'its transaction ids have 33 bits' "$(sql 'SELECT txid_current() > 4294967296')" t

ticks() { for _ in 1 2 3; do sql 'SELECT pgwork.maintain()' >/dev/null; done; }
claimed() { sql "SELECT count(*) FROM pgwork.claim('{q}', 1000, 'x')"; }
sql "SELECT pgwork.queue_create('q')" >/dev/null
sql "BEGIN; SELECT count(pgwork.enqueue('q')) FROM generate_series(1, 20); PREPARE TRANSACTION 'late'" >/dev/null
ticks
sql "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[50]))" >/dev/null
is 'jobs are claimed' "$(claimed)" 50
ticks
sql "COMMIT PREPARED 'late'"
ticks
sql "BEGIN; SELECT count(*) FROM pgwork.claim('{q}', 7, 'x'); PREPARE TRANSACTION 'claim'" >/dev/null
ticks
is 'late ones are' "$(claimed)" 13
ticks
sql "ROLLBACK PREPARED 'claim'"
ticks
is 'jobs of a claim that was rolled back late are claimed again' "$(claimed)" 7
