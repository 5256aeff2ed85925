# header.awk: a struct that may grow, since it says its size, stands by value in no other: what follows
# it there would move away from programs that were built with an older header.
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

END { exit faults > 0 }
