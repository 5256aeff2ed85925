# header.awk: a struct that may grow, since it says its size, stands by value in no other: what follows
# it there would move away from programs that were built with an older header.
# And a function has at most four arguments beside its options: more are fields of a struct.
#   awk -f test/lint/header.awk inc/pgwork.h inc/pgwork/*.h

/^typedef struct pgw_[a-z0-9_]+ \{/ { inside = $3 }
/^}/ { inside = "" }
inside {
    line = $0
    sub(/\/\*.*/, "", line)
    if (line ~ /^    size_t struct_size;/) grows[inside]
    type = $1 == "const" ? $2 : $1
    if ((type in grows) && line !~ /\*/) {
        print FILENAME ":" FNR ": " type " may grow: " inside " is to point to it"
        faults++
    }
}

/^PGW_API / { prototype = ""; unfinished = 1 }
unfinished {
    prototype = prototype $0
    if (!/;/) next
    unfinished = 0
    said = prototype
    n = 1 - sub(/const pgw_[a-z_]+_(opts|spec) \*/, "", prototype)
    gsub(/\(\*[a-z]+\)\([^)]*\)/, "", prototype) # what a callback takes
    n += gsub(/,/, "", prototype)
    if (n > most) most = n
    if (n > 4) {
        print FILENAME ":" FNR ": " n " arguments beside the options, allowed are 4: " said
        faults++
    }
}

END {
    print "at most " most " arguments beside the options"
    exit faults > 0
}
