# bench/publish.sh and bench/plot.sh: results become figures and plots.
. "$(dirname "$0")/tap"

# A gnuplot that writes the commands which it was given into the plot.
mkdir -p "$tmp/bin" "$tmp/results" "$tmp/tree/doc" "$tmp/tree/bench"
cat >"$tmp/bin/gnuplot" <<'END'
#!/bin/sh
cat >"$0.in"
to=$(sed -n "s/^set output '\(.*\)'$/\1/p" "$0.in")
{ printf '<svg\n>\n'; cat "$0.in"; } >"$to"
END
chmod +x "$tmp/bin/gnuplot"
export PATH="$tmp/bin:$PATH"
echo 'a machine' >"$tmp/results/server.txt"
for who in pgwork-lib pgwork pgwork-rows pgwork-bundles onetable onetable-1call limit limit-async; do
    for batch in 1 10 100 1000; do
        for c in 8 256; do printf 'claim\tclients %s, batch %s\t%s\t%s000\tjobs/s\n' $c $batch $who $batch; done
    done
done >"$tmp/results/results.tsv"
for s in 0 1 2; do
    printf 'pgwork\tsnapshot\t%s\tthroughput\t200000\nonetable\tsnapshot\t%s\tthroughput\t%s\n' $s $s "$((2000 / (s + 1)))"
    printf 'pgwork\tsnapshot\t%s\tsize\t%s\n' $s "$((s + 5))"
done >"$tmp/results/pin-60.tsv"
printf 'pgwork\tno\t2\tevent\tend\n' >>"$tmp/results/pin-60.tsv"
for f in bench/figures.md doc/performance.md; do cp "$top/$f" "$tmp/tree/$f"; done

code 'publish: results become documents' 0 sh "$top/bench/publish.sh" "$tmp/results" "$tmp/tree"
svg=$tmp/tree/doc/plots/batch.svg
is 'a plot has at most four series, with names that a stranger understands' \
    "$(grep '^plot ' "$svg" | grep -o " title '[^']*'" | tr '\n' ';')" \
    " title 'pgwork'; title 'pgwork, jobs enqueued one by one'; title 'bare DELETE, no queue'; title 'one-table queue (SKIP LOCKED)';"
is 'the labels of an axis differ' "$(grep '^set ytics' "$svg")" 'set ytics ("1k" 1000, "10k" 10000, "100k" 100000, "1M" 1000000)'
yes 'a plot is readable on a dark page' grep -q 'prefers-color-scheme: dark' "$svg"
yes 'throughput behind a snapshot is logarithmic' grep -q '^set logscale y' "$tmp/tree/doc/plots/pin-60.svg"
yes 'the page for users has the short table' grep -q '^| 8 sessions, just vacuumed | 1.0' "$tmp/tree/doc/performance.md"
is 'the page for users has two plots' "$(grep -c '^!\[' "$tmp/tree/doc/performance.md")" 2
yes 'the figures are in bench/figures.md' grep -q '^| clients 8, batch 100 (jobs/s)' "$tmp/tree/bench/figures.md"
code 'no old figure is left' 1 grep -q 'engine 1' "$tmp/tree/bench/figures.md" "$tmp/tree/doc/performance.md"
exit 0
