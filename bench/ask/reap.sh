# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# one look of the reaper beside many live leases, and taking back as many expired ones
live=$((smoke ? 1000 : quick ? 20000 : 100000))
ms_of() { psql -Xq -v ON_ERROR_STOP=1 -c '\timing on' -c '\o /dev/null' -c "$1" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -n 1; }
claimed() { # claimed LEASE_MS: all of so many fresh jobs
    empty
    put pgwork $live
    sql -c "VACUUM ANALYZE $hot" -c "SELECT count(*) FROM generate_series(1, $((live / 1000))) g CROSS JOIN LATERAL pgwork.claim('{q}', 1000 + 0 * g, 'bench', $1)" >/dev/null
}
sql -c "SELECT pgwork.queue_set('q', max_attempts => 1000)" >/dev/null
for r in $(seq "$rounds"); do
    claimed 600000
    result reap "a look at $live live leases" pgwork "$(ms_of 'SELECT * FROM pgwork.reap()')" ms
    claimed 100
    sleep 0.2
    took=$(ms_of "DO \$\$ DECLARE r record; BEGIN LOOP SELECT * INTO r FROM pgwork.reap(NULL, 1000); EXIT WHEN r.returned + r.died = 0; COMMIT; END LOOP; END \$\$")
    left=$(sql -c "SELECT count(*) FROM pgwork.job WHERE state = 'leased'")
    if [ "$left" != 0 ]; then say "bench: the reaper left $left of $live expired leases"; fi
    result reap "taking back $live expired jobs, 1,000 a batch" pgwork "$(calc "$live * 1000 / $took")" jobs/s
done
