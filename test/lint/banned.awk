# banned.awk: calls that the library never makes, but for the one module that owns them.
#   awk -f test/lint/banned.awk src/*/*.[ch]

function ban(names,    i, k, list) {
    k = split(names, list, " ")
    for (i = 1; i <= k; i++) banned[list[i]] = 1
}

function allow(module, names,    i, k, list) {
    k = split(names, list, " ")
    for (i = 1; i <= k; i++) allowed[module, list[i]] = 1
}

BEGIN {
    ban("strcpy strcat sprintf vsprintf strncpy strncat strtok gets")           # no bounds
    ban("atoi atol atoll atof strtol strtoll strtoul strtoull sscanf")          # half a number passes
    ban("gmtime localtime ctime asctime rand srand strerror setlocale")         # shared state
    ban("malloc calloc realloc free strdup strndup alloca")                     # mem is the allocator
    ban("exit _exit abort system printf vprintf puts putchar fprintf perror")   # the program's business
    ban("signal sigaction sleep usleep nanosleep")                              # waits can be woken
    ban("time gettimeofday timespec_get ftime clock clock_gettime")             # the clock of the server counts
    ban("pthread_cond_timedwait pthread_mutex_timedlock sem_timedwait")         # they wait by the wall clock
    allow("mem", "malloc calloc realloc free")
    allow("pq", "strtol strtoll strtoul strtoull")
    allow("clock", "clock_gettime")     # deadlines: monotonic
    allow("backoff", "clock_gettime")   # a random number where there is no other: monotonic
    allow("doctor", "clock_gettime")    # is this clock that of the server?
}

FNR == 1 { module = FILENAME; sub(/.*\//, "", module); sub(/[_.].*/, "", module); comment = 0 }

{
    line = $0
    gsub(/\\./, "", line)
    gsub(/'"'/, "' '", line)    # which opens no string
    gsub(/"[^"]*"/, "\"\"", line)
    if (comment) { if (!sub(/^.*\*\//, "", line)) next; comment = 0 }
    while (match(line, /\/\*/)) {
        head = substr(line, 1, RSTART - 1)
        tail = substr(line, RSTART + 2)
        if (!(stop = index(tail, "*/"))) { comment = 1; line = head; break }
        line = head " " substr(tail, stop + 2)
    }
    sub(/\/\/.*/, "", line)
    if (line ~ /CLOCK_(REALTIME|TAI)/ && module != "doctor") {
        print FILENAME ":" FNR ": the clock of this machine is not read here"
        faults++
    }
    while (match(line, /[A-Za-z_][A-Za-z_0-9]*[ \t]*\(/)) {
        before = RSTART > 1 ? substr(line, RSTART - 1, 1) : ""
        name = substr(line, RSTART, RLENGTH - 1)
        line = substr(line, RSTART + RLENGTH)
        sub(/[ \t]+$/, "", name)
        # a member is no call of ours: a->free(p)
        if ((name in banned) && !((module, name) in allowed) && before !~ /[.>]/) {
            print FILENAME ":" FNR ": " name " is not called here"
            faults++
        }
    }
}

END { exit faults > 0 }
