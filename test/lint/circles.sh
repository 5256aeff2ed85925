#!/bin/sh
# circles.sh OBJECT...: of object files that call each other in a circle, print one and fail. What
# stands below must not know what stands above, also inside a layer.
set -eu
for o; do nm "$o" | awk -v o="${o##*/}" 'NF == 3 && $2 ~ /[TDRB]/ { print "def", $3, o } NF == 2 && $1 == "U" { print "use", $2, o }'; done |
    awk '$1 == "def" { at[$2] = $3 } $1 == "use" { n++; name[n] = $2; user[n] = $3 }
        END { for (i = 1; i <= n; i++) if (name[i] in at && at[name[i]] != user[i]) print user[i], at[name[i]] }' |
    sort -u | tsort >/dev/null
