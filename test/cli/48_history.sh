# history: attempts that failed, and progress, as pgwork shows them.
. "$(dirname "$0")/tap"
pgwork -q migrate
pgwork queue create q --retention 1d --backoff 0s

id=$(pgwork enqueue q job)
code 'a job without a history' 0 pgwork show "$id"
is 'shows none' "$(grep -c '^attempts\|^progress' "$tmp/out")" 0
is 'as JSON, too' "$(pgwork show "$id" --json | grep -o '"progress":null\|"attempts":.*' | tr '\n' ' ')" '"progress":null "attempts":[]} '

# shellcheck disable=SC2016  # for the command
pgwork -q work q --once --holder first -- sh -c 'pgwork progress "{\"done\": 40}"; printf "no disk\n\033[31mleft" >&2; exit 3' 2>/dev/null
code 'a failed job' 0 pgwork show "$id"
is 'has its attempt: when, how, by whom' "$(sed -n 's/^attempts  *\(1 failed\) 20.* ago) \(by first\)$/\1 \2/p' "$tmp/out")" '1 failed by first'
is 'show prints the error of an attempt, escaped' "$(sed -n '/^attempts/,$p' "$tmp/out" | sed -n '2,4s/^  *//p' | tr '\n' ',')" 'exit 3,no disk,\x1b[31mleft,'
is 'show prints the progress that a command reported' "$(grep '^progress' "$tmp/out" | tr -s ' ')" 'progress {"done": 40}'
is 'ls has its beginning' "$(pgwork ls q | sed -n '2s/.*{/{/p')" '{"done": 40}'
pgwork show "$id" --json >"$tmp/json"
json 'show --json is JSON' "$tmp/json"
is 'with the attempts' "$(grep -o '"attempts":\[{"attempt":1,"ended_at":"20[^"]*","ended":"failed","holder":"first","error":"exit 3\\nno disk\\n\\u001b\[31mleft"}\]' "$tmp/json" | wc -l)" 1
is 'JSON shows the progress' "$(grep -o '"progress":{[^}]*}' "$tmp/json")" '"progress":{"done": 40}'

# shellcheck disable=SC2016  # for the command
pgwork -q reap --once
pgwork -q work q --once -- sh -c 'pgwork progress >"$0"' "$tmp/before"
is 'the next attempt reads it' "$(cat "$tmp/before")" '{"done": 40}'
is 'a job that is done keeps its history as long as it is kept' "$(pgwork show "$id" | grep -c '^attempts')" 1

pgwork enqueue q scripts >/dev/null
pgwork -q claim q >"$tmp/claim"
read -r job token rest <"$tmp/claim"
code 'a script names queue, job and token' 0 pgwork progress q "$job" "$token" '[1, 2]'
code 'a script reads the progress without a token' 0 pgwork progress q "$job"
is 'what it has written' "$(cat "$tmp/out")" '[1, 2]'
pgwork -q release q "$job" "$token"
refused 'a stale token' 1 'refused, the lease is lost' pgwork progress q "$job" "$token" 3
is 'changes nothing' "$(pgwork progress q "$job")" '[1, 2]'
code 'a job without progress' 1 pgwork progress q 999999
refused 'no job' 2 'which job' pgwork progress 1
refused 'a token without JSON' 2 'expected JSON' pgwork progress q "$job" "$token"
refused 'no JSON' 2 'not valid JSON' pgwork progress q "$job" "$token" '{'
refused 'no token' 2 'not a valid token' pgwork progress q "$job" x 1
refused 'no queue of that name' 1 'no queue "none"' pgwork progress none "$job"
long=$(printf '"%070000d"' 1)
refused 'too long' 2 'progress' pgwork progress q "$job" "$token" "$long"

sql "SET client_min_messages = warning; DROP ROLE IF EXISTS pgw_cli_worker; CREATE ROLE pgw_cli_worker LOGIN IN ROLE pgwork_worker"
as_worker() { PGWORK_DSN="host=$PGHOST port=$PGPORT user=pgw_cli_worker dbname=$PGDATABASE" "$@"; }
is 'a worker may read and write progress' "$(as_worker pgwork -q work q --once -- sh -c 'pgwork progress; pgwork progress 3; pgwork progress' | tr '\n' ' ')" '[1, 2] 3 '
sql "DROP ROLE pgw_cli_worker"
exit 0
