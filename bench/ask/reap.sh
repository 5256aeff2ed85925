# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# one look of the reaper beside many live leases, and taking back as many expired ones
live=$((smoke ? 1000 : quick ? 20000 : 100000))
ms_of() { psql -Xq -v ON_ERROR_STOP=1 -c '\timing on' -c '\o /dev/null' -c "$1" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -n 1; }
claimed() { # claimed LEASE_MS BATCH: all of so many fresh jobs; by more than 32 they share a row
    empty
    claims_of "$2"
    put "$who" $live
    sql -c "VACUUM ANALYZE $(tables_of "$who")" -c "SELECT count(*) FROM generate_series(1, $((live / $2 + 1))) g CROSS JOIN LATERAL $(schema_of "$who").claim('{q}', $2 + 0 * g, 'bench', $1)" >/dev/null
}
for who in $(beside pgwork); do sql -c "SELECT $(schema_of "$who").queue_set('q', max_attempts => 1000)" >/dev/null; done
for r in $(seq "$rounds"); do
    for n in 1000 32; do for who in $(beside pgwork); do
        claimed 600000 $n
        result reap "a look at $live live leases, claimed by $n" "$who" "$(ms_of "SELECT * FROM $(schema_of "$who").reap()")" ms
        claimed 100 $n
        sleep 0.2
        took=$(ms_of "DO \$\$ DECLARE r record; BEGIN LOOP SELECT * INTO r FROM $(schema_of "$who").reap(NULL, 1000); EXIT WHEN r.returned + r.died = 0; COMMIT; END LOOP; END \$\$")
        left=$(sql -c "SELECT count(*) FROM $(schema_of "$who").job WHERE state = 'leased'")
        if [ "$left" != 0 ]; then say "bench: the reaper left $left of $live expired leases"; fi
        result reap "taking back $live expired jobs, claimed by $n, 1,000 a batch" "$who" "$(calc "$live * 1000 / $took")" jobs/s
    done; done
done
