# shellcheck shell=sh
# pg.sh: private PostgreSQL servers, for with_pg.sh and run. Sourced, POSIX sh; `set -eu` is on.
# A private server lives in one directory of mode 0700 (data, socket, log), listens on a Unix socket
# there and nowhere else, and runs as an unprivileged user when we are root.

# The directory of the server programs: PG_BINDIR, else Debian's newest, else what pg_config says.
pg_bindir() {
    if [ -n "${PG_BINDIR:-}" ]; then echo "$PG_BINDIR"; return; fi
    for pg_v in $(ls /usr/lib/postgresql 2>/dev/null | sort -rn); do
        if [ -x "/usr/lib/postgresql/$pg_v/bin/initdb" ]; then
            echo "/usr/lib/postgresql/$pg_v/bin"; return
        fi
    done
    pg_v=$(pg_config --bindir 2>/dev/null) || pg_v=
    if [ ! -x "$pg_v/initdb" ]; then pg_v=$(command -v initdb) && pg_v=${pg_v%/*} || return 1; fi
    echo "$pg_v"
}

# Whom the server runs as: ourselves, or for root (whom PostgreSQL refuses) another.
pg_user() {
    if [ "$(id -u)" != 0 ]; then id -un
    elif id postgres >/dev/null 2>&1; then echo postgres
    else echo nobody; fi
}

# Run a command as the server's user, from a directory which that user can enter, and out of reach of
# a terminal's Ctrl-C: a server that is half started would be hard to find again.
pg_as() (
    cd /
    if command -v setsid >/dev/null; then set -- setsid -w "$@"; fi
    if [ "$(id -u)" != 0 ]; then exec "$@"; fi
    pg_u=$(pg_user)
    if command -v setpriv >/dev/null; then
        exec setpriv --reuid="$pg_u" --regid="$(id -g "$pg_u")" --init-groups "$@"
    elif command -v runuser >/dev/null; then
        exec runuser -u "$pg_u" -- "$@"
    fi
    exec su "$pg_u" -s /bin/sh -c 'exec "$@"' -- sh "$@"
)

# A fresh directory for a server. A socket's path has 107 bytes at most, stands in a connection string
# without quotes, and the server's user must reach it, hence /tmp where TMPDIR will not do.
pg_mkdir() {
    pg_tmp=${TMPDIR:-/tmp}
    case $pg_tmp in *[!A-Za-z0-9/._-]*) pg_tmp=/tmp ;; esac
    if [ ${#pg_tmp} -gt 60 ] || ! pg_as test -x "$pg_tmp"; then pg_tmp=/tmp; fi
    pg_dir=$(mktemp -d "$pg_tmp/pgwork.XXXXXX")
    if [ "$(id -u)" = 0 ]; then chown "$(pg_user):$(id -g "$(pg_user)")" "$pg_dir"; fi
    echo "$pg_dir"
}

# pg_create DIR: a new data directory; WITH_PG_CONF is added to its configuration.
pg_create() {
    pg_as touch "$1/log"                        # the server goes on writing it
    pg_as "$(pg_bindir)/initdb" -D "$1/data" -U postgres -A trust -E UTF8 --no-locale --no-sync \
        >>"$1/log" 2>&1 || return
    {
        echo "listen_addresses = ''"
        echo "unix_socket_directories = '$1'"
        echo "port = 5432"                      # names the socket, no more
        echo "max_connections = 200"
        echo "max_prepared_transactions = 2"
        echo "log_line_prefix = '%m [%p] %q%a '"
        # To compile statements, or to share them out among processes, takes longer than those of tests do.
        if [ "${WITH_PG_FSYNC:-0}" = 0 ]; then
            printf '%s = off\n' fsync full_page_writes jit
            echo 'max_parallel_workers_per_gather = 0'
        fi
        printf '%s\n' "${WITH_PG_CONF:-}"
    } >>"$1/data/postgresql.conf"
}

pg_running() { pg_as "$(pg_bindir)/pg_ctl" -D "$1/data" status >/dev/null 2>&1; }

# After a crash it may have to read much, on a busy disk.
pg_start() {
    pg_as "$(pg_bindir)/pg_ctl" -D "$1/data" -l "$1/log" -t 300 -w -s start >/dev/null 2>&1
}

# pg_stop DIR [MODE]: what is thrown away afterwards can stop in mode immediate.
pg_stop() {
    if [ -f "$1/data/postmaster.pid" ]; then
        pg_as "$(pg_bindir)/pg_ctl" -D "$1/data" -m "${2:-fast}" -t 30 -w -s stop >/dev/null 2>&1
    fi
}

# pg_env DIR: point every client at this server, whatever the caller's environment says: of libpq, of
# Debian's wrappers (PGCLUSTER), of pgwork. Its own programs come first: that psql is one of them, not a script
# which looks for the one that fits, and takes longer than most of what it is asked for.
pg_env() {
    # shellcheck disable=SC2046  # a list of words
    unset PGWORK_SCHEMA $(env | sed -n 's/^\(PG[A-VX-Z][A-Z_]*\)=.*/\1/p')
    PATH=$(pg_bindir):$PATH
    export PATH
    export PGHOST="$1" PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
    export PGWORK_DSN="host=$1 port=5432 user=postgres dbname=postgres"
}
