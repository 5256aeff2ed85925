#!/bin/sh
# Every rule (R1 ...) that a comment or a test names is in doc/rules.md, and every test that the pages name exists.
# Every public verb is in the table of test_it_wire, or is excused here.
cd "$(dirname "$0")/../.." || exit 1
bad=0
for rule in $(grep -rhoE '\bR[0-9]{1,2}\b|test_R[0-9]+' src inc test/integration --include=*.[ch] | sed 's/test_R0*/R/' | sort -u); do
    grep -q "^| \*\*$rule\*\* " doc/rules.md || { echo "$rule is not in doc/rules.md"; bad=1; }
done
for name in $(grep -hoE '\btest_[A-Za-z0-9_]+\b' doc/rules.md doc/reliability.md | grep -v '^test_R05$' | sort -u); do
    case $name in test_it_*) test -e "test/integration/$name.c" || { echo "there is no $name.c"; bad=1; }; continue ;; esac
    grep -rqE "^void $name\(" test/unit test/integration || { echo "there is no test $name"; bad=1; }
done
for file in $(grep -hoE '\btest/[a-z]+/[A-Za-z0-9_]+\.(c|sh|pml)\b' doc/rules.md doc/reliability.md | sort -u); do
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
