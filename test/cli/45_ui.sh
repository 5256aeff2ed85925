# ui: the dashboard over HTTP. Pages, rights, tokens, other sites, hostile content, /metrics and /healthz.
. "$(dirname "$0")/tap"
if ! command -v pgwork-ui >/dev/null || ! command -v curl >/dev/null; then
    echo 'ok - the dashboard # SKIP pgwork-ui or curl is missing'
    exit 0
fi
pgwork -q migrate
sql "SET client_min_messages = warning; DROP ROLE IF EXISTS pgw_cli_ui; CREATE ROLE pgw_cli_ui LOGIN IN ROLE pgwork_viewer"
viewer="host=$PGHOST port=$PGPORT user=pgw_cli_ui dbname=$PGDATABASE"
owner=$PGWORK_DSN

# start NAME ARGS...: a dashboard; its address is in $url
start() {
    name=$1
    shift
    pgwork ui -l 127.0.0.1:0 "$@" >"$tmp/$name.out" 2>"$tmp/$name.err" &
    pid=$!
    jobs_of_ours="$jobs_of_ours $pid"
    until_true 10 grep -q 'serving http' "$tmp/$name.err" || { cp "$tmp/$name.err" "$tmp/err"; fail "$name starts"; }
    url=$(sed -n 's/.*serving \(http[^ ]*\)$/\1/p' "$tmp/$name.err")
    url=${url%/}
}
# status PATH CURL_ARGS...: the code; the page is in $tmp/out, its headers in $tmp/headers
status() {
    path=$1
    shift
    curl -s --max-time 20 -o "$tmp/out" -D "$tmp/headers" -w '%{http_code}' "$@" "$url$path" ||
        echo "# curl ends with $? for $url$path; the dashboard said: $(cat "$tmp/$name.err")" >&2
}
shows() { is "$1" "$(grep -c -F -e "$2" "$tmp/out")" "${3:-1}"; } # shows NAME TEXT [LINES]
page_shows() { # page_shows NAME PATH TEXT
    got=$(status "$2")
    if [ "$got" = 200 ] && grep -q -F -e "$3" "$tmp/out"; then pass "$1"; else
        fail "$1"
        echo "#   $got, without: $3"
    fi
}
post() { # post FIELDS CURL_ARGS...: as a page of the dashboard sends it
    data=$1
    shift
    status /act -H "Origin: $url" -H 'Sec-Fetch-Site: same-origin' "$@" --data "$data"
}
enc() { printf %s "$1" | od -An -v -tx1 | tr -d '\n' | sed 's/ /%/g'; }

# -- content that is hostile ----
odd='"><b id=x>&'"'"'q' # a queue
script='<script>alert(1)</script>'
rtl=$(printf '\342\200\256') # U+202E
pgwork queue create "$odd"
pgwork queue create mail --retention 1d
dead=$(sql "SELECT id FROM pgwork.enqueue('mail', '{}', kind => 'send')")
sql "SELECT FROM pgwork.claim('{mail}', 10, '<i>holder') c CROSS JOIN LATERAL pgwork.fail('mail', ARRAY[c.id], ARRAY[c.token], '<img src=x onerror=alert(2)> 42 $rtl', dead => true) WHERE c.id = $dead"
evil=$(pgwork enqueue mail "{\"text\": \"$script $rtl SECRET\", \"n\": 9007199254740993, \"big\": 123456789012345678901234567890}" -J -k "$script" -t "$script" --key "$rtl$script")
big=$(sql "SELECT id FROM pgwork.enqueue('mail', jsonb_build_object('x', repeat('<a>', 350000)))")
deep=$(sql "SELECT id FROM pgwork.enqueue('mail', (repeat('[', 3000) || repeat(']', 3000))::jsonb)")
sql "SELECT FROM pgwork.enqueue('$(echo "$odd" | sed "s/'/''/g")', '{}')"
pgwork sem create seats 2
pgwork sem acquire seats --holder '<i>seat' --ttl 1h >/dev/null
pgwork rate set api 10 >/dev/null
pgwork -q cron add nightly '0 2 * * *' -Q mail --tz Europe/Berlin >/dev/null

# -- a viewer ----
PGWORK_DSN=$viewer start viewer
for path in / /queues '/queue?name=mail' "/queue?name=$(enc "$odd")" /jobs '/jobs?queue=mail&state=ready' '/jobs?tag=x' "/job?id=$evil" "/job?id=$dead&queue=mail" \
    /dead '/dead?queue=mail' /schedules '/schedule?name=nightly' /workers /locks /tables /log /help /static/ui.css /static/ui.js /static/icon.svg; do
    is "200 $path" "$(status "$path")" 200
    is 'without an error on it' "$(grep -c 'role="alert"' "$tmp/out")" 0
    is 'with nothing raw of the database' "$(grep -c -F -e '<script>alert' -e '<img src=x' -e '<b id=x' -e '<i>' -e "$rtl" "$tmp/out")" 0
    is 'the pages of a viewer have no button' "$(grep -c -e 'method="post"' -e '/confirm?' "$tmp/out")" 0
done
for path in /none /static/none /act/ '/job?id=99999999' '/job?id=x' '/queue?name=none' '/schedule?name=none'; do is "404 $path" "$(status "$path")" 404; done
is '400 for a NUL' "$(status '/queue?name=a%00b')" 400
is '400 for what is not UTF-8' "$(status '/queue?name=%ff')" 400
is '405 for PUT' "$(status / -X PUT)" 405
is 'HEAD has no body' "$(status / -I) $(grep -ci '<html' "$tmp/out")" '200 0'
status "/job?id=$evil" >/dev/null
is 'scripts come from the dashboard only' "$(grep -i '^content-security-policy:' "$tmp/headers" | grep -c "default-src 'none'.*script-src 'self'.*frame-ancestors 'none'")" 1
is 'no page has an inline script or style' "$(grep -c -e '<script>' -e ' style=' -e ' on[a-z]*=' "$tmp/out")" 0
is 'pages are not stored' "$(grep -ci '^cache-control: no-store' "$tmp/headers")" 1
is 'a payload is hidden unless it is asked for' "$(grep -c SECRET "$tmp/out") $(grep -c 'start with --payloads' "$tmp/out")" '0 1'
is 'a viewer changes nothing' "$(post 'action=queue-pause&queue=mail') $(sql "SELECT paused FROM pgwork.queues WHERE name = 'mail'")" '403 f'
page_shows 'a queue is found by a part of its name' '/queues?part=AI' 'queue?name=mail'
page_shows 'dead letters are grouped by error, with numbers masked' /dead '&lt;img src=x onerror=alert(#)&gt; #'
page_shows 'the next times of a schedule are in its zone' '/schedule?name=nightly' ' 02:00:00 +0'
page_shows 'holders of permits' /locks '&lt;i&gt;seat'

# -- what to do about a finding ----
status /help >/dev/null
is 'each section of the page of troubleshooting is there, with its anchor' "$(sed -n 's/^<h2 id="\(.*\)">\(.*\)<\/h2>$/\1 \2/p' "$tmp/out")" \
    "$(sed -n 's/^## //p' "$top/doc/troubleshooting.md" | while read -r name; do echo "$(echo "$name" | tr ' ' -) $name"; done)"
is 'the links of the page of troubleshooting lead somewhere' "$(grep -o 'href="#[^"]*"' "$tmp/out" | sed 's/.*#\(.*\)"/\1/' | sort -u | while read -r id; do grep -q " id=\"$id\"" "$tmp/out" || echo "$id"; done)" ''
cp "$tmp/out" "$tmp/help"
status / >/dev/null
grep -o 'href="/help#[^"]*"' "$tmp/out" | sed 's/.*#\(.*\)"/\1/' | sort -u >"$tmp/anchors"
is 'each finding has a link' "$(grep -c '<li class="[a-z]*"><b><a href="/help#' "$tmp/out")" "$(grep -c '<li class="[a-z]*"><b>' "$tmp/out")"
yes 'of many checks' test "$(wc -l <"$tmp/anchors")" -gt 12
is 'to a section that is there' "$(while read -r id; do grep -q "<h2 id=\"$id\"" "$tmp/help" || echo "$id"; done <"$tmp/anchors")" ''
code 'every check that the doctor has, has its section' 0 sh "$top/test/lint/findings.sh"

# -- metrics and health ----
is 'metrics' "$(status /metrics) $(grep -c '^pgwork_up 1$' "$tmp/out") $(grep -c '^pgwork_queue_jobs{queue="mail",state="dead"} 1$' "$tmp/out")" '200 1 1'
is 'healthz' "$(status /healthz) $(cat "$tmp/out")" '200 ok'
while [ "$(shoot)" -gt 0 ]; do :; done
is 'lost sessions are opened again' "$(status /healthz) $(status /) $(status /metrics) $(status /workers)" '200 200 200 200'
is 'another site cannot point a name at it' "$(status / -H 'Host: evil.example') $(status / -H "Host: localhost:1")" '403 200'

# -- why it does not run ----
why() { # why NAME ID TEXT
    page_shows "why: $1" "/job?id=$2" "$3"
}
why 'no worker' "$evil" 'No worker reports for its queue.'
why 'no reaper' "$evil" 'No reaper has ever run.'
pgwork queue pause mail
why 'paused' "$evil" 'Its queue is paused'
pgwork queue resume mail
pgwork queue hold mail --for 1h --reason '429 <b>'
why 'held, and why' "$evil" '429 &lt;b&gt;'
pgwork queue unhold mail
later=$(pgwork enqueue mail --delay 1h later)
why 'delayed' "$later" 'It is delayed: it becomes ready <time'
pgwork queue create one
first=$(pgwork enqueue one a --group g)
second=$(pgwork enqueue one b --group g)
pgwork -q claim one >/dev/null
why 'gated by its group' "$second" '1 of 1 admitted'
why 'leased' "$first" 'It runs, or waits in the buffer of'
pgwork queue create two
pgwork queue limit two 1
pgwork enqueue two a >/dev/null
gated=$(pgwork enqueue two b)
why 'at the limit of its queue' "$gated" 'It waits at the limit of its queue: 1 jobs'
pgwork sem create partner 1
pgwork queue semaphore two partner
why 'without a permit' "$gated" 'It waits for a permit of the semaphore <bdi>partner</bdi>'
page_shows 'its queue shows the semaphore' /queue?name=two 'has a permit of <bdi>partner</bdi>'
pgwork queue semaphore two none
pgwork queue create paced
pgwork queue rate paced 1 --per 365d
pgwork enqueue paced a >/dev/null
gated=$(pgwork enqueue paced b)
pgwork -q claim paced >/dev/null
why 'behind the rate of its queue' "$gated" 'It waits for the rate of its queue, 1 per 365'
pgwork groups set two ann --rate 1 --per 365d
pgwork queue limit two none
pgwork enqueue two --group ann a >/dev/null
gated=$(pgwork enqueue two --group ann b)
pgwork -q claim two -n 10 | pgwork -q complete two
for _ in 1 2; do pgwork -q claim two; done # each looks at one gate: that of the queue, then that of the group
why 'behind the rate of its group' "$gated" 'It waits for the rate of its group, 1 per 365'
pgwork reap --once >/dev/null 2>&1
sql "SELECT FROM pgwork.claim('{mail}', 1, 'gone', 100)"
sleep 0.2
lost=$(sql "SELECT id FROM pgwork.job WHERE queue = 'mail' AND state = 'leased' AND holder = 'gone'")
why 'its lease ended' "$lost" 'Its lease ended'
is 'failed attempts have their errors' "$(status "/job?id=$dead&queue=mail") $(grep -c '<h2>Attempts that failed' "$tmp/out")" '200 1'
is 'a dead letter is not asked why' "$(status "/job?id=$dead") $(grep -c 'Why is it not running' "$tmp/out")" '200 0'

# -- payloads ----
PGWORK_DSN=$owner start payloads --payloads
page_shows 'numbers are exact' "/job?id=$evil" '123456789012345678901234567890'
shows 'beyond 2^53' '9007199254740993'
shows 'what is hostile is text' '&lt;script&gt;alert(1)&lt;/script&gt; \u202e SECRET'
is 'a payload of 1 MB is cut' "$(status "/job?id=$big") $(grep -c ' bytes more' "$tmp/out") $(($(wc -c <"$tmp/out") < 600000))" '200 1 1'
is 'a deep one is text, too' "$(status "/job?id=$deep") $(grep -c '\[\[\[\[' "$tmp/out")" '200 1'
PGWORK_DSN=$viewer start hidden --payloads
page_shows 'the database decides what a viewer sees' "/job?id=$evil" 'hidden from this role'

# -- who may ask ----
for address in 0.0.0.0:0 '[::]:0'; do
    refused "nobody listens on $address without a way to know users" 2 'nothing says who may ask' pgwork ui -l "$address"
done
refused 'an address that is none' 2 'allowed is ADDRESS:PORT' pgwork ui -l localhost
refused 'a prefix that is none' 2 'allowed is a path' pgwork ui --prefix jobs/
refused 'an argument' 2 'one argument too many' pgwork ui x
refused 'an operator without --act' 2 'needs --act' pgwork ui --act-dsn-file x
printf 'ann 0123456789abcdef0123\n# a comment\nbob fedcba98765432100123\n' >"$tmp/users"
chmod 644 "$tmp/users"
refused 'a token file that others can read' 2 'other users can read' pgwork ui -l 127.0.0.1:0 --token-file "$tmp/users"
chmod 600 "$tmp/users"
printf 'ann short\n' >"$tmp/short"
chmod 600 "$tmp/short"
refused 'a short token' 2 'line 1 is not' pgwork ui -l 127.0.0.1:0 --token-file "$tmp/short"
refused 'a token file and a proxy' 2 'exclude each other' pgwork ui -l 127.0.0.1:0 --token-file "$tmp/users" --proxy-header X-User
PGWORK_DSN=$viewer start tokens --token-file "$tmp/users"
is 'no token' "$(status /) $(grep -ci '^www-authenticate: Basic' "$tmp/headers")" '401 1'
is 'a wrong token, one of another user, and a part of one' \
    "$(status / -u ann:0123456789abcdef0124) $(status / -u ann:fedcba98765432100123) $(status / -u ann:0123456789abcdef012) $(status / -u :) $(status / -H 'Authorization: Bearer')" '401 401 401 401 401'
is 'the right one' "$(status / -u bob:fedcba98765432100123) $(grep -c 'you are <b>bob</b>' "$tmp/out")" '200 1'
is 'a bearer, for Prometheus' "$(status /metrics -H 'Authorization: Bearer 0123456789abcdef0123') $(status /metrics)" '200 401'
is 'only health is for everybody' "$(status /healthz)" 200
PGWORK_DSN=$viewer start proxy --proxy-header X-User --prefix /ops/jobs
is 'a prefix' "$(status / -H 'X-User: eve<b>') $(grep -c 'href="/ops/jobs/queues">Queues' "$tmp/out") $(grep -c 'you are <b>eve&lt;b&gt;</b>' "$tmp/out")" '200 1 1'
is 'a proxy that names nobody' "$(status /)" 403
url=${url%/ops/jobs}
is 'paths outside of the prefix are not there' "$(status /queues -H 'X-User: eve') $(status /ops/jobsx -H 'X-User: eve') $(status /ops/jobs -H 'X-User: eve')" '404 404 200'

# -- actions ----
PGWORK_DSN=$viewer start barred --act
status '/queue?name=mail' >/dev/null
token=$(sed -n 's/.*name="token" value="\([0-9a-f]*\)".*/\1/p' "$tmp/out" | head -n 1)
is 'the server decides what --act may do' "$(post "token=$token&action=queue-pause&queue=mail") $(grep -c 'permission denied' "$tmp/out")" '403 1'
is 'an action that the server refuses changes nothing' "$(sql "SELECT paused FROM pgwork.queues WHERE name = 'mail'")" f
printf %s "$owner" >"$tmp/owner.dsn"
chmod 600 "$tmp/owner.dsn"
PGWORK_DSN=$viewer start act --act --act-dsn-file "$tmp/owner.dsn" --token-file "$tmp/users"
ann='-u ann:0123456789abcdef0123'
status '/queue?name=mail' $ann >/dev/null
token=$(sed -n 's/.*name="token" value="\([0-9a-f]*\)".*/\1/p' "$tmp/out" | head -n 1)
pause="token=$token&action=queue-pause&queue=mail"
is 'a POST without or with another form token' "$(post 'action=queue-pause&queue=mail' $ann) $(post "token=0$token&action=queue-pause&queue=mail" $ann)" '403 403'
is 'a POST of another site is refused' "$(status /act $ann -H 'Origin: http://evil.example' --data "$pause") $(status /act $ann -H "Origin: $url" -H 'Sec-Fetch-Site: cross-site' --data "$pause") $(status /act $ann -H 'Origin: null' --data "$pause")" '403 403 403'
is 'a POST without an origin is refused' "$(status /act $ann --data "$pause")" 403
is 'a POST without a user is refused' "$(post "$pause")" 401
is 'a GET is no action' "$(status "/act?$pause" $ann)" 404
is 'refused actions change nothing' "$(sql "SELECT paused FROM pgwork.queues WHERE name = 'mail'") $(sql 'SELECT count(*) FROM pgwork.log')" 'f 0'
is 'a POST of our page acts' "$(post "$pause" $ann) $(sql "SELECT paused FROM pgwork.queues WHERE name = 'mail'")" '303 t'
is 'an action leads to where it can be seen' "$(grep -ci '^location: /queue?name=mail' "$tmp/headers")" 1
is 'the log has the user' "$(sql "SELECT who || ': ' || verb || ' ' || filter FROM pgwork.log")" "$(sql 'SELECT session_user') (ann): queue pause {\"queue\": \"mail\"}"
is 'an action that does not exist' "$(post "token=$token&action=drop&queue=mail" $ann) $(post "token=$token&action=job-cancel&queue=mail" $ann)" '400 400'
is 'a queue that does not' "$(post "token=$token&action=queue-pause&queue=none" $ann) $(grep -c 'there is no queue' "$tmp/out")" '404 1'
is 'a form that is too large' "$(post "token=$token&action=queue-pause&queue=$(head -c 70000 /dev/zero | tr '\0' x)" $ann)" 400
for action in "queue-resume&queue=mail" "queue-drain&queue=mail" "queue-resume&queue=mail" "job-run&queue=mail&id=$later" "job-redrive&queue=mail&id=$dead" \
    "job-cancel&queue=mail&id=$dead" 'cron-run&schedule=nightly' 'cron-pause&schedule=nightly' 'cron-resume&schedule=nightly' 'group-unblock&queue=one&group=g'; do
    is "$action" "$(post "token=$token&action=$action" $ann)" 303
done
is 'each action is in the log' "$(sql "SELECT string_agg(DISTINCT verb, ', ') FROM pgwork.log")" 'cron pause, cron resume, cron run, group unblock, job cancel, job redrive, job run, queue drain, queue pause, queue resume'
is 'each action was done' "$(sql "SELECT state FROM pgwork.job WHERE id = $later") $(sql "SELECT count(*) FROM pgwork.job WHERE id = $dead AND state = 'dead'") $(sql 'SELECT count(*) FROM pgwork.ticks')" 'ready 0 1'
sql "SELECT pgwork.enqueue_many('bulk', array_fill('{}'::jsonb, ARRAY[25])) LIMIT 1" >/dev/null
sql "SELECT FROM pgwork.claim('{bulk}', 25, 'w') c CROSS JOIN LATERAL pgwork.fail('bulk', ARRAY[c.id], ARRAY[c.token], 'no ' || c.id, dead => true)"
is 'dead letters of one sort are counted first' "$(status '/confirm?action=bulk-redrive&queue=bulk&state=dead&error=no%20%23' $ann) $(grep -c '<b>25</b> jobs fit now' "$tmp/out")" '200 1'
is 'the question about dead letters changes nothing' "$(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'bulk' AND state = 'dead'")" 25
is 'then redriven' "$(post "token=$token&action=bulk-redrive&queue=bulk&state=dead&error=no%20%23" $ann) $(sql "SELECT count(*) FROM pgwork.job WHERE queue = 'bulk' AND state = 'ready'")" '303 25'
is 'with the user in the log' "$(sql "SELECT n || ' ' || verb || ' ' || (who LIKE '% (ann)') FROM pgwork.log WHERE verb = 'redrive'")" '25 redrive true'

is "which the page of the log shows" "$(status /log $ann) $(grep -c redrive "$tmp/out" | sed "s,[1-9],some,")" "200 some"

PGWORK_DSN=$owner start same --act
is 'without --act-dsn-file actions have the connection string of the pages' "$(status '/queue?name=one') $(post "token=$(sed -n 's/.*name="token" value="\([0-9a-f]*\)".*/\1/p' "$tmp/out" | head -n 1)&action=queue-pause&queue=one")" '200 303'

# -- several databases ----
two=${PGDATABASE}_two late=${PGDATABASE}_late
of() { echo "host=$PGHOST port=$PGPORT user=$2 dbname=$1"; } # of DATABASE USER
mkdir "$tmp/dsn" "$tmp/act"
for name in one two late; do
    case $name in one) of "$PGDATABASE" pgw_cli_ui ;; two) of "$two" pgw_cli_ui ;; late) of "$late" pgw_cli_ui ;; esac >"$tmp/dsn/$name.dsn"
done
of "$two" "$PGUSER" >"$tmp/act/two.dsn"
of "$late" "$PGUSER" >"$tmp/act/late.dsn"
sql "CREATE DATABASE $two"
pgwork -q -d "$tmp/act/two.dsn" migrate
pgwork -d "$tmp/act/two.dsn" enqueue tenant 1 2 >/dev/null
start several -d "$tmp/dsn/one.dsn" -d "$tmp/dsn/two.dsn" -d "$tmp/dsn/late.dsn" --act --act-dsn-file "two=$tmp/act/two.dsn"
is 'the first page has all databases' "$(status /) $(grep -c 'scope="row"' "$tmp/out")" '200 3'
row() { tr -d '\n' <"$tmp/out" | sed 's/<tr>/\n&/g' | grep "href=\"/db/$1/\""; } # row NAME
is 'with what the doctor says first, and their jobs' "$(row two | grep -c 'class="badge bad">bad</span> <a href="/db/two/help#[a-z-]*">.*<td class="n">2</td>')" 1
is 'one that is down is down, and says why' "$(row late | grep -c 'class="badge bad">down</span>.*does not exist')" 1
for path in / /queues '/queue?name=tenant' /jobs '/jobs?queue=tenant&state=ready' /dead /schedules /workers /locks /tables /log; do
    is "200 /db/two$path" "$(status "/db/two$path") $(grep -c 'role="alert"' "$tmp/out")" '200 0'
    is 'whose links stay in that database' "$(grep -o '\(href\|action\)="[^"]*"' "$tmp/out" | grep -v -e '="/db/two/' -e '="/static/' -e '="/"' -e '="#')" ''
done
is 'a page has the name of its database' "$(status /db/two/queues) $(grep -c '<title>Queues · two · pgwork</title>' "$tmp/out")" '200 1'
is 'each database has its own queues' "$(status '/db/one/queue?name=mail') $(status '/db/one/queue?name=tenant') $(status '/db/two/queue?name=mail')" '200 404 404'
is 'the one that is down says so on its pages' "$(status /db/late/) $(grep -c 'role="alert"' "$tmp/out" | sed 's/[1-9]/some/') $(status /db/late/queues)" '503 some 503'
is 'no page is without a database' "$(status /queues) $(status /db/none/) $(status /db/on/queues) $(status /db/) $(status /db/two)" '404 404 404 404 200'
status /metrics >/dev/null
is 'metrics have the database as a label' "$(grep '^pgwork_up' "$tmp/out" | tr '\n' ' ')" 'pgwork_up{database="one"} 1 pgwork_up{database="two"} 1 pgwork_up{database="late"} 0 '
is 'before the others' "$(grep -c -x 'pgwork_queue_jobs{database="two",queue="tenant",state="ready"} 2' "$tmp/out")" 1
is 'each metric is described once' "$(grep '^# TYPE' "$tmp/out" | sort | uniq -d)" ''
is 'the metrics of one database' "$(status /db/two/metrics) $(grep '^pgwork_up' "$tmp/out")" '200 pgwork_up{database="two"} 1'
is 'healthz counts those that are down' "$(status /healthz) $(cat "$tmp/out")" '503 1 of 3 databases do not answer'
is 'the health of one database' "$(status /db/two/healthz) $(status /db/late/healthz)" '200 503'
press() { status "/db/$1/act" -H "Origin: $url" -H 'Sec-Fetch-Site: same-origin' --data "token=$token&action=queue-pause&queue=$2"; } # press DATABASE QUEUE
is 'a database without a file of actions has no buttons' "$(status '/db/one/queue?name=mail') $(grep -c -e 'method="post"' -e '/confirm?' "$tmp/out")" '200 0'
is 'another one has' "$(status '/db/two/queue?name=tenant') $(grep -c 'action="/db/two/act"' "$tmp/out" | sed 's/[1-9]/some/')" '200 some'
token=$(sed -n 's/.*name="token" value="\([0-9a-f]*\)".*/\1/p' "$tmp/out" | head -n 1)
is 'the buttons of a database act there only' "$(press two tenant) $(press one mail) $(sql "SELECT paused FROM pgwork.queues WHERE name = 'mail'")" '303 403 f'
press two tenant >/dev/null
is 'then it shows what became of it' "$(grep -ci '^location: /db/two/queue?name=tenant' "$tmp/headers") $(PGDATABASE=$two sql "SELECT paused FROM pgwork.queues")" '1 t'
sql "CREATE DATABASE $late"
pgwork -q -d "$tmp/act/late.dsn" migrate
served() { [ "$(status "$1")" = 200 ]; }
yes 'one that was down comes back by itself' until_true 20 served /db/late/
is 'then all is well' "$(status /healthz) $(status /) $(grep -c 'badge bad">down' "$tmp/out")" '200 200 0'
PGWORK_DSN=$owner start alone -d "$tmp/dsn/one.dsn"
is 'one database alone keeps its addresses' "$(status '/queue?name=mail') $(status /db/one/) $(status /metrics) $(grep '^pgwork_up' "$tmp/out")" '200 404 200 pgwork_up 1'
cp "$tmp/dsn/one.dsn" "$tmp/act/one.dsn"
cp "$tmp/dsn/one.dsn" "$tmp/dsn/a b.dsn"
refused 'two files of one name' 2 'name their database "one"' pgwork ui -d "$tmp/dsn/one.dsn" -d "$tmp/act/one.dsn"
refused 'a name that is none' 2 'allowed are up to 63 letters' pgwork ui -d "$tmp/dsn/one.dsn" -d "$tmp/dsn/a b.dsn"
refused 'a file that is not there' 2 'cannot open' pgwork ui -d "$tmp/dsn/one.dsn" -d "$tmp/dsn/none.dsn"
for file in "$tmp/act/two.dsn" "three=$tmp/act/two.dsn"; do
    refused 'a file of actions of no database' 2 'allowed is NAME=FILE' pgwork ui -d "$tmp/dsn/one.dsn" -d "$tmp/dsn/two.dsn" --act --act-dsn-file "$file"
done
refused 'two files of actions for one' 2 'one database has one' pgwork ui -d "$tmp/dsn/one.dsn" --act --act-dsn-file "$tmp/act/one.dsn" --act-dsn-file "$tmp/act/two.dsn"

# -- a server that is not there ----
PGWORK_DSN='host=/nowhere' start nowhere
is 'no server' "$(status /healthz) $(status /metrics) $(cat "$tmp/out" | grep -c '^pgwork_up 0$')" '503 200 1'
is 'is said on the page' "$(status /) $(grep -c 'role="alert"' "$tmp/out" | sed 's/[1-9]/some/')" '503 some'
if command -v ruby >/dev/null; then
    PGWORK_DSN=$viewer ruby -rsocket -e 's = TCPServer.new("127.0.0.1", 0)
        STDOUT.puts s.addr[1]; STDOUT.flush
        exec({"LISTEN_PID" => $$.to_s, "LISTEN_FDS" => "1"}, "pgwork-ui", 3 => s.fileno)' >"$tmp/port" 2>"$tmp/socket.err" &
    jobs_of_ours="$jobs_of_ours $!"
    until_true 10 grep -q serving "$tmp/socket.err"
    url=http://127.0.0.1:$(cat "$tmp/port")
    is 'systemd hands over a socket' "$(status /healthz)" 200
fi
kill -TERM "$pid"
all_well 'TERM ends it' "$pid"
is 'the servers print nothing else' "$(cat "$tmp/viewer.out" "$tmp/act.out")$(grep -vc serving "$tmp/act.err")" 0
for p in $jobs_of_ours; do kill "$p" 2>/dev/null || :; done
wait
for database in $two $late; do sql "DROP DATABASE IF EXISTS $database WITH (FORCE)" 2>/dev/null; done
sql "DROP ROLE pgw_cli_ui"
exit 0
