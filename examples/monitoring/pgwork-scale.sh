#!/bin/sh
# pgwork-scale.sh QUEUE JOBS MAX: starts or stops units pgwork-worker@QUEUE:1 .. MAX, one for every JOBS
# jobs that are ready, leased, or due within a minute. A unit that is stopped finishes what it runs
# (SIGTERM), so that nothing is lost; no attempt is charged for what it has not started.
# The connection is that of a role with pgwork_viewer: PGWORK_DSN, or libpq's variables.
set -eu
queue=$1 jobs=$2 max=$3
demand=$(pgwork demand "$queue" --at-most $((jobs * max)) --within 1m)
wanted=$(((demand + jobs - 1) / jobs))
i=1
while [ $i -le "$max" ]; do
    if [ $i -le $wanted ]; then verb=start; else verb=stop; fi
    ${SYSTEMCTL:-systemctl} --no-block $verb "pgwork-worker@$(systemd-escape "$queue" 2>/dev/null || echo "$queue"):$i.service"
    i=$((i + 1))
done
