# shellcheck shell=sh
# shellcheck disable=SC2154  # from bench.sh and lib.sh
# the pages of the dashboard over --backlog jobs while a snapshot is held: time of a page, and server time for it
# Of the jobs, a fifth each is ready in batch rows, ready in single rows, delayed, and done. 14 % are dead letters, and
# 6 % wait in groups. Then, behind the snapshot, workers claim some jobs and complete most of these. Each page is requested
# 20 times. The server time is the sum of the durations that the server logs for the statements of a page. The doctor
# runs for the overview at most every ten seconds, and for each request of /metrics.
if ! command -v pgwork-ui >/dev/null || ! command -v curl >/dev/null || [ ! -r "${WITH_PG_DIR:-}/log" ]; then
    left_out 'ui: it needs pgwork-ui, curl, and the log of a private server'
    return 0
fi
ui_times=$((smoke ? 2 : 20))
migrated pgw_bench_ui
sql -c "DROP ROLE IF EXISTS bench_ui" -c "CREATE ROLE bench_ui LOGIN IN ROLE pgwork_viewer, pg_read_all_stats" -c "ALTER ROLE bench_ui SET log_duration = on" 2>/dev/null

# -- the jobs ---------------------------------------------------------------------------------------

ui_part() { echo $((backlog * $1 / 100)); } # ui_part PERCENT
ui_many() { # ui_many QUEUE JOBS GROUPS: in calls of up to 10,000
    ui_call=$(($3 ? 1000 : 10000))
    sql -c "SELECT count(*) FROM generate_series(1, $2, $ui_call) b CROSS JOIN LATERAL
        pgwork.enqueue_many('$1', ARRAY(SELECT jsonb_build_object('to', b + i) FROM generate_series(1, least($ui_call, $2 - b + 1)) i),
            grps => CASE WHEN $3 > 0 THEN ARRAY(SELECT 'customer-' || (b + i) % greatest($3, 1) FROM generate_series(1, least($ui_call, $2 - b + 1)) i) END)" >/dev/null
}
ui_rows() { # ui_rows TABLE QUEUE JOBS COLUMNS VALUES: inserts the rows that the functions of pgwork would insert
    sql -c "INSERT INTO pgwork.$1 (queue, payload, $4) SELECT q.id, jsonb_build_object('to', i), $5
              FROM pgwork.queue q CROSS JOIN generate_series(1, $3) i WHERE q.name = '$2'"
}
ui_fill() {
    for ui_q in mail orders reports customers search thumbs; do sql -c "SELECT pgwork.queue_create('$ui_q', retention_ms => 2592000000)" >/dev/null; done
    ui_many mail "$(ui_part 20)" 0
    ui_rows live_job orders "$(ui_part 20)" kind "'order'"
    ui_rows delayed_job reports "$(ui_part 20)" 'priority, run_at, kind' "0, now() + interval '1 day' + i * interval '1 ms', 'report'"
    for ui_q in mail orders; do
        ui_rows dead_job $ui_q "$(ui_part 7)" 'id, created_at, priority, attempt, kind, holder, died_at, error' \
            "nextval('pgwork.position'), now(), 0, 20, 'send', 'w', now() - i * interval '1 ms', 'job ' || i || ': ' || CASE i % 3 WHEN 0 THEN 'connection refused' WHEN 1 THEN 'no such mailbox: ' || i ELSE 'timeout' END"
    done
    ui_rows done_job mail "$(ui_part 20)" 'id, created_at, finished_at, priority, attempt, kind' "nextval('pgwork.position'), now(), now() - i * interval '1 ms', 0, 1, 'send'"
    ui_many customers "$(ui_part 6)" $((smoke ? 100 : 10000))
    ui_many search 3000 0
    sql -c "INSERT INTO pgwork.minute SELECT q.id, date_trunc('minute', now()) - m * interval '1 min', 60, 900, 900, 1, 0, 0, 0, 0, 0, 10, 20 FROM pgwork.queue q CROSS JOIN generate_series(1, 58) m" \
        -c "SELECT pgwork.sema_create('seats', 10)" >/dev/null
    for ui_i in 1 2 3 4 5 6 7 8 9; do pgwork -q cron add "schedule-$ui_i" '0 2 * * *' -Q reports >/dev/null; done
    sql -c 'VACUUM ANALYZE' -c CHECKPOINT
}
# Claims jobs, and completes all except two of each call, so that dead rows stay where claims and pages begin to read.
ui_work() {
    for ui_q in mail orders customers; do
        sql -c "DO \$\$ BEGIN
            FOR i IN 1 .. $((backlog / 200000 + 1)) LOOP
                PERFORM FROM (SELECT array_agg(c.id) AS ids, array_agg(c.token) AS tokens FROM pgwork.claim('{$ui_q}', 1000, 'w', 3600000) c) c
                  CROSS JOIN LATERAL pgwork.complete('$ui_q', c.ids[3:], c.tokens[3:]);
                COMMIT;
            END LOOP; END \$\$"
    done
}

# -- the pages --------------------------------------------------------------------------------------

ui_size() { wc -c <"$WITH_PG_DIR/log"; }
ui_id() { sql -c "SELECT id FROM pgwork.job_list('$1', '$2', at_most => 1, after_id => $3)"; } # ui_id QUEUE STATE AFTER
# ui_ask PATH: requests the page ui_times times. The first request may open connections.
ui_ask() {
    for ui_i in $(seq "$ui_times"); do
        ui_from=$(ui_size)
        ui_page=$(curl -s --max-time 30 -o "$out/ui.page" -w '%{http_code} %{time_total}' "$ui_url$1") || { say "bench: $ui_url$1: curl fails"; return 1; }
        ui_server=$(tail -c "+$((ui_from + 1))" "$WITH_PG_DIR/log" | awk '/duration: / { sub(/.*duration: /, ""); t += $1 } END { printf "%.3f", t }')
        if [ "${ui_page% *}" != 200 ] || grep -q 'role="alert"' "$out/ui.page"; then say "bench: $1: ${ui_page% *}: $(sed -n 's/.*role="alert">\([^<]*\).*/\1/p' "$out/ui.page" | head -n 1)"; fi
        result ui "time of a page, $backlog jobs" "$1" "$(calc "1000 * ${ui_page#* }")" ms
        result ui "server's time for a page, $backlog jobs" "$1" "$ui_server" ms
    done
}
ui_pages() {
    ui_middle=$(sql -c "SELECT (min(j.pos) + max(j.pos)) / 2 FROM pgwork.live_job j JOIN pgwork.queue q ON q.id = j.queue WHERE q.name = 'mail'")
    echo / /queues '/queue?name=mail' '/queue?name=orders' '/queue?name=customers' /jobs
    for ui_s in ready leased delayed gated dead 'done' cancelled; do for ui_q in mail orders reports customers; do echo "/jobs?queue=$ui_q&state=$ui_s"; done; done
    echo "/jobs?queue=mail&after=$ui_middle" "/jobs?queue=mail&state=ready&after=$ui_middle" '/jobs?state=dead' '/jobs?queue=orders&kind=none' '/jobs?queue=mail&state=dead&error=none' '/jobs?tag=none'
    for ui_s in mail-ready mail-leased orders-ready reports-delayed customers-gated orders-dead mail-done; do
        echo "/job?queue=${ui_s%-*}&id=$(ui_id "${ui_s%-*}" "${ui_s#*-}" 0)"
    done
    echo "/job?id=$(ui_id mail ready "$ui_middle")" /dead '/dead?queue=mail' /schedules '/schedule?name=schedule-1' /workers /locks /tables /log /metrics /healthz
}

ui_began=$(now_ms)
ui_fill
say "   filled in $((($(now_ms) - ui_began) / 1000)) s: $(sql -c "SELECT pg_size_pretty(pg_database_size(current_database()))")"
rm -f "$out/ui.err" # of an earlier run: it is waited for
hold_snapshot
ui_work
pgwork -q reap 2>"$out/ui.reap" &
ui_reaper=$!
pgwork -q work thumbs -j 4 -- true 2>"$out/ui.work" &
ui_worker=$!
PGWORK_DSN="host=$PGHOST port=$PGPORT user=bench_ui dbname=$PGDATABASE" pgwork ui -l 127.0.0.1:0 2>"$out/ui.err" &
ui_pid=$!
while ! grep -qs 'serving http' "$out/ui.err" && kill -0 $ui_pid; do sleep 0.05; done
ui_url=$(sed -n 's/.*serving \(http[^ ]*\)\/$/\1/p' "$out/ui.err")
for ui_path in $(ui_pages); do ui_ask "$ui_path"; done
kill $ui_pid $ui_reaper $ui_worker
end_snapshot
wait $ui_pid $ui_reaper $ui_worker || :
rm -f "$out/ui.page"
# Lists the figures that were over their limit at least once, with the number of times and the slowest one.
awk -F '\t' '$1 == "ui" { limit = $2 ~ /^server/ ? 5 : 100; k = $2 FS $3; n[k]++; if ($4 > limit) over[k]++; if ($4 > most[k]) most[k] = $4; at[k] = limit }
    END { for (k in n) { pages++; if (over[k]) { split(k, p, FS); printf "  over %d ms in %d of %d: %s of %s, at most %.1f ms\n", at[k], over[k], n[k], p[1], p[2], most[k] | "sort"; missed++ } }
          close("sort"); printf "  %d of %d figures of pages keep 100 ms a page and 5 ms of the server each time\n", pages - missed, pages }' "$out/results.tsv"
in_database postgres
sql -c "DROP DATABASE pgw_bench_ui WITH (FORCE)" -c "DROP ROLE bench_ui"
in_database pgw_bench
