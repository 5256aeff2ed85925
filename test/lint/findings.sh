#!/bin/sh
# findings.sh: each check of the doctor has a section in doc/troubleshooting.md with its name, and there are no others.
# The name of a check is the literal after its grade, in src/sql/doctor_*.sql and src/admin/doctor.c.
cd "$(dirname "$0")/../.." || exit 1
{
    # a grade and a name: `SELECT 2, 'locks'`, `ELSE 2 END, 'reaper'`, `SELECT grade, 'x'`, `2 AS grade, 'x' AS check_name`; or one of two names
    grep -hoE "(\b[0-2]|END|grade)( AS grade)?, '[a-z][a-z -]+'|, CASE WHEN [a-z. ]+ IS NULL THEN '[a-z ]+' ELSE '[a-z ]+' END,$" src/sql/doctor_*.sql |
        grep -oE "'[a-z][a-z -]+'" | tr -d "'"
    # doctor_say(d, ..., "x", and {PGW__SQL_..., "x"}
    grep -hoE '(PGW__SQL_[A-Z_]+|PGW_GRADE_[A-Z]+|doctor_say\(.*), "[a-z ]+"|^ +"schema version", text' src/admin/doctor.c | grep -oE '"[a-z ]+"' | tr -d '"'
} | sort -u >"${TMPDIR:-/tmp}/pgwork-findings.$$"
trap 'rm -f "${TMPDIR:-/tmp}/pgwork-findings.$$"' EXIT
bad=0
while read -r check; do
    grep -qx "## $check" doc/troubleshooting.md || { echo "doc/troubleshooting.md: no section \"$check\""; bad=1; }
done <"${TMPDIR:-/tmp}/pgwork-findings.$$"
for check in $(sed -n 's/^## //p' doc/troubleshooting.md | tr ' ' _); do
    grep -qx "$(echo "$check" | tr _ ' ')" "${TMPDIR:-/tmp}/pgwork-findings.$$" || { echo "doc/troubleshooting.md: the doctor has no check \"$(echo "$check" | tr _ ' ')\""; bad=1; }
done
exit $bad
