# No server, a wrong server, no schema, missing rights; no secret in an argument list.
. "$(dirname "$0")/tap"

nowhere() { env -u PGWORK_DSN PGHOST=/nowhere PGPORT=1 pgwork -X connect.timeout_ms=2000 -X call.timeout_ms=2000 "$@"; }

refused 'no schema yet' 4 'migrat' pgwork ls
refused 'no schema yet, for a producer' 4 'migrat' pgwork enqueue q x
code 'migrate status before' 1 pgwork migrate status
code 'dry run' 0 pgwork migrate --dry-run
yes 'dry run prints SQL' grep -q 'CREATE SCHEMA' "$tmp/out"
is 'dry run changes nothing' "$(sql "SELECT to_regnamespace('pgwork') IS NULL")" t
code 'migrate' 0 pgwork migrate
code 'migrate again is harmless' 0 pgwork migrate up
code 'migrate status after' 0 pgwork migrate status
code 'migrate status --json' 0 pgwork migrate status --json
json 'migrate status --json is JSON' "$tmp/out"
code 'migrate --json' 0 pgwork migrate --json
json 'migrate --json is JSON' "$tmp/out"
code 'another schema' 0 pgwork --schema pgw_other migrate
code 'a job there' 0 pgwork --schema pgw_other enqueue q x
is 'is not here' "$(sql 'SELECT count(*) FROM pgwork.job')" 0
is 'the job is in the other schema' "$(sql 'SELECT count(*) FROM pgw_other.job')" 1
PGWORK_SCHEMA=pgw_other code 'PGWORK_SCHEMA' 0 pgwork ls q
PGWORK_SCHEMA='' code 'an empty one is none' 0 pgwork queue create q
refused 'an empty --schema is a mistake' 2 'schema' pgwork --schema '' ls
refused 'a schema that needs quotes' 2 'schema' pgwork --schema 'A b' ls
refused 'a schema that SQL reads as a word of its own' 2 'schema.*"user".*keyword' pgwork --schema user migrate
refused 'a schema that is not there' 4 'migrat' pgwork --schema pgw_none ls

refused 'no server: ls' 3 . nowhere ls
yes 'no server: what to do is said' grep -q '^hint: ' "$tmp/err"
refused 'no server: enqueue' 3 . nowhere enqueue q x
refused 'no server: claim' 3 . nowhere claim q
refused 'no server: migrate' 3 . nowhere migrate
refused 'no server: doctor' 3 . nowhere doctor
refused 'no server: reap --once' 3 . nowhere reap --once
PGWORK_DSN='host=/nowhere frob=1' refused 'an option that libpq does not know' 2 . pgwork ls
PGWORK_DSN="host=$PGHOST dbname=no_such_db" refused 'no such database' 4 'database' pgwork -X call.timeout_ms=2000 -X connect.timeout_ms=2000 ls
yes 'in the words of the server' grep -q 'FATAL: *database "no_such_db" does not exist' "$tmp/err"
PGWORK_DSN="host=$PGHOST user=no_such_role" refused 'a role that is not there is named' 5 'role "no_such_role" does not exist' pgwork ls
PGWORK_DSN="host=$PGHOST dbname=no_such_db password=postgres user=postgres" refused 'a password that is also the user is no reason to say less' 4 'no_such_db' pgwork ls
for dsn in 'postgresql://sec:pa@ss:w0rd@nowhere.invalid/jobs' 'postgresql://sec:pa/w0rd@nowhere.invalid/jobs' 'host=/nowhere password=pa w0rd' 'postgresql://sec:pa%zzw0rd@h/jobs'; do
    PGWORK_DSN=$dsn refused 'a password that libpq takes for a host, a port or a keyword' 2 'is hidden\|\.\.\.' pgwork ls
    is 'is not shown in part' "$(grep -c 'w0rd\|"pa' "$tmp/err")" 0
done
PGWORK_DSN='hots=x' refused 'a keyword that libpq does not know is named' 2 'invalid connection option "hots"' pgwork ls
yes 'with the variable it stands in' grep -q '^hint: correct the variable PGWORK_DSN: ' "$tmp/err"
PGWORK_DSN="password='hush 1' hots=x" refused 'also behind a password in quotes' 2 '"hots"' pgwork ls
PGWORK_DSN="host=$PGHOST sslmode=bad" refused 'a value that libpq does not know is named' 2 'sslmode.*"bad"' pgwork ls
PGWORK_DSN="$(printf '\357\273\277host=x')" refused 'a byte order mark is named' 2 'byte order mark' pgwork ls
printf '\377' >"$tmp/latin"
chmod 600 "$tmp/latin"
refused 'a file whose connection string is not UTF-8' 2 'latin: .*not UTF-8' pgwork -d "$tmp/latin" ls

printf 'host=%s\nport=%s user=%s dbname=%s\n' "$PGHOST" "$PGPORT" "$PGUSER" "$PGDATABASE" >"$tmp/dsn"
chmod 600 "$tmp/dsn"
env -u PGWORK_DSN -u PGHOST -u PGPORT -u PGUSER -u PGDATABASE pgwork -d "$tmp/dsn" queue create from_file >"$tmp/out" 2>"$tmp/err"
is '--dsn-file' "$(sql "SELECT count(*) FROM pgwork.queue_stats WHERE queue = 'from_file'")" 1
refused '--dsn-file that is not there' 2 'cannot open' pgwork -d "$tmp/none" ls
: >"$tmp/empty"
refused '--dsn-file that is empty' 2 'is empty' pgwork -d "$tmp/empty" ls
for dsn in 'host=/nowhere password=hush' 'postgresql://u:hush@%2Fnowhere/db'; do
    echo "$dsn" >"$tmp/secret"
    chmod 644 "$tmp/secret"
    pgwork -d "$tmp/secret" -X connect.timeout_ms=500 -X call.timeout_ms=500 ls >"$tmp/out" 2>"$tmp/err"
    yes 'a password that others can read is reported' grep -q 'other users can read' "$tmp/err"
    is 'the password is not shown' "$(grep -c hush "$tmp/err")" 0
done
refused '--dsn is not an option' 2 'argv' pgwork --dsn 'host=x password=hush' ls
is 'its value is not repeated' "$(grep -c hush "$tmp/err")" 0
refused '--dsn=value is not an option' 2 'argv' pgwork '--dsn=host=x password=hush' ls
is 'its value is not repeated either' "$(grep -c hush "$tmp/err")" 0
refused '--password=value is none' 2 'unknown option --password$' pgwork '--password=hush' ls
is 'the refusal does not repeat the password' "$(grep -c hush "$tmp/err")" 0
for dsn in 'host=x password=hush' 'postgres://u:hush@x/db'; do
    refused "-d is not psql's" 2 'name of a file' pgwork -d "$dsn" ls
    is 'the refusal of -d does not repeat it' "$(grep -c hush "$tmp/err") $(grep -c PGWORK_DSN "$tmp/err")" '0 1'
done
refused '-X dsn is none' 2 'argv' pgwork -X 'dsn=host=x password=hush' ls
is 'the refusal of -X dsn does not repeat it' "$(grep -c hush "$tmp/err")" 0
PGWORK_DSN="$PGWORK_DSN password=hush" pgwork -vvv enqueue q '{"a":"payload-hush"}' -J >"$tmp/out" 2>"$tmp/err"
yes 'the deepest log says something' test -s "$tmp/err"
is 'the deepest log contains neither connection string nor payload' "$(grep -c hush "$tmp/err")" 0

sql "CREATE ROLE pgw_cli_nobody LOGIN" 2>/dev/null
PGWORK_DSN="host=$PGHOST port=$PGPORT user=pgw_cli_nobody dbname=$PGDATABASE" refused 'a role without rights' 5 . pgwork enqueue q x
PGWORK_DSN="host=$PGHOST port=$PGPORT user=postgres dbname=$PGDATABASE options='-c default_transaction_read_only=on'" refused 'a read-only server' 5 . pgwork enqueue q x
yes 'the hint names the setting, not another server: this is not a standby' sh -c "grep -q 'hint:.*RESET default_transaction_read_only' '$tmp/err' && ! grep -q target_session_attrs '$tmp/err'"
sql "UPDATE pgw_other.migration SET checksum = '0123456789abcdef' WHERE number = 5"
sql "CREATE ROLE pgw_cli_worker LOGIN IN ROLE pgwork_worker, pgwork_producer" 2>/dev/null
for role in postgres pgw_cli_worker; do
    for words in 'work q --until-empty -- true' 'enqueue q x' 'claim q' 'reap --once' 'lock l -- true' 'sem acquire s'; do
        PGWORK_DSN="host=$PGHOST port=$PGPORT user=$role dbname=$PGDATABASE" \
            refused "a schema of another text is refused: $words, by $role" 4 'migration 5 of schema .pgw_other. was applied with another text' pgwork --schema pgw_other $words
    done
done
PGWORK_DSN="host=$PGHOST port=$PGPORT user=pgw_cli_worker dbname=$PGDATABASE" pgwork --schema pgw_other doctor >"$tmp/out" 2>"$tmp/err"
yes 'the doctor reports the other text of the schema to every role' grep -q '^BAD *schema version *migration 5 ' "$tmp/out"
sql "DROP OWNED BY pgw_cli_worker; DROP ROLE pgw_cli_worker"
sql "UPDATE pgw_other.migration SET number = number + 1000 WHERE number = (SELECT max(number) FROM pgw_other.migration)" 
refused 'a schema newer than the library' 4 . pgwork --schema pgw_other ls
refused 'a worker refuses a newer schema' 4 'install a newer' pgwork --schema pgw_other work q --once -- true
is 'with no advice to migrate' "$(grep -c 'pgwork migrate' "$tmp/err")" 0
sql "DROP OWNED BY pgw_cli_nobody; DROP ROLE pgw_cli_nobody" >/dev/null 2>&1
for dsn in 'host=x password=hush' 'postgres://u:hush@x/db' 'postgres://u:hush@x/db?sslmode=require'; do
    refused 'a connection string is refused as a command' 2 'expected a command' pgwork "$dsn" ls
    is 'the refused connection string is not repeated' "$(grep -c hush "$tmp/err")" 0
    refused 'a connection string is refused as a property' 2 . pgwork -X "$dsn" ls
    is 'the refused property is not repeated' "$(grep -c hush "$tmp/err")" 0
done
code '`./run psql` does not show a password' 1 env PGWORK_DSN='host=x password=hush' "$top/run" psql
yes '`./run psql` says why it refuses the password' grep -q '^run: PGWORK_DSN holds a password' "$tmp/err"
exit 0
