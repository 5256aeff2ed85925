# examples/monitoring: every metric that it names exists, and the files are valid.
. "$(dirname "$0")/tap"
pgwork -q migrate
monitoring=$top/examples/monitoring
pgwork enqueue q 1 2 3 >/dev/null
pgwork -q work q --once -- true
pgwork sem create seats 3
pgwork -q cron add nightly '0 2 * * *' >/dev/null
pgwork -q cron add beat '@every 1s' -Q q >/dev/null
pgwork -q reap --once
until_true 30 sh -c "pgwork -q reap --once; pgwork metrics --no-doctor | grep -q '^pgwork_schedule_last_timestamp_seconds'"
pgwork metrics >"$tmp/metrics"
sed -n 's/^# TYPE \(pgwork_[a-z_]*\) .*/\1/p' "$tmp/metrics" | sort >"$tmp/there"

# named FILE: the metrics in it, a histogram's series under its own name
named() { grep -o 'pgwork_[a-z_]*' "$1" | sed 's/_seconds_\(bucket\|sum\|count\)$/_seconds/' | sort -u; }
for file in pgwork.rules.yml grafana-pgwork.json; do
    named "$monitoring/$file" >"$tmp/named"
    yes "$file names metrics" test "$(wc -l <"$tmp/named")" -ge 15
    is "each of which exists" "$(comm -13 "$tmp/there" "$tmp/named")" ''
done
named "$top/doc/operations.md" | grep -v -e '^pgwork_\(producer\|worker\|viewer\|operator\)$' >"$tmp/named"
is 'each metric stands in doc/operations.md' "$(comm -13 "$tmp/there" "$tmp/named")" ''
is 'the man page has each metric' "$(while read -r name; do
    grep -q "$name" "$top/doc/man/pgwork-metrics.1" || echo "$name"
done <"$tmp/there")" ''
is 'the dashboard is JSON' "$(sql "SELECT jsonb_typeof(\$json\$$(cat "$monitoring/grafana-pgwork.json")\$json\$::jsonb)")" object
if command -v ruby >/dev/null; then
    for file in pgwork.rules.yml keda-scaledobject.yaml; do
        yes "$file is YAML" ruby -ryaml -e 'YAML.load_stream(File.read(ARGV[0])) { |d| d.is_a?(Hash) or exit 1 }' "$monitoring/$file"
    done
fi
query=$(sed -n 's/^ *query: "\(.*\)"$/\1/p' "$monitoring/keda-scaledobject.yaml" | sed "s/'mail'/'q'/")
is "KEDA's query is one number, for a viewer" "$(sql "SET ROLE pgwork_viewer; $query" | grep -c '^[0-9][0-9]*$')" 1

pgwork queue create mail
pgwork enqueue mail 1 2 3 4 5 >/dev/null
is 'the script for systemd starts and stops as many as are needed' \
    "$(SYSTEMCTL='echo' sh "$monitoring/pgwork-scale.sh" mail 2 4 | sed 's/--no-block //; s/pgwork-worker@mail:\([0-9]\).service/\1/' | tr '\n' ' ')" \
    'start 1 start 2 start 3 stop 4 '
exit 0
