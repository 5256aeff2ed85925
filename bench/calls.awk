# calls.awk: pgbench's log of single transactions to how many of them did something, and their rate while it counted; and how
# many milliseconds each of these took, into the file calls, and how many ended a second, in equal slices of about
# a second each, into by_second.
# It counts after the first 20 ms for each client, in which sessions compile what they call first, and until the round is
# over (until seconds from the first call on; none: until the last has ended). idle=1: the first call of each session does
# nothing yet.
{
    end[NR] = $5 + $6 / 1e6; ms[NR] = $3 / 1000
    if (!($1 in seen)) { seen[$1] = 1; clients++; if (idle) first[NR] = 1 }
    if (NR == 1 || end[NR] - ms[NR] / 1000 < begin) begin = end[NR] - ms[NR] / 1000
    if (end[NR] > last) last = end[NR]
}
function count(from, to,   i, n, s, slices, in_slice) {
    slices = int(to - from + 0.5)
    printf "" >calls
    printf "" >by_second
    for (i = 1; i <= NR; i++) if (!(i in first) && end[i] > from && end[i] <= to) { n++; in_slice[int((end[i] - from) / (to - from) * slices)]++; print ms[i] >calls }
    in_slice[slices - 1] += in_slice[slices] # what ended with the last
    for (s = 0; s < slices; s++) print in_slice[s] * slices / (to - from) >by_second
    close(calls)
    close(by_second)
    rate = to > from ? n / (to - from) : 0
    return n
}
END {
    to = until && begin + until < last ? begin + until : last
    if (!count(begin + 0.02 * clients, to)) {
        if (until) print "bench: no call ended while it counted: all of them count" >"/dev/stderr"
        if (NR > 0) count(begin, last)
    }
    printf "%d %.4f\n", idle ? NR - clients : NR, rate
}
