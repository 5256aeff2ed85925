#!/bin/sh
# properties.sh: what `pgwork -X list` says, as the table of doc/properties.md.
set -eu
pgwork -X list | awk -F '  +' '
    BEGIN { print "| Property | Default | Allowed | |\n|---|---|---|---|" }
    /^[^ ]/ { name = $1; allowed = $NF; initial = $(NF - 1); next }
    { sub(/^ +/, ""); printf "| `%s` | %s | %s | %s |\n", name, initial == "-" ? "" : initial, allowed, $0 }'
