# words.awk: phrases that readers had to read twice, in text that people read. CONTRIBUTING.md says why.
#   awk -v allow=test/lint/words.allow -f words.awk README.md doc/*.md doc/man/*.[157] migrations/*.sql src/*/*.c examples/*/*.c
# Pages and man pages: their prose, without code blocks. SQL: comments and messages. C: messages, which are string literals.
# The allow list has lines `AREA COUNT PHRASE`: so often the phrase may still be there. A phrase must not become more frequent.

function phrase(regex, name, instead) { re[++phrases] = regex; title[phrases] = name; better[phrases] = instead }
BEGIN {
    phrase("(^|[.:;] |\\| |- )(Who|Whoever|That which) [a-z]+ [^?]*$", "Who ...", "name the subject: a worker that, a program that")
    phrase("(^|[.;] )What (is|was|has|had|they|it|one|a|the|still|runs|may|must|cannot|you|we)[ a-z]* [^?]*$", "What ...", "name the subject: jobs that, a value that")
    phrase("[Bb]ut for ", "but for", "except")
    phrase("[Ee]xactly if ", "exactly if", "if and only if")
    phrase("[^e] (is|are) no [a-km-z]|[^e] is no [a-z]*$", "is no", "is not a")
    phrase("(^| )shall ", "shall", "must, or will")
    phrase("(^| )be it ", "be it", "such as, or whether")
    phrase("(is|are|was|be|been|when|if) told ", "told", "reports, returns, logs, prints")
    phrase(" tells? ", "tells", "reports, returns, logs, prints")
    phrase("(hand|hands|handed) back", "hand back", "requeue")
    phrase("(take|takes|taken|taking) (the job |jobs |them |it )?back", "take back", "requeue")
    phrase("(^| )(straggler|sleeping sign|crate|textbook queue|short way|long way)", "old word", "see the glossary: late commit, waiter, batch row, one-table queue, fast path")
    while (allow != "" && (getline line < allow) > 0) {
        if (line ~ /^(#|$)/) continue
        split(line, word, " ")
        name = line
        sub(/^[^ ]+ +[0-9]+ +/, "", name)
        most[word[1], name] = word[2]
    }
}

function area() {
    if (FILENAME ~ /^doc\/man\//) return "man"
    if (FILENAME ~ /\.md$/) return "pages"
    n = split(FILENAME, part, "/")
    return n > 1 ? part[1] : "."
}
# the strings of a line of C
function strings(s,   out) {
    gsub(/\\"/, "'", s)
    while (match(s, /"[^"]*"/)) {
        out = out " " substr(s, RSTART + 1, RLENGTH - 2)
        s = substr(s, RSTART + RLENGTH)
    }
    return substr(out, 2)
}
# comments and literals of a line of SQL
function sql(s) {
    if (s ~ /--/) return substr(s, index(s, "--") + 2)
    return s ~ /'/ ? substr(s, index(s, "'")) : ""
}

FNR == 1 { code = 0 }
FILENAME ~ /\.md$/ && /^ *```/ { code = !code; next }
FILENAME ~ /\.md$/ && (code || /^#/) { next }
{
    text = FILENAME ~ /\.[ch]$/ ? strings($0) : FILENAME ~ /\.sql$/ ? sql($0) : $0
    sub(/^ +/, "", text)
    if (text == "") next
    gsub(/`[^`]*`/, "CODE", text)
    for (i = 1; i <= phrases; i++)
        if (text ~ re[i]) {
            where = area() SUBSEP title[i]
            found[where]++
            at[where] = at[where] FILENAME ":" FNR ": \"" title[i] "\": " better[i] "\n"
        }
}

END {
    for (where in found) {
        split(where, word, SUBSEP)
        if (counts) { print word[1], found[where], word[2]; continue }
        if (found[where] > most[where] + 0) {
            printf "%s", at[where]
            print word[1] ": \"" word[2] "\" is there " found[where] " times, allowed " most[where] + 0 " (test/lint/words.allow)"
            faults++
        }
    }
    exit faults > 0
}
