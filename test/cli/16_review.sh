# The example review: each article has one reviewer, and a killed reviewer's articles are free again.
. "$(dirname "$0")/tap"
review=$build/examples/review
sql 'CREATE TABLE article (journal text, number int, title text, grade int, PRIMARY KEY (journal, number))' >/dev/null
sql "INSERT INTO article (journal, number, title) SELECT 'j' || i % 7, i, 'On ' || i FROM generate_series(1, 300) i" >/dev/null

code 'without the schema of pgwork it says so' 1 "$review" anna 3
pgwork -q migrate
for n in 1 2 3 4; do # the first time, all at once
    "$review" nobody$n 1 >"$tmp/first$n" 2>&1 &
    jobs_of_ours="$jobs_of_ours $!" first="${first:-} $!"
done
# shellcheck disable=SC2086  # several
all_well 'all prepare the table, one after the other' $first
is 'with an index each for leases and holders' "$(sql "SELECT string_agg(left(relname, -9), ' ' ORDER BY relname) FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indrelid = 'article'::regclass AND indisvalid AND NOT indisprimary")" 'article_pgwork_holder article_pgwork_lease'
sql 'UPDATE article SET grade = NULL' >/dev/null

for who in anna bert cleo dora; do
    "$review" $who 5 >"$tmp/$who" 2>"$tmp/$who.err" &
    jobs_of_ours="$jobs_of_ours $!"
done
wait
is 'each article is reviewed once' "$(cat "$tmp/anna" "$tmp/bert" "$tmp/cleo" "$tmp/dora" | sort | uniq | wc -l) $(cat "$tmp/anna" "$tmp/bert" "$tmp/cleo" "$tmp/dora" | wc -l)" '300 300'
is 'each article has a grade and no lease' "$(sql 'SELECT count(*) FROM article WHERE grade BETWEEN 1 AND 6 AND locked_by IS NULL')" 300

# emil was killed between claim and finish; felix is told nothing is there until the hour is over
sql "UPDATE article SET grade = NULL, locked_by = 'emil', token = gen_random_uuid(), expires_at = now() + interval '1 hour' WHERE number <= 10" >/dev/null
code 'leased articles are left alone' 0 "$review" felix 20
is 'by others' "$(cat "$tmp/out")" ''
code 'emil comes back' 0 "$review" emil 20
is 'a holder who comes back gets his own rows' "$(wc -l <"$tmp/out")" 10
sql "UPDATE article SET grade = NULL, locked_by = 'emil', token = gen_random_uuid(), expires_at = now() - interval '1 second' WHERE number <= 10" >/dev/null
code 'after the hour' 0 "$review" felix 20
is 'felix has them' "$(wc -l <"$tmp/out")" 10
exit 0
