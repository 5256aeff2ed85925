# Help, version, and unknown commands and options.
. "$(dirname "$0")/tap"

code 'version' 0 pgwork version
yes 'version says the number' grep -q '^pgwork [0-9]*\.[0-9]*\.[0-9]* (library ' "$tmp/out"
code '--version' 0 pgwork --version
code 'help' 0 pgwork help
commands=$(pgwork help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
is 'help names each command that has a page' "$(echo "$commands" | grep -vxe help -e version | sort | tr '\n' ' ')" \
    "$(cd "$top/doc/man" && ls pgwork-*.1 | sed 's/^pgwork-\(.*\)\.1$/\1/' | sort | tr '\n' ' ')"
for command in $commands; do
    code "$command --help" 0 pgwork "$command" --help
    yes "$command --help has a usage" grep -q "^usage: pgwork $command" "$tmp/out"
    case $command in help) continue ;; esac
    code "help $command" 0 pgwork help "$command"
    yes "help $command says the same" grep -q "^usage: pgwork $command" "$tmp/out"
    code "$command has a page" 0 test -f "$top/doc/man/pgwork-$command.1" -o "$command" = version
    yes "$command --help fits in 100 columns" awk 'length > 100 { exit 1 }' "$tmp/out"
done
for verb in list create set pause resume hold unhold drain purge drop depth; do
    code "queue $verb --help" 0 pgwork queue $verb --help
    yes "queue $verb --help has a usage" grep -q "^usage: pgwork queue $verb" "$tmp/out"
done
is 'help extend lists the words of --json' "$(pgwork help extend | grep -o '\(stale\|gone\|locked\|cancel\):' | sort | tr -d '\n')" \
    'cancel:gone:locked:stale:'
yes 'help names exit code 75 of sem acquire' sh -c "pgwork help | grep -q '75 .*sem acquire'"
for verb in list redrive purge; do code "dead $verb --help" 0 pgwork dead $verb --help; done
for verb in create acquire extend release resize drop list run; do code "sem $verb --help" 0 pgwork sem $verb --help; done
for verb in set drop ls take run; do code "rate $verb --help" 0 pgwork rate $verb --help; done
for verb in check init reap register unregister list; do code "table $verb --help" 0 pgwork table $verb --help; done
for verb in up status; do code "migrate $verb --help" 0 pgwork migrate $verb --help; done
code 'help queue create' 0 pgwork help queue create
yes 'help with a verb prints the usage of that verb' grep -q '^usage: pgwork queue create' "$tmp/out"
code '-X list' 0 pgwork -X list
yes '-X list knows the lease' grep -q '^worker.lease_ms ' "$tmp/out"
code '-X list --json' 0 pgwork --json -X list
json '-X list --json is JSON' "$tmp/out"

refused 'no command' 2 'no command' pgwork
refused 'unknown command' 2 'no command "frobnicate"' pgwork frobnicate
refused 'nearly a command' 2 'did you mean "enqueue"' pgwork enqeue
refused 'unknown verb' 2 'there is no lst' pgwork queue lst
yes 'nearly a verb' grep -q 'did you mean "list"' "$tmp/err"
refused 'unknown option' 2 'unknown option --frob' pgwork ls --frob
refused 'unknown letter' 2 'unknown option -Z' pgwork ls -Z
refused 'unknown option before the command' 2 'unknown option --frob' pgwork --frob ls
refused 'missing value' 2 'a value is missing after --limit' pgwork ls -n
refused 'missing value of a long option' 2 'a value is missing after --limit' pgwork ls --limit
refused 'a value where none goes' 2 'takes no value: --json' pgwork ls --json=yes
refused 'missing argument' 2 'missing: ID' pgwork show
refused 'too many arguments' 2 'one argument too many: b' pgwork ls a b
refused 'not a number' 2 'number from 1 to 100000' pgwork ls -n many
refused 'an empty number' 2 'number from 1 to 100000' pgwork ls -n ''
refused 'a negative number' 2 'number from 1 to 100000' pgwork ls -n -5
refused 'a number over the limit' 2 'number from 1 to 100000' pgwork ls -n 100001
refused 'a number over 64 bits' 2 'number from 1 to' pgwork work q -n 9223372036854775808 -- true
refused 'not a duration' 2 'a duration such as' pgwork enqueue q x --delay soon
refused 'a duration with a wrong unit' 2 'a duration such as' pgwork enqueue q x --delay 3w
refused 'a negative duration' 2 'a duration such as' pgwork enqueue q x --delay -1s
refused 'a lease under the limit' 2 'from 100ms to 1d00h' pgwork claim q --lease 99ms
refused 'not a time' 2 'a time with its zone' pgwork enqueue q x --run-at tomorrow
refused 'a time without a zone' 2 'a time with its zone' pgwork enqueue q x --run-at 2030-01-31T12:00:00
refused 'a day that is not' 2 'a time with its zone' pgwork enqueue q x --run-at 2030-02-29T12:00:00Z
refused 'a value that is not UTF-8' 2 'not UTF-8' pgwork enqueue q x --kind "$(printf 'a\377')"
refused 'unknown property' 2 'no property `frob`' pgwork -X frob=1 ls
refused 'property without a value' 2 'KEY=VALUE' pgwork -X frob ls
refused 'property out of range' 2 'worker.concurrency' pgwork -X worker.concurrency=100000 ls
