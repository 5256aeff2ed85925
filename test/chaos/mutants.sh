#!/bin/sh
# mutants.sh [NAME...]: does the harness find what it is for? Each script in mutants/ spoils one thing: a function in the
# database ("# function:"), or files of the library ("# file:"), which is then built beside this tree. A short run with a
# few roles and faults has to be INVALID. Prints a line for each mutant; fails if one survives.
# CHAOS_SECONDS (15): how long each runs before the jobs may come to their end.
set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
cd "$top" || exit 2
[ $# -gt 0 ] || set -- "$here"/mutants/*.sed
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
said() { sed -n "s/^# $1: //p" "$mutant"; }

# The library and the roles with these files spoiled
build() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree"
    cp -a Makefile inc src migrations examples test build "$work/tree/" 2>/dev/null
    rm -rf "$work/tree/build/chaos" "$work/tree/build/ceedling"
    for spoiled in $1; do
        sed -f "$mutant" "$spoiled" >"$work/spoiled"
        if cmp -s "$spoiled" "$work/spoiled"; then echo "the mutant does not fit $spoiled any more"; return 1; fi
        cat "$work/spoiled" >"$work/tree/$spoiled"
    done
    make -s -C "$work/tree" chaos-programs
}

# run ROLES FAULTS [PACE [SECONDS]]: few jobs, so that all of them come to their end soon
run() {
    CHAOS_ROLES=$1 CHAOS_FAULTS=$2 CHAOS_DRAIN_S=40 CHAOS_LATE_MS=3000 CHAOS_PACE_MS=${3:-150} CHAOS_OPEN=2 \
        CHAOS_CALM_S=3 CHAOS_COMMIT_FAILS=50 CHAOS_EXCUSED=any \
        sh "$here/chaos.sh" "${4:-${CHAOS_SECONDS:-15}}" 1
}

export CHAOS_BIN="$top/build/chaos" CHAOS_MUTANT=''
everybody="producer late worker sql reaper counter rows lock sema node group keeper slow rated taker line"
if ! run "$everybody" - >"$work/control.log" 2>&1; then
    echo 'not ok - without a mutant the run is valid'
    tail -n 20 "$work/control.log"
    exit 1
fi

caught=0 survived=0
for mutant in "$@"; do
    [ -f "$mutant" ] || mutant=$here/mutants/$mutant.sed
    name=$(basename "$mutant" .sed)
    log=$work/$name.log since=$(date +%s) code=0
    CHAOS_BIN=$top/build/chaos CHAOS_MUTANT=$mutant
    file=$(said file)
    if [ -n "$file" ]; then
        CHAOS_MUTANT='' CHAOS_BIN=$work/tree/build/chaos
        build "$file" >"$log" 2>&1 || code=2
    fi
    export CHAOS_BIN CHAOS_MUTANT
    if [ $code = 0 ]; then
        run "$(said roles)" "$(said faults)" "$(said pace)" "$(said seconds)" >"$log" 2>&1 || code=$?
    fi
    rules=$(sed -n 's/^broken: \([a-z]*\), .*/\1/p' "$log" | tr '\n' ' ')
    took=$(($(date +%s) - since))
    if [ $code = 1 ]; then
        caught=$((caught + 1))
        printf 'ok - %-24s caught in %3d s by %s\n' "$name" $took "$rules"
    else
        survived=$((survived + 1))
        printf 'not ok - %-20s survived (%d): %s\n' "$name" $code "$(sed -n '1s/^# //p' "$mutant")"
        tail -n 3 "$log" | sed 's/^/    /'
    fi
done
echo "$caught caught, $survived survived"
[ $survived = 0 ]
