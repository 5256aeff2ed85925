#!/bin/sh
# smoke.sh: every question of the benchmark can be asked and answered, with a few transactions each; nothing is timed.
# Needs a server (libpq's variables), like bench.sh.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out="$(dirname "$here")/build/results/smoke"
sh "$here/bench.sh" --smoke

for question in claim steady enqueue peers wal payload pin backlog groups queues reap worker client pickup $(if command -v pgbouncer >/dev/null; then echo pooler; fi) \
    $(if command -v pgwork-ui >/dev/null && command -v curl >/dev/null && [ -r "${WITH_PG_DIR:-}/log" ]; then echo ui; fi); do
    grep -q "^$question	" "$out/results.tsv" || { echo "smoke: no answer to $question"; exit 1; }
done
# A target finds its figure by words: who changes these in a question only would have it measured no longer. Those that a smoke run cannot
# ask: other batches, clients, workers and peers.
sh "$here/targets.sh" "$out/results.tsv" >"$out/targets.txt" || { echo 'smoke: no targets'; exit 1; }
grep 'not measured in this run$' "$out/targets.txt" |
    grep -vE 'batch 10(00)?,|batch 1, 8 clients, for|one statement|best batch|up to 100|workers: 64|  snapshot held|held, of jobs enqueued one by one|256 clients' &&
    { echo 'smoke: no figure for these targets'; exit 1; }
# what was not asked meets nothing and misses nothing
grep '^wal	WAL, batch 100	pgwork	' "$out/results.tsv" >"$out/one.tsv"
sh "$here/targets.sh" "$out/one.tsv" | grep -Eq '  (1 met, 0 met as far as asked, 0|0 met, 0 met as far as asked, 1) NOT met, ' || { echo 'smoke: targets of what was not asked'; exit 1; }
# JSON as PostgreSQL reads it, an object for each contender of each measure
objects=$(psql -XqAt -v ON_ERROR_STOP=1 -v json="$(cat "$out/results.json")" <<'S'
SELECT count(*) FROM json_array_elements(:'json'::json) o WHERE (o->>'median')::numeric >= 0 AND o->>'question' <> '';
S
)
[ "$objects" = "$(cut -f 1-3 "$out/results.tsv" | sort -u | wc -l)" ] || { echo "smoke: results.json has $objects objects"; exit 1; }
