# The private servers of `run`: they are removed after an interrupt, and `run` prints a count even without one. Packages that it installs.
. "$(dirname "$0")/tap"
with_pg=$top/test/support/with_pg.sh
chmod 755 "$tmp"

# shellcheck disable=SC2016  # for the shell beside the server
code 'a command beside a private server' 0 env TMPDIR="$tmp" "$with_pg" sh -c 'psql -XAtqc "SELECT 40 + 2"; ls -d "$PGHOST"'
is 'is asked' "$(head -n 1 "$tmp/out")" 42
yes 'its directory was where temporary things are' grep -q "^$tmp/pgwork\." "$tmp/out"
is 'the directory of the server is gone' "$(ls -d "$tmp"/pgwork.* 2>/dev/null)" ''
code 'its exit code is the command'\''s' 7 env TMPDIR="$tmp" "$with_pg" sh -c 'exit 7'
mkdir -m 755 "$tmp/a b"
code 'where a connection string would need quotes, a server stands in /tmp' 0 \
    env TMPDIR="$tmp/a b" "$with_pg" sh -c 'psql -XAtq "$PGWORK_DSN" -c "SELECT 42"'
is 'a server in /tmp answers' "$(cat "$tmp/out")" 42
env PGHOST=far PGHOSTADDR=::1 PGPORT=1 PGUSER=u PGDATABASE=d PGSERVICE=s PGGSSENCMODE=require PGSSLMODE=require PGSSLCERT=c \
    PGSSLNEGOTIATION=direct PGCONNECT_TIMEOUT=1 PGCLUSTER=9/far PGOPTIONS=-cx=y PGWORK_SCHEMA=w PGWORK_DSN=dsn \
    sh -euc '. "$0"; pg_env /near; env' "$top/test/support/pg.sh" | grep '^PG[A-Z]' | grep -v '^PGW_' | sort >"$tmp/env"
is 'what points elsewhere is not heeded' "$(cat "$tmp/env")" 'PGDATABASE=postgres
PGHOST=/near
PGPORT=5432
PGUSER=postgres
PGWORK_DSN=host=/near port=5432 user=postgres dbname=postgres'

for signal in INT TERM HUP; do
    rm -f "$tmp/started"
    # a shell's background jobs ignore INT from their start on, and all ignore HUP under nohup: env gives them back
    TMPDIR=$tmp env --default-signal=HUP,INT "$with_pg" sh -c "head -n 1 \"\$PGHOST/data/postmaster.pid\" >$tmp/pid; echo \$\$ >$tmp/started; sleep 600" &
    runs=$!
    jobs_of_ours="$jobs_of_ours $runs"
    yes "before $signal it works" until_true 60 test -s "$tmp/started"
    kill -s "$signal" "$runs"
    wait "$runs"
    yes "after $signal no server runs" until_true 20 sh -c "! kill -0 $(cat "$tmp/pid")"
    yes "after $signal the command is gone" until_true 20 sh -c "! kill -0 $(cat "$tmp/started")"
    is "after $signal no directory is left" "$(ls -d "$tmp"/pgwork.* 2>/dev/null)" ''
done

mkdir "$tmp/bin"
printf '#!/bin/sh\nexit 1\n' >"$tmp/bin/initdb"
chmod 755 "$tmp/bin" "$tmp/bin/initdb"
code 'a server that does not start' 1 env TMPDIR="$tmp" PG_BINDIR="$tmp/bin" WITH_PG_ELSE='0 passed, 1 failed' "$with_pg" true
is 'has a last line too' "$(tail -n 1 "$tmp/out")" '0 passed, 1 failed'
yes 'a server that does not start is reported' grep -q 'does not start' "$tmp/err"
is 'a server that does not start leaves nothing' "$(ls -d "$tmp"/pgwork.* 2>/dev/null)" ''

mkdir -p "$tmp/there/files"
echo 'SELECT 40 + 2' >"$tmp/there/files/asks.sql"
code 'psql takes files from where it is called' 0 env -C "$tmp/there/files" "$top/run" psql -XAtqf asks.sql
is 'psql answers where it is called' "$(cat "$tmp/out")" 42
printf '#!/bin/sh\npwd -P; command -v pgwork\n' >"$tmp/bin/ashell"
chmod 755 "$tmp/bin/ashell"
code 'a shell begins where it is called' 0 env -C "$tmp/there" SHELL="$tmp/bin/ashell" "$top/run" shell
is 'with pgwork in PATH' "$(cat "$tmp/out")" "$(cd "$tmp/there" && pwd -P)
$top/build/pgwork"
code 'so does the demo' 0 env -C "$tmp/there" "$top/run" demo files
yes 'the demo prints its directory' grep -q "^1. Enqueue every file under $(cd "$tmp/there/files" && pwd -P)\$" "$tmp/out"

# The functions of `run` that install, with an apt-get that only looks at the files of the system's (here
# they are ours), and then ends as it is told, or ends its caller.
mkdir -p "$tmp/house/test/support"
cp "$top/test/support/pg.sh" "$tmp/house/test/support"
sed "s|/usr/sbin/policy-rc.d|$tmp/policy|; s|/etc/postgresql-common/createcluster.conf|$tmp/conf|; /^command=/,\$d" \
    "$top/run" >"$tmp/house/run"
echo 'quietly apt "$1"' >>"$tmp/house/run"
printf '#!/bin/sh\nexec "$@"\n' >"$tmp/bin/sudo"
cat >"$tmp/bin/apt-get" <<END
#!/bin/sh
case "\$*" in *postgresql-common) exit ;; esac
cat "$tmp/conf" "$tmp/policy" >"$tmp/seen" 2>/dev/null
case \$ENDS in [0-9]*) exit \$ENDS ;; esac
kill -s \$ENDS \$PPID
exit 100
END
chmod 755 "$tmp/bin/"*
installs() { env --default-signal=HUP,INT PATH="$tmp/bin:$PATH" ENDS="$2" sh "$tmp/house/run" "$1"; } # installs WHAT ENDS
files() { cat "$tmp/conf" "$tmp/policy" 2>/dev/null; }

echo '#create_main_cluster = true' >"$tmp/conf"
before=$(files)
for end in '0 0' '100 1' 'INT 130' 'TERM 143' 'HUP 129' 'KILL 137' '0 0'; do
    code "the server: apt ends with $end" "${end#* }" installs apt_postgresql "${end% *}"
    is 'no cluster came with it' "$(grep -c '^create_main_cluster = false' "$tmp/seen")" 1
    code "the pooler: apt ends with $end" "${end#* }" installs apt_pgbouncer "${end% *}"
    is 'no service started' "$(grep -cx 'exit 101' "$tmp/seen")" 1
    case $end in KILL*) continue ;; esac # what is left then, the next one undoes
    is 'a refused start changes no file' "$(files)" "$before"
done
echo 'create_main_cluster = false' >>"$tmp/conf"
echo 'exit 101' >"$tmp/policy"
before=$(files)
code 'the server, without a cluster of its own' 0 installs apt_postgresql 0
code 'the pooler, without a service of its own' 0 installs apt_pgbouncer 0
is 'they are still not wanted' "$(files)" "$before"
exit 0
