# ui in a browser (PICTURES=FOLDER takes screenshots): headless Chromium walks every page and action of a live server, with jobs that fail and a worker that dies.
. "$(dirname "$0")/tap"
BROWSER=${BROWSER:-$(command -v chromium-headless-shell || command -v chromium || :)}
BROWSER_MODULES=${BROWSER_MODULES:-$top/build/browser}
if ! command -v pgwork-ui >/dev/null || ! command -v node >/dev/null || [ -z "$BROWSER" ] || [ ! -d "$BROWSER_MODULES/node_modules/axe-core" ]; then
    echo 'ok - left out: it needs pgwork-ui, Chromium, node, and playwright-core and axe-core in build/browser'
    exit 0
fi
export BROWSER BROWSER_MODULES
pgwork -q migrate
sql "SET client_min_messages = warning; DROP ROLE IF EXISTS pgw_cli_browser; CREATE ROLE pgw_cli_browser LOGIN IN ROLE pgwork_viewer, pg_read_all_stats"
pgwork queue create mail --retention 1d
for q in orders thumbnails reports invoices search; do pgwork queue create "$q"; done
pgwork reap >/dev/null 2>"$tmp/reap.err" &
reaper=$!
jobs_of_ours=$reaper

# the past, which would take an hour to happen
sql "INSERT INTO pgwork.minute SELECT q.id, date_trunc('minute', now()) - m * interval '1 min', 60, 900, (700 + 250 * sin(m / 7.0) + q.id * 60)::bigint,
        CASE WHEN m BETWEEN 20 AND 26 THEN 60 + m ELSE m % 3 END, CASE WHEN m = 23 THEN 12 ELSE 0 END, 0, 0, 0, 0,
        (8 + 6 * cos(m / 5.0) + CASE WHEN m BETWEEN 18 AND 30 THEN 90 ELSE 0 END)::bigint, (20 + 12 * sin(m / 4.0))::bigint
    FROM pgwork.queue q CROSS JOIN generate_series(1, 58) m"
evil=$(pgwork enqueue mail '{"text": "<script>alert(1)</script>", "deep": [[[[1]]]], "n": 9007199254740993}' -J -k '<script>alert(2)</script>' -t '<b id=x>' --priority 9)
sql "SELECT pgwork.enqueue_many('thumbnails', array_fill('{\"file\": \"a.png\"}'::jsonb, ARRAY[1200])) LIMIT 1" >/dev/null
sql "SELECT pgwork.enqueue_many('search', array_fill('{}'::jsonb, ARRAY[40])) LIMIT 1" >/dev/null
gated=0
for n in 1 2 3 4; do gated=$(pgwork enqueue orders "{\"n\": $n}" -J --group customer-7); done
pgwork enqueue orders a --group customer-9 >/dev/null
delayed=$(pgwork enqueue reports monthly --delay 2h -k report)
cancel=$(pgwork enqueue reports yearly --delay 9h -k report)
pgwork queue hold invoices --for 1h --reason '429 Too Many Requests'
pgwork enqueue invoices a b c >/dev/null
pgwork queue limit search 2
pgwork sem create licences 3
pgwork sem acquire licences --permits 2 --holder render-4 --ttl 1h >/dev/null
pgwork rate set geocoder 10 --burst 5 >/dev/null
pgwork -q cron add nightly '0 2 * * *' -Q reports --tz Europe/Berlin >/dev/null
pgwork -q cron add sweep '@every 15m' >/dev/null
pgwork lock nightly-backup -- sleep 600 &
jobs_of_ours="$jobs_of_ours $!"
sql 'CREATE TABLE article (id int PRIMARY KEY, locked_by text, expires_at timestamptz, token uuid)'
pgwork table register article --key id --locked-by locked_by --expires-at expires_at --token token >/dev/null 2>&1 || :
# jobs that fail, of a few sorts
i=0
for error in 'connection to 10.0.0.7 refused' 'no such mailbox: <ann@example.org>' 'timeout after 30000 ms'; do
    i=$((i + 3))
    sql "SELECT FROM pgwork.enqueue_many('mail', array_fill('{}'::jsonb, ARRAY[$i * 4]), kinds => '{send}')
         ; SELECT FROM pgwork.claim('{mail}', $i * 4, 'mail-1') c CROSS JOIN LATERAL pgwork.fail('mail', ARRAY[c.id], ARRAY[c.token], 'SMTP ' || c.id || ': $error', dead => true)"
done
dead=$(sql "SELECT max(id) FROM pgwork.job_list('mail', 'dead')")
sql "SELECT FROM pgwork.enqueue_many('mail', array_fill('{}'::jsonb, ARRAY[6]), kinds => '{send}')"
# a worker that lives, and one that dies
pgwork -X holder=mail-1 work mail -j 3 -- sleep 600 >/dev/null 2>&1 &
lives=$!
pgwork -X holder=orders-1 work orders -j 2 -- sleep 60 >/dev/null 2>&1 &
dies=$!
until_true 20 count_is "SELECT count(DISTINCT name) FROM pgwork.workers" 2
kill -KILL $dies

dsn="host=$PGHOST port=$PGPORT user=pgw_cli_browser dbname=$PGDATABASE"
serve() { # serve NAME ARGS...
    name=$1
    shift
    pgwork ui -l 127.0.0.1:0 "$@" >/dev/null 2>"$tmp/$name.err" &
    jobs_of_ours="$jobs_of_ours $!"
    until_true 10 grep -q 'serving http' "$tmp/$name.err"
    url=$(sed -n 's/.*serving \(http[^ ]*\)\/$/\1/p' "$tmp/$name.err")
}
PGWORK_DSN=$dsn serve read
read_url=$url
printf %s "$dsn" >"$tmp/first.dsn"
printf 'host=/nowhere' >"$tmp/second.dsn"
serve several -d "$tmp/first.dsn" -d "$tmp/second.dsn"
several=$url
serve act --act --payloads
if timeout 150 node "$top/test/browser/walk.mjs" "$read_url" "$url" "evil=$evil delayed=$delayed gated=$gated dead=$dead cancel=$cancel several=$several" ${PICTURES:+"$PICTURES"}; then
    pass 'the walk came to its end'
else
    bad=1
fi
kill -KILL $lives # it would wait for its jobs
for p in $jobs_of_ours; do kill "$p" 2>/dev/null || :; done
wait 2>/dev/null
sql "DROP ROLE pgw_cli_browser"
exit 0
