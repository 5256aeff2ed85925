# examples.awk: the header is the manual, so its examples compile, every function has a text, and
# every function stands in an example.
#
#   awk -v out=DIR -f examples.awk inc/pgwork.h inc/pgwork/*.h README.md doc/*.md      DIR/*.c are to be compiled
#
# An example of the header is a run of comment lines indented by four spaces that names pgw_...;
# other indented text (pictures, SQL) names none, or is indented further. Functions in it (`static`
# at its left edge) go to file scope; the rest becomes the body of a function, in which the names
# below stand for what a program would have. An example may declare any of them itself.
#
# In Markdown each ```c block that includes something is a program of its own and stands alone;
# the others are treated like examples of the header.
BEGIN {
    preamble = "#include <errno.h>\n#include <inttypes.h>\n#include <libpq-fe.h>\n#include <poll.h>\n" \
        "#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" \
        "#include <unistd.h>\n#include <pgwork.h>\n" \
        "/* the program's own business */\n" \
        "void work(const char *what); void render(void); void send_mailing(int number, int64_t fence);\n"
    names = "pgw *h, pgw_conf *conf, PGconn *conn, pgw_stop *stop, pgw_status st, pgw_batch *batch, " \
        "const pgw_job *job, pgw_ref ref, pgw_table *t, pgw_rows *rows, pgw_token token, " \
        "pgw_lock *lock, pgw_tick *tick, pgw_worker *w, int64_t id, int64_t n, int64_t next_ms"
}

function complain(text) { print FILENAME ":" FNR ": " text; bad = 1 }

# -- an example is gathered, then written --

function begin() { text = ""; first = FNR; blanks = 0 }

function end(   file, lines, n, i, scope, body, depth) {
    if (text !~ /pgw_/ || text !~ /;/) return
    n = split(text, lines, "\n") - 1
    for (i = 1; i <= n; i++) {
        if (depth || lines[i] ~ /^static /) {
            scope = scope "#line " first + i - 1 " \"" source "\"\n" lines[i] "\n"
            depth = depth ? lines[i] !~ /^}/ : lines[i] !~ /[;}]$/
        } else {
            body = body "#line " first + i - 1 " \"" source "\"\n" lines[i] "\n"
        }
        named = named " " lines[i]
    }
    file = sprintf("%s/%03d.c", out, ++count)
    printf "%s%s\nvoid example_%d(%s);\nvoid example_%d(%s)\n{\n{\n%s}\n}\n",
        preamble, scope, count, names, count, names, body > file
    close(file)
    text = ""
}

FNR == 1 { source = FILENAME; gathering = fenced = documented = 0 }

# -- the header --

source ~ /\.h$/ && /^ \*     [^ ]/ && !gathering { begin(); gathering = 1 }
source ~ /\.h$/ && gathering {
    if (/^ \*     /) {
        while (blanks-- > 0) text = text "\n"
        blanks = 0
        text = text substr($0, 8) "\n"
        next
    }
    if (/^ \*$/) { blanks++; next }
    end()
    gathering = 0
}
source ~ /\.h$/ && /^PGW_API / {
    match($0, /pgw_[a-z0-9_]+\(/)
    name = substr($0, RSTART, RLENGTH - 1)
    functions[name] = FILENAME ":" FNR
    if (!documented && !/\/\*/) complain(name "() has no text")
}
# A text holds for the declarations that follow it without a gap.
source ~ /\.h$/ {
    if (/\*\/$/ && !/^PGW_API|@[{}]|clang-format/) documented = 1
    else if (/^$/ || /^(}|typedef|#)/) documented = 0
}

# -- Markdown --

source ~ /\.md$/ && /^ *```c( [a-z_]*[.]c)?$/ { begin(); first++; fenced = 1; next }
source ~ /\.md$/ && fenced && /^ *```$/ {
    if (text ~ /#include/) {
        file = sprintf("%s/%03d.c", out, ++count)
        printf "#line %d \"%s\"\n%s", first, source, text > file
        close(file)
    } else {
        end()
    }
    fenced = 0
    next
}
source ~ /\.md$/ && fenced { text = text $0 "\n" }

END {
    for (name in functions)
        if (named !~ "[^a-z0-9_]" name "\\(") { print functions[name] ": " name "() is in no example"; bad = 1 }
    if (count == 0) { print "no examples found"; bad = 1 }
    exit bad
}
