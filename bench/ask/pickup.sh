# shellcheck shell=sh
# from before the enqueue to the handler, 300 jobs a second, idle workers
jobs=$((smoke ? 30 : seconds * 300))
empty
for r in $(seq "$rounds"); do
    for w in 1 4 $(if [ -z "$quick" ]; then echo 64; fi); do
        pickup q "$w" 300 $jobs >"$out/pickup"
        while read -r what point value; do
            case $what in
            pickup) who=pgwork-lib ;;
            roundtrip) who='(a round trip that asks for the depth)' ;;
            enqueue) who='(the enqueue alone, with its commit)' ;;
            esac
            result pickup "$point, workers: $w" "$who" "$value" ms
        done <"$out/pickup"
    done
done
