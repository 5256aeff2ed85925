#!/bin/sh
# Every rule (R1 ...) that a comment or a test names is in doc/rules.md. Every fault and invariant has a row in doc/faults.md that
# names a test or says what is not tested. Every test that the pages name exists.
# Every public verb is in the table of test_it_wire, or is excused here.
cd "$(dirname "$0")/../.." || exit 1
bad=0
for rule in $(grep -rhoE '\bR[0-9]{1,2}\b|test_R[0-9]+' src inc test/integration --include=*.[ch] | sed 's/test_R0*/R/' | sort -u); do
    grep -q "^| \*\*$rule\*\* " doc/rules.md || { echo "$rule is not in doc/rules.md"; bad=1; }
done
pages='doc/rules.md doc/faults.md doc/reliability.md'
for row in $(seq -f 'F%02.0f' 72) $(seq -f 'I%.0f' 16); do
    grep -qE "^\| $row \| .* \| .*(\btest_|\btest/|make |chaos: |Not tested: ).* \|$" doc/faults.md || { echo "$row has no row with a test in doc/faults.md"; bad=1; }
done
for class in $(grep -oE 'chaos: (`[a-z_]+`(, )?)+' doc/faults.md | grep -oE '`[a-z_]+`' | tr -d '`' | sort -u); do
    grep -q "XX($class, " test/chaos/classes.h || { echo "there is no class $class of chaos runs"; bad=1; }
done
for rule in $(grep -oE 'check_[a-z]+\.c` \(`[a-z_`, ]+`\)' doc/faults.md | sed 's/.*(//' | tr -cs 'a-z_' ' '); do
    grep -q "XX($rule, " test/chaos/check.h || { echo "there is no rule $rule of the checker"; bad=1; }
done
# shellcheck disable=SC2086  # a list of pages
for name in $(grep -hoE '\btest_[A-Za-z0-9_]+\b' $pages | grep -v '^test_R05$' | sort -u); do
    case $name in test_it_*) test -e "test/integration/$name.c" || { echo "there is no $name.c"; bad=1; }; continue ;; esac
    grep -rqE "^void $name\(" test/unit test/integration || { echo "there is no test $name"; bad=1; }
done
# shellcheck disable=SC2086
for file in $(grep -hoE '\btest/[a-z]+/[A-Za-z0-9_]+\.(c|sh|pml)\b' $pages | sort -u); do
    test -e "$file" || { echo "there is no $file"; bad=1; }
done
read_only='search job_wait demand gauges_read progress_read queue_depth lock_is_free lock_holder sema_status table_get table_open doctor
    cron_next is_pooled'
no_request='async step set_stop set_timeout lock_check lock_guard'
undoes=txn_rollback
loops='worker_run reaper_run' # of verbs in the table
public=$(cat inc/pgwork/*.h | tr '\n' ' ' | grep -oE 'PGW_API pgw_status pgw_[a-z_]+(\((pgw|pgw_lock|pgw_load) \*|_run\()' |
    sed 's/.*status pgw_//; s/(.*//; /_each$/d' | sort -u)
tested=$(sed -n 's/^    {"\([a-z_ ]*\)[,"].*/\1/p' test/support/wire_verbs.c)
for name in $({ echo "$public"; echo $read_only $no_request $undoes $loops $tested | tr ' ' '\n' | sort -u; } | sort | uniq -u); do
    echo "$name: a verb that test/support/wire_verbs.c lacks, or no verb"
    bad=1
done
exit $bad
