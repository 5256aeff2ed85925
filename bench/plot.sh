#!/bin/sh
# plot.sh [DIR]: SVG plots of the last run (build/bench) into DIR (doc/plots): throughput against batch and against
# clients, and the run with an old snapshot over time. A plot without figures is left out.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
from="$top/build/bench" to=${1:-$top/doc/plots}
command -v gnuplot >/dev/null || { echo "plot: gnuplot is not here (Debian: gnuplot-nox)"; exit 1; }
[ -s "$from/results.tsv" ] || { echo "plot: no results in $from; ./run bench makes them"; exit 1; }
mkdir -p "$to" "$from/plot"

# medians of the question claim: clients, batch, contender, jobs/s
sort -t "$(printf '\t')" -k1,3 -k4,4g "$from/results.tsv" | awk -F '\t' '
    function put() { if (n) print c, b, who, n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2; n = 0 }
    $1 == "claim" {
        if ($2 FS $3 != key) put()
        key = $2 FS $3; who = $3
        split($2, w, /[ ,]+/); c = w[2]; b = w[4]
        v[++n] = $4
    }
    END { put() }' >"$from/plot/claim"

# series COLUMN VALUE X CONTENDER <claim
series() { awk -v k="$1" -v w="$2" -v x="$3" -v who="$4" '$k == w && $3 == who { print $x, $4 }' "$from/plot/claim" | sort -g; }

# draw NAME TITLE XLABEL YLABEL [GNUPLOT]: the files plot/NAME.*, a line each
draw() {
    lines=
    for f in "$from/plot/$1".*; do
        [ -s "$f" ] || continue
        lines="$lines${lines:+, }'$f' using 1:2 with linespoints linewidth 2 pointtype 7 pointsize 0.6 title '$(echo "${f##*/"$1".}" | tr _ ' ')'"
    done
    [ -n "$lines" ] || { echo "plot: no figures for $1"; return; }
    gnuplot <<S
set terminal svg size 720,420 dynamic background rgb 'white' font 'sans-serif,13'
set output '$to/$1.svg'
set title "$2" noenhanced
set xlabel '$3'
set ylabel '$4'
set yrange [0:*]
set format y '%.0s%c'
set grid linecolor rgb '#dddddd'
set key outside right top noenhanced
set style line 1 linecolor rgb '#1b6ca8'
${5:-}
plot $lines
S
    echo "made $to/$1.svg"
}

rm -f "$from"/plot/batch.* "$from"/plot/clients.* "$from"/plot/pin-*
for who in pgwork onetable limit pgwork-apart onetable-apart; do
    series 1 8 2 $who >"$from/plot/batch.$who"
    series 2 100 1 $who >"$from/plot/clients.$who"
done
draw batch 'claim and complete, 8 clients' 'jobs a call' 'jobs a second' 'set logscale x'
if [ "$(cut -d' ' -f1 "$from/plot/claim" | sort -u | wc -l)" -gt 1 ]; then
    draw clients 'claim and complete, 100 jobs a call' 'clients' 'jobs a second' 'set logscale x 2'
fi
if [ -s "$from/pin-time.tsv" ]; then
    awk -F '\t' -v d="$from/plot" '{ print $3, $5 >(d "/pin-" $4 "." $1 ($2 == "no" ? "" : ",_" $2 "_held")) }' "$from/pin-time.tsv"
    draw pin-throughput 'enqueue, claim and complete, 100 jobs a call, 4 clients' 'seconds' 'jobs a second'
    draw pin-size 'size of the table with its indexes' 'seconds' 'MB'
fi
