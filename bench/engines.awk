# engines.awk: results.tsv to a line for each measure of this engine that the first one has, too: how many times its figure. For awk -f, behind rounds.awk.
BEGIN { FS = "\t"; printf "\n%-10s %-66s %-20s %12s %12s %8s\n", "question", "measure", "contender", "this engine", "the first", "ratio" }
{
    k = $1 FS $2 FS $3
    if (!(k in n)) { key[++keys] = k; unit[k] = $5 }
    value[k, ++n[k]] = $4
}
END {
    for (i = 1; i <= keys; i++) {
        split(key[i], part, FS)
        first = part[3]
        if (!sub(/^pgwork/, "engine1", first)) continue
        first = part[1] FS part[2] FS first
        if (first in n) printf "%-10s %-66s %-20s %12.4g %12.4g %8.2f\n", part[1], part[2] " (" unit[key[i]] ")", part[3], median(key[i]), median(first), times(key[i], first)
    }
}
