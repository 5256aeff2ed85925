/* name: rules for names, and the exact words for each fault. */
#include "base/name.h"

#include <stdint.h>
#include <string.h>

/* The character at p, of at most n bytes: its size, and its code point in *cp; 0 when it is not
 * well-formed UTF-8 (Unicode 15, table 3-7). */
static size_t name_utf8_char(const unsigned char *p, size_t n, uint32_t *cp)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t v = p[0];
    size_t size;

    if (v < 0x80) {
        *cp = v;
        return 1;
    }
    if (v >= 0xc2 && v <= 0xdf)
        size = 2, v &= 0x1f;
    else if (v >= 0xe0 && v <= 0xef)
        size = 3, v &= 0x0f;
    else if (v >= 0xf0 && v <= 0xf4)
        size = 4, v &= 0x07;
    else
        return 0;
    if (size > n) return 0;
    for (size_t i = 1; i < size; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        v = v << 6 | (p[i] & 0x3f);
    }
    if (v < smallest[size] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff)) return 0;
    *cp = v;
    return size;
}

size_t pgw__utf8_span(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    uint32_t cp;
    size_t at = 0;

    while (at < n) {
        const size_t size = name_utf8_char(p + at, n - at, &cp);

        if (size == 0 || cp == 0) break;
        at += size;
    }
    return at;
}

bool pgw__utf8_ok(const char *text, size_t n)
{
    return pgw__utf8_span(text, n) == n;
}

void pgw__text_where(const char *text, size_t at, size_t *line, size_t *column)
{
    *line = *column = 1;
    for (const char *p = text; p < text + at; p++) {
        if (*p == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)p[1] & 0xc0) != 0x80 || p + 1 == text + at) {
            ++*column;
        }
    }
}

/* C0, DEL and C1: they move cursors and break lines where names are shown. */
static bool name_has_control(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;

    for (size_t i = 0; i < n; i++) {
        if (p[i] < 0x20 || p[i] == 0x7f) return true;
        if (p[i] == 0xc2 && p[i + 1] < 0xa0) return true; /* well formed: there is a next byte */
    }
    return false;
}

const char *pgw__text_fault(const char *text, size_t max)
{
    size_t n;

    if (text == NULL) return "is NULL";
    n = strnlen(text, max);
    if (text[n] != '\0') {
        if (max == PGW__QUEUE_MAX) return "is longer than 200 bytes";
        if (max == PGW__KEY_MAX) return "is longer than 255 bytes";
        return "is too long";
    }
    return pgw__utf8_ok(text, n) ? NULL : "is not UTF-8";
}

const char *pgw__name_fault(const char *text, size_t max)
{
    const char *fault = pgw__text_fault(text, max);

    if (fault != NULL) return fault;
    if (text[0] == '\0') return "is empty";
    return name_has_control(text, strlen(text)) ? "has a control character" : NULL;
}

const char *pgw__schema_fault(const char *text)
{
    size_t n;

    if (text == NULL) return "is NULL";
    if (text[0] == '\0') return "is empty";
    n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (text[n] != '\0') return "has a character other than a-z, 0-9 and _";
    if (text[0] >= '0' && text[0] <= '9') return "begins with a digit";
    if (n > PGW__SCHEMA_NAME_MAX) return "is longer than 40 bytes";
    if (strncmp(text, "pg_", 3) == 0) return "begins with pg_, which PostgreSQL keeps for itself";
    return NULL;
}

bool pgw__int_parse(int64_t *out, const char *text)
{
    bool negative = *text == '-';
    uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0), sum = 0;

    text += negative;
    if (*text == '\0') return false;
    for (; *text != '\0'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');

        if (*text < '0' || *text > '9' || sum > (limit - digit) / 10) return false;
        sum = sum * 10 + digit;
    }
    *out = negative ? (int64_t)(0 - sum) : (int64_t)sum;
    return true;
}

static int name_hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

const char *pgw__uuid_parse(unsigned char out[16], const char *text)
{
    static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    static const char fault[] = "is not a UUID (8-4-4-4-12 hexadecimal digits)";
    unsigned char bytes[16] = {0};
    size_t digits = 0;

    memset(out, 0, sizeof(bytes));
    if (text == NULL) return "is NULL";
    for (size_t i = 0; i < sizeof(shape); i++) { /* the NUL too */
        int v = name_hex(text[i]);

        if (shape[i] == 'x' ? v < 0 : text[i] != shape[i]) return fault;
        if (shape[i] != 'x') continue;
        bytes[digits / 2] = (unsigned char)(bytes[digits / 2] << 4 | v);
        digits++;
    }
    memcpy(out, bytes, sizeof(bytes));
    return NULL;
}

void pgw__text_copy(char *to, size_t size, const char *from)
{
    size_t n = strlen(from);

    if (n >= size) {
        n = size - 1;
        while (n > 0 && ((unsigned char)from[n] & 0xc0) == 0x80) n--;
    }
    memmove(to, from, n);
    to[n] = '\0';
}

void pgw__text_mend(char *to, size_t size, const char *from)
{
    size_t used = 0;

    while (*from != '\0') {
        const unsigned char lead = (unsigned char)*from;
        size_t n = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
        const bool whole = strnlen(from, n) == n && pgw__utf8_ok(from, n);

        if (!whole) n = 1;
        if (used + n >= size) break;
        memcpy(to + used, whole ? from : "?", n);
        used += n;
        from += n;
    }
    to[used] = '\0';
}
