# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# from before the enqueue to the handler: 300 jobs a second with idle workers, and half of what one producer can put in
# -relaxed: claims that do not wait for the disk (durability)
picked() { # picked WORKERS RATE LABEL [DURABILITY]; of $engine
    of_engine "$engine" pickup q "$1" "$2" $((smoke ? 30 : seconds * $2)) "${4:-sync}" >"$out/pickup.out"
    while read -r what point value; do
        case $engine-$what-${4:-} in
        *-pickup-*) who=$engine-lib${4:+-$4} ;;
        *-relaxed | engine1-*) continue ;;
        *-roundtrip-*) who='(a bare round trip)' ;;
        *-enqueue-*) who='(the enqueue alone, with its commit)' ;;
        esac
        result pickup "$point, $3workers: $1" "$who" "$value" ms
    done <"$out/pickup.out"
}
empty
for r in $(seq "$rounds"); do for engine in $(beside pgwork); do
    for w in 1 4 $(if [ -z "$quick" ]; then echo 64; fi); do
        if [ -z "$look" ]; then picked "$w" 300 '' relaxed; fi
        picked "$w" 300 ''
    done
    half=$(awk '/^enqueue p50/ { print int(500 / $3) }' "$out/pickup.out")
    picked 4 "$half" 'half load, '
done; done
