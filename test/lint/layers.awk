# layers.awk: hold every #include "..." of src against the layers. Each folder of src is a layer; a
# file includes headers of lower layers, and of its own folder only where the table below allows it.
# Only the folder pq sees libpq.
#   awk -f test/lint/layers.awk src/*/*.[ch]
# A module may have several files: pq.c, pq_conn.c and pq.h are all of module pq.

function layer(n, names,    i, k, list) {
    k = split(names, list, " ")
    for (i = 1; i <= k; i++) level[list[i]] = n
}

function module_in(folder, names,    i, k, list) {
    k = split(names, list, " ")
    for (i = 1; i <= k; i++) { home[list[i]] = folder; level[list[i]] = level[folder] }
}

BEGIN {
    layer(0, "base")
    layer(1, "sql")
    layer(2, "pq")
    layer(3, "call")                            # what the folders of layer 4 share
    layer(4, "admin coord queue table")
    layer(5, "handle")
    layer(6, "worker")
    module_in("base", "backoff buf clock conf cronexpr json log mem name status stop token version wake")
    module_in("sql", "sql")
    module_in("pq", "pq")
    module_in("call", "ask check")
    module_in("admin", "doctor migrate watch")
    module_in("coord", "cron lock rate sema")
    module_in("queue", "bulk group job load queue reap")
    module_in("table", "table")
    module_in("handle", "handle txn")
    module_in("worker", "reaper worker")
    # between modules of one folder
    also["backoff", "clock"] = also["buf", "mem"] = also["log", "buf"] = also["stop", "mem"] = also["stop", "wake"] = also["json", "name"] = also["token", "name"] = 1
    also["conf", "log"] = also["conf", "mem"] = also["conf", "name"] = 1
    also["ask", "check"] = 1
    also["bulk", "job"] = 1
}

function folder_of(file) {
    sub(/\/[^\/]*$/, "", file)
    sub(/.*\//, "", file)
    return file
}

function module_of(file) {
    sub(/.*\//, "", file)
    sub(/\.[ch]$/, "", file)
    if (!(file in home)) sub(/_.*/, "", file)
    return file
}

function bad(text) {
    print FILENAME ":" FNR ": " text
    faults++
}

FNR == 1 {
    me = module_of(FILENAME)
    if (home[me] != folder_of(FILENAME)) { bad("module " me " is not in folder " folder_of(FILENAME) ": see test/lint/layers.awk"); nextfile }
}

/^[ \t]*#[ \t]*include[ \t]*<(postgresql\/)?libpq/ && me != "pq" { bad("only pq may include libpq") }

/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    other = module_of(part[2])
    if (part[2] == "pgwork.h" || other == me || (me, other) in also || (me == "sql" && part[2] == "sql_data.inc")) next
    if (!(other in home) || part[2] != home[other] "/" substr(part[2], index(part[2], "/") + 1))
        bad("\"" part[2] "\" is not the header of a module: write folder/name.h")
    else if (level[other] >= level[me])
        bad(me " (layer " level[me] ") may not include " other " (layer " level[other] ")")
}

END { exit faults > 0 }
