#!/bin/sh
# long.sh: runs chaos.sh with one seed after another, until OPERATIONS calls are checked and each class of faults has
# fired FIRINGS times. STATE is a file outside the tree with a line for each run in which no rule was broken, also if its
# verdict is UNKNOWN. After an interruption the same command continues there. A run that is invalid or fails ends the
# script with its exit status. Its log, and the history of an invalid run, are kept beside STATE.
# Variables: STATE (required), OPERATIONS (10000000), FIRINGS (1000), SECONDS_EACH (of a run: 600), SEED (of the first
# run: 1), RUNS (at most so many runs in this call: 1000000), PARALLEL (so many runs at a time: 1), and those of
# chaos.sh. CHAOS_CALM_S=3 makes the large faults more frequent, and the calls fewer.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
: "${STATE:?must name a file outside the tree, for the results}" "${OPERATIONS:=10000000}" "${FIRINGS:=1000}"
: "${SECONDS_EACH:=600}" "${SEED:=1}" "${RUNS:=1000000}" "${PARALLEL:=1}"
logs=$(mktemp -d)
runs='' # those that are running: SEED:PID
trap 'for run in $runs; do kill "${run#*:}" 2>/dev/null || :; done; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM HUP
touch "$STATE"

# Prints "seed 1 calls 276175 kill_process 12 ...", from the output of chaos-check. "-CLASS 0": it is not available.
account() {
    awk -v seed="$1" '/; checked [0-9]+ calls in / { calls = $0; sub(/.*; checked /, "", calls); sub(/ .*/, "", calls) }
        calls && $2 ~ /^[0-9]+$/ && /^  [a-z_0-9]+ / { line = line " " $1 " " $2 }
        calls && /: NOT AVAILABLE$/ { line = line " -" $1 " 0" }
        END { if (!calls) exit 1; print "seed", seed, "calls", calls line }' "$logs/$1"
}

# Prints the sums over all runs as a table. Fails while a goal is not reached.
total() {
    awk -v operations="$OPERATIONS" -v firings="$FIRINGS" '
        { runs++
          for (i = 3; i < NF; i += 2) { if (!($i in sum)) order[++n] = $i; sum[$i] += $(i + 1) } }
        END { missing = sum["calls"] < operations
              printf "| Figure | Reached |\n|---|--:|\n| valid runs | %d |\n| violations | 0 |\n", runs
              for (i = 1; i <= n; i++) {
                  if (order[i] ~ /^-/) continue
                  printf "| %s | %d |\n", order[i] == "calls" ? "checked calls" : "`" order[i] "`", sum[order[i]]
                  if (order[i] != "calls" && sum[order[i]] < firings && !("-" order[i] in sum)) missing = 1 }
              exit missing }' "$STATE"
}

# Judges a run that has ended with this exit status.
judge() { # judge SEED STATUS
    if [ "$2" != 0 ] && [ "$2" != 3 ]; then
        cp "$logs/$1" "$STATE.$1.log"
        tail -n 5 "$logs/$1"
        echo "long: stopped at seed $1: see $STATE.$1.log"
        exit "$2"
    fi
    account "$1" >>"$STATE" || { echo "long: no figures of seed $1"; exit 2; }
    tail -n 1 "$STATE" | cut -c 1-60
}

last=$(sed -n 's/^seed \([0-9]*\) .*/\1/p' "$STATE" | sort -n | tail -n 1)
[ -z "$last" ] || SEED=$((last + 1))
until total >/dev/null || [ "$RUNS" -le 0 ]; do
    first=$SEED runs=''
    while [ "$SEED" -lt $((first + PARALLEL)) ]; do
        CHAOS_KEEP='' CHAOS_KEEP_INVALID="$STATE.$SEED.history" "$here/chaos.sh" "$SECONDS_EACH" "$SEED" >"$logs/$SEED" 2>&1 &
        runs="$runs $SEED:$!"
        SEED=$((SEED + 1)) RUNS=$((RUNS - 1))
    done
    for run in $runs; do
        code=0
        wait "${run#*:}" || code=$?
        judge "${run%:*}" "$code"
    done
    runs=''
done
code=0
total || code=$?
[ $code = 0 ] || echo 'long: the goals are not reached yet: the same command continues'
exit $code
