#!/bin/sh
# with_pg.sh CMD...: run CMD beside a private PostgreSQL, and remove both whatever happens.
# For CMD: PGHOST, PGPORT, PGUSER, PGDATABASE, PGWORK_DSN, PGW_TEST_DSN, and WITH_PG_DIR, by which it
# knows that the server at PGHOST is this one, nobody else's.
# From you: WITH_PG_FSYNC=1 (durable as in production), WITH_PG_CONF (lines for postgresql.conf),
# WITH_PG_LOG (a file for the server's log), WITH_PG_ELSE (the last line when there is no server to run
# CMD beside), PG_BINDIR (which PostgreSQL).
set -eu
[ $# -gt 0 ] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
. "$(dirname "$0")/pg.sh"

give_up() {
    if [ -n "${WITH_PG_ELSE:-}" ]; then echo "$WITH_PG_ELSE"; fi
    exit 1
}

pg_bindir >/dev/null || { echo "with_pg: no PostgreSQL server programs here (set PG_BINDIR)" >&2; give_up; }

dir="" child=""

# CMD leads a session of its own, so that its whole family can be ended.
family() { kill -s "$1" -- "-$child" 2>/dev/null; }

clean() {
    trap '' INT TERM HUP
    trap - EXIT
    if [ -n "$child" ] && family TERM; then
        n=0
        while [ $n -lt 50 ] && family 0; do sleep 0.1; n=$((n + 1)); done
        family KILL || :
        wait "$child" 2>/dev/null || :
    fi
    if [ -n "$dir" ]; then
        pg_stop "$dir" immediate || :
        if [ -n "${WITH_PG_LOG:-}" ]; then cp "$dir/log" "$WITH_PG_LOG" || :; fi
        rm -rf "$dir"
    fi
}
trap clean EXIT
trap 'clean; exit 129' HUP
trap 'clean; exit 130' INT
trap 'clean; exit 143' TERM

dir=$(pg_mkdir)
pg_create "$dir" && pg_start "$dir" || {
    echo "with_pg: PostgreSQL does not start:" >&2; tail -n 20 "$dir/log" >&2; give_up; }
pg_env "$dir"
export PGW_TEST_DSN="$PGWORK_DSN" WITH_PG_DIR="$dir"

# In the background, because a shell heeds a signal at once only while it waits.
if command -v setsid >/dev/null; then set -- setsid "$@"; fi
"$@" <&0 &
child=$!
code=0
wait "$child" || code=$?
exit "$code"
