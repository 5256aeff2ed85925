# shellcheck shell=sh
# claim and complete of no-op jobs, jobs a second
claim_scripts
most=$(sql -c 'SHOW max_connections')
contenders='pgwork onetable limit'
[ -n "$quick" ] || contenders="$contenders pgwork-apart onetable-apart"
for c in $(if [ -n "$quick" ]; then echo 8; else echo 1 8 64 256; fi); do
    if [ "$c" -gt $((most - 20)) ]; then left_out "$c clients: the server takes $most connections"; continue; fi
    for n in 1 10 100 1000; do
        for r in $(seq "$rounds"); do
            for who in $contenders; do
                stock "$who" $(($(enough "$n") + c * n))
                burn "$who" "claim.$who" "$c" "$n"
                result claim "clients $c, batch $n" "$who" "$rate" jobs/s
            done
        done
    done
done
