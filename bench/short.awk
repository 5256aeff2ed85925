# short.awk: results.tsv to the table of doc/performance.md: how many times the jobs of the one-table queue. For awk -f, after rounds.awk.
BEGIN { FS = "\t" }
{ k = $1 FS $2 FS $3; value[k, ++n[k]] = $4 }
$1 == "steady" && match($2, /, for [0-9]+ s$/) && substr($2, RSTART + 6) + 0 > long { long = substr($2, RSTART + 6) + 0 }

function figure(x) { return x == "" ? "" : x >= 10 ? sprintf("%.0f", x) : x >= 1.2 ? sprintf("%.1f", x) : sprintf("%.2f", x) }
# row WHAT QUESTION CLIENTS WHO LEAST: for batches of LEAST and more; nothing if none was asked
function row(what, question, clients, who, least,   batch, m, mine, figures, x) {
    for (batch = 1; batch <= 1000; batch *= 10) {
        m = question FS "clients " clients ", batch " batch (question == "steady" ? ", for " long " s" : "") FS
        mine = who == "pgwork" && (m "pgwork-lib") in n ? "pgwork-lib" : who == "by SQL" ? "pgwork" : who
        x = batch < least || (who == "by SQL" && batch > 10) ? "" : figure(times(m mine, m "onetable"))
        figures = figures " " x " |"
    }
    if (figures ~ /[0-9]/) print "| " what " |" figures
}
END {
    print "\n| jobs per call | 1 | 10 | 100 | 1000 |"
    print "|---|--:|--:|--:|--:|"
    row("8 sessions, just vacuumed", "claim", 8, "pgwork", 1)
    row("8 sessions, just vacuumed, jobs enqueued one by one", "claim", 8, "pgwork-rows", 100)
    row("8 sessions, just vacuumed, SQL functions from psql", "claim", 8, "by SQL", 1)
    row("8 sessions, " long " s beside autovacuum", "steady", 8, "pgwork", 1)
    row("8 sessions, " long " s beside autovacuum, jobs enqueued one by one", "steady", 8, "pgwork-rows", 100)
    row("256 sessions, just vacuumed", "claim", 256, "pgwork", 1)
    row("no queue: bare `DELETE ... RETURNING`, 8 sessions", "claim", 8, "limit", 1)
}
