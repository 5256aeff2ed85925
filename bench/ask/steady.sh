# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# claim and complete of no-op jobs out of a backlog for --steady seconds in one go, 8 clients, dead rows removed by autovacuum alone
# Who is asked starts with tables of its own that are full, just vacuumed and on disk; those of the others are empty, so that nobody's
# dead rows are removed at the expense of the next. steady-time.tsv has the jobs of every second.
claim_scripts

# A server of our own gets what we advise operators; one that was brought along keeps what it has.
ours() { [ "${WITH_PG_DIR:-}" = "$PGHOST" ]; }
naptime() { sql -c 'SHOW autovacuum_naptime'; }
put_back() { sql -c 'ALTER SYSTEM RESET autovacuum_naptime' -c 'SELECT pg_reload_conf()' >/dev/null; }

# ample WHO BATCH: more jobs than it can do in so many seconds
ample() {
    case $2 in
    1) am_rate=20000 ;;
    10) am_rate=100000 ;;
    100) am_rate=350000 ;;
    *) am_rate=600000 ;;
    esac
    case $1 in limit) am_rate=$((am_rate * 3 / 2)) ;; esac
    echo $((smoke ? 1000 : $(reach "$1" "$2" $am_rate) * steady_seconds + 8 * $2))
}

# visits WHO: how often autovacuum has come to the end of that table of its which it visits most
visits() { sql -c "SELECT max(pg_stat_get_autovacuum_count(btrim(t)::regclass)) FROM unnest(string_to_array('$(tables_of "$1")', ',')) t"; }

# went_on WHO BATCH: sets seen, too
went_on() {
    empty
    claims_of "$2"
    fill_queue "$1" "$(ample "$1" "$2")"
    sql -c CHECKPOINT
    seen=$(visits "$1")
    burn "$1" "claim.$1" 8 "$2"
    seen=$(($(visits "$1") - seen))
}

(
    if ours; then
        trap put_back EXIT
        sql -c "ALTER SYSTEM SET autovacuum_naptime = '10s'" -c 'SELECT pg_reload_conf()' >/dev/null
        for _ in $(seq 50); do
            if [ "$(naptime)" = 10s ]; then break; fi
            sleep 0.1
        done
    fi
    times=$rounds
    if [ -z "$rounds_asked" ] && [ "$times" -gt 3 ]; then times=3; fi
    echo "steady      $times of $steady_seconds s each, in one go; autovacuum $(sql -c 'SHOW autovacuum'), autovacuum_naptime $(naptime)$(ours || echo ', of a server that is not ours')" |
        tee -a "$out/server.txt"
    seconds=$steady_seconds
    for n in ${batches:-$(if [ -n "$quick" ]; then echo 100; else echo 1 10 100 1000; fi)}; do
        for r in $(seq "$times"); do
            # shellcheck disable=SC2046  # lists of words
            for who in $(beside pgwork $(small "$n") $(rows "$n")) onetable limit; do
                calm went_on $who "$n"
                what="batch $n, for $seconds s"
                result steady "clients 8, $what" $who "$rate" jobs/s
                dry steady "clients 8, $what" $who
                awk -v per_call="$per_call" -v OFS='\t' -v who=$who -v n="$n" -v r="$r" '{ print who, n, r, NR - 1, $1 * per_call }' "$out/by_second" >"$out/jobs"
                cat "$out/jobs" >>"$out/steady-time.tsv"
                # a smoke run is over sooner, and of a round that ended no call there is nothing more to say
                if [ -s "$out/jobs" ]; then result steady "slowest second, $what" $who "$(cut -f 5 "$out/jobs" | sort -g | head -n 1)" jobs/s; fi
                sort -n "$out/calls" >"$out/latency"
                if [ -s "$out/latency" ]; then result steady "p99 of a call, $what" $who "$(percentile 99 "$out/latency")" ms; fi
                result steady "visits of autovacuum, $what" $who "$seen" visits
            done
        done
    done
    empty
)
rm -f "$out/jobs" "$out/latency"
