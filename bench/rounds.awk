# rounds.awk: what is said of a contender's rounds, value[k, 1] to value[k, n[k]]. For awk -f, before report.awk and targets.awk.

function sort_values(v, c,   i, j, x) {
    for (i = 2; i <= c; i++) {
        x = v[i]
        for (j = i - 1; j >= 1 && v[j] > x; j--) v[j + 1] = v[j]
        v[j + 1] = x
    }
}
# into v; how many. To look at n[k] would make it: then it would seem to have been asked.
function sorted(k, v,   i) {
    if (!(k in n)) return 0
    for (i = 1; i <= n[k]; i++) v[i] = value[k, i] + 0
    sort_values(v, i - 1)
    return i - 1
}
function middle(v, c) { return c % 2 ? v[(c + 1) / 2] : (v[c / 2] + v[c / 2 + 1]) / 2 }

# the median, or "" where it was not measured
function median(k,   v, c) { c = sorted(k, v); return c ? middle(v, c) : "" }

# How many times the other: the median of what it was round by round. Rounds are taken in turns, so those of one number are neighbours
# in time, and a machine that is slow for some seconds is so for both. A zero in between, or another number of rounds: of medians.
function times(k, other,   i, v) {
    if (!(k in n) || !(other in n)) return ""
    for (i = 1; i <= n[k] && n[k] == n[other] && value[other, i] > 0; i++) v[i] = value[k, i] / value[other, i]
    if (i > n[k]) { sort_values(v, n[k]); return middle(v, n[k]) }
    return median(other) > 0 ? median(k) / median(other) : ""
}
