# shellcheck shell=sh
# one look of the reaper beside 100,000 live leases, and taking back 100,000 expired ones
live=$((quick ? 20000 : 100000))
ms_of() { psql -Xq -c '\timing on' -c '\o /dev/null' -c "$1" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -n 1; }
for r in $(seq "$rounds"); do
    sql -c 'TRUNCATE pgwork.live_job' -c "SELECT pgwork.queue_set('q', max_attempts => 1000)" >/dev/null
    fill $live
    sql -c 'VACUUM ANALYZE pgwork.live_job'
    for i in $(seq $((live / 10000))); do sql -c "SELECT count(*) FROM pgwork.claim('{q}', 10000, 'bench', 600000)" >/dev/null; done
    result reap "a look at $live live leases" pgwork "$(ms_of 'SELECT * FROM pgwork.reap()')" ms
    sql -c "UPDATE pgwork.live_job SET lease_until = clock_timestamp()"
    t=$(ms_of "DO \$\$ DECLARE r record; BEGIN LOOP SELECT * INTO r FROM pgwork.reap(NULL, 1000); EXIT WHEN r.returned + r.died = 0; COMMIT; END LOOP; END \$\$")
    result reap "taking back $live expired jobs, 1,000 a batch" pgwork "$(awk -v t="$t" -v n=$live 'BEGIN { print n * 1000 / t }')" jobs/s
done
