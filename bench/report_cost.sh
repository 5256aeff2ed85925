#!/bin/sh
# report_cost.sh OTHER [ROUNDS] [JOBS]: what it costs a worker that does nothing to count and report. Compares
# this build with OTHER, the worktree of a commit without reports, both built with `make`, in turns on one
# private server, each in a database of its own. Prints the medians of jobs/s and of CPU time per job, and the
# ratio of this build to the other one.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
other=$(cd "$1" && pwd) rounds=${2:-15} jobs=${3:-100000}
if [ -z "${WITH_PG_DIR:-}" ]; then exec test/support/with_pg.sh sh "$0" "$@"; fi
for name in this other; do psql -qXc "CREATE DATABASE cost_$name"; done
dsn() { echo "host=$PGHOST port=$PGPORT user=$PGUSER dbname=cost_$1"; }
at() { if [ "$1" = this ]; then echo .; else echo "$other"; fi; }
one() { # one NAME: a round of it
    PGWORK_DSN=$(dsn "$1")
    export PGWORK_DSN
    seq 1 "$jobs" | "$(at "$1")/build/pgwork" -q enqueue q >/dev/null
    "$(at "$1")/build/bench/noop_worker" q "$jobs" 4 500 >>"$WITH_PG_DIR/$1"
}
for name in this other; do PGWORK_DSN=$(dsn $name) "$(at $name)/build/pgwork" -q migrate; done
round=0
while [ $round -lt "$rounds" ]; do
    if [ $((round % 2)) = 0 ]; then one this; one other; else one other; one this; fi
    round=$((round + 1))
done
median() { sort -n -k "$2" "$WITH_PG_DIR/$1" | awk -v k="$2" '{ v[NR] = $k } END { print v[int((NR + 1) / 2)] }'; }
for k in 1 2; do
    echo "$([ $k = 1 ] && echo 'jobs/s' || echo 'CPU us per job'): this $(median this $k), other $(median other $k), ratio $(awk "BEGIN { printf \"%.3f\", $(median this $k) / $(median other $k) }")"
done
