/* fuzz_json: whatever the bytes, the verdict is that of a parser that was written another way: from
 * the top down, by recursion, as the grammar is printed in RFC 8259. */
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)           \
    do {                           \
        if (!(condition)) abort(); \
    } while (0)

static const char *p;

static void space(void)
{
    while (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n') p++;
}

static bool take(char c)
{
    if (*p != c) return false;
    p++;
    return true;
}

static bool digits(void)
{
    const char *from = p;

    while (*p >= '0' && *p <= '9') p++;
    return p > from;
}

static bool unicode(unsigned *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, p++) {
        if (!isxdigit((unsigned char)*p)) return false;
        *value =
            *value * 16 + (unsigned)(isdigit((unsigned char)*p) ? *p - '0' : (*p | 32) - 'a' + 10);
    }
    return true;
}

static bool string(void)
{
    unsigned high, low;

    if (!take('"')) return false;
    while (*p != '"') {
        if ((unsigned char)*p < 0x20) return false;
        if (!take('\\')) {
            p++;
        } else if (!take('u')) {
            if (*p == '\0' || strchr("\"\\/bfnrt", *p) == NULL) return false;
            p++;
        } else {
            if (!unicode(&high) || high == 0 || (high & 0xfc00) == 0xdc00) return false;
            if ((high & 0xfc00) != 0xd800) continue;
            if (!take('\\') || !take('u') || !unicode(&low) || (low & 0xfc00) != 0xdc00)
                return false;
        }
    }
    return take('"');
}

static bool number(void)
{
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (!take('e') && !take('E')) return true;
    if (!take('+')) take('-');
    return digits();
}

static bool word(const char *w)
{
    if (strncmp(p, w, strlen(w)) != 0) return false;
    p += strlen(w);
    return true;
}

static bool value(int depth);

static bool members(int depth, char end, bool named)
{
    space();
    if (take(end)) return true;
    do {
        space();
        if (named && !string()) return false;
        space();
        if (named && !take(':')) return false;
        if (!value(depth)) return false;
        space();
    } while (take(','));
    return take(end);
}

static bool value(int depth)
{
    space();
    if ((*p == '{' || *p == '[') && depth == 1000) return false;
    if (take('{')) return members(depth + 1, '}', true);
    if (take('[')) return members(depth + 1, ']', false);
    if (*p == '"') return string();
    return word("true") || word("false") || word("null") || number();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    const char *fault;
    size_t at;
    bool ok;

    CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    fault = pgw__json_fault(text, SIZE_MAX, &at);
    CHECK(at <= strlen(text));
    p = text;
    ok = pgw__text_fault(text, SIZE_MAX) == NULL && value(0);
    if (ok) space();
    CHECK((fault == NULL) == (ok && *p == '\0'));
    free(text);
    return 0;
}
