# assets.awk: turns the files of static/ into C, as arrays of lines.
#   LC_ALL=C awk -f examples/pgwork-ui/assets.awk examples/pgwork-ui/static/* > build/generated/ui_assets.inc

function literal(line) {
    gsub(/\\/, "&&", line)
    gsub(/"/, "\\\\&", line)
    gsub(/\t/, "\\t", line)
    gsub(/\?/, "\\\\&", line)       # no trigraph can come of it, whatever follows
    return "    \"" line "\\n\","
}
function finish() { if (count) print "    NULL};" }

BEGIN {
    type["css"] = "text/css; charset=utf-8"
    type["js"] = "text/javascript; charset=utf-8"
    type["svg"] = "image/svg+xml"
    print "/* Made by examples/pgwork-ui/assets.awk from examples/pgwork-ui/static: edit those. */"
}
FNR == 1 {
    finish()
    name[++count] = FILENAME
    sub(/.*\//, "", name[count])
    print "static const char *const asset_" count "[] = {"
}
{ print literal($0) }
END {
    finish()
    print "static const struct ui_asset {\n    const char *path, *type;\n    const char *const *text;\n} ui_assets[] = {"
    for (i = 1; i <= count; i++) {
        ending = name[i]
        sub(/.*\./, "", ending)
        print "    {\"/static/" name[i] "\", \"" type[ending] "\", asset_" i "},"
    }
    print "};"
}
