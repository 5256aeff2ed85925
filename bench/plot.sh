#!/bin/sh
# plot.sh [DIR [RUN]]: SVG plots of the last run (build/results) into DIR (doc/plots): throughput against batch and against
# clients, throughput over time beside autovacuum, pickup latency, throughput and size over time while something is held.
# A plot without figures is left out.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
to=${1:-$top/doc/plots} from=${2:-$top/build/results}
command -v gnuplot >/dev/null || { echo "plot: gnuplot is not here (Debian: gnuplot-nox)" >&2; exit 1; }
[ -s "$from/results.tsv" ] || { echo "plot: no results in $from; ./run bench makes them" >&2; exit 1; }
work="$from/plot"
rm -rf "$work"
mkdir -p "$to" "$work"

# question, measure, contender, median, minimum, maximum
sort -t "$(printf '\t')" -k1,3 -k4,4g "$from/results.tsv" | awk -F '\t' -v OFS='\t' '
    function put() { if (n) print key, n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2, v[1], v[n]; n = 0 }
    $1 OFS $2 OFS $3 != key { put(); key = $1 OFS $2 OFS $3 }
    { v[++n] = $4 }
    END { put() }' >"$work/medians"

# series NAME: sets label and style of a contender, or an empty label for those that no plot shows. Four at most.
series() {
    label='' dash=1
    case $1 in
    pgwork) label='pgwork' colour=$blue ;;
    pgwork-rows) label='pgwork, jobs enqueued one by one' colour=$green ;;
    onetable) label='one-table queue (SKIP LOCKED)' colour=$red ;;
    limit) label='bare DELETE, no queue' colour=$grey ;;
    'pgwork, nothing held') label='pgwork, no snapshot held' colour=$blue ;;
    'pgwork, snapshot held') label='pgwork, snapshot held' colour=$green ;;
    'pgwork, writer held') label='pgwork, writing transaction held' colour=$orange ;;
    'onetable, snapshot held') label='one-table queue, snapshot held' colour=$red ;;
    'enqueue to handler, p50') label='enqueue to handler, median' colour=$blue ;;
    'enqueue to handler, p99') label='enqueue to handler, 99th percentile' colour=$blue dash=2 ;;
    'round trip, p50') label='network round trip, median' colour=$grey ;;
    'round trip, p99') label='network round trip, 99th percentile' colour=$grey dash=2 ;;
    esac
    style="linewidth 2.2 dashtype $dash linecolor rgb '${colour:-}'"
}
# On white and on black the contrast of these is above three to one.
blue='#2f81f7' green='#2da44e' red='#e5534b' grey='#808890' orange='#c9721c'
ink='#010203'                       # what recolour makes dark or light

# curves DIR: the files $work/DIR/*, a curve each: x, y and perhaps least and most; sets curves
curves() {
    curves='' bars=''
    for f in "$work/$1"/[ep]* "$work/$1"/[!ep]*; do # ours first
        [ -s "$f" ] || continue
        series "${f##*/}"
        [ -n "$label" ] || continue
        curves="$curves${curves:+, }'$f' using 1:2 with lines $style title '$label'"
        if [ "$(awk 'NR == 1 { print NF }' "$f")" = 4 ]; then bars="$bars, '$f' using 1:2:3:4 with yerrorbars notitle linewidth 1 linecolor rgb '$colour' pointtype 7 pointsize 0.5"; fi
    done
    curves="$curves$bars"
}

# log_axis DIR: a logarithmic axis with tics whose labels differ: 1, 2 and 5 of each decade, or each decade where there are many
log_axis() {
    cat "$work/$1"/* | awk '
        function label(x) { return x >= 1000000 ? x / 1000000 "M" : x >= 1000 ? x / 1000 "k" : x }
        $2 > 0 { if (!least || $2 < least) least = $2; if ($2 > most) most = $2 }
        END {
            if (!least) exit
            for (d = 1e-6; d * 10 <= least; d *= 10) ;
            few = most / least < 300
            for (; d <= most * 10; d *= 10)
                for (m = 1; m < 10; m += m == 1 ? 1 : m == 2 ? 3 : 5)
                    if (!high && (few || m == 1)) {
                        x = d * m
                        if (x <= least) low = x
                        if (x >= most) high = x
                        tics = tics (tics == "" ? "" : ", ") "\"" label(x) "\" " x
                    }
            print "set logscale y\nset ytics (" tics ")\nset yrange [" low ":" high "]"
        }'
}

# page NAME HEIGHT: what every plot begins with
page() {
    cat <<S
set terminal svg size 760,$2 dynamic font 'Helvetica,Arial,sans-serif,13'
set output '$to/$1.svg'
set border 3 linecolor rgb '$ink'
set tics nomirror out textcolor rgb '$ink'
set grid ytics linecolor rgb '#888888' linetype 1 linewidth 0.3
set key outside bottom center horizontal noenhanced samplen 3 maxcols 2 textcolor rgb '$ink'
S
}

# axes TITLE XLABEL YLABEL
axes() {
    cat <<S
set title "$1" noenhanced font ',15' textcolor rgb '$ink'
set xlabel '$2' noenhanced offset 0,0.7 textcolor rgb '$ink'
set ylabel '$3' noenhanced textcolor rgb '$ink'
S
}

# recolour NAME: text and axes follow the reader's colour scheme
recolour() {
    awk '{ gsub(/rgb\( *1, *2, *3\)|#010203/, "currentColor"); print }
        /^>$/ && !done++ {
            print "<style>svg { color: #1f2328; background: #ffffff }"
            print "@media (prefers-color-scheme: dark) { svg { color: #e6edf3; background: #0d1117 } }</style>"
        }' "$to/$1.svg" >"$work/svg"
    cat "$work/svg" >"$to/$1.svg"
    echo "made $to/$1.svg"
}

# draw NAME TITLE XLABEL YLABEL [GNUPLOT]: the curves of $work/NAME
draw() {
    curves "$1"
    [ -n "$curves" ] || { rm -f "$to/$1.svg"; echo "plot: no figures for $1, left out"; return; }
    { page "$1" 460; axes "$2" "$3" "$4"; log_axis "$1"; printf '%s\n' "${5:-}" "plot $curves"; } | gnuplot
    recolour "$1"
}

# throughput: "clients C, batch N"; the library is `pgwork` where it was asked, else the SQL functions are
mkdir "$work/batch" "$work/clients"
awk -F '\t' -v d="$work" '
    function who(c) { return c == "pgwork-lib" ? "pgwork" : c == "pgwork" && library ? "pgwork-sql" : c }
    NR == FNR { if ($1 == "claim" && $3 == "pgwork-lib") library = 1; next }
    $1 == "claim" {
        split($2, w, /[ ,]+/); row = $4 " " $5 " " $6
        if (w[2] == 8) print w[4], row | ("sort -g >\"" d "/batch/" who($3) "\"")
        if (w[4] == 100) print w[2], row | ("sort -g >\"" d "/clients/" who($3) "\"")
    }' "$work/medians" "$work/medians"
for f in "$work"/clients/*; do if [ -e "$f" ] && [ "$(wc -l <"$f")" -lt 2 ]; then rm "$f"; fi; done
draw batch 'Claim and complete, 8 sessions' 'jobs per call' 'jobs per second' 'set logscale x
set xtics (1, 10, 100, 1000)
set xrange [0.8:1250]'
draw clients 'Claim and complete, 100 jobs per call' 'sessions' 'jobs per second' 'set logscale x 2
set xtics (1, 8, 64, 256)
set xrange [0.8:320]'

# throughput over time, beside autovacuum: the first round of batch 10
mkdir "$work/steady"
if [ -s "$from/steady-time.tsv" ]; then
    awk -F '\t' -v d="$work/steady" '$2 == 10 && $3 == 1 { print $4, $5 >(d "/" $1) }' "$from/steady-time.tsv"
fi
draw steady 'Claim and complete, 10 jobs per call, 8 sessions, beside autovacuum' 'seconds' 'jobs per second'

# pickup: "P, workers: N"
mkdir "$work/pickup"
awk -F '\t' -v d="$work/pickup" '$1 == "pickup" && $2 ~ /^p(50|99), workers: / {
    p = $2; sub(/,.*/, "", p); x = $2; sub(/.*: /, "", x)
    if ($3 == "pgwork-lib") who = "enqueue to handler"; else if ($3 ~ /round trip/) who = "round trip"; else next
    print x, $4, $5, $6 | ("sort -g >\"" d "/" who ", " p "\"")
}' "$work/medians"
draw pickup 'From enqueue to handler, 300 jobs per second, idle workers' 'workers' 'milliseconds' "set logscale x 2
set xtics (1, 4, 64)
set xrange [0.8:80]"

# over time, 120 points a curve: the mean of what was seen in between; throughput above, size below, the same seconds
rm -f "$to"/pin-[0-9]*.svg # of lengths that this run has not
for curve in "$from"/pin-[0-9]*.tsv; do
    [ -s "$curve" ] || { echo 'plot: no figures for pin, left out'; continue; }
    mkdir -p "$work/throughput" "$work/size"
    awk -F '\t' -v d="$work" -v events="$work/events" '
        NR == FNR { if ($4 == "event") last = $3; next } # of the events, the end
        $4 == "event" && $3 == last { printf "set xrange [0:%s]\n", last >events; next }
        $4 == "event" {
            printf "set arrow from first %s, graph 0 to first %s, graph 1 nohead dashtype 3 linecolor rgb \"#999999\"\n", $3, $3 >events
            printf "set label \"%s\" at first %s, graph 1 offset 0.3,%s font \",10\" textcolor rgb \"#808890\"\n", $5, $3, -0.6 - line++ >events
            next
        }
        { f = d "/" $4 "/" $1 ($2 == "no" ? ", nothing held" : ", " $2 " held"); k = f SUBSEP int($3 * 120 / (last + 1)); x[k] += $3; y[k] += $5; n[k]++ }
        END { for (k in n) { split(k, p, SUBSEP); print x[k] / n[k], y[k] / n[k] | ("sort -g >\"" p[1] "\"") } }' "$curve" "$curve"
    name=$(basename "$curve" .tsv)
    curves throughput
    above=$curves
    curves size
    if [ -n "$above" ]; then
        {
            page "$name" 760
            cat "$work/events"
            echo 'set multiplot layout 2,1
set key off'
            axes 'Enqueue, claim and complete, 100 jobs per call, 4 sessions' '' 'jobs per second'
            log_axis throughput
            echo "plot $above"
            echo 'set key'
            axes 'Size of the tables with their indexes' 'seconds' 'megabytes'
            log_axis size
            echo "plot $curves
unset multiplot"
        } | gnuplot
        recolour "$name"
    fi
    rm -rf "$work/throughput" "$work/size"
done
rm -rf "$work"
