#!/bin/sh
# long.sh: runs of chaos.sh with one seed after another, until so many calls are checked and each class of faults has
# fired so often. The account is a file outside the tree: a line for each valid run. So a stop loses one run at most, and
# the same command continues. A run that is invalid, or that fails, ends it with that status; its history is kept beside
# the account. Runs that are UNKNOWN count, since no rule was broken in them.
# OPERATIONS (10000000), FIRINGS (1000, of each class), SECONDS_EACH (600), SEED (the first one: 1), RUNS (no more than
# so many now), STATE (the account; required).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
: "${STATE:?is the file for the account, outside the tree}" "${OPERATIONS:=10000000}" "${FIRINGS:=1000}"
: "${SECONDS_EACH:=600}" "${SEED:=1}" "${RUNS:=1000000}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM HUP
touch "$STATE"

# "seed 1 calls 276175 kill_process 12 ...", from what chaos-check has printed
account() {
    awk -v seed="$1" '/; checked [0-9]+ calls in / { calls = $0; sub(/.*; checked /, "", calls); sub(/ .*/, "", calls) }
        calls && $2 ~ /^[0-9]+$/ && /^  [a-z_0-9]+ / { line = line " " $1 " " $2 }
        calls && /: NOT AVAILABLE$/ { line = line " -" $1 " 0" }
        END { if (!calls) exit 1; print "seed", seed, "calls", calls line }' "$log"
}

# The sums, as a table. Fails while something is missing.
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
[ $code = 0 ] || echo 'not all of it yet: the same command continues'
exit $code
