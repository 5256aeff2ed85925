#!/bin/sh
# mutants.sh: each mutant of test/chaos/mutants still changes the file or the function that it names.
set -eu
cd "$(dirname "$0")/../.."
text=$(mktemp)
trap 'rm -f "$text"' EXIT
bad=0

# The text of a function as it is created
body() {
    awk -v head="FUNCTION pgwork.$1(" '/^CREATE / && index($0, head) { there = 1 }
        there { print }
        /^(END )?\$\$/ || /^RETURN / { there = 0 }' migrations/*.sql
}
for mutant in test/chaos/mutants/*.sed; do
    for file in $(sed -n 's/^# file: //p' "$mutant"); do
        sed -f "$mutant" "$file" | cmp -s - "$file" || continue
        echo "$mutant does not fit $file any more"
        bad=1
    done
    for function in $(sed -n 's/^# function: //p' "$mutant"); do
        body "$function" >"$text"
        sed -f "$mutant" "$text" | cmp -s - "$text" || continue
        echo "$mutant does not fit $function() any more"
        bad=1
    done
done
exit $bad
