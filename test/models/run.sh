#!/bin/sh
# The models in Promela (test/models/*.pml), by spin: every property holds, and every mutant is found.
#   test/models/run.sh         what CI runs: under 90 s on two cores
#   test/models/run.sh all     larger bounds as well: minutes, and up to 8 GB
# One line `ok` or `not ok` for each, with the number of states.
set -u
cd "$(dirname "$0")" || exit 1
command -v spin >/dev/null || { echo "not ok - spin is missing"; exit 1; }
models=$PWD scope=${1:-ci}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM INT HUP

# one N holds|found|live MODEL FLAGS: in a directory of its own
one() {
    dir=$work/$1 want=$2 model=$3
    mkdir "$dir" && cd "$dir" && cp "$models/$model.pml" . || exit
    safety='-DSAFETY -DCOLLAPSE' fair='' search=-m2000000
    # to compile and to fill memory with zeros takes longer than a small search
    case $want,$scope in
    found,*) level=-O0 search='-m200000 -w20' ;;
    *,all) level=-O2 ;;
    *) level=-O1 ;;
    esac
    case $4 in *-DLIVE*) safety=-DNFAIR=8 fair='-a -f' ;; esac
    # shellcheck disable=SC2086  # lists of words
    if spin -a $4 "$model.pml" >spin.log 2>&1 && ${CC:-cc} $level -w $safety -DVECTORSZ=2048 -o pan pan.c &&
        ./pan $search $fair >pan.log 2>&1; then :; fi
    errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log 2>/dev/null)
    states=$(awk '/states, stored/{ print $1; exit }' pan.log 2>/dev/null)
    unfinished=$(grep -c 'Search not completed\|max search depth too small' pan.log 2>/dev/null)
    case $want,${errors:-none},$unfinished in
    holds,0,0) echo "ok - $model $4: holds, $states states" ;;
    found,0,* | found,none,*) echo "not ok - $model $4: not found" ;;
    found,*) echo "ok - $model $4: found" ;;
    *) echo "not ok - $model $4: $(cat spin.log; grep -E 'pan:1|error' pan.log)" | head -n 5 ;;
    esac >"$dir/said"
    rm -f pan pan.? pan.log
}

# WHAT MODEL FLAGS. The mutants are explained where the models define them.
list() {
    cat <<'LIST'
holds marks -DNP=2 -DNX=2
holds marks -DNP=3 -DNX=2 -DCLAIMS=0
holds marks -DNP=2 -DNX=2 -DNR=2 -DCRASHES=1 -DCLAIMS=0
holds marks -DNP=2 -DNX=2 -DPREPARE -DCLAIMS=0
holds marks -DNP=2 -DNX=2 -DOFF -DCLAIMS=0
holds marks -DNP=2 -DNX=2 -DREAPER_ENDS
holds marks -DNP=1 -DNX=2 -DSAVEPOINT
holds marks -DNP=1 -DNX=2 -DNR=2
holds marks -DNP=2 -DNX=1 -DNQ=2
holds marks -DNP=2 -DNX=2 -DCLAIMS=0 -DLIVE
found marks -DNP=2 -DNX=2 -DMUT_WRITERS_FIRST
found marks -DNP=3 -DNX=2 -DMUT_JOBS_FIRST
found marks -DNP=2 -DNX=2 -DMUT_UP_TO_NOW
found marks -DNP=2 -DNX=2 -DMUT_WRITERS_PASSED
found marks -DNP=2 -DNX=2 -DMUT_NO_SEARCH_BACK
found marks -DNP=2 -DNX=2 -DMUT_SEEN_LATER
found marks -DNP=3 -DNX=2 -DMUT_HISTORY_OF_NOW
found marks -DNP=2 -DNX=2 -DMUT_RANGES_FORGOTTEN
found marks -DNP=3 -DNX=2 -DMUT_BACK_ONCE
found marks -DNP=3 -DNX=2 -DMUT_BACK_UNNOTICED
found marks -DNP=2 -DNX=2 -DMUT_FLOOR_STAYS
found marks -DNP=2 -DNX=2 -DMUT_DRAWN_FIRST
found marks -DNP=2 -DNX=2 -DMUT_LOCK_LATE
found marks -DNP=2 -DNX=2 -DPREPARE -DMUT_BY_VIRTUAL_TRANSACTION
found marks -DNP=1 -DNX=2 -DSAVEPOINT -DMUT_SAVEPOINT_UNSEEN
found marks -DNP=1 -DNX=2 -DREAPER_ENDS -DMUT_MARKS_FIRST
found marks -DNP=2 -DNX=2 -DNR=2 -DMUT_TWO_TICK
found marks -DNP=2 -DNX=2 -DNQ=2 -DMUT_QUEUE_SKIPPED
found marks -DNP=2 -DNX=2 -DNQ=2 -DMUT_SETTLED_UNSEEN
found marks -DNP=2 -DNX=2 -DNQ=2 -DCLAIMS=0 -DLIVE -DMUT_NO_SEARCH_BACK
holds job
holds job -DNR=2 -DMAX_ATTEMPTS=3 -DFAULTS=3
holds job -DFAILOVER -DFAULTS=1
holds job -DLIVE
holds job -DLIVE -DFAILOVER -DFAULTS=0
found job -DMUT_NO_ROW_LOCK
found job -DMUT_COMPLETE_WITHOUT_TOKEN
found job -DMUT_EXTEND_WITHOUT_TOKEN
found job -DMUT_SAME_POSITION
found job -DMUT_REAP_UNLOCKED
found job -DMUT_REPEATED_IS_NEW
found job -DMUT_REAP_FOREVER
found job -DFAILOVER -DMUT_NO_RANDOM_BITS
found job -DLIVE -DMUT_NO_PROMOTE
holds sema -DNO_TIME -DROUNDS=1
holds sema -DROUNDS=1 -DU=2
holds sema -DROUNDS=2 -DU=2 -DRESIZE
holds sema -DROUNDS=2 -DU=2 -DSESSION
holds sema -DLIVE -DNO_TIME -DROUNDS=1
found sema -DROUNDS=1 -DMUT_NO_ROW_LOCK
found sema -DROUNDS=2 -DU=2 -DRESIZE -DMUT_NO_GATE
found sema -DROUNDS=2 -DU=2 -DRESIZE -DMUT_EXCESS_UNCOUNTED
found sema -DROUNDS=2 -DU=2 -DRESIZE -DMUT_LOCKED_IS_FREE
found sema -DROUNDS=1 -DMUT_EXTEND_UNLOCKED
found sema -DROUNDS=1 -DMUT_RELEASE_WITHOUT_TOKEN
found sema -DNO_TIME -DROUNDS=1 -DMUT_TURN_ONCE
found sema -DNO_TIME -DROUNDS=1 -DMUT_PAST_UNSEEN
found sema -DNO_TIME -DROUNDS=1 -DMUT_NO_PAST
found sema -DNO_TIME -DROUNDS=1 -DMUT_READ_ONCE
found sema -DLIVE -DNO_TIME -DROUNDS=1 -DMUT_PAST_UNSEEN
holds cron -DSET_BACK -DNS=3
holds cron -DALL -DSET_BACK -DNS=3
holds cron -DHELD -DSET_BACK
holds cron -DLIVE
holds cron -DLIVE -DALL
holds cron -DLIVE -DALL -DHELD
found cron -DMUT_NO_KEY -DSET_BACK
found cron -DMUT_NO_ROW_LOCK -DMUT_NO_KEY
found cron -DLIVE -DALL -DMUT_BASE_STAYS
found cron -DHELD -DMUT_FINISH_WITHOUT_TOKEN
holds gates -DCANCEL
holds gates -DW2 -DLIMIT=1
holds gates -DBLOCK
holds gates -DLIVE
found gates -DMUT_NO_LOCK
found gates -DMUT_COUNTED_FIRST
found gates -DMUT_OLD_SETTINGS
found gates -DMUT_TERMS_IGNORED
found gates -DMUT_CREDIT_TWICE
found gates -DMUT_ONE_MORE
found gates -DMUT_NOT_LOWERED
found gates -DMUT_LOW_STAYS
found gates -DCANCEL -DMUT_CANDIDATE_PASSED
found gates -DMUT_COMES_SILENTLY
found gates -DMUT_LEAVES_SILENTLY
found gates -DMUT_HAND_EVENTS_UNSEEN
found gates -DMUT_HAND_OLD_TERMS
found gates -DMUT_HAND_OWN_LOW
found gates -DCANCEL -DMUT_HAND_PASSES
found gates -DBLOCK -DMUT_LETTER_IGNORED
found gates -DBLOCK -DMUT_REDRIVE_SILENTLY
LIST
    if [ "$scope" = all ]; then
        cat <<'LIST'
holds marks -DNP=3 -DNX=2
holds marks -DNP=2 -DNX=2 -DSAVEPOINT
holds marks -DNP=2 -DNX=2 -DNQ=2 -DCLAIMS=0
holds marks -DNP=2 -DNX=2 -DNR=2 -DCRASHES=1
holds marks -DNP=2 -DNX=2 -DFINE -DCLAIMS=0
holds marks -DNP=2 -DNX=2 -DOFF
holds marks -DNP=2 -DNX=2 -DLIVE
holds marks -DNP=2 -DNX=2 -DREAPER_ENDS -DCLAIMS=0 -DLIVE
holds job -DFAILOVER
holds job -DW=2 -DNR=2 -DMAX_ATTEMPTS=3 -DFAULTS=4
holds job -DLIVE -DFAILOVER
holds sema -DROUNDS=1
holds sema -DROUNDS=1 -DRESIZE
holds cron -DHELD -DSET_BACK -DNS=3 -DFAULTS=3
holds gates -DW2 -DCANCEL -DCHANGES=2
holds gates -DCHANGES=2
holds gates -DJ=4
holds gates -DLIVE -DCANCEL
holds gates -DLIVE -DBLOCK
LIST
    fi
}

# As many beside each other as there are processors; told in order.
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
list >"$work/list"
count=$(wc -l <"$work/list")
lane() {
    n=0
    while read -r want model flags; do
        n=$((n + 1))
        if [ $((n % jobs)) = "$1" ]; then (one $n "$want" "$model" "$flags"); fi
    done <"$work/list"
}
i=0
while [ $i -lt "$jobs" ]; do lane $i & i=$((i + 1)); done
wait
n=0
while [ $n -lt "$count" ]; do
    n=$((n + 1))
    cat "$work/$n/said" 2>/dev/null || echo "not ok - number $n has not run"
done >"$work/all"
cat "$work/all"
! grep -q '^not ok' "$work/all"
