# help.awk: turns doc/troubleshooting.md into C, as an array of lines of HTML, for the page /help of the dashboard.
#   LC_ALL=C awk -f examples/pgwork-ui/help.awk doc/troubleshooting.md > build/generated/ui_help.inc
# It supports headings, paragraphs, lists, `code`, **bold** and links. The heading "## x y" gets the id x-y. A link to
# another page becomes its text and the name of the page.

function literal(line) {
    gsub(/\\/, "&&", line)
    gsub(/"/, "\\\\&", line)
    gsub(/\?/, "\\\\&", line)       # so that no trigraph can arise
    print "    \"" line "\\n\","
}
function plain(s,   link, text, target) {
    while (match(s, /\*\*[^*]+\*\*/)) s = substr(s, 1, RSTART - 1) "<b>" substr(s, RSTART + 2, RLENGTH - 4) "</b>" substr(s, RSTART + RLENGTH)
    while (match(s, /\[[^]]+\]\([^)]+\)/)) {
        link = substr(s, RSTART, RLENGTH)
        text = target = link
        sub(/\].*/, "", text)
        sub(/^[^(]*\(/, "", target)
        link = substr(text, 2)
        if (target ~ /^#/) link = "<a href=\"" substr(target, 1, length(target) - 1) "\">" link "</a>"
        else { sub(/[#)].*/, "", target); link = link " (doc/" target ")" }
        s = substr(s, 1, RSTART - 1) link substr(s, RSTART + RLENGTH)
    }
    return s
}
function inline(s,   parts, n, i, out) {
    gsub(/&/, "\\&amp;", s)
    gsub(/</, "\\&lt;", s)
    gsub(/>/, "\\&gt;", s)
    n = split(s, parts, "`")
    for (i = 1; i <= n; i++) out = out (i % 2 ? plain(parts[i]) : "<code>" parts[i] "</code>")
    return out
}
function flush() {
    if (text != "") literal(item ? "<li>" inline(text) "</li>" : "<p>" inline(text) "</p>")
    text = ""
    item = 0
}
function end_list() { flush(); if (list) literal("</ul>"); list = 0 }

BEGIN { print "/* Made by examples/pgwork-ui/help.awk from doc/troubleshooting.md: edit that. */\nstatic const char *const ui_help[] = {" }
/^# / { next }
/^## / { end_list(); name = substr($0, 4); id = name; gsub(/ /, "-", id); literal("<h2 id=\"" id "\">" name "</h2>"); next }
/^$/ { flush(); next }
/^- / { flush(); if (!list) literal("<ul class=\"plain\">"); list = item = 1; text = substr($0, 3); next }
/^  [^ ]/ { text = text " " substr($0, 3); next }
{ if (list && text == "") end_list(); text = text == "" ? $0 : text " " $0 }
END { end_list(); print "    NULL};" }
