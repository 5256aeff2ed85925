# psql alone takes a job through all its states.
. "$(dirname "$0")/tap"
pgwork -q migrate
state() { sql "SELECT state || ' ' || attempt FROM pgwork.job WHERE id = $id"; }
claim() { token=$(sql "SELECT token FROM pgwork.claim('{life}', 1, 'psql', 60000)"); }
promoted() { [ "$(sql 'SELECT promoted FROM pgwork.promote()')" = 1 ]; }

sql "SELECT pgwork.queue_create('life', retention_ms => 86400000)" >/dev/null
id=$(sql "SELECT id FROM pgwork.enqueue('life', '{\"n\": 1}', kind => 'by hand', delay_ms => 3000)")
is 'enqueued, delayed' "$(state)" 'delayed 0'
yes 'promoted when it is due' until_true 20 promoted
is 'promoted' "$(state)" 'ready 0'
claim
is 'claimed' "$(state)" 'leased 1'
is 'extended' "$(sql "SELECT status FROM pgwork.extend('life', '{$id}', '{$token}', 120000)")" ok
is 'a foreign token is refused' "$(sql "SELECT status FROM pgwork.complete('life', '{$id}', '{00000000-0000-0001-0000-000000000001}')")" stale
is 'released' "$(sql "SELECT count(*) FROM pgwork.release('life', '{$id}', '{$token}')") $(state)" '0 ready 0'
claim
is 'snoozed' "$(sql "SELECT count(*) FROM pgwork.snooze('life', '{$id}', '{$token}', 3000)") $(state)" '0 delayed 0'
yes 'promoted when that is over' until_true 20 promoted
claim
is 'failed' "$(sql "SELECT count(*) FROM pgwork.fail('life', '{$id}', '{$token}', 'try again', 0)") $(state)" '0 ready 1'
claim
is 'dead' "$(sql "SELECT count(*) FROM pgwork.fail('life', '{$id}', '{$token}', 'hopeless', dead => true)") $(state)" '0 dead 2'
is 'redriven' "$(sql "SELECT pgwork.redrive('life', '{$id}')") $(state)" '1 ready 0'
token=$(sql "SELECT token FROM pgwork.claim('{life}', 1, 'psql', 100)")
sleep 0.2
is 'reaped' "$(sql "SELECT returned FROM pgwork.reap()") $(state)" '1 ready 1'
is 'a late holder is refused' "$(sql "SELECT status FROM pgwork.complete('life', '{$id}', '{$token}')")" stale
claim
is 'completed in a transaction that is rolled back' "$(sql "BEGIN; SELECT count(*) FROM pgwork.complete('life', '{$id}', '{$token}'); ROLLBACK" | head -n 1) $(state)" '0 leased 2'
is 'completed' "$(sql "SELECT count(*) FROM pgwork.complete('life', '{$id}', '{$token}', ARRAY['{\"ok\": true}'::jsonb])") $(state)" '0 done 2'
is 'its output is kept' "$(sql "SELECT output FROM pgwork.job WHERE id = $id")" '{"ok": true}'
is 'pgwork show agrees with psql' "$(pgwork show "$id" --json | sed 's/,"attempts":.*//; s/.*"state":"\([a-z]*\)".*"attempt":\([0-9]*\).*/\1 \2/')" 'done 2'
exit 0
