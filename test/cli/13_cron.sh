# Schedules: definitions, times, ticks for queues and for nodes.
. "$(dirname "$0")/tap"
pgwork -q migrate

code 'no schedules yet' 1 pgwork cron list
refused 'a bad expression, with its place' 2 'day of month field, column 5: expected \* or 1..31, got "32"' pgwork cron next '* * 32 * *'
refused 'the same from add' 2 'day of month field, column 5: expected \* or 1..31, got "32"' pgwork cron add x '* * 32 * *'
refused 'a zone that is none' 2 'Mars' pgwork cron add x '* * * * *' --tz Mars
for zone in +03:00 GMT+3 CST right/UTC '<+03>-3' posixrules/none ''; do
    refused "what is no zone by name ($zone) is refused by next" 2 'zone' timeout -k 1 20 pgwork cron next '* * * * * *' --tz "$zone"
    refused "what is no zone by name ($zone) is refused by add" 2 'zone' timeout -k 1 20 pgwork cron add x '* * * * * *' --tz "$zone"
done
yes 'a zone is found whatever its case by next' pgwork cron next @daily --tz europe/berlin
yes 'a zone is found whatever its case by add' pgwork cron add case @daily --tz europe/berlin
pgwork cron rm case
pgwork cron add ahead @hourly --timeout 7d >/dev/null
pgwork cron run ahead
token=$(pgwork cron claim ahead --node a | cut -f1)
# as if the server's clock had been eight hours ahead meanwhile
sql "UPDATE pgwork.schedule SET base = base + interval '8 h', next_at = next_at + interval '8 h', next_slot = next_slot + interval '8 h' WHERE name = 'ahead'" >/dev/null
code 'a held tick, and nothing for another node' 1 pgwork cron claim ahead --node b
code 'release --force' 0 pgwork cron release --force ahead
refused 'makes the token stale' 1 '' pgwork cron finish "$token"
yes 'a list shows who took the tick' sh -c 'pgwork cron list ahead --json | grep -q "took the tick of .* from node ..a"'
yes 'the next time is not ahead any more' count_is "SELECT count(*) FROM pgwork.schedules WHERE name = 'ahead' AND next_slot < clock_timestamp() + interval '61 min'" 1
code 'another node may claim it' 0 pgwork cron claim ahead --node b
code 'release --force when none is held' 1 sh -c 'pgwork cron release --force ahead && pgwork cron release --force ahead'
refused 'release --force of no schedule' 1 'none_such' pgwork cron release --force none_such
pgwork cron rm ahead
cat >"$tmp/schedules" <<'END'
# what there is to be
  apply-a '30 6 * * mon-fri' --tz "Europe/Berlin" -Q mail -k report   # a comment
apply\ b "@every 1h" --timeout 1m

END
pgwork cron add apply-old @daily >/dev/null
code 'apply, a dry run' 0 pgwork cron apply -n --prune "$tmp/schedules"
is 'prints what would change' "$(sort "$tmp/out" | tr '\n' ',')" 'new apply b,new apply-a,removed apply-old,'
is 'a dry run changes nothing' "$(sql "SELECT string_agg(name, ',' ORDER BY name COLLATE \"C\") FROM pgwork.schedules")" apply-old
code 'apply' 0 pgwork cron apply "$tmp/schedules"
is 'makes those of the file' "$(sql "SELECT string_agg(name || ' ' || coalesce(queue, '-'), ',' ORDER BY name COLLATE \"C\") FROM pgwork.schedules")" 'apply b -,apply-a mail,apply-old -'
code 'apply --prune from stdin' 0 sh -c 'pgwork --json cron apply --prune - <"$0"' "$tmp/schedules"
json 'apply --json is JSON' "$tmp/out"
is 'removes the others' "$(sql "SELECT string_agg(name, ',' ORDER BY name COLLATE \"C\") FROM pgwork.schedules")" 'apply b,apply-a'
printf '%s\n' 'apply-c @daily' 'apply-d "* * 32 * *"' >"$tmp/schedules"
refused 'a file with a mistake' 2 'schedules:2: nothing was changed' pgwork cron apply --prune "$tmp/schedules"
is 'changes nothing' "$(sql "SELECT string_agg(name, ',' ORDER BY name COLLATE \"C\") FROM pgwork.schedules")" 'apply b,apply-a'
echo 'apply-c "@daily' >"$tmp/schedules"
refused 'a quote that is not closed' 2 'schedules:1: a quote' pgwork cron apply "$tmp/schedules"
printf '%s\n' 'apply-c @daily' 'apply-c @hourly' >"$tmp/schedules"
refused 'a schedule that is there twice' 2 'twice' pgwork cron apply "$tmp/schedules"
refused 'a file that is not there' 2 'cannot read' pgwork cron apply "$tmp/none_such"
pgwork cron rm apply-a 'apply b'
refused 'a policy that is none' 2 'once, skip or all' pgwork cron add x '* * * * *' --misfire maybe
refused 'a grace with which skip never runs' 2 '1000..86400000' pgwork cron add x '* * * * *' --misfire skip --grace 0

code 'next' 0 pgwork cron next '30 2 * * *' --tz Europe/Berlin -n 3 --after 2026-03-27T12:00:00Z
is 'a gap: right after it' "$(cat "$tmp/out")" '2026-03-28T01:30:00Z  Sat 2026-03-28 02:30:00 +01:00
2026-03-29T01:00:00Z  Sun 2026-03-29 03:00:00 +02:00
2026-03-30T00:30:00Z  Mon 2026-03-30 02:30:00 +02:00'
is 'a year of five digits' "$(pgwork cron next @yearly --after 9999-06-01T00:00:00Z)" '10000-01-01T00:00:00Z  Sat 10000-01-01 00:00:00 +00:00'
code 'next --json' 0 pgwork cron next @hourly --json
json 'next --json is JSON' "$tmp/out"

code 'add' 0 pgwork cron add report '0 0 1 1 *' --tz Europe/Berlin -Q mail -k report --payload '{"a":1}' -p 2 -t eu --misfire all --misfire-max 5 --grace 2m --jitter 0 --max-attempts 3 --lease 1m --key report
yes 'add prints the next time' grep -q '^20[0-9][0-9]-12-31T23:00:00Z$' "$tmp/out"
code 'add again' 0 pgwork cron add report '0 0 1 1 *' --tz Europe/Berlin -Q mail -k report --payload '{"a":1}' -p 2 -t eu --json
json 'add --json is JSON' "$tmp/out"
code 'list' 0 pgwork cron list
yes 'list in columns' grep -q '^report  *0 0 1 1 \*  *Europe/Berlin  *mail  *on  *20.*-12-31T23:00:00Z  *-  *-  *-$' "$tmp/out"
code 'list --json' 0 pgwork cron list report --json
json 'list --json is JSON' "$tmp/out"
code 'list of one that is not there' 1 pgwork cron list none_such

code 'run' 0 pgwork cron run report
yes 'run makes a job as said' sh -c 'pgwork ls mail --json | grep -q "\"kind\":\"report\""'
code 'pause' 0 pgwork cron pause report
yes 'paused shows, and that nothing comes' sh -c 'pgwork cron list | grep -q "^report .* paused  *-  *20"'
yes 'in JSON, too' sh -c 'pgwork cron list --json | grep -q "\"paused\":true,\"next\":null"'
is 'add of a paused schedule prints no next time' "$(pgwork cron add report '0 0 1 1 *' --tz Europe/Berlin -Q mail)" -
code 'resume' 0 pgwork cron resume report
code 'rename' 0 pgwork cron rename report annual
refused 'the old name is gone' 1 'report' pgwork cron pause report
refused 'rm of one that is not there, and of one that is' 1 'none_such' pgwork cron rm none_such annual
code 'is gone' 1 pgwork cron list

code 'add --group' 0 pgwork cron add import @yearly -Q imports --group g
pgwork cron run import >/dev/null
pgwork cron run import >/dev/null
is 'its jobs run one after the other' "$(pgwork ls imports --group g --json | sed 's/.*"state":"\([^"]*\)".*/\1/' | sort | tr '\n' ' ')" 'gated gated '
is 'one can be claimed' "$(pgwork claim imports -n 2 | wc -l)" 1
yes 'list --json says so' sh -c 'pgwork cron list import --json | grep -q "\"group\":\"g\""'
echo 'import @yearly -Q imports --group h' | pgwork -q cron apply - >/dev/null
yes 'apply, too' sh -c 'pgwork cron list import --json | grep -q "\"group\":\"h\""'
refused 'a group without a queue' 2 'argument grp is "g": expected NULL in a schedule without a queue' pgwork cron add x @yearly --group g
refused 'a group that is none' 2 '1 to 255 bytes' pgwork cron add x @yearly -Q imports --group ''
pgwork cron rm import

pgwork cron add often '* * * * * *' -Q q >/dev/null
sql "UPDATE pgwork.schedule SET base = date_trunc('second', clock_timestamp()) - interval '3 s', next_at = '-infinity'" >/dev/null
code 'tick' 0 pgwork cron tick
yes 'tick prints how many' test "$(cat "$tmp/out")" -ge 3
pgwork cron rm often

pgwork cron add sweep '@every 1h' --timeout 1m --payload '[1]' >/dev/null
code 'nothing is due' 1 pgwork cron claim sweep
is 'says nothing' "$(cat "$tmp/out" "$tmp/err")" ''
refused 'nothing of one that is not there' 1 'no schedule "Sweep" yet' pgwork cron claim sweep Sweep
code 'a quiet claim of a missing schedule finds nothing' 1 pgwork -q cron claim Sweep
is 'says nothing' "$(cat "$tmp/out" "$tmp/err")" ''
sql 'CREATE ROLE pgw_cli_worker LOGIN IN ROLE pgwork_worker' 2>/dev/null
PGWORK_DSN="host=$PGHOST port=$PGPORT user=pgw_cli_worker dbname=$PGDATABASE" code 'a schedule is not shown to a role that may not read it' 1 pgwork cron claim Sweep
is 'says nothing' "$(cat "$tmp/out" "$tmp/err")" ''
sql 'DROP ROLE pgw_cli_worker' >/dev/null 2>&1
code 'run without a queue' 0 pgwork cron run sweep
code 'claim' 0 pgwork cron claim sweep --node a
token=$(cut -f1 "$tmp/out")
is 'claim prints schedule, attempt and payload' "$(cut -f3- "$tmp/out" | tr '\t' ' ')" 'sweep 1 [1]'
code 'held: no other node gets it' 1 pgwork cron claim sweep --node b
yes 'the holder shows' sh -c 'pgwork cron list | grep -q "running .* a  *-$"'
code 'extend' 0 pgwork cron extend "$token" --timeout 2m
code 'release' 0 pgwork cron release "$token"
refused 'the token is stale' 1 . pgwork cron finish "$token"
code 'another node' 0 pgwork cron claim --node b --json
json 'claim --json is JSON' "$tmp/out"
token=$(sed 's/.*"token":"\([^"]*\)".*/\1/' "$tmp/out")
code 'finish' 0 pgwork cron finish "$token" -e 'no space'
is 'the error is noted' "$(sql 'SELECT holder, error FROM pgwork.tick WHERE error IS NOT NULL')" 'b|no space'
refused 'not twice' 1 . pgwork cron finish "$token"
refused 'a word that is not a token' 2 'not a valid token' pgwork cron finish frob
code 'run without a node' 0 pgwork cron run sweep
{ sleep 1; code=0; pgwork cron claim sweep 2>"$tmp/err" || code=$?; echo "$code $(grep -c 'cannot write' "$tmp/err")" >"$tmp/code"; } | :
is 'a tick that cannot be printed, because the reader is gone' "$(cat "$tmp/code")" '8 1'
code 'is for the next one' 0 pgwork cron claim sweep
pgwork -q cron finish "$(cut -f1 "$tmp/out")"
exit 0
