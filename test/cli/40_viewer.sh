# A member of pgwork_viewer reads everything, changes nothing, and sees payloads only of queues that show them.
. "$(dirname "$0")/tap"
pgwork -q migrate
sql "SET client_min_messages = warning; DROP ROLE IF EXISTS pgw_cli_viewer; CREATE ROLE pgw_cli_viewer LOGIN IN ROLE pgwork_viewer"
as_viewer() { PGWORK_DSN="host=$PGHOST port=$PGPORT user=pgw_cli_viewer dbname=$PGDATABASE" "$@"; }
psql_viewer() { psql -XAtq -v ON_ERROR_STOP=1 -U pgw_cli_viewer -c "$1"; }

pgwork queue create q --retention 1d
pgwork queue create open --retention 1d --payload-visible on
id=$(pgwork enqueue q secret -k mail -t red --key k1)
shown=$(pgwork enqueue open plain)
pgwork sem create seats 2
pgwork -q cron add nightly '0 2 * * *' -Q q --payload '"secret"' >/dev/null

for command in 'ls' 'stats' 'queue list' "show $id" 'metrics' 'sem list' 'cron list' 'cron next @daily'; do
    # shellcheck disable=SC2086  # words
    code "a viewer may run $command" 0 as_viewer pgwork $command
done
code 'a viewer may run locks' 1 as_viewer pgwork locks
is 'which finds none' "$(cat "$tmp/err")" 'pgwork: there are no holders and no waiters'
as_viewer pgwork doctor >"$tmp/out" 2>"$tmp/err"
is 'the doctor checks the same for a viewer as for an operator' "$(grep -c 'not checked\|permission denied\|cannot be examined' "$tmp/out")" 0
as_viewer pgwork show "$id" >"$tmp/out"
is 'show says that the payload is hidden, and by what' "$(grep -c '^payload  *hidden: queue setting payload_visible$' "$tmp/out") $(grep -c secret "$tmp/out")" '1 0'
is 'with --json, too' "$(as_viewer pgwork show "$id" --json | grep -o '"payload":[^,]*\|"payload_hidden":[a-z]*' | tr '\n' ' ')" '"payload":null "payload_hidden":true '
is 'a queue with payload_visible shows it' "$(as_viewer pgwork show "$shown" --json | grep -c '"payload":{"line": *"plain"}')" 1
is 'the view hides what job_list() hides' "$(psql_viewer "SELECT string_agg(queue || ' ' || (payload IS NULL)::text || ' ' || payload_hidden::text, ', ' ORDER BY queue) FROM pgwork.job")" \
    'open false false, q true true'
pgwork -q work q --once -- true
is 'output and meta are hidden as well' "$(psql_viewer "SELECT num_nonnulls(payload, output, meta) FROM pgwork.job_list('q', id => $id)")" 0
is 'a schedule has no payload and no token for a viewer' "$(psql_viewer "SELECT num_nonnulls(payload, body, token) FROM pgwork.schedules")" 0
is 'an operator sees all' "$(sql "SET ROLE pgwork_operator; SELECT payload IS NOT NULL FROM pgwork.job WHERE id = $shown")" t
sql "GRANT pgwork_operator TO pgw_cli_viewer"
is 'also when it is a viewer too' "$(as_viewer pgwork show "$id" --json | grep -o '"payload_hidden":[a-z]*')" '"payload_hidden":false'
sql "REVOKE pgwork_operator FROM pgw_cli_viewer"

for command in "enqueue q x" "claim q" "cancel q $id" "queue pause q" "queue set q --payload-visible on" "queue purge q" "dead redrive q" \
    "reap --once" "sem resize seats 3" "cron pause nightly" "retry q $id"; do
    # shellcheck disable=SC2086  # words
    as_viewer pgwork $command >"$tmp/out" 2>"$tmp/err"
    is "a viewer may not $command" "$? $(grep -c 'permission denied' "$tmp/err")" '5 1'
done
refused 'payload-visible is on or off' 2 'expected on or off' pgwork queue set q --payload-visible maybe
pgwork queue set q --payload-visible on
is 'queue set shows payloads' "$(as_viewer pgwork show "$id" --json | grep -o '"payload_hidden":[a-z]*') $(pgwork queue list --json | grep '"queue":"q"' | grep -o '"payload_visible":[a-z]*')" \
    '"payload_hidden":false "payload_visible":true'
sql "DROP ROLE pgw_cli_viewer"
exit 0
