#!/bin/sh
# again.sh TIMES COMMAND...: so often in a row, beside two busy loops, until it fails once
set -u
times=$1 busy='' n=0
shift
trap 'kill $busy' EXIT
trap 'exit 143' TERM INT HUP
for _ in 1 2; do
    while :; do :; done &
    busy="$busy $!"
done
while [ $((n += 1)) -le "$times" ]; do
    echo "== $n of $times"
    "$@" || { echo "failed: run $n"; exit 1; }
done
