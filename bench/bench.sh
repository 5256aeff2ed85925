#!/bin/sh
# bench.sh [--quick | --smoke] [--append] [--clients 'N ...'] [--batches 'N ...'] [--seconds N] [--rounds N] [--steady SECONDS] [--pin SECONDS] [--pins 'WHO/KIND ...'] [--backlog JOBS] [QUESTION...]:
# run by `./run bench` beside a private server.
# --quick: shorter, and less (quick), with fewer contenders (look). --smoke: less, with all of them, and only sees to it that every question
# can be asked: a few transactions each. --append: one more part of a run, beside what the last one has measured: a question after the
# other, each with rounds as long as it needs. --clients: of claim, not all; --batches: of claim, steady and groups, and one of pin; --pins: of pin.
# See README.md.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
PATH="$top/build/bench:$PATH"
seconds=5 rounds=5 rounds_asked='' steady_seconds=30 pin_seconds=300 backlog=1000000 quick='' smoke='' look='' append='' clients='' batches='' pins='' questions='' out="$top/build/results"
there=$(find "$here/ask" -name '*.sh' -exec basename {} .sh ';' | sort | tr '\n' ' ')
usage() { echo "bench: $1; usage: bench [--quick] [--append] [--clients 'N ...'] [--batches 'N ...'] [--seconds N] [--rounds N] [--steady SECONDS] [--pin SECONDS] [--pins 'WHO/KIND ...'] [--backlog JOBS] [QUESTION...]; questions: $there" >&2; exit 2; }
number() { case ${1:-} in '' | *[!0-9]* | 0*) usage "a number is missing" ;; esac; }
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=1 look=1 seconds=1 rounds=1 steady_seconds=2 pin_seconds=3 backlog=100000 out="$top/build/results/quick" ;;
    --smoke) quick=1 smoke=1 look='' seconds=1 rounds=1 steady_seconds=1 pin_seconds=1 backlog=20000 out="$top/build/results/smoke" ;;
    --append) append=1 ;;
    --clients) clients=${2:-}; shift ;;
    --batches) batches=${2:-}; shift ;;
    --seconds) number "${2:-}"; seconds=$2; shift ;;
    --rounds) number "${2:-}"; rounds=$2 rounds_asked=$2; shift ;;
    --steady) number "${2:-}"; steady_seconds=$2; shift ;;
    --pin) number "${2:-}"; pin_seconds=$2; shift ;;
    --pins) pins=${2:-}; shift ;;
    --backlog) number "${2:-}"; backlog=$2; shift ;;
    -*) usage "unknown option $1" ;;
    *) [ -f "$here/ask/$1.sh" ] || usage "no question $1"; questions="$questions $1" ;;
    esac
    shift
done
[ -n "$questions" ] || questions='claim steady enqueue peers wal payload pin backlog reap worker client pickup pooler groups ui queues' # its 10,000 queues last
export PATH here top out clients batches pins seconds rounds rounds_asked steady_seconds pin_seconds backlog quick smoke look
mkdir -p "$out"
# A checkout of the first engine (commit a915381), built, to be measured beside this one. The programs here are linked with its library.
engine1=${PGWORK_ENGINE1:-}
if [ -n "$engine1" ]; then
    if [ ! -x "$engine1/build/pgwork" ]; then usage "PGWORK_ENGINE1: no build/pgwork in $engine1"; fi
    for program in claim noop_worker pickup; do
        # shellcheck disable=SC2046  # words
        ${CC:-cc} -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -I"$engine1/inc" -include "$here/engine1.h" $(pkg-config --cflags libpq) -o "$top/build/bench/engine1-$program" \
            "$here/$program.c" "$engine1/build/libpgwork.a" -lpq -pthread
    done
fi
. "$here/lib.sh"
# shellcheck disable=SC2034  # server_cpu uses it
data_directory=$(sql -c 'SHOW data_directory')

if [ -n "$append" ] && [ -s "$out/results.tsv" ]; then
    run_facts | tee -a "$out/server.txt"
else
    : >"$out/results.tsv"
    rm -f "$out"/pin-[0-9]*.tsv "$out/steady-time.tsv" # another run's
    { server_facts; run_facts; } | tee "$out/server.txt"
fi
for q in $questions; do
    began=$(now_ms)
    echo "== $q: $(sed -n '3s/^# //p' "$here/ask/$q.sh")" >&2
    fresh_database
    # shellcheck disable=SC1090  # whichever is asked
    . "$here/ask/$q.sh"
    awk -v only="$q" -f "$here/rounds.awk" -f "$here/report.awk" "$out/results.tsv"
    say "   $q took $((($(now_ms) - began) / 1000)) s"
done
awk -v json=1 -f "$here/rounds.awk" -f "$here/report.awk" "$out/results.tsv" >"$out/results.json"
sh "$here/targets.sh" "$out/results.tsv"
if [ -n "$engine1" ]; then awk -f "$here/rounds.awk" -f "$here/engines.awk" "$out/results.tsv"; fi
echo
echo "load average after: $(load_average)" | tee -a "$out/server.txt"
echo "all of it: $out/results.tsv, $out/results.json"
