# report.awk: results.tsv to a table per question (min, median, max, ratio to the reference: see rounds.awk), with md=1 in Markdown,
# or with json=1 to JSON.
# The reference is what stands in parentheses, else onetable where it takes part, else graphile, else limit, else the first contender. only=QUESTION prints just that.
BEGIN { FS = "\t" }
only == "" || $1 == only {
    m = $1 FS $2; k = m FS $3
    if (!(m in seen)) { seen[m] = 1; measure[++measures] = m; unit[m] = $5 }
    if (!(k in n)) {
        who[m, ++whos[m]] = $3
        if ($3 ~ /^\(/ && !(m in yardstick)) yardstick[m] = $3
    }
    value[k, ++n[k]] = $4
}
function show(x) { return x >= 1000 ? sprintf("%.0f", x) : x >= 10 ? sprintf("%.1f", x) : sprintf("%.3f", x) }
END {
    if (json) printf "["
    for (i = 1; i <= measures; i++) {
        m = measure[i]
        reference = m in yardstick ? yardstick[m] : (m FS "onetable") in n ? "onetable" : (m FS "graphile") in n ? "graphile" : (m FS "limit") in n ? "limit" : who[m, 1]
        split(m, name, FS)
        if (md) printf "\n| %s (%s) | median | min | max | against %s |\n|---|--:|--:|--:|--:|\n", name[2], unit[m], reference
        else if (!json) printf "\n%-60s %12s %12s %12s   %s\n", name[2] " (" unit[m] ")", "median", "min", "max", "against " reference
        for (j = 1; j <= whos[m]; j++) {
            k = m FS who[m, j]
            rounds = sorted(k, v)
            x = middle(v, rounds)
            ratio = times(k, m FS reference)
            if (json)
                printf "%s\n{\"question\":\"%s\",\"measure\":\"%s\",\"contender\":\"%s\",\"unit\":\"%s\",\"rounds\":%d,\"median\":%s,\"min\":%s,\"max\":%s,\"reference\":\"%s\",\"ratio\":%s}", \
                    sep, name[1], name[2], who[m, j], unit[m], rounds, x, v[1], v[rounds], reference, (ratio == "" ? "null" : sprintf("%.3f", ratio))
            else
                printf md ? "| %s | %s | %s | %s | %s |\n" : "  %-58s %12s %12s %12s   %s\n", who[m, j], show(x), show(v[1]), show(v[rounds]), (ratio == "" ? "-" : sprintf("%.2f", ratio))
            sep = ","
        }
    }
    if (json) print "\n]"
}
