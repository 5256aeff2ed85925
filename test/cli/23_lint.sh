# What the lints are to find, they find.
. "$(dirname "$0")/tap"

cat >"$tmp/pgwork.h" <<'END'
typedef struct pgw_small {
    size_t struct_size;
    const struct pgw_small *next;
} pgw_small;
typedef struct pgw_plain {
    int64_t id;
} pgw_plain;
typedef struct pgw_large {
    size_t struct_size;
    pgw_plain plain;
    const pgw_small *points; /* is well */
    pgw_small stands;        /* is *not* */
} pgw_large;
END
code 'header: a struct that may grow stands in no other' 1 awk -f "$top/test/lint/header.awk" "$tmp/pgwork.h"
is 'that one is named, no other' "$(cut -d: -f2,3 "$tmp/out")" '12: pgw_small may grow'
exit 0
