/* SPDX-License-Identifier: PostgreSQL */
#include "json.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

typedef struct cursor {
    const char *at, *end;
    const char *why;
} cursor;

/* Our limit; PostgreSQL accepts more. */
static const char json_too_deep[] = "nested deeper than " JSON_DEPTH_TEXT " levels";

static void json_blanks(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

static bool json_no(cursor *c, const char *why)
{
    c->why = why;
    return false;
}

static bool json_take(cursor *c, char byte)
{
    if (c->at == c->end || *c->at != byte) return false;
    c->at++;
    return true;
}

static bool json_word(cursor *c, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) {
        return json_no(c, "expected a value");
    }
    c->at += n;
    return true;
}

static bool json_digits(cursor *c)
{
    const char *from = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') c->at++;
    return c->at > from;
}

static bool json_number(cursor *c)
{
    json_take(c, '-');
    if (!json_take(c, '0') && !json_digits(c)) return json_no(c, "expected a value");
    if (json_take(c, '.') && !json_digits(c))
        return json_no(c, "expected a digit after the decimal point");
    if (json_take(c, 'e') || json_take(c, 'E')) {
        if (!json_take(c, '+')) json_take(c, '-');
        if (!json_digits(c)) return json_no(c, "expected the digits of an exponent");
    }
    return true;
}

/* The value of four hexadecimal digits, or -1. */
static long json_hex(cursor *c)
{
    long unit = 0;
    if (c->end - c->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *d = memchr(digits, *c->at++, sizeof digits - 1);
        if (!d) return -1;
        unit = unit * 16 + (d - digits < 16 ? d - digits : d - digits - 6);
    }
    return unit;
}

/* The code point after "\u", or of a surrogate pair. -1: not valid, with the error in c->why. */
static long json_unicode(cursor *c)
{
    long unit = json_hex(c);
    if (unit < 0) return c->why = "\\u needs four hexadecimal digits", -1;
    if (unit == 0) return c->why = "\\u0000 cannot be stored", -1;
    if (unit < 0xd800 || unit > 0xdfff) return unit;
    if (unit < 0xdc00 && json_take(c, '\\') && json_take(c, 'u')) {
        long low = json_hex(c);
        if (low >= 0xdc00 && low <= 0xdfff)
            return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
    c->why = "half of a surrogate pair in a string";
    return -1;
}

/* Reads a string after its opening quote. @p t: receives the text, or NULL. */
static bool json_string(cursor *c, buf *t)
{
    static const char escapes[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    const char *from = c->at;
    for (;;) {
        if (c->at == c->end) return json_no(c, "a string is not closed");
        unsigned char byte = (unsigned char)*c->at;
        if (byte < 0x20) return json_no(c, "a control character in a string");
        if (byte != '"' && byte != '\\') {
            size_t step = text_utf8_char((const unsigned char *)c->at, (size_t)(c->end - c->at));
            if (step == 0) return json_no(c, "not UTF-8");
            c->at += step;
            continue;
        }
        if (t) buf_add(t, from, (size_t)(c->at - from));
        c->at++;
        if (byte == '"') return true;
        if (c->at == c->end) return json_no(c, "a string is not closed");
        const char *escape = memchr(escapes, *c->at, sizeof escapes - 1);
        if (escape) {
            if (t) buf_add(t, &plain[escape - escapes], 1);
            c->at++;
        } else if (json_take(c, 'u')) {
            long point = json_unicode(c);
            if (point < 0) return false;
            char utf8[4];
            size_t n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
            static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
            for (size_t i = n; i-- > 1; point >>= 6) utf8[i] = (char)(0x80 | (point & 0x3f));
            utf8[0] = (char)(lead[n] | point);
            if (t) buf_add(t, utf8, n);
        } else {
            return json_no(c, "an unknown escape in a string");
        }
        from = c->at;
    }
}

static bool json_value(cursor *c, json *v, int depth);

/* Reads the rest after the opening bracket. */
static bool json_items(cursor *c, bool names, int depth)
{
    char close = names ? '}' : ']';
    json item;
    json_blanks(c);
    if (json_take(c, close)) return true;
    do {
        json_blanks(c);
        if (names) {
            if (!json_take(c, '"')) return json_no(c, "expected a member name");
            if (!json_string(c, NULL)) return false;
            json_blanks(c);
            if (!json_take(c, ':')) return json_no(c, "expected \":\"");
        }
        if (!json_value(c, &item, depth)) return false;
        json_blanks(c);
    } while (json_take(c, ','));
    return json_take(c, close)
               ? true
               : json_no(c, names ? "expected \",\" or \"}\"" : "expected \",\" or \"]\"");
}

static bool json_value(cursor *c, json *v, int depth)
{
    json_blanks(c);
    if (c->at == c->end) return json_no(c, "expected a value");
    if (depth == JSON_DEPTH) return json_no(c, json_too_deep);
    v->at = c->at;
    bool good;
    switch (*c->at) {
    case '"': c->at++, v->kind = JSON_STRING, good = json_string(c, NULL); break;
    case '{': c->at++, v->kind = JSON_OBJECT, good = json_items(c, true, depth + 1); break;
    case '[': c->at++, v->kind = JSON_ARRAY, good = json_items(c, false, depth + 1); break;
    case 't': v->kind = JSON_BOOL, good = json_word(c, "true"); break;
    case 'f': v->kind = JSON_BOOL, good = json_word(c, "false"); break;
    case 'n': v->kind = JSON_NULL, good = json_word(c, "null"); break;
    default: v->kind = JSON_NUMBER, good = json_number(c); break;
    }
    v->size = (size_t)(c->at - v->at);
    return good;
}

bool json_read(json *v, const char *text, size_t size, char why[JSON_WHY])
{
    cursor c = {text, text + size, ""};
    char where[TEXT_WHERE];
    bool good = json_value(&c, v, 0);
    json_blanks(&c);
    if (good && c.at != c.end) good = json_no(&c, "expected nothing after the value");
    if (!good) {
        snprintf(why, JSON_WHY, "%s%s at %s",
                 c.why == json_too_deep ? "" : "not valid JSON: ", c.why,
                 text_where(where, text, size, (size_t)(c.at - text)));
    }
    return good;
}

bool json_next(const json *v, size_t *at, json *name, json *item)
{
    cursor c = {v->at + (*at ? *at : 1), v->at + v->size, ""};
    json_blanks(&c);
    json_take(&c, ',');
    json_blanks(&c);
    if (v->kind == JSON_OBJECT) {
        json none;
        if (!name) name = &none;
        if (!json_value(&c, name, 0)) return false;
        json_blanks(&c);
        json_take(&c, ':');
    }
    if (!json_value(&c, item, 0)) return false;
    *at = (size_t)(c.at - v->at);
    return true;
}

bool json_is(const json *v, const char *s, size_t size)
{
    if (v->kind != JSON_STRING) return false;
    if (!memchr(v->at, '\\', v->size)) return v->size == size + 2 && !memcmp(v->at + 1, s, size);
    buf t = {0};
    json_add_text(&t, v);
    bool same = t.size == size && memcmp(t.at, s, size) == 0;
    buf_free(&t);
    return same;
}

bool json_member(const json *v, const char *name, size_t name_size, json *item)
{
    json key, value;
    size_t at = 0;
    bool found = false;
    while (v->kind == JSON_OBJECT && json_next(v, &at, &key, &value)) {
        if (!json_is(&key, name, name_size)) continue;
        *item = value;
        found = true;
    }
    return found;
}

void json_add_text(buf *t, const json *v)
{
    if (v->kind == JSON_STRING) {
        cursor c = {v->at + 1, v->at + v->size, ""};
        json_string(&c, t);
        buf_add(t, "", 0);
    } else {
        buf_add(t, v->at, v->size);
    }
}
