#!/bin/sh
# bench.sh [--quick] [QUESTION...]: run by `./run bench` beside a private server. See README.md.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
PATH="$top/build/bench:$PATH"
export PATH here top out="$top/build/bench" seconds=5 rounds=5 quick=
questions=
for a in "$@"; do
    case $a in
    --quick) quick=1 seconds=1 rounds=2 ;;
    -*) echo "bench: unknown option $a; only --quick and names of questions are known" >&2; exit 2 ;;
    *) [ -f "$here/ask/$a.sh" ] || { echo "bench: no question $a; there are: $(ls "$here/ask" | sed 's/\.sh$//' | tr '\n' ' ')" >&2; exit 2; }
       questions="$questions $a" ;;
    esac
done
[ -n "$questions" ] || questions='wal claim enqueue pin backlog queues reap worker pickup'
mkdir -p "$out"
: >"$out/results.tsv"
. "$here/lib.sh"

server_facts | tee "$out/server.txt"
for q in $questions; do
    fresh_database
    echo "== $q: $(sed -n '2s/^# //p' "$here/ask/$q.sh")" >&2
    . "$here/ask/$q.sh"
    awk -v only="$q" -f "$here/report.awk" "$out/results.tsv"
done
awk -v json=1 -f "$here/report.awk" "$out/results.tsv" >"$out/results.json"
echo "all of it: $out/results.tsv, $out/results.json"
