# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# WAL, its syncs, dead rows and CPU time of a 100-byte job from enqueue to complete, one client, batch 1 and 100; and of jobs that are all alike
claim_scripts
# Jobs that have nothing in common, in place of one payload for all: what many of them share is compressed.
payload_of_its_own="jsonb_build_object('x', left(md5(random()::text) || md5(random()::text) || md5(random()::text), 80))"
put_scripts "$payload_of_its_own"
wal_at() { sql -c 'SELECT pg_current_wal_insert_lsn() - $$0/0$$::pg_lsn'; }
syncs() { sql -c 'SELECT wal_sync FROM pg_stat_wal' 2>/dev/null || sql -c "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'"; } # until 17, since 18
dead_in() { sql -c "SELECT sum(n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE schemaname = '$1'"; }
wal_load() { # wal_load WHO CALLS BATCH; one claim more than puts: a claim completes the jobs of the one before
    # shellcheck disable=SC2086  # words
    PGOPTIONS=$settled pgbench -n -M prepared -c 1 -t "$2" -D n="$3" -D payload="$(payload 80)" -f "$out/put.$1.pgbench" >"$out/pgbench.out" 2>&1 &&
        PGOPTIONS=$settled pgbench -n -M prepared -c 1 -t $(($2 + 1)) -D n="$3" $nothing_claimed -f "$out/claim.$1.pgbench" >>"$out/pgbench.out" 2>&1 || { cat "$out/pgbench.out" >&2; return 1; }
}
for what in 'batch 1' 'batch 100' 'all alike, batch 100'; do
    n=${what##* }
    case $what in
    all*)
        if [ -n "$look" ]; then continue; fi
        claim_scripts
        ;;
    esac
    jobs=$((smoke ? 200 : (n == 1 ? 4000 : 40000) / (quick ? 8 : 1)))
    for r in $(seq "$rounds"); do
        # shellcheck disable=SC2046  # lists of words
        for who in $(beside pgwork $(rows "$n")) onetable limit; do
            claims_of "$n"
            empty
            sql -c 'VACUUM ANALYZE' -c CHECKPOINT
            wal_load $who 5 "$n" # first touches write whole pages
            sql -c 'SELECT pg_stat_reset()' >/dev/null
            wal=$(wal_at) cpu=$(server_cpu) synced=$(syncs)
            client_cpu wal_load $who $((jobs / n)) "$n"
            cpu_after=$(server_cpu) wal=$(($(wal_at) - wal))
            result wal "WAL, $what" $who "$(calc "$wal / $jobs")" bytes/job
            result wal "syncs of the WAL, $what" $who "$(calc "($(syncs) - $synced) / $jobs")" syncs/job
            case $who in pgwork* | engine1*) schema=$(schema_of "$who") ;; onetable) schema=onetable ;; limit) schema=lim ;; esac
            result wal "row versions left to vacuum, $what" $who "$(calc "$(dead_in $schema) / $jobs")" rows/job
            if [ -n "$cpu" ]; then result wal "CPU time of the server, $what" $who "$(calc "($cpu_after - $cpu) * 1e6 / $jobs")" us/job; fi
            result wal "CPU time of the client (pgbench), $what" $who "$(calc "$client_seconds * 1e6 / $jobs")" us/job
        done
    done
done
