# links.awk: every relative link of a Markdown page leads to a file that exists, and every anchor to a heading.
#   awk -f test/lint/links.awk README.md doc/*.md doc/*/*.md        from the top of the tree
function clean(path,   before) { # a/b/../c is a/c
    do { before = path; sub(/[^\/]+\/\.\.\//, "", path); sub(/^\.\//, "", path) } while (path != before)
    sub(/\/$/, "", path)
    return path
}
function anchor(s) { # as GitHub makes it
    s = tolower(s)
    gsub(/`|\[|\]\([^)]*\)/, "", s)
    gsub(/[^a-z0-9 _-]/, "", s)
    gsub(/ /, "-", s)
    return s
}
FNR == 1 { code = 0; dir = FILENAME; if (!sub(/\/[^\/]*$/, "/", dir)) dir = "" }
/^ *```/ { code = !code; next }
code { next }
/^#+ / { s = $0; sub(/^#+ +/, "", s); heading[FILENAME "#" anchor(s)] = 1 }
{
    gsub(/`[^`]*`/, "CODE")
    while (match($0, /\]\([^) ]+\)/)) {
        target = substr($0, RSTART + 2, RLENGTH - 3)
        $0 = substr($0, RSTART + RLENGTH)
        if (target !~ /^[a-z]+:/) { from[++links] = FILENAME ":" FNR; to[links] = target ~ /^#/ ? FILENAME target : clean(dir target) }
    }
}
END {
    for (i = 1; i <= links; i++) {
        file = to[i]
        sub(/#.*/, "", file)
        if (system("test -e '" file "'") != 0) { print from[i] ": there is no " file; faults++ }
        else if (to[i] ~ /#/ && file ~ /\.md$/ && !(to[i] in heading)) { print from[i] ": no heading for " to[i]; faults++ }
    }
    exit faults > 0
}
