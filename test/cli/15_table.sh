# Your own tables: missing columns and indexes, and registered tables.
. "$(dirname "$0")/tap"
pgwork -q migrate
sql 'CREATE TABLE article (journal text, number int, reviewed timestamptz, PRIMARY KEY (journal, number))' >/dev/null
sql "INSERT INTO article SELECT 'j', i FROM generate_series(1, 5) i" >/dev/null

refused 'which key' 2 'no key' pgwork table check article
refused 'no such table' 1 'no such table' pgwork table check articles -k number
refused 'names are literal' 1 'no such table' pgwork table check Article -k number
refused 'no such schema' 1 'no such schema' pgwork table check article --in nowhere -k number
refused 'not a key' 2 'no unique key over' pgwork table check article -k number
refused 'missing columns' 1 'missing: `locked_by`' pgwork table check article -k journal -k number
code 'init prints' 0 pgwork table init article -k journal -k number --claimable 'reviewed IS NULL'
is 'three statements' "$(grep -c ';$' "$tmp/out")" 3
yes 'a dry run of table prepare changes nothing' test "$(sql "SELECT count(*) FROM pg_attribute WHERE attrelid = 'article'::regclass AND attnum > 0")" = 3
refused 'still missing' 1 'missing' pgwork table check article -k journal -k number
code 'init --apply' 0 pgwork table init article -k journal -k number --claimable 'reviewed IS NULL' --apply --timeout 1m
code 'check is content' 0 pgwork table check article -k journal -k number --claimable 'reviewed IS NULL'
code 'init again prints nothing' 0 pgwork table init article -k journal -k number --claimable 'reviewed IS NULL' --apply
is 'nothing' "$(cat "$tmp/out")" ''
refused 'an index of other rows' 1 'indexes are missing' pgwork table check article -k journal -k number
sql "$(sql "SELECT format('DROP INDEX %s', oid::regclass) FROM pg_class WHERE relname LIKE 'article_pgwork_holder_%'")" >/dev/null
refused 'a missing index' 1 'indexes are missing' pgwork table check article -k journal -k number --claimable 'reviewed IS NULL'
code 'without leases' 0 pgwork table check article -k journal -k number --no-lease
refused 'a version that is none' 2 'wrong type' pgwork table check article -k journal -k number --no-lease --version reviewed

expire="UPDATE article SET locked_by = 'x', token = gen_random_uuid(), expires_at = now() - interval '1 second'"
sql "$expire" >/dev/null
code 'reap one' 0 pgwork --json table reap article -k journal -k number --batch 2
is 'frees all' "$(cat "$tmp/out")" '{"freed":5}'
code 'no tables' 1 pgwork table list
code 'register' 0 pgwork table register article -k journal -k number
sql "$expire" >/dev/null
code 'reap the registered' 0 pgwork table reap --json
is 'frees them' "$(cat "$tmp/out")" '{"freed":5}'
code 'list --json' 0 pgwork --json table list
json 'list --json is JSON' "$tmp/out"
sql 'DROP TABLE article; UPDATE pgwork.leased_table SET rests_until = NULL' >/dev/null # as on a quick machine
refused 'a table that cannot be served' 1 'there is no such table' pgwork table reap
code 'list' 0 pgwork table list
yes 'list says why' grep -q 'there is no such table' "$tmp/out"
code 'unregister' 0 pgwork table unregister article
refused 'unregister again' 1 'not registered' pgwork table unregister article

sql 'CREATE TABLE seat (number int PRIMARY KEY); INSERT INTO seat VALUES (1), (2)' >/dev/null
names='--locked-by borrower --expires-at until --token ticket'
# shellcheck disable=SC2086  # words
{
    code 'columns of other names' 0 pgwork table init seat -k number $names --apply
    is 'are made' "$(sql "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'seat'::regclass AND attnum > 0")" 'number borrower until ticket'
    code 'table check accepts the columns' 0 pgwork table check seat -k number $names
    refused 'the usual ones are not' 1 'missing: `locked_by`' pgwork table check seat -k number
    sql "UPDATE seat SET borrower = 'x', ticket = gen_random_uuid(), until = now() - number * interval '1 second'" >/dev/null
    code 'reap by them' 0 pgwork table reap seat -k number $names --json
    is 'frees all of these, too' "$(cat "$tmp/out") $(sql 'SELECT count(borrower) FROM seat')" '{"freed":2} 0'
    code 'register with them' 0 pgwork table register seat -k number $names
}
yes 'list --json says them' sh -c 'pgwork table list --json | grep -q "\"locked_by\":\"borrower\",\"expires_at\":\"until\",\"token\":\"ticket\""'
if command -v valgrind >/dev/null && [ "$(command -v pgwork)" = "$top/build/pgwork" ]; then
    leaks() { valgrind -q --leak-check=full --errors-for-leak-kinds=definite,indirect --error-exitcode=77 pgwork "$@"; }
    code 'the copied key is freed' 0 leaks table check seat -k number $names
    code 'also when the table is not as described' 1 leaks table check article -k journal -k number
    code 'it is freed if the table does not exist' 1 leaks table check nowhere -k number
fi
exit 0
