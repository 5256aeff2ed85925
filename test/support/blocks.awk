# blocks.awk: the code blocks of a Markdown page, as one shell script that runs them in their order.
#
#   awk -v page=doc/sql.md -v bodies=test/support/fragment.h -f blocks.awk doc/sql.md > script
#
# The first word after the fence is the language, a second one a file name or `norun`:
#
#   ```sh            a shell block; what it exports holds for the blocks that follow
#   ```sql           psql, connected by PGWORK_DSN; \gset works
#   ```c             a program if it includes something, else a fragment: see test/support/fragment.h
#   ```c put.c       a file that a shell block compiles; it is not run by itself
#   ```sh norun      an excerpt: it is not run
#   ```              a picture or an output: no code
#
# The script prints `run LINE LANGUAGE` before each block, and `done` at its end.

function quoted(s) { gsub(/'/, "'\\''", s); return "'" s "'" }
function emit(body,   name) {
    if (rest == "norun") { print "echo 'skip " first " " lang "'"; return }
    print "echo 'run " first " " lang "'"
    if (lang == "sh") printf "%s", body
    else if (lang == "sql") {
        file = "block" first ".sql"
        printf "cat >%s <<'END_OF_BLOCK'\n%sEND_OF_BLOCK\n", file, body
        print "psql -XAtq -v ON_ERROR_STOP=1 -f " file " \"$PGWORK_DSN\""
    } else {
        name = rest == "" ? "block" first ".c" : rest
        if (body !~ /#include/) body = "#include \"fragment.h\"\n" body "#include \"fragment.h\"\n"
        printf "cat >%s <<'END_OF_BLOCK'\n%sEND_OF_BLOCK\n", name, body
        if (rest == "") print "compile " name " && timeout 60 ./block" first
    }
}

/^ *```/ && inside { emit(text); inside = 0; next }
/^ *```(sh|sql|c)( |$)/ {
    line = $0
    match(line, /^ */)
    indent = RLENGTH
    sub(/^ *```/, "", line)
    lang = line
    sub(/ .*/, "", lang)
    rest = index(line, " ") ? substr(line, index(line, " ") + 1) : ""
    inside = 1
    first = FNR + 1
    text = ""
    next
}
/^ *```/ && !picture { picture = 1; next }
/^ *```/ { picture = 0; next }
inside { text = text (substr($0, 1, indent) ~ /^ *$/ ? substr($0, indent + 1) : $0) "\n" }
END { print "echo done" }
