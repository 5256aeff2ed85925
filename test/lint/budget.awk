# budget.awk: how large the engine and its explanation may be. Prints each violation and, at the end, the figures.
#   LC_ALL=C awk -f test/lint/budget.awk migrations/000[1-8]_*.sql doc/engine.md doc/decisions/*.md
# A function counts from CREATE FUNCTION to its last line, without the comment above it.

BEGIN {
    most["engine"] = 2300       # lines of the migrations together
    most["function"] = 120      # lines of a function
    most["locals"] = 25         # variables that a function declares
    most["line"] = 120          # characters
    most["claim"] = 250         # lines of the functions of 0005_claim.sql, without claim()
    most["page"] = 2500         # words of doc/engine.md
    most["decisions"] = 40000   # bytes of doc/decisions together
}

function fault(where, text) { print where ": " text; faults++ }
function larger(what, n, where, text) {
    if (n > max[what]) max[what] = n
    if (n > most[what]) fault(where, text)
}

FNR == 1 { name = ""; quoted = 0; declares = 0 }

FILENAME ~ /\.md$/ {
    if (FILENAME ~ /engine\.md$/) max["page"] += NF
    else max["decisions"] += length($0) + 1
    next
}

{
    max["engine"]++
    chars = $0
    gsub(/[\200-\277]/, "", chars) # the rest of a character of several bytes
    larger("line", length(chars), FILENAME ":" FNR, "the line has " length(chars) " characters, at most " most["line"])
}

/^CREATE (OR REPLACE )?FUNCTION / {
    name = $0
    sub(/^CREATE (OR REPLACE )?FUNCTION /, "", name)
    sub(/\(.*/, "", name)
    first = FNR
    locals = 0
}

name == "" { next }

{ quoted = (quoted + gsub(/\$\$/, "&")) % 2 }
/^ *DECLARE( |$)/ { declares = 1 } # the variables stand behind it, or on the lines that follow
/^ *BEGIN$/ { declares = 0 }
declares {
    code = $0
    gsub(/'[^']*'/, "", code)
    sub(/--.*/, "", code)
    locals += gsub(/;/, "", code)
}
!quoted && /;$/ {
    lines = FNR - first + 1
    larger("function", lines, FILENAME ":" first, name "() has " lines " lines, at most " most["function"])
    larger("locals", locals, FILENAME ":" first, name "() declares " locals " variables, at most " most["locals"])
    if (FILENAME ~ /0005_claim\.sql$/ && name != "pgwork.claim") max["claim"] += lines
    name = ""
    declares = 0
}

function figure(what, text) { printf "%-45s %6d of %d\n", text, max[what], most[what] }

END {
    if (max["engine"] > most["engine"]) fault("migrations", max["engine"] " lines together, at most " most["engine"])
    if (max["claim"] > most["claim"]) fault("0005_claim.sql", max["claim"] " lines of functions without claim(), at most " most["claim"])
    if (max["page"] > most["page"]) fault("doc/engine.md", max["page"] " words, at most " most["page"])
    if (max["decisions"] > most["decisions"]) fault("doc/decisions", max["decisions"] " bytes together, at most " most["decisions"])
    figure("engine", "lines of migrations 0001 to 0008")
    figure("function", "lines of the longest function")
    figure("locals", "variables of a function")
    figure("line", "characters of the longest line")
    figure("claim", "lines of the claim's functions, but claim()")
    figure("page", "words of doc/engine.md")
    figure("decisions", "bytes of doc/decisions")
    exit faults > 0
}
