#!/bin/sh
# publish.sh: what the last `./run bench` has measured (build/results) into the documents: plots into doc/plots, figures between
# the marks of doc/performance.md, plots between those of README.md. No figure there is typed by hand.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
from="$top/build/results" plots="$top/doc/plots"
[ -s "$from/results.tsv" ] || { echo "publish: no results in $from; ./run bench makes them" >&2; exit 1; }
sh "$here/plot.sh" "$plots"
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

# short ALL: the table that comes first
short() { awk -v all="$1" -f "$here/rounds.awk" -f "$here/short.awk" "$from/results.tsv"; }

# image NAME DIR: where it was drawn
image() {
    case $1 in
    batch) text='jobs a second against the batch' ;;
    clients) text='jobs a second against clients' ;;
    steady) text='jobs a second over time, while autovacuum alone removes dead rows' ;;
    pickup) text='milliseconds from enqueue to handler' ;;
    pin-*) text="jobs a second, and size of the tables, over time while a snapshot or a writing transaction is held for ${1#pin-} s" ;;
    esac
    if [ -s "$plots/$1.svg" ]; then printf '\n![%s](%s/%s.svg)\n' "$text" "$2" "$1"; fi
}

{
    printf '\n```\n'
    cat "$from/server.txt"
    printf '```\n\n### Targets\n\n'
    sh "$here/targets.sh" "$from/results.tsv" md
    for q in $(cut -f 1 "$from/results.tsv" | awk '!seen[$0]++'); do
        printf '\n### %s\n\n%s.\n' "$q" "$(sed -n '3s/^# //p' "$here/ask/$q.sh")"
        case $q in
        claim) image batch plots; image clients plots ;;
        steady) image steady plots ;;
        pin) for p in $pins; do image "$p" plots; done ;;
        pickup) image pickup plots ;;
        esac
        awk -v only="$q" -v md=1 -f "$here/rounds.awk" -f "$here/report.awk" "$from/results.tsv"
    done
    echo
} | replace "$top/doc/performance.md" figures
{ short 1; echo; } | replace "$top/doc/performance.md" short

{
    short 0
    for p in batch pickup $pins; do image "$p" doc/plots; done
    echo
} | replace "$top/README.md" figures
