# layers.awk: hold every #include "..." of src against the table of rooms. A room includes only rooms
# of lower layers, and itself; so rooms of one layer never know each other. Only pq sees libpq.
#   awk -f test/lint/layers.awk src/*.[ch]
# A room may have several files: pq.c, pq_read.c and pq.h are all of room pq.

function layer(n, names,    i, k, list) {
    k = split(names, list, " ")
    for (i = 1; i <= k; i++) level[list[i]] = n
}

BEGIN {
    layer(0, "backoff buf clock cronexpr json log mem name status stop token version wake")
    layer(1, "conf sql")
    layer(2, "pq")
    layer(2.5, "ask check")    # what the rooms of layer 3 share
    layer(3, "cron doctor job load lock migrate queue reap sema table txn")
    layer(4, "handle reaper worker")
    # the few arrows inside a layer, and who embeds the SQL
    also["backoff", "clock"] = also["buf", "mem"] = also["log", "buf"] = also["stop", "mem"] = also["stop", "wake"] = also["json", "name"] = also["token", "name"] = 1
    also["ask", "check"] = 1
    also["sql", "sql_data.inc"] = 1
    also["worker", "handle"] = also["reaper", "handle"] = 1
}

function room(file) {
    sub(/.*\//, "", file)
    if (file ~ /\.[ch]$/) {
        sub(/\.[ch]$/, "", file)
        if (!(file in level)) sub(/_.*/, "", file)
    }
    return file
}

function bad(text) {
    print FILENAME ":" FNR ": " text
    faults++
}

FNR == 1 {
    me = room(FILENAME)
    if (!(me in level)) { bad("room " me " is not in the table of test/lint/layers.awk"); nextfile }
}

/^[ \t]*#[ \t]*include[ \t]*<(postgresql\/)?libpq/ && me != "pq" { bad("only pq may include libpq") }

/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    other = room(part[2])
    if (part[2] == "pgwork.h" || other == me || (me, other) in also) next
    if (!(other in level)) bad(part[2] " is no room, or none that " me " may include")
    else if (level[other] >= level[me])
        bad(me " (layer " level[me] ") may not include " other " (layer " level[other] ")")
}

END { exit faults > 0 }
