# metrics: the text format of Prometheus, and the file for a collector.
. "$(dirname "$0")/tap"

# series NAME: what $tmp/out has under it
series() { grep -E "^($1)[ {]" "$tmp/out"; }

# format NAME: each metric is described once, before its samples, which stand together and are numbers; no sample comes twice
format() {
    if awk '
        BEGIN { label = "[a-z]+=\"([^\"\\\\]|\\\\[\"\\\\n])*\""; sample = "^pgwork_[a-z0-9_]+([{]" label "(," label ")*[}])? [0-9]+([.][0-9][0-9][0-9])?$" }
        /^# HELP / { if (helped[$3]++ || NF < 4) bad = 1; next }
        /^# TYPE / { if (typed[$3]++ || !helped[$3] || $4 !~ /^(gauge|counter|histogram)$/) bad = 1
            if (($3 ~ /_total$/) != ($4 == "counter")) bad = 1; now = $3; histogram = $4 == "histogram"; next }
        { name = $0; sub(/[ {].*/, "", name); if (histogram) sub(/_(bucket|sum|count)$/, "", name); series = $0; sub(/ [^ ]*$/, "", series)
          if ($0 !~ sample || name != now || seen[series]++) { print "bad: " $0; bad = 1 } n++ }
        END { exit bad || !n }' "$tmp/out" >"$tmp/err"; then pass "$1"; else fail "$1"; fi
}

refused 'a schema that is not there' 4 'migrate' pgwork metrics
is 'is not up' "$(grep -v '^#' "$tmp/out")" 'pgwork_up 0'
format 'a server that is down is reported in the format'
pgwork -q migrate
code 'nothing is there' 0 pgwork metrics --no-doctor
is 'a server without queues is up' "$(grep -v '^#' "$tmp/out" | sed 's/ .*//' | tr '\n' ' ')" \
    'pgwork_up pgwork_horizon_age_seconds pgwork_horizon_age_transactions pgwork_reapers pgwork_stuck_jobs '

odd='a "b" \c' # a name that has to be escaped
pgwork queue create "$odd"
pgwork enqueue "$odd" a b c d >/dev/null
pgwork enqueue "$odd" --delay 1h e >/dev/null
pgwork -q claim "$odd" | pgwork -q fail "$odd" --dead -e no
pgwork -q claim "$odd" --lease 1h >/dev/null
pgwork queue pause "$odd"
pgwork queue create other
pgwork queue drain other
pgwork sem create seats 3
pgwork sem acquire seats --permits 2 --ttl 1h >/dev/null
pgwork -q cron add nightly '0 2 * * *' >/dev/null
pgwork -q cron add shut @daily >/dev/null
pgwork cron pause shut
sleep 0.01 # the oldest is some ms old
code 'queues, semaphores, schedules' 0 pgwork metrics
format 'are in the format'
its='queue="a \\"b\\" \\\\c"'
is 'jobs by state' "$(series pgwork_queue_jobs | grep -F 'a \"b\" \\c' | sed 's/.*state="\(.*\)"} /\1 /' | sort | tr '\n' ' ')" \
    'dead 1 delayed 1 done 0 gated 0 leased 1 ready 2 '
yes 'how long the oldest has waited' grep -q "^pgwork_queue_oldest_seconds{$its} [0-9]*\.[0-9][0-9][0-9]$" "$tmp/out"
is 'nobody waits in an empty one' "$(series pgwork_queue_oldest_seconds | grep other)" 'pgwork_queue_oldest_seconds{queue="other"} 0'
is 'what is shut' "$(series 'pgwork_queue_draining|pgwork_queue_paused' | sed 's/.*_//; s/queue="a[^}]*/odd/' | sort | tr '\n' ' ')" \
    'draining{odd} 0 draining{queue="other"} 1 paused{odd} 1 paused{queue="other"} 0 '
is 'permits' "$(series 'pgwork_semaphore_[a-z]*' | sed 's/.*_\([a-z]*\){semaphore="seats"}/\1/' | tr '\n' ' ')" 'permits 3 taken 2 waiting 0 '
is 'when a schedule fires next' "$(series pgwork_schedule_next_timestamp_seconds)" \
    "pgwork_schedule_next_timestamp_seconds{schedule=\"nightly\"} $(date -d "$(pgwork cron next '0 2 * * *' -n 1 | cut -d ' ' -f 1)" +%s)"
is 'metrics show which schedules are paused' "$(series 'pgwork_schedule_[pf]a[a-z]*' | sed 's/.*schedule_//' | sort | tr '\n' ' ')" \
    'failing{schedule="nightly"} 0 failing{schedule="shut"} 0 paused{schedule="nightly"} 0 paused{schedule="shut"} 1 '
pgwork doctor --json >"$tmp/found"
is 'each check has its worst grade' "$(series pgwork_doctor_grade | sed 's/.*check="\(.*\)"} /\1 /' | sort)" \
    "$(sed 's/{"grade":"\([a-z]*\)","check":"\([^"]*\)".*/\2 \1/; s/ good$/ 0/; s/ note$/ 1/; s/ bad$/ 2/' "$tmp/found" | sort -r |
        awk '{ c = $0; sub(/ [0-2]$/, "", c) } !seen[c]++' | sort)"
is 'no reaper is bad' "$(series pgwork_doctor_grade | grep reaper)" 'pgwork_doctor_grade{check="reaper"} 2'

pgwork enqueue many 1 2 3 4 5 >/dev/null
is '--at-most' "$(pgwork metrics --at-most 3 | grep 'many.*ready' | cut -d ' ' -f 2)/$(pgwork metrics --at-most 0 | grep 'many.*ready' | cut -d ' ' -f 2)" 3/5

code 'into a file' 0 sh -c "umask 027; pgwork metrics -o '$tmp/pgwork.prom'"
is 'which nobody but the umask keeps others from' "$(stat -c %a "$tmp/pgwork.prom")" 640
is 'no temporary file is left beside the metrics' "$(cd "$tmp" && echo pgwork.prom*)" pgwork.prom
yes 'with all of it' grep -q '^pgwork_queue_jobs{queue="many",state="ready"} 5$' "$tmp/pgwork.prom"
refused 'a server that is not there' 3 . env PGWORK_DSN='host=/nowhere' pgwork metrics -o "$tmp/pgwork.prom"
is 'is seen in the file' "$(grep -v '^#' "$tmp/pgwork.prom")" 'pgwork_up 0'
refused 'a directory that is not there' 8 "$tmp/none/pgwork.prom: No such file" pgwork metrics -o "$tmp/none/pgwork.prom"
mkdir "$tmp/dir"
refused 'a directory for a file' 8 'cannot write' pgwork metrics -o "$tmp/dir"
is 'leaves nothing behind' "$(cd "$tmp" && echo dir* none*)" 'dir none*'
if [ -w /dev/full ]; then refused 'stdout that is full' 8 'cannot write to stdout' sh -c 'pgwork metrics >/dev/full'; fi
refused 'JSON' 2 'not JSON' pgwork metrics --json
refused 'a queue' 2 'argument too many' pgwork metrics many
pgwork metrics -o "$tmp/pgwork.prom"
refused 'a connection string that cannot be read' 2 'cannot open' pgwork -d "$tmp/none" metrics -o "$tmp/pgwork.prom"
is 'is seen in the file, too' "$(grep -v '^#' "$tmp/pgwork.prom")" 'pgwork_up 0'
exit 0
