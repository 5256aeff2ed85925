# Every code block of README.md and of the pages in doc/ runs, in the order of its page. Which blocks
# are run, and how, is described in test/support/blocks.awk.
. "$(dirname "$0")/tap"

# What `make install` would provide, from the tree.
mkdir "$tmp/pc"
printf 'Name: pgwork\nDescription: from the tree\nVersion: 0\nCflags: -I%s/inc\nLibs: -L%s/build -lpgwork\n' \
    "$top" "$top" >"$tmp/pc/pgwork.pc"
export PKG_CONFIG_PATH="$tmp/pc" LD_LIBRARY_PATH="$top/build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
pgwork -q migrate up
template=$PGDATABASE dsn=$PGWORK_DSN total=0 skipped=0

# page FILE: runs its blocks in a directory and a database of their own
page() {
    file=$1
    grep -qE '^ *```(sh|sql|c)( |$)' "$top/$file" || return 0
    name=$(echo "$file" | tr -c 'a-z0-9\n' _ | cut -c1-50)
    mkdir "$tmp/$name"
    psql -XAtqc "CREATE DATABASE pgw_$name TEMPLATE $template" || { fail "$file: a database for it"; return; }
    {
        cat <<'S'
set -eu
compile() { cc -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Werror -I"$fragments" -o "${1%.c}" "$1" $(pkg-config --cflags --libs pgwork libpq); }
S
        awk -f "$top/test/support/blocks.awk" "$top/$file"
    } >"$tmp/$name/page.sh"
    (cd "$tmp/$name" && fragments=$top/test/support PGDATABASE=pgw_$name \
        PGWORK_DSN="host=$PGHOST port=$PGPORT user=$PGUSER dbname=pgw_$name" \
        timeout -k 5 150 sh ./page.sh >log 2>err </dev/null) || :
    total=$((total + $(grep -c '^run [0-9]* [a-z]*$' "$tmp/$name/log")))
    skipped=$((skipped + $(grep -c '^skip [0-9]* [a-z]*$' "$tmp/$name/log")))
    awk -v f="$file" '/^run [0-9]+ [a-z]+$|^done$/ { if (line) print "ok - " f ":" line " (" lang ") runs"; line = $2; lang = $3 }
        END { if (line) print line, lang >"'"$tmp/$name/stopped"'" }' "$tmp/$name/log"
    if [ -s "$tmp/$name/stopped" ]; then
        cp "$tmp/$name/log" "$tmp/out"
        tail -n 5 "$tmp/$name/err" >"$tmp/err"
        read -r line lang <"$tmp/$name/stopped"
        fail "$file:$line ($lang) runs"
    fi
    psql -XAtqc "DROP DATABASE pgw_$name WITH (FORCE)" || :
}

# The awk program itself: an excerpt is skipped, indentation is removed, a failure is named.
printf '1. List\n   ```sh\n   echo one >one\n   ```\n\n```sh norun\nfalse\n```\n\n```\npicture\n```\n\n```sh\nfalse\n```\n' >"$tmp/list.md"
(cd "$tmp" && awk -f "$top/test/support/blocks.awk" list.md >list.sh && sh -e list.sh >list.log)
is 'blocks: the failing block is the last one that was started' "$(tr '\n' ' ' <"$tmp/list.log")" 'run 3 sh skip 7 sh run 15 sh '

for f in "$top"/README.md "$top"/doc/*.md "$top"/doc/howto/*.md; do
    if [ -f "$f" ]; then page "${f#"$top"/}"; fi
done
# The tutorial and the pages make these.
psql -XAtqc 'DROP DATABASE IF EXISTS jobs' -c 'DROP DATABASE IF EXISTS thumbs' \
    -c 'DROP DATABASE IF EXISTS tenant_a' -c 'DROP DATABASE IF EXISTS tenant_b' \
    -c 'DROP ROLE IF EXISTS jobs_owner, thumbs, "pgwork-reap"' || :
PGWORK_DSN=$dsn
echo "# $total blocks run, $skipped marked norun"
yes 'there are blocks to run' test "$total" -gt 10
exit 0
