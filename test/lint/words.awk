# words.awk: phrases that readers had to read twice, in text that people read. CONTRIBUTING.md says why.
#   awk -v allow=test/lint/words.allow -f words.awk README.md doc/*.md doc/man/*.[157] migrations/*.sql src/*/*.c examples/*/*.c
# Pages and man pages: their prose, without code blocks; in pages no sentence has more than 25 words. SQL: comments and messages. C: messages, which are string literals; public headers: everything.
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
    phrase("(^|[^a-z])[Ww]hoever ", "whoever", "name the subject: a role that, a session that")
    phrase("[Ss]omebody", "somebody", "name the subject: another session, another process")
    phrase("(^| )anew( |[.;,]|$)", "anew", "again")
    phrase("what(ever)? (becomes|became) of", "what becomes of", "the outcome of, the state of")
    phrase("as (the|its|that) (queue|job|schedule)( or its queue)? says", "as the queue says", "that of the queue")
    phrase("(^| )be looked at|looked at (once )?more|(two|first|last) looks?( |$)", "look", "check, read, search")
    phrase("(goes?|brought|brings?|puts?) back to ready", "back to ready", "makes ready again")
    phrase("stays (done|gone) .* told", "is told", "stderr says")
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

# a paragraph, an item of a list or a cell of a table: no sentence of it has more than 25 words
function sentences(s, where,   i, n, part, word) {
    gsub(/\]\([^)]*\)/, "]", s)
    gsub(/`[^`]*`/, "CODE", s)
    n = split(s, part, /[.:;?!][*)]* +/)
    for (i = 1; i <= n; i++)
        if (split(part[i], word, " ") > 25) {
            found["pages" SUBSEP "long sentence"]++
            at["pages" SUBSEP "long sentence"] = at["pages" SUBSEP "long sentence"] where ": more than 25 words: " part[i] "\n"
        }
}
function paragraph(   i, n, cell) {
    n = para ~ /^\|/ ? split(para, cell, "|") : (cell[1] = para) != ""
    for (i = 1; i <= n; i++) sentences(cell[i], began)
    para = ""
}

FNR == 1 { paragraph(); code = generated = 0 }
FILENAME ~ /\.md$/ && /^<!-- .*: begin -->$/ { generated = 1 }
FILENAME ~ /\.md$/ && /^<!-- .*: end -->$/ { generated = 0 }
FILENAME ~ /\.md$/ && (/^ *$/ || /^ *```/ || /^[|#]/ || /^ *([-*]|[0-9]+\.) /) { paragraph() }
FILENAME ~ /\.md$/ && /^ *```/ { code = !code; next }
FILENAME ~ /\.md$/ && !code && !generated && !/^#/ { if (para == "") began = FILENAME ":" FNR; para = para (para == "" ? "" : " ") $0 }
FILENAME ~ /\.md$/ && (code || /^#/) { next }
{
    text = FILENAME ~ /^inc\// ? $0 : FILENAME ~ /\.[ch]$/ ? strings($0) : FILENAME ~ /\.sql$/ ? sql($0) : $0
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
    paragraph()
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
