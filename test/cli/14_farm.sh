# The example farm: a node is killed in the middle of a tick, and another one takes over.
. "$(dirname "$0")/tap"
pgwork -q migrate
farm=$build/examples/farm
yes 'farm is built' test -x "$farm"
code 'how to call it' 2 "$farm" one
yes 'is said' grep -q '^farm \[NODES\]' "$tmp/err"
code 'each tick once, also the one of the dead node' 0 "$farm" 5
yes 'a node took over' grep -q 'in place of the dead one' "$tmp/out"
code 'nothing is left of it' 1 pgwork cron list
exit 0
