# engines.awk: results.tsv to a line for each measure of this engine that the first one has, too: how many times its figure, and the floor,
# if there is one. With md=1 a table in Markdown, of measures with a floor. For awk -f, after rounds.awk.
BEGIN {
    FS = "\t"
    floor["claim|clients 8, batch 1|pgwork"] = floor["claim|clients 8, batch 10|pgwork"] = 0.95
    floor["claim|clients 8, batch 1|pgwork-lib"] = 0.8
    floor["claim|clients 8, batch 10|pgwork-lib"] = 0.85
    floor["claim|clients 8, batch 100|pgwork-rows"] = floor["claim|clients 8, batch 1000|pgwork-rows"] = 0.9
    floor["claim|clients 8, batch 10|pgwork-bundles"] = 1.1
    floor["claim|clients 8, batch 100|pgwork"] = 0.95
    floor["claim|clients 8, batch 1000|pgwork"] = 0.9
    floor["claim|clients 64, batch 1|pgwork"] = 0.8
    floor["claim|clients 256, batch 1|pgwork"] = 0.7
    floor["enqueue|8 producers, 1 a call|pgwork-one"] = 1.1
    for (b = 1; b <= 1000; b *= 10) steady[b] = b <= 10 ? 0.95 : 0.9 # whatever the seconds
    head = md ? "\n### Against the first engine\n\n| Measure | Contender | This engine | The first | Ratio | Floor |\n|---|---|--:|--:|--:|--:|" \
              : sprintf("\n%-10s %-66s %-20s %12s %12s %8s %6s", "question", "measure", "contender", "this engine", "the first", "ratio", "floor")
    format = md ? "| %s: %s | %s | %.4g | %.4g | %.2f | %s |\n" : "%-10s %-66s %-20s %12.4g %12.4g %8.2f %6s\n"
}
{
    k = $1 FS $2 FS $3
    if (!(k in n)) { key[++keys] = k; unit[k] = $5 }
    value[k, ++n[k]] = $4
}
function least(question, measure, who,   w) {
    if (question == "steady" && who == "pgwork" && measure ~ /^clients/ && split(measure, w, /[ ,]+/) >= 4) return steady[w[4]]
    return floor[question "|" measure "|" who]
}
END {
    for (i = 1; i <= keys; i++) {
        split(key[i], part, FS)
        first = part[3]
        if (!sub(/^pgwork/, "engine1", first)) continue
        first = part[1] FS part[2] FS first
        f = least(part[1], part[2], part[3])
        if (!(first in n) || md && f == "") continue
        if (head != "") print head
        head = ""
        r = times(key[i], first)
        printf format, part[1], part[2] " (" unit[key[i]] ")", part[3], median(key[i]), median(first), r, f == "" ? "" : f (md && r < f ? " **NOT met**" : "")
    }
}
