# sql2c.awk: turn .sql files into an X-macro file of C string literals, one per line of SQL.
#   LC_ALL=C awk -f src/sql/sql2c.awk src/sql/*.sql migrations/*.sql > build/generated/sql_data.inc
# The text is kept byte for byte; a file must end in a newline, which the Makefile checks.

function literal(line) {
    gsub(/\\/, "&&", line)
    gsub(/"/, "\\\\&", line)
    gsub(/\t/, "\\t", line)
    gsub(/\r/, "\\r", line)
    gsub(/\?/, "\\\\&", line)       # no trigraph can come of it, whatever follows
    return "    \"" line "\\n\""
}

function finish() { if (open) print ")"; open = 0 }

BEGIN {
    print "/* Made by src/sql/sql2c.awk from src/sql and migrations: edit those. */"
    print "#ifndef PGW__SQL"
    print "#define PGW__SQL(id, name, text)"
    print "#endif"
    print "#ifndef PGW__MIGRATION"
    print "#define PGW__MIGRATION(number, file, text)"
    print "#endif"
}

FNR == 1 {
    finish()
    file = FILENAME
    sub(/.*\//, "", file)
    if (FILENAME ~ /(^|\/)migrations\//) {
        number = file
        sub(/[^0-9].*/, "", number)
        if (number + 0 != ++migrations) { print FILENAME ": migration " migrations " should come here" > "/dev/stderr"; exit 1 }
        printf "\nPGW__MIGRATION(%d, \"%s\",\n", number, file
    } else {
        stem = file
        sub(/\.sql$/, "", stem)
        printf "\nPGW__SQL(%s, \"%s\",\n", toupper(stem), stem
    }
    open = 1
}

{ print literal($0) }

END {
    finish()
    print "\n#undef PGW__SQL\n#undef PGW__MIGRATION"
}
