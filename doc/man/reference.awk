# reference.awk: the reference from the public headers: a man page (mdoc) for each function, and one
# page of HTML.
#   awk -v out=DIR -v version=0.1.0 -f doc/man/reference.awk inc/pgwork.h inc/pgwork/*.h
# writes DIR/man3/pgw_*.3 and DIR/reference.html. A comment /** ... */ belongs to the declarations that
# follow it without a gap. In it: text, "@param name  text", "@returns text" with a list of "- item",
# "@note text", and examples indented by five spaces. Only mawk's awk is needed.

function html(s) { gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); gsub(/>/, "\\&gt;", s); return s }
function roff(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); if (s ~ /^[.']/) s = "\\&" s; return s }
function header(    s) { s = FILENAME; sub(/.*inc\//, "", s); return s }
function plain(s) { gsub(/@p /, "", s); return s }

function start_section(kind, text) {
    n++
    kinds[n] = kind
    texts[n] = text
}

# A line of the comment, without its star.
function take(line,    name) {
    if (line ~ /^    [^ ]/ || (in_example && line ~ /^    /)) {
        if (!in_example) { start_section("example", ""); in_example = 1 }
        texts[n] = texts[n] substr(line, 5) "\n"
        return
    }
    if (in_example && line == "") { texts[n] = texts[n] "\n"; return }
    in_example = 0
    if (line == "") { gap = 1; return }
    if (line ~ /^@param /) {
        sub(/^@param /, "", line)
        name = line
        sub(/ .*/, "", name)
        sub(/^[^ ]+ +/, "", line)
        start_section("param", line)
        names[n] = name
    } else if (line ~ /^@returns/) {
        sub(/^@returns ?/, "", line)
        start_section("returns", line)
    } else if (line ~ /^@note /) {
        start_section("note", substr(line, 7))
    } else if (line ~ /^- /) {
        start_section(returning() ? "return" : "item", substr(line, 3))
    } else if (n == 0 || gap || kinds[n] == "example") {
        start_section("text", line)
    } else {
        sub(/^ +/, "", line)
        texts[n] = texts[n] (texts[n] == "" ? "" : " ") line
    }
    gap = 0
}
function returning() { return n > 0 && (kinds[n] == "returns" || kinds[n] == "return") }

function forget() { n = 0; gap = 0; in_example = 0 }

# -- the types that a declaration needs are shown with it --

function types_of(declarations,    shown, rest, name) {
    shown = ""
    rest = declarations
    while (match(rest, /pgw_[a-z_]+_(opts|spec|info|stats|who|grant|mode|lock|depth)|pgw_(job_spec|depth|fail_opts|cell|row_ref)/)) {
        name = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (rest ~ /^[a-z_]/) continue
        if ((name in typedefs) && index(shown, "} " name ";") == 0) shown = shown typedefs[name] "\n"
    }
    return shown
}

# -- man --

function man_page(list, k, declarations,    file, first, i, title, was) {
    first = list[1]
    file = out "/man3/" first ".3"
    title = plain(texts[1])
    if (match(title, /\. /)) title = substr(title, 1, RSTART)
    sub(/[.:]$/, "", title)
    title = tolower(substr(title, 1, 1)) substr(title, 2)
    print ".\\\" Made from " header() " by doc/man/reference.awk" > file
    print ".Dd November 27, 2026\n.Dt " toupper(first) " 3\n.Os pgwork " version "\n.Sh NAME" > file
    for (i = 1; i <= k; i++) print ".Nm " list[i] (i < k ? " ," : "") > file
    print ".Nd " roff(title) "\n.Sh LIBRARY\npgwork (libpgwork, \\-lpgwork)\n.Sh SYNOPSIS\n.In pgwork.h\n.Bd -literal" > file
    literal(file, declarations)
    print ".Ed" > file
    was = types_of(declarations)
    print ".Sh DESCRIPTION" > file
    for (i = 1; i <= n; i++) if (kinds[i] == "text" || kinds[i] == "item") print (i > 1 ? ".Pp\n" : "") roff(plain(texts[i])) > file
    man_list(file, "param", "")
    if (was != "") { print ".Bd -literal" > file; literal(file, was); print ".Ed" > file }
    for (i = 1; i <= n && kinds[i] != "returns"; i++) { }
    if (i <= n) {
        print ".Sh RETURN VALUES" > file
        if (texts[i] != "") print roff(plain(texts[i])) > file
        man_list(file, "return", "-compact")
    }
    for (i = 1; i <= n && kinds[i] != "note"; i++) { }
    if (i <= n) print ".Sh NOTES" > file
    for (was = 0; i <= n; i++) if (kinds[i] == "note") { print (was ? ".Pp\n" : "") roff(plain(texts[i])) > file; was = 1 }
    for (i = 1; i <= n; i++) if (kinds[i] == "example" && texts[i] ~ /pgw_/) {
        print ".Sh EXAMPLES\n.Bd -literal" > file
        literal(file, texts[i])
        print ".Ed" > file
    }
    print ".Sh SEE ALSO\n.Xr pgwork 7 ,\n.Pa " header() > file
    close(file)
    for (i = 2; i <= k; i++) { print ".so man3/" first ".3" > (out "/man3/" list[i] ".3"); close(out "/man3/" list[i] ".3") }
}
function literal(file, text,    lines, i, m) {
    m = split(text, lines, "\n")
    while (m > 0 && lines[m] == "") m--
    for (i = 1; i <= m; i++) print roff(lines[i]) > file
}
function man_list(file, kind, how,    i, any, tag, text) {
    for (i = 1; i <= n; i++) {
        if (kinds[i] != kind) continue
        if (!any) print ".Bl -tag -width 14n " how > file
        any = 1
        tag = kind == "param" ? names[i] : ""
        text = plain(texts[i])
        if (kind == "return") {
            tag = text
            if (match(text, /^PGW_[A-Z_, ()a-z:0-9]*PGW_[A-Z_]+|^PGW_[A-Z_]+/)) { tag = substr(text, 1, RLENGTH); text = substr(text, RLENGTH + 1); sub(/^[:.,] */, "", text) }
            else text = ""
        }
        print ".It " roff(tag) > file
        if (text != "") print roff(text) > file
    }
    if (any) print ".El" > file
}

# -- HTML --

function html_part(list, k, declarations,    i, open, kind) {
    for (i = 1; i <= k; i++) printf "<a id=\"%s\"></a>", list[i] > page
    print "<h3>" list[1] (k > 1 ? " …" : "") "</h3>\n<pre>" html(declarations types_of(declarations)) "</pre>" > page
    for (i = 1; i <= n; i++) {
        kind = kinds[i]
        if (open != "" && kind != open) { print (open == "param" ? "</dl>" : "</ul>") > page; open = "" }
        if (kind == "param") {
            if (open == "") print "<dl>" > page
            print "<dt><code>" html(names[i]) "</code><dd>" html(plain(texts[i])) > page
            open = kind
        } else if (kind == "return" || kind == "item") {
            if (open == "") print "<ul>" > page
            print "<li>" html(plain(texts[i])) > page
            open = kind
        } else if (kind == "example") {
            print "<pre>" html(texts[i]) "</pre>" > page
        } else {
            print "<p>" (kind == "returns" ? "<b>Returns</b> " : kind == "note" ? "<b>Note:</b> " : "") html(plain(texts[i])) > page
        }
    }
    if (open != "") print (open == "param" ? "</dl>" : "</ul>") > page
}

BEGIN {
    page = out "/reference.html"
    print "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>pgwork " version "</title>" > page
    print "<style>body{max-width:50em;margin:2em auto;font:16px/1.5 sans-serif;padding:0 1em}pre{background:#8882;padding:.6em;overflow:auto}</style>" > page
    print "<h1>pgwork " version "</h1>" > page
}

FNR == 1 { commenting = 0; documented = 0; forget(); print "<h2>" html(header()) "</h2>" > page }

commenting || /^\/\*\*/ {
    line = $0
    if (!commenting) { flush_block(); forget(); commenting = 1 }
    last = line ~ /\*\/$/
    sub(/^\/\*\*( |$)/, "", line)
    sub(/ ?\*\/$/, "", line)
    sub(/^ \*( |$)/, "", line)
    if (!(last && line == "") && $0 != "/**") take(line)
    if (last) {
        commenting = 0
        while (n > 0 && kinds[n] == "example" && texts[n] ~ /^\n*$/) n--
        if ($0 ~ /@[{}]/ || (n > 0 && texts[1] ~ /^@name/)) forget()
        documented = n > 0
        count = 0
        text = ""
    }
    next
}
/^typedef (struct|enum) pgw_[a-z_]+ \{/ { flush_block(); type = $3; typedefs[type] = ""; typing = 1 }
typing {
    typedefs[type] = typedefs[type] $0 "\n"
    if (/^}/ || /} pgw_[a-z_]+;$/) typing = 0
    documented = 0
    next
}
/^PGW_API / && documented { declaring = 1 }
declaring {
    line = $0
    sub(/^PGW_API /, "", line)
    sub(/ *\/\*.*\*\/$/, "", line)
    text = text line "\n"
    if (line ~ /\(/ && match(line, /pgw_[a-z0-9_]+\(/) && !naming) { list[++count] = substr(line, RSTART, RLENGTH - 1); naming = 1 }
    if (line ~ /;$/) { declaring = naming = 0 }
    next
}
/^$/ || /^\/\*/ || /^#/ || /^}/ { flush_block() }
function flush_block() {
    if (documented && count > 0) {
        man_page(list, count, text)
        html_part(list, count, text)
    }
    if (count > 0 || $0 == "") { documented = 0; count = 0 }
}
