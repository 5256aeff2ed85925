# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034  # from bench.sh and lib.sh, and for these
# claim and complete of jobs of groups, against jobs without (enqueued one by one); 8 clients, a reaper beside
# First other queues by their own clients and their own kind of groups, of limit 1 (see gr_peers): at most as long as four rounds.
# groups: 10,000 groups of limit 1, all with jobs; blocked: ten groups with jobs, beside 9,990 that are held and have jobs, too;
# one-of-8: one group of limit 8, batch 1, against a queue of its own. plain and groups once more while a snapshot is held (--pin SECONDS).
claim_scripts
gr_script() { # gr_script QUEUE
    script "groups.$1" <<S
SELECT coalesce(array_agg(id)::text, '{}') ids, coalesce(array_agg(token)::text, '{}') tokens
  FROM pgwork.claim('{$1}', :n, 'bench', NULL, :ids, :tokens) WHERE attempt > 0 \\gset
S
}
gr_left() { # jobs of a queue that are not finished
    sql -c "SELECT (SELECT coalesce(sum(j.n), 0) FROM pgwork.live_job j WHERE j.queue = q.id)
                 + (SELECT count(*) FROM pgwork.delayed_job j WHERE j.queue = q.id) FROM pgwork.queue q WHERE q.name = '$1'"
}
gr_fill() { # gr_fill QUEUE JOBS GROUPS FIRST: jobs of so many groups, g<FIRST> and up; GROUPS 0: jobs without
    if [ "$3" = 0 ]; then
        sql -c "SELECT count(*) FROM generate_series(1, $2) g CROSS JOIN LATERAL pgwork.enqueue('$1', CASE WHEN g > 0 THEN '{\"i\": 1}'::jsonb END)" >/dev/null
    else
        sql -c "SELECT count(*) FROM generate_series(0, $2 - 1, 1000) b CROSS JOIN LATERAL pgwork.enqueue_many('$1', array_fill('{\"i\": 1}'::jsonb, ARRAY[1000]),
                grps => ARRAY(SELECT 'g' || $4 + (b + i) % $3 FROM generate_series(0, 999) i))" >/dev/null
    fi
}
# gr_burn CONTENDER QUEUE CLIENTS BATCH MEASURE: what one has left leased at its end is completed by nobody, and goes with the queue
gr_burn() {
    gr_before=$(gr_left "$2")
    bench_run "$3" "$seconds" "groups.$2" -D n="$4" -D ids='{}' -D tokens='{}'
    gr_after=$(gr_left "$2")
    if [ "$gr_after" -le $(($3 * $4)) ] && [ -z "$smoke" ]; then say "bench: $1 ran out of jobs: its figure is too low"; fi
    result groups "$5" "$1" "$(calc "($gr_before - $gr_after) / $seconds")" jobs/s
}
gr_held() { # jobs of 10,000 groups against jobs without, behind a snapshot that has been held for pin_seconds beside such jobs
    gr_jobs=$((smoke ? 2000 : (seconds * 160 + 1) * 1000))
    for gr_q in plain groups; do
        gr_queue "$gr_q"
        case $gr_q in
        plain) gr_fill plain "$gr_jobs" 0 0; gr_group='' ;;
        groups) gr_fill groups "$gr_jobs" "$gr_groups" 0; gr_group=", grp => 'g' || ($gr_groups * random())::int" ;;
        esac
        script "put.groups.$gr_q" <<S
SELECT count(*) FROM generate_series(1, 100) g CROSS JOIN LATERAL pgwork.enqueue('$gr_q', CASE WHEN g > 0 THEN '{"i": 1}'::jsonb END$gr_group);
S
        by_turns "held.$gr_q" "put.groups.$gr_q" "groups.$gr_q"
        hold_snapshot
        bench_run 8 "$pin_seconds" "held.$gr_q" -D n=100 -D turn=0 -D ids='{}' -D tokens='{}'
        gr_burn "$gr_q" "$gr_q" 8 100 "batch 100, a snapshot held for $pin_seconds s"
        end_snapshot
    done
}
gr_queue() { # gr_queue NAME: an empty one
    empty
    sql -c "SELECT pgwork.queue_drop('$1', true)" >/dev/null 2>&1 || :
    sql -c "SELECT pgwork.queue_create('$1')" >/dev/null
    gr_script "$1"
}
gr_round() { # gr_round BATCH
    gr_rate=$(($1 == 1 ? 10000 : $1 == 10 ? 60000 : 160000))
    gr_jobs=$((smoke ? 2000 : (seconds * gr_rate / 1000 + 1) * 1000))
    for gr_q in plain groups blocked; do
        gr_queue "$gr_q"
        case $gr_q in
        plain) gr_fill plain "$gr_jobs" 0 0 ;;
        groups) gr_fill groups "$gr_jobs" "$gr_groups" 0 ;;
        blocked)
            sql -c "SELECT pgwork.group_set('blocked', 'g' || i, 1000) FROM generate_series(0, 9) i" >/dev/null
            sql -c "SELECT pgwork.group_hold('blocked', 'g' || i) FROM generate_series(10, $((smoke ? 99 : 9999))) i" >/dev/null
            gr_fill blocked $((smoke ? 1000 : 9990 * blocked_jobs)) $((smoke ? 90 : 9990)) 10
            gr_fill blocked "$gr_jobs" 10 0
            ;;
        esac
        sql -c "VACUUM ANALYZE pgwork.live_job, pgwork.delayed_job, pgwork.admitted_job, pgwork.gate_event" -c CHECKPOINT
        gr_burn "$gr_q" "$gr_q" 8 "$1" "batch $1"
    done
}
gr_one() { # one group of limit 8, against a queue of its own
    for gr_q in own one; do
        gr_queue "$gr_q"
        sql -c "SELECT pgwork.group_set('$gr_q', group_limit => 8)" >/dev/null
        case $gr_q in
        own) gr_fill own $((smoke ? 200 : (seconds * 8 + 1) * 1000)) 0 0 ;;
        one) gr_fill one $((smoke ? 1000 : (seconds * 8 + 1) * 1000)) 1 0 ;;
        esac
        sql -c "VACUUM ANALYZE pgwork.live_job, pgwork.delayed_job, pgwork.admitted_job, pgwork.gate_event" -c CHECKPOINT
        gr_burn "$gr_q" "$gr_q" 8 1 '8 clients, batch 1, one group of limit 8'
    done
}
# gr_peers GROUPS: one job of a group at a time; jobs go round the groups. GROUPS 0: jobs without. Graphile Worker: named queues. pgboss:
# groupConcurrency 1, which it counts without a lock, so that two fetches at a time may exceed it. pgboss-fifo: its policy key_strict_fifo,
# which keeps the order, as named queues and our groups do. Graphile polls every 50 ms, pg-boss at its shortest, half a second. Ours: see
# peers.sh.
gr_peers() {
    gr_jobs=$((smoke ? 800 : seconds * 16000)) gr_measure="no-op jobs of $1 groups of limit 1, batch 100"
    if [ "$1" = 0 ]; then gr_measure='no-op jobs without groups, batch 100'; fi
    empty
    sql -c "SELECT pgwork.queue_drop('peers', true)" >/dev/null 2>&1 || :
    sql -c "SELECT pgwork.queue_create('peers')" >/dev/null
    gr_fill peers "$gr_jobs" "$1" 0
    sql -c 'VACUUM ANALYZE'
    workers_burn pgwork peers "$gr_jobs" 100
    result groups "$gr_measure" pgwork-lib "$rate" jobs/s
    for gr_who in $gr_others; do
        if [ "$gr_who $1" = 'pgboss-fifo 0' ]; then continue; fi
        forget_peers
        "$node" "$here/npm/peer.mjs" "$gr_who" enqueue "$gr_jobs" 1000 1 "$1" >/dev/null
        sql -c 'VACUUM ANALYZE'
        rate=$("$node" "$here/npm/peer.mjs" "$gr_who" burn "$gr_jobs" 100 "$processes" "$1" $((seconds * 4)))
        result groups "$gr_measure" "$gr_who" "$rate" jobs/s
    done
}
gr_others=''
if npm_peers; then gr_others='graphile pgboss pgboss-fifo'; fi
gr_groups=$((smoke ? 100 : 10000))
blocked_jobs=$((quick ? 10 : 1000)) # of each group that is held
(
    pgwork reap >"$out/reap.txt" 2>&1 &
    gr_reaper=$!
    trap 'kill $gr_reaper; wait $gr_reaper' EXIT
    for r in $(seq "$rounds"); do
        for n in $(if [ -z "$smoke" ]; then echo 0; fi) 100 $(if [ -z "$smoke" ]; then echo 10000; fi); do gr_peers "$n"; done
        forget_peers
        for n in ${batches:-1 10 100}; do gr_round "$n"; done
        gr_one
        gr_held
    done
)
