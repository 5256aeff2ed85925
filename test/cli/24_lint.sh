# The lints find what they are made for.
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
is 'that one is named, no other' "$(grep "may grow" "$tmp/out" | cut -d: -f2,3)" '12: pgw_small may grow'

# banned LINE: what is banned in it
banned() { echo "$1" >"$tmp/banned.c" && awk -f "$top/test/lint/banned.awk" "$tmp/banned.c" | cut -d' ' -f2; }
is 'banned: a call' "$(banned 'p = malloc(3);')" malloc
is 'banned: a clock of this machine' "$(banned 't = time(NULL);')" time
is 'also where strings are around it' "$(banned 's = "a \" b"; p = malloc(3); s = "c";')" malloc
is 'a call behind a quotation mark is found' "$(banned "if (c == '\"') p = malloc(3), s = \"c\";")" malloc
code 'which fails' 1 awk -f "$top/test/lint/banned.awk" "$tmp/banned.c"
is 'a name in a string or a comment is no call' "$(banned 's = "malloc(3)"; /* malloc(3) */ my->malloc(3); // malloc(3)')" ''

# words FILE LINE: the phrase that is refused in it
words() { echo "$2" >"$tmp/$1" && (cd "$tmp" && awk -v allow= -f "$top/test/lint/words.awk" "$1" | sed -n 's/^[^:]*: "\(.*\)" is there.*/\1/p'); }
is 'words: a phrase of a page' "$(words page.md 'All are claimed, but for one.')" 'but for'
is 'of a message' "$(words page.c 'fail("this is no token"); /* but for this */')" 'is no'
is 'of a comment in SQL' "$(words page.sql '-- Who waits is woken.')" 'Who ...'
is 'a phrase in code or in its idiomatic use is accepted' "$(words page.md 'There is no `is no token` here, and it is no longer there.')" ''
is 'a sentence of a page with more than 25 words' "$(words page.md '- One two three four five six seven eight nine ten, one two three four five six seven eight nine ten, one two three four five six.')" 'long sentence'
echo 'pages 1 but for' >"$tmp/allow"
echo 'one, but for two' >"$tmp/page.md"
code 'an allowed phrase passes' 0 sh -c "cd '$tmp' && awk -v allow=allow -f '$top/test/lint/words.awk' page.md"
echo 'three, but for four' >>"$tmp/page.md"
code 'a second one does not' 1 sh -c "cd '$tmp' && awk -v allow=allow -f '$top/test/lint/words.awk' page.md"

printf '# A head\n\n[good](links.md#a-head) [gone](no.md) [no head](links.md#b)\n' >"$tmp/links.md"
code 'links: one that leads nowhere' 1 sh -c "cd '$tmp' && awk -f '$top/test/lint/links.awk' links.md"
is 'each is named, no other' "$(cut -d: -f3- "$tmp/out" | tr '\n' ';')" ' there is no no.md; no heading for links.md#b;'

cd "$tmp" || exit 1
echo 'int b(void); int a(void); int a(void) { return b(); }' >a.c
echo 'int b(void); int b(void) { return 1; }' >b.c
cc -c a.c b.c
code 'circles: a file that calls a lower one' 0 sh "$top/test/lint/circles.sh" a.o b.o
echo 'int a(void); int b(void); int b(void) { return a(); }' >b.c
cc -c b.c
code 'files that call each other are refused' 1 sh "$top/test/lint/circles.sh" a.o b.o
yes 'the files that call each other are named' grep -q 'b\.o' "$tmp/err"
exit 0
