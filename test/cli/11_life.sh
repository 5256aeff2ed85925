#!/bin/sh
# psql alone drives jobs through their whole life: no library, no command of ours, only the migrations.
# Runs against the database of the environment, which it fills.
set -eu
cd "$(dirname "$0")/../.."

for file in migrations/*.sql; do
    PGOPTIONS='-c client_min_messages=warning' psql -qAtX1 -v ON_ERROR_STOP=1 -o /dev/null -f "$file"
done
psql -qAtX -v ON_ERROR_STOP=1 -f test/sql/life.sql
