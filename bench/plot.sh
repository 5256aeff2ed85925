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

# look NAME: sets style and look_colour. A contender has one colour in every plot; a variant of it (another number of calls, something held) has its dashes.
look() {
    case $1 in
    pgwork*-rows* | pgwork*-bundles*) look_colour='#3fa34d' ;;
    pgwork* | enqueue\ to\ handler*) look_colour='#1b6ca8' ;;
    onetable*) look_colour='#d1495b' ;;
    limit* | *round\ trip*) look_colour='#7a7a7a' ;;
    *) look_colour='#e09f3e' ;;
    esac
    case $1 in
    *2calls* | *1call* | *snapshot* | *p99) look_dash=2 ;;
    *-lib*) look_dash=4 ;;
    *async* | *writer* | *p99.9) look_dash=3 ;;
    *) look_dash=1 ;;
    esac
    style="linewidth 2.2 dashtype $look_dash linecolor rgb '$look_colour'"
}

# curves DIR: the files $work/DIR/*, a curve each: x, y and perhaps least and most; sets curves
curves() {
    curves='' bars=''
    for f in "$work/$1"/[ep]* "$work/$1"/[!ep]*; do # ours first
        [ -s "$f" ] || continue
        who=${f##*/}
        look "${who#*:}"
        curves="$curves${curves:+, }'$f' using 1:2 with lines $style title '${who#*:}'"
        if [ "$(awk 'NR == 1 { print NF }' "$f")" = 4 ]; then bars="$bars, '$f' using 1:2:3:4 with yerrorbars notitle linewidth 1 linecolor rgb '$look_colour' pointtype 7 pointsize 0.5"; fi
    done
    curves="$curves$bars"
}

# page NAME HEIGHT: what every plot begins with
page() {
    cat <<S
set terminal svg size 760,$2 dynamic background rgb 'white' font 'Helvetica,Arial,sans-serif,13'
set output '$to/$1.svg'
set yrange [0:*]
set format y '%.0s%c'
set border 3 linecolor rgb '#555555'
set tics nomirror out
set grid ytics linecolor rgb '#e4e4e4' linetype 1
set key outside bottom center horizontal noenhanced samplen 4
S
}

# axes TITLE XLABEL YLABEL
axes() {
    cat <<S
set title "$1" noenhanced font ',15'
set xlabel '$2' noenhanced offset 0,0.7
set ylabel '$3' noenhanced
S
}

# draw NAME TITLE XLABEL YLABEL [GNUPLOT]: the curves of $work/NAME
draw() {
    curves "$1"
    [ -n "$curves" ] || { echo "plot: no figures for $1, left out"; return; }
    { page "$1" 460; axes "$2" "$3" "$4"; printf '%s\n' "${5:-}" "plot $curves"; } | gnuplot
    echo "made $to/$1.svg"
}

# throughput: "clients C, batch N"
mkdir "$work/batch" "$work/clients"
awk -F '\t' -v d="$work" '$1 == "claim" {
    split($2, w, /[ ,]+/); row = $4 " " $5 " " $6
    if (w[2] == 8) print w[4], row | ("sort -g >\"" d "/batch/" $3 "\"")
    if (w[4] == 100 && ($3 !~ /-/ || $3 == "pgwork-rows")) { print w[2], row | ("sort -g >\"" d "/clients/" $3 "\""); c[w[2]] = 1 }
}' "$work/medians"
for f in "$work"/clients/*; do if [ -e "$f" ] && [ "$(wc -l <"$f")" -lt 2 ]; then rm "$f"; fi; done
draw batch 'Claim and complete, 8 clients' 'jobs a call' 'jobs a second' 'set logscale x
set xtics (1, 10, 100, 1000)
set xrange [0.8:1250]'
draw clients 'Claim and complete, 100 jobs a call' 'clients' 'jobs a second' 'set logscale x 2
set xtics (1, 8, 64, 256)
set xrange [0.8:320]'

# throughput over time, beside autovacuum: the first round of batch 10
mkdir "$work/steady"
if [ -s "$from/steady-time.tsv" ]; then
    awk -F '\t' -v d="$work/steady" '$2 == 10 && $3 == 1 { print $4, $5 >(d "/" $1) }' "$from/steady-time.tsv"
fi
draw steady 'Claim and complete, 10 jobs a call, 8 clients, autovacuum at work' 'seconds' 'jobs a second'

# pickup: "P, workers: N"
mkdir "$work/pickup"
awk -F '\t' -v d="$work/pickup" '$1 == "pickup" && $2 ~ /^p(50|99), workers: / {
    p = $2; sub(/,.*/, "", p); x = $2; sub(/.*: /, "", x)
    if ($3 == "pgwork-lib") who = "enqueue to handler"; else if ($3 ~ /round trip/) who = "round trip"; else next
    print x, $4, $5, $6 | ("sort -g >\"" d "/" who ", " p "\"")
}' "$work/medians"
draw pickup 'From enqueue to handler, 300 jobs a second, idle workers' 'workers' 'milliseconds' "set format y '%g'
set logscale x 2
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
            printf "set label \"%s\" at first %s, graph 1 offset 0.3,%s font \",10\" textcolor rgb \"#777777\"\n", $5, $3, -0.6 - line++ >events
            next
        }
        { f = d "/" $4 "/" $1 ($2 == "no" ? ", nothing held" : ", " $2 " held"); k = f SUBSEP int($3 * 120 / (last + 1)); x[k] += $3; y[k] += $5; n[k]++ }
        END { for (k in n) { split(k, p, SUBSEP); print x[k] / n[k], y[k] / n[k] | ("sort -g >\"" p[1] "\"") } }' "$curve" "$curve"
    curves throughput
    above=$curves
    curves size
    {
        page "$(basename "$curve" .tsv)" 760
        cat "$work/events"
        echo 'set multiplot layout 2,1
set key off'
        axes 'Enqueue, claim and complete, 100 jobs a call, 4 clients' '' 'jobs a second'
        echo "plot $above"
        echo "set key
set format y '%g'"
        axes 'Size of the tables with their indexes' 'seconds' 'megabytes'
        echo "plot $curves
unset multiplot"
    } | gnuplot
    echo "made $to/$(basename "$curve" .tsv).svg"
    rm -rf "$work/throughput" "$work/size"
done
rm -rf "$work"
