# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# other queues by their own clients: no-op jobs and enqueue, jobs a second
# Graphile Worker: the preset of its page on performance. pg-boss: 8 local workers, the next fetch at once while batches come back full. Both
# have a process for each of up to 2 cores, our library has two, and four by up to 100: one claims while another waits for the disk. Each runs
# its jobs in one thread. More of theirs, tried with two rounds each, are no faster: by 100, thousands of jobs a second with 1, 2, 3 and 4
# processes on two cores, Graphile Worker 27, 37, 33, 38, pg-boss 22, 24, 22, 23; ours with bundles 131, 196, 221, 249, with 8 fewer. Where a
# commit takes less, ours by turns with 4 and 8: 394 and 426 against 497 and 436.
# PgQ: its functions by pgbench, one consumer; it keeps neither leases nor retries of single jobs, so it does less. A batch is the size of
# Graphile's local queue, of pg-boss's batch, of PgQ's tick, of our prefetch. All begin just vacuumed and analyzed: before autovacuum has come
# by, the others' plans are several times slower.
peers="pgwork-lib $(if [ -z "$look" ]; then echo pgwork-lib-rows; fi) pgwork limit"
if npm_peers; then peers="$peers graphile pgboss"; fi
if [ "$(sql -c "SELECT count(*) FROM pg_available_extensions WHERE name = 'pgq'")" = 1 ]; then
    sql -c 'SET client_min_messages = warning' -c 'CREATE EXTENSION IF NOT EXISTS pgq' -c "SELECT pgq.create_queue('q'), pgq.register_consumer('q', 'bench')" >/dev/null
    peers="$peers pgq"
else
    left_out 'PgQ: the extension pgq is not here (Debian: postgresql-15-pgq3)'
fi

claim_scripts
script put.pgq <<'S'
SELECT count(pgq.insert_event('q', 'noop', :payload)) FROM generate_series(1, :n::int);
S
script burn.pgq <<'S'
SELECT pgq.next_batch('q', 'bench') batch \gset
SELECT * FROM pgq.get_batch_events(:batch);
SELECT pgq.finish_batch(:batch);
S

# Every batch of PgQ ends at a tick: so many jobs between two.
pgq_fill() { # pgq_fill BATCHES BATCH
    sql >/dev/null <<S
SET client_min_messages = warning;
SELECT pgq.unregister_consumer('q', 'bench'), pgq.register_consumer('q', 'bench');
DO \$\$ BEGIN
    FOR i IN 1 .. $1 LOOP
        PERFORM pgq.insert_event('q', 'noop', '$(payload 60)') FROM generate_series(1, $2);
        PERFORM pgq.force_tick('q');
        COMMIT;
        PERFORM pgq.ticker('q');
        COMMIT;
    END LOOP;
END \$\$;
S
}

# peer_put WHO CALL: 8 producers
peer_put() {
    case $1 in
    graphile | pgboss) rate=$("$node" "$here/npm/peer.mjs" "$1" enqueue $((seconds * ($2 == 1 ? 1500 : 40000))) "$2" 8) ;;
    *) bench_run 8 "$seconds" "put.$1" -D n="$2" -D payload="$(payload 60)"; rate=$(calc "$tps * $2") ;;
    esac
}

# peer_burn WHO JOBS BATCH
peer_burn() {
    case $1 in
    graphile | pgboss)
        "$node" "$here/npm/peer.mjs" "$1" enqueue "$2" 1000 1 >/dev/null
        sql -c 'VACUUM ANALYZE'
        rate=$("$node" "$here/npm/peer.mjs" "$1" burn "$2" "$3" "$processes")
        ;;
    pgwork-lib* | engine1-lib*)
        # so many that it takes about as long as the others: the first calls plan
        jobs=$(($2 * 5))
        if bundled "$1" "$3"; then jobs=$(($2 * 12)); fi
        empty
        put "$1" "$jobs"
        sql -c 'VACUUM ANALYZE'
        workers_burn "$1" "$(queue_of "$1")" "$jobs" "$3"
        ;;
    pgwork | pgwork-rows | limit) supplied "$1" "claim.$1" 8 "$3" ;;
    pgq)
        pgq_fill $(($2 / $3)) "$3"
        sql -c 'VACUUM ANALYZE'
        timed burn.pgq 1 -t $(($2 / $3))
        rate=$(calc "$tps * $3")
        ;;
    esac
}

for r in $(seq "$rounds"); do
    for n in $(if [ -z "$look" ]; then echo 1; fi) 100; do
        for who in $peers; do
            case $who in pgwork-lib*) continue ;; esac
            claims_of "$n"
            empty
            peer_put "$who" "$n"
            result peers "enqueue, 8 producers, $n a call" "$who" "$rate" jobs/s
        done
    done
done
# what the producers left is no part of what follows
forget_peers
for n in 100 $(if [ -z "$quick" ]; then echo 500 1000; fi); do
    for r in $(seq "$rounds"); do
        for who in $peers $(rows "$n"); do
            claims_of "$n"
            peer_burn "$who" $((smoke ? 1000 : seconds * 40000)) "$n"
            result peers "no-op jobs, batch $n" "$who" "$rate" jobs/s
        done
    done
done
