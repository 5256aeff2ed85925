#!/bin/sh
# long.sh: runs chaos.sh with one seed after another, until OPERATIONS calls are checked and each class of faults has
# fired FIRINGS times. STATE is a file outside the tree with a line for each run in which no rule was broken, also if its
# verdict is UNKNOWN. After an interruption the same command continues there. A run that is invalid or fails ends the
# script with its exit status. Its log, and the history of an invalid run, are kept beside STATE.
# Variables: STATE (required), OPERATIONS (10000000), FIRINGS (1000), SECONDS_EACH (of a run: 600), SEED (of the first
# run: 1), RUNS (at most so many runs in this call: 1000000).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
: "${STATE:?must name a file outside the tree, for the results}" "${OPERATIONS:=10000000}" "${FIRINGS:=1000}"
: "${SECONDS_EACH:=600}" "${SEED:=1}" "${RUNS:=1000000}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM HUP
touch "$STATE"

# Prints "seed 1 calls 276175 kill_process 12 ...", from the output of chaos-check. "-CLASS 0": it is not available.
account() {
    awk -v seed="$1" '/; checked [0-9]+ calls in / { calls = $0; sub(/.*; checked /, "", calls); sub(/ .*/, "", calls) }
        calls && $2 ~ /^[0-9]+$/ && /^  [a-z_0-9]+ / { line = line " " $1 " " $2 }
        calls && /: NOT AVAILABLE$/ { line = line " -" $1 " 0" }
        END { if (!calls) exit 1; print "seed", seed, "calls", calls line }' "$log"
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

last=$(sed -n 's/^seed \([0-9]*\) .*/\1/p' "$STATE" | tail -n 1)
[ -z "$last" ] || SEED=$((last + 1))
until total >/dev/null || [ "$RUNS" -le 0 ]; do
    code=0
    CHAOS_KEEP='' "$here/chaos.sh" "$SECONDS_EACH" "$SEED" >"$log" 2>&1 || code=$?
    if [ $code != 0 ] && [ $code != 3 ]; then
        cp "$log" "$STATE.$SEED.log"
        [ $code != 1 ] || [ ! -d build/chaos/last ] || cp -r build/chaos/last "$STATE.$SEED.history"
        tail -n 5 "$log"
        echo "long: stopped at seed $SEED: see $STATE.$SEED.log"
        exit $code
    fi
    account "$SEED" >>"$STATE" || { echo "long: no figures of seed $SEED"; exit 2; }
    tail -n 1 "$STATE" | cut -c 1-60
    SEED=$((SEED + 1)) RUNS=$((RUNS - 1))
done
code=0
total || code=$?
[ $code = 0 ] || echo 'long: the goals are not reached yet: the same command continues'
exit $code
