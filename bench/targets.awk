# targets.awk: results.tsv to a line for each target. Figures are medians of the same run, and ratios (rounds.awk); beside them, the same
# for bare deletes: what PostgreSQL does with the rows alone.
# md=1: a table in Markdown.
BEGIN {
    FS = "\t"
    singly = "of jobs enqueued one by one" # which never share rows
    by_sql = "by the SQL functions" # where the library sends other statements
    form = md ? "| %s | %s | %s | %s | %s |\n" : "  %-116s %-12s %-36s %-10s %s\n"
    if (md) printf form "|---|---|---|--:|---|\n", "Measure", "Target", "Figure", "Bare rows", ""
    else printf "\n" form, "targets", "", "figure", "bare rows", ""
}
{
    k = $1 FS $2 FS $3
    value[k, ++n[k]] = $4
    # what a run may have asked in one size or another
    if ($1 == "backlog" && match($2, /p99 of a call before [0-9]+/)) largest($2, 21, "backlog")
    if ($1 == "queues" && $3 ~ /^[0-9]+$/ && $3 > size["queues"]) size["queues"] = $3
    if ($1 == "pin" && match($2, / of [0-9]+ s, held: /)) largest($2, RSTART + 3, "pin of " $3 FS kind_of($2))
    if ($1 == "pin" && match($2, /^size after [0-9]+/)) largest($2, 11, "rest of " $3 FS kind_of($2))
    if ($1 == "steady" && match($2, /, for [0-9]+ s$/)) largest($2, RSTART + 5, "steady")
    if ($1 == "claim" && match($2, /^clients [0-9]+, batch /)) clients[substr($2, 9) + 0] = 1
}
function kind_of(s) { return substr(s, index(s, "held: ") + 6) }
function largest(s, at, what,   x) { x = substr(s, at + 1) + 0; if (x > size[what]) size[what] = x }

function med(question, measure, who) { return median(question FS measure FS who) }
function turns(question, measure, who, other) { return times(question FS measure FS who, question FS measure FS other) }
function ratio(a, b) { return a == "" || b == "" || b + 0 == 0 ? "" : a / b }
function number(x) { return x >= 1000 ? sprintf("%.0f", x) : x >= 10 ? sprintf("%.1f", x) : sprintf("%.2f", x) }

# target MEASURE RELATION LIMIT FIGURE UNIT NOTE BARE: met or not is judged by the figure, not by what is printed of it
function target(measure, relation, limit, x, unit, note, bare,   verdict, shown) {
    if (x == "") {
        verdict = "not measured in this run"
        if (!md) { counted[verdict]++; return } # a part of a run asks for few of them
    }
    else {
        met = relation == ">=" ? x >= limit : x <= limit
        # asked for less than the target says, or of somebody who had nothing left to do: that meets nothing yet
        less = met && note ~ /^asked|^ran out/
        verdict = less ? "met as far as asked" : met ? "met" : md ? "**NOT met**" : "NOT met"
        shown = number(x) (unit == "x" ? "" : " ") unit (note == "" ? "" : " (" note ")")
    }
    counted[verdict]++
    printf form, measure, relation " " limit (unit == "x" ? "" : " ") unit, shown, bare == "" ? "" : number(bare) unit, verdict
}
function per_s(a, b, unit) { return number(a) " against " number(b) (unit == "" ? "" : " " unit) }

# claims by 8 clients, of no-op jobs in short rounds or for long, against another contender
function by_eight(question, batch) { return "clients 8, batch " batch (question == "steady" ? ", for " size["steady"] " s" : "") }
function versus(question, batch, who, limit, text, ours,   m, a, b, note, ran_out) {
    if (ours == "") ours = "pgwork"
    m = by_eight(question, batch)
    a = med(question, m, ours); b = med(question, m, who)
    note = per_s(a, b)
    ran_out = question FS "ran out of jobs, " m FS
    if ((ran_out ours) in n) note = "ran out of jobs: " ours "; " note
    if ((ran_out who) in n) note = "ran out of jobs: " who "; " note
    if (question == "steady" && size["steady"] < 30) note = "asked for " size["steady"] " s; " note
    target("claim and complete" text, ">=", limit, turns(question, m, ours, who), "x", note, who == "limit" ? "" : turns(question, m, "limit", who))
}
function claims(question, how,   b, x, best, at, tuned, row, way) {
    tuned = ", 8 clients" how ", against the tuned one-table queue"
    versus(question, 1000, "onetable", 3, ", batch 1000" tuned)
    versus(question, 1000, "onetable", 3, ", batch 1000, " singly tuned, "pgwork-rows")
    versus(question, 100, "onetable", 2.5, ", batch 100" tuned)
    versus(question, 100, "onetable", 2.5, ", batch 100, " singly tuned, "pgwork-rows")
    for (b = 10; b >= 1; b -= 9) {
        versus(question, b, "onetable", b == 10 ? 2 : 1.5, ", batch " b tuned, "pgwork-lib")
        versus(question, b, "onetable", b == 10 ? 2 : 1.5, ", batch " b ", " by_sql tuned)
    }
    for (b = 0; b < 2; b++) {
        row = b ? "pgwork" : "pgwork-lib"
        way = b ? ", " by_sql : ""
        if (question == "claim") versus(question, 1, "onetable-1call", 1.5, ", batch 1" way tuned ", which completes and claims in one statement", row)
        versus(question, 1, "limit", 0.7, ", batch 1" way ", 8 clients" how ", against a bare DELETE RETURNING of one row", row)
    }
    for (b = 1; b <= 1000; b *= 10) { x = med(question, by_eight(question, b), "pgwork"); if (x > best + 0) { best = x; at = b } }
    versus(question, at, "limit", 0.6, " at its best batch" (at ? " (" at ")" : "") how ", against a bare DELETE RETURNING of as many")
    versus(question, 1000, "limit", 0.6, ", batch 1000, " singly how ", against a bare DELETE RETURNING of as many", "pgwork-rows")
}
function against(name, other, limit, question, measure, who,   a, b) { # the same measure of two contenders
    a = med(question, measure, who); b = med(question, measure, other)
    target(name, ">=", limit, turns(question, measure, who, other), "x", per_s(a, b))
}

# the best of a contender's no-op jobs at up to so many a batch
function best_of(who, most,   k, part, x, best) {
    for (k in n) {
        split(k, part, FS)
        if (part[1] == "peers" && part[3] == who && part[2] ~ /^no-op jobs, batch / && substr(part[2], 19) + 0 <= most) {
            x = med("peers", part[2], who)
            if (x > best + 0) best = x
        }
    }
    return best
}
function peer(who, name,   a, b, i, most, rows) {
    for (i = 0; i < 4; i++) {
        most = i < 2 ? 100 : 1e9
        rows = i % 2
        a = best_of("pgwork-lib" (rows ? "-rows" : ""), most); b = best_of(who, most)
        target("our library against " name (i < 2 ? ", batch up to 100" : ", each at its best batch") (rows ? ", " singly : ""), ">=", 10, ratio(a, b), "x",
            per_s(a, b), ratio(best_of("limit", most), b))
    }
}

function of_queues(what) { return turns("queues", what " out of so many queues", size["queues"], "1") }

# of fewer clients than 256
function best_count(batch, who,   c, x, best, at) {
    for (c in clients) { x = med("claim", "clients " c ", batch " batch, who); if (c + 0 < 256 && x > best + 0) { best = x; at = c } }
    return at
}

function crowd(batch, who, how,   at, bare_at, x, best) {
    at = best_count(batch, who); bare_at = best_count(batch, "limit")
    x = med("claim", "clients 256, batch " batch, who); best = med("claim", "clients " at ", batch " batch, who)
    target("256 clients, batch " batch how ", against the best of fewer" (at && x != "" ? " (" at ")" : ""), ">=", 0.9, ratio(x, best), "x", per_s(x, best),
        ratio(med("claim", "clients 256, batch " batch, "limit"), med("claim", "clients " bare_at ", batch " batch, "limit")))
}

function pinned(measure, held, who) { return times("pin" FS measure held FS who, "pin" FS measure "no" FS who) }
function pins(who, how,   seconds, rested, long, end, rest, i, kind, name) {
    for (i = 1; i <= 2; i++) {
        kind = i == 1 ? "snapshot" : "writer"
        seconds = size["pin of " who FS kind] + 0; rested = size["rest of " who FS kind] + 0
        long = seconds >= 1800 ? "" : "asked for " seconds " s"
        end = " in the last fifth of " seconds " s, held: "
        rest = "size after " rested " s of rest, held: "
        name = (i == 1 ? "snapshot" : "writing transaction") " held" how ": "
        target(name "throughput, against clean", ">=", i == 1 ? 0.95 : 0.8, pinned("throughput" end, kind, who), "x", long)
        if (i == 1) target(name "p99 of claim and complete, against clean", "<=", 1.5, pinned("p99 of claim and complete" end, kind, who), "x", long)
        else target(name "its jobs claimed after its commit, within", "<=", 1000, med("pin", "its own jobs claimed after the commit, within, held for " seconds " s: writer", who), "ms", long)
        target(name "size after " rested " s of rest, against clean", "<=", 2, pinned(rest, kind, who), "x", rested >= 300 ? "" : long)
    }
}

END {
    claims("claim", ", just vacuumed")
    claims("steady", ", for 30 s, autovacuum at work")
    peer("graphile", "Graphile Worker")
    peer("pgboss", "pg-boss")

    for (i = 0; i < 4; i++) {
        t = i < 2 ? 0 : 4
        rows = i % 2 ? ", rows" : ""
        m = t " handler threads, prefetch 1000" rows
        target("worker runtime, one process, no-op jobs, " (t ? t " handler threads" : "no threads") (rows ? ", " singly : ""), ">=", 100000, med("worker", m, "pgwork-lib"), "jobs/s")
        against("the same against its SQL alone", "(its SQL alone, one client, batch 1000)", 0.8, "worker", m, "pgwork-lib")
    }
    against("enqueue by COPY, against raw COPY into the same columns and one index", "limit", 0.8, "enqueue", "COPY, one producer", "pgwork-lib")
    against("enqueue of one, against a bare INSERT", "limit-one", 0.9, "enqueue", "8 producers, 1 a call", "pgwork-one")
    for (w = 1; w <= 64; w *= 4) {
        if (w == 16) continue
        for (p = 50; p <= 99; p += 49) {
            b = med("pickup", "p" p ", workers: " w, "(a bare round trip)")
            for (i = 0; i < 2; i++) {
                a = med("pickup", "p" p ", workers: " w, "pgwork-lib" (i ? "-relaxed" : ""))
                target("pickup p" p ", 300 a second, idle workers: " w ", over a bare round trip" (i ? ", claims relaxed" : ""), "<=", p == 50 ? 1 : 5, a == "" || b == "" ? "" : a - b, "ms")
            }
        }
    }

    pins("pgwork", "")
    pins("pgwork-rows", ", " singly)

    for (b = 1; b <= 1000; b *= 10) {
        if (b < 100) crowd(b, "pgwork-lib", "")
        crowd(b, "pgwork", b < 100 ? ", " by_sql : "")
        if (b >= 100) crowd(b, "pgwork-rows", ", " singly)
    }
    a = med("backlog", "p99 of a call before " size["backlog"] " jobs", "pgwork"); b = med("backlog", "p99 of a call before 10000 jobs", "pgwork")
    target("p99 of claim and complete, batch 1, backlog of 50,000,000 against 10,000", "<=", 1.2, ratio(a, b), "x", size["backlog"] >= 5e7 ? "" : "asked with " size["backlog"])
    target("WAL of a 100-byte job from enqueue to complete, batch 100", "<=", 500, med("wal", "WAL, batch 100", "pgwork"), "bytes")
    target("WAL of a 100-byte job from enqueue to complete, batch 100, " singly, "<=", 500, med("wal", "WAL, batch 100", "pgwork-rows"), "bytes")
    q = size["queues"] >= 10000 ? "" : "asked with " size["queues"]
    target("10,000 queues against 1", ">=", 0.9, of_queues("batch 10"), "x", q, of_queues("bare deletes of 10"))

    printf "%s%d met, %d met as far as asked, %d NOT met, %d not measured\n", md ? "\n" : "  ", counted["met"], counted["met as far as asked"],
        counted["NOT met"] + counted["**NOT met**"], counted["not measured in this run"]
}
