# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# claim and complete of no-op jobs, jobs a second
# -2calls and -1call: whether a call completes what the one before has claimed. -async: synchronous_commit off. -rows, -bundles: see README.
claim_scripts
claimed() { # claimed WHO CLIENTS BATCH
    claims_of "$3"
    supplied "$1" "claim.${1%-async}" "$2" "$3"
}
most=$(sql -c 'SHOW max_connections')
for c in ${clients:-$(if [ -n "$quick" ]; then echo 8; else echo 1 8 64 256; fi)}; do
    if [ "$c" -gt $((most - 20)) ]; then left_out "$c clients: the server takes $most connections"; continue; fi
    for n in ${batches:-$(if [ -n "$smoke" ]; then echo 1 100; elif [ -n "$look" ]; then echo 1 10 100; else echo 1 10 100 1000; fi)}; do
        contenders="pgwork $(small "$n") $(rows "$n") onetable limit"
        if [ "$c" = 8 ] && [ -z "$quick" ]; then contenders="pgwork $(small "$n") $(rows "$n" | grep . || echo pgwork-bundles) onetable limit onetable-1call pgwork-2calls pgwork-async onetable-async"; fi
        contenders=$(beside $contenders)
        empty # what other claims have left shares rows or does not, as they would have it
        for r in $(seq "$rounds"); do
            for who in $contenders; do
                case $who in *-async) also='-c synchronous_commit=off' ;; *) also='' ;; esac
                calm claimed "$who" "$c" "$n"
                result claim "clients $c, batch $n" "$who" "$rate" jobs/s
                dry claim "clients $c, batch $n" "$who"
            done
        done
    done
done
also=''
