#!/bin/sh
# publish.sh [RESULTS [TREE]]: results of `./run bench` (build/results) into the documents of TREE (this one): plots into
# doc/plots, all figures between the marks of bench/figures.md, the short table and two plots between those of
# doc/performance.md. No figure there is typed by hand.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
from=${1:-$top/build/results} top=${2:-$top}
plots="$top/doc/plots"
[ -s "$from/results.tsv" ] || { echo "publish: no results in $from; ./run bench makes them" >&2; exit 1; }
sh "$here/plot.sh" "$plots" "$from"
pins=$(for p in "$plots"/pin-[0-9]*.svg; do basename "$p" .svg; done | sort -t - -k 2n) # one for each length
new=$(mktemp)
trap 'rm -f "$new"' EXIT

# replace FILE MARK <<TEXT: what stands between these marks
replace() {
    [ "$(grep -c "^<!-- $2: \(begin\|end\) -->\$" "$1")" = 2 ] || { echo "publish: no marks '$2' in $1" >&2; exit 1; }
    cat >"$new"
    awk -v new="$new" -v begin="<!-- $2: begin -->" -v end="<!-- $2: end -->" '$0 == end { inside = 0 }
        !inside { print }
        $0 == begin { inside = 1; while ((getline line <new) > 0) print line }' "$1" >"$new.all"
    cat "$new.all" >"$1"                # keeps its mode
    rm -f "$new.all"
    echo "wrote $1"
}

# short: the table that comes first
short() { awk -f "$here/rounds.awk" -f "$here/short.awk" "$from/results.tsv"; }

# image NAME DIR: where it was drawn
image() {
    case $1 in
    batch) text='jobs per second against jobs per call, eight sessions' ;;
    clients) text='jobs per second against sessions, 100 jobs per call' ;;
    steady) text='jobs per second over time beside autovacuum' ;;
    pickup) text='milliseconds from enqueue to handler' ;;
    pin-*) text="jobs per second and table size while a snapshot is held for ${1#pin-} s" ;;
    esac
    if [ -s "$plots/$1.svg" ]; then printf '\n![%s](%s/%s.svg)\n' "$text" "$2" "$1"; fi
}

{
    printf '\n```\n'
    cat "$from/server.txt"
    printf '```\n\n### Targets\n\n'
    sh "$here/targets.sh" "$from/results.tsv" md
    awk -v md=1 -f "$here/rounds.awk" -f "$here/engines.awk" "$from/results.tsv"
    for q in $(cut -f 1 "$from/results.tsv" | awk '!seen[$0]++'); do
        printf '\n### %s\n\n%s.\n' "$q" "$(sed -n '3s/^# //p' "$here/ask/$q.sh")"
        case $q in
        claim) image batch ../doc/plots; image clients ../doc/plots ;;
        steady) image steady ../doc/plots ;;
        pin) for p in $pins; do image "$p" ../doc/plots; done ;;
        pickup) image pickup ../doc/plots ;;
        esac
        awk -v only="$q" -v md=1 -f "$here/rounds.awk" -f "$here/report.awk" "$from/results.tsv"
    done
    echo
} | replace "$top/bench/figures.md" figures

{
    short
    image batch plots
    image "$(echo "$pins" | tail -n 1)" plots # the longest
    echo
} | replace "$top/doc/performance.md" short
