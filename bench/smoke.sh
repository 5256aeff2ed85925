#!/bin/sh
# smoke.sh: every question of the benchmark can be asked and answered, with a few transactions each; nothing is timed.
# Needs a server (libpq's variables), like bench.sh.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out="$(dirname "$here")/build/bench/smoke"
sh "$here/bench.sh" --smoke

for question in claim steady enqueue peers wal payload pin backlog queues reap worker client pickup; do
    grep -q "^$question	" "$out/results.tsv" || { echo "smoke: no answer to $question"; exit 1; }
done
sh "$here/targets.sh" "$out/results.tsv" | grep -q ' NOT met, ' || { echo 'smoke: no targets'; exit 1; }
# what was not asked meets nothing and misses nothing
grep '^wal	WAL, batch 100	pgwork	' "$out/results.tsv" >"$out/one.tsv"
sh "$here/targets.sh" "$out/one.tsv" | grep -q '  [01] met, 0 met as far as asked, [01] NOT met, ' || { echo 'smoke: targets of what was not asked'; exit 1; }
# JSON as PostgreSQL reads it, an object for each contender of each measure
objects=$(psql -XqAt -v ON_ERROR_STOP=1 -v json="$(cat "$out/results.json")" <<'S'
SELECT count(*) FROM json_array_elements(:'json'::json) o WHERE (o->>'median')::numeric >= 0 AND o->>'question' <> '';
S
)
[ "$objects" = "$(cut -f 1-3 "$out/results.tsv" | sort -u | wc -l)" ] || { echo "smoke: results.json has $objects objects"; exit 1; }
