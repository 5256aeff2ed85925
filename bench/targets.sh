#!/bin/sh
# targets.sh [RESULTS [md]]: where each target of the project stands, from the results of one run (build/results/results.tsv):
# measure, target, figure, met or NOT met. What the run did not ask is counted at the end; in Markdown it has its line, too.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
results=${1:-$(dirname "$here")/build/results/results.tsv}
[ -s "$results" ] || { echo "targets: no results in $results; ./run bench makes them" >&2; exit 1; }
exec awk -v md="${2:+1}" -f "$here/rounds.awk" -f "$here/targets.awk" "$results"
