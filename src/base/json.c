/* json: checks the grammar of RFC 8259, and the rules that jsonb adds: no \u0000, surrogates in
 * pairs only. */
#include "base/json.h"

#include <stdbool.h>
#include <string.h>

#include "base/name.h"

#define JSON_DEPTH_MAX 1000
#define JSON_DIGITS    "0123456789"

typedef struct json {
    const char *p;     /* where we are; after a fault, where it is */
    const char *fault; /* NULL: none so far */
    int depth;
    const char *wanted, *value;  /* a member of the outermost object, and its value; NULL: none */
    bool object[JSON_DEPTH_MAX]; /* else an array */
} json;

static void json_fail(json *j, const char *fault)
{
    if (j->fault == NULL) j->fault = fault;
}

static void json_skip_space(json *j)
{
    j->p += strspn(j->p, " \t\r\n");
}

/* ---- scalars ---- */

/* Four hexadecimal digits; -1: they are not. */
static int json_hex4(const char *p)
{
    static const char digits[] = "00112233445566778899aAbBcCdDeEfF";
    int value = 0;

    for (int i = 0; i < 4; i++) {
        const char *at = p[i] != '\0' ? strchr(digits, p[i]) : NULL;

        if (at == NULL) return -1;
        value = value << 4 | (int)((at - digits) / 2);
    }
    return value;
}

/* At the u of \uXXXX. */
static void json_walk_unicode(json *j)
{
    const int first = json_hex4(j->p + 1);

    if (first == 0) {
        json_fail(j, "has a \\u0000 escape, which PostgreSQL cannot store");
        return;
    }
    if (first < 0 || (first >= 0xdc00 && first <= 0xdfff)) {
        json_fail(j, "is not JSON");
        return;
    }
    j->p += 5;
    if (first < 0xd800 || first > 0xdbff) return;
    if (j->p[0] == '\\' && j->p[1] == 'u') {
        const int second = json_hex4(j->p + 2);

        if (second >= 0xdc00 && second <= 0xdfff) {
            j->p += 6;
            return;
        }
    }
    json_fail(j, "is not JSON"); /* half of a surrogate pair */
}

/* At the backslash. */
static void json_walk_escape(json *j)
{
    j->p++;
    if (*j->p == 'u') {
        json_walk_unicode(j);
    } else if (*j->p != '\0' && strchr("\"\\/bfnrt", *j->p) != NULL) {
        j->p++;
    } else {
        json_fail(j, "is not JSON");
    }
}

static void json_walk_string(json *j)
{
    if (*j->p != '"') {
        json_fail(j, "is not JSON");
        return;
    }
    for (j->p++; j->fault == NULL && *j->p != '"';) {
        if ((unsigned char)*j->p < 0x20) /* the end, too */
            json_fail(j, "is not JSON");
        else if (*j->p == '\\')
            json_walk_escape(j);
        else
            j->p++;
    }
    if (j->fault == NULL) j->p++;
}

static void json_walk_digits(json *j)
{
    const size_t n = strspn(j->p, JSON_DIGITS);

    if (n == 0) json_fail(j, "is not JSON");
    j->p += n;
}

static void json_walk_number(json *j)
{
    if (*j->p == '-') j->p++;
    if (*j->p == '0')
        j->p++;
    else
        json_walk_digits(j);
    if (j->fault == NULL && *j->p == '.') {
        j->p++;
        json_walk_digits(j);
    }
    if (j->fault == NULL && (*j->p == 'e' || *j->p == 'E')) {
        j->p++;
        if (*j->p == '+' || *j->p == '-') j->p++;
        json_walk_digits(j);
    }
}

static void json_walk_scalar(json *j)
{
    static const char *const words[] = {"true", "false", "null"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const size_t n = strlen(words[i]);

        if (strncmp(j->p, words[i], n) != 0) continue;
        j->p += n;
        return;
    }
    if (*j->p == '"')
        json_walk_string(j);
    else
        json_walk_number(j);
}

/* ---- arrays and objects ---- */

/* Up to the value of the next member. */
static void json_walk_key(json *j)
{
    const char *key;
    size_t n;

    json_skip_space(j);
    key = j->p + 1;
    json_walk_string(j);
    if (j->fault != NULL) return;
    n = (size_t)(j->p - key) - 1;
    json_skip_space(j);
    if (*j->p != ':') {
        json_fail(j, "is not JSON");
        return;
    }
    j->p++;
    if (j->depth == 1 && j->wanted != NULL && strncmp(key, j->wanted, n) == 0 &&
        j->wanted[n] == '\0')
        j->value = j->p;
}

static bool json_closes(const json *j)
{
    return j->depth > 0 && *j->p == (j->object[j->depth - 1] ? '}' : ']');
}

/* A scalar, or the beginning of an array or object. True: a value follows. */
static bool json_open(json *j)
{
    json_skip_space(j);
    if (*j->p != '{' && *j->p != '[') {
        json_walk_scalar(j);
        return false;
    }
    if (j->depth == JSON_DEPTH_MAX) {
        json_fail(j, "is nested deeper than 1000 levels");
        return false;
    }
    j->object[j->depth++] = *j->p++ == '{';
    json_skip_space(j);
    if (json_closes(j)) return false;
    if (j->object[j->depth - 1]) json_walk_key(j);
    return true;
}

/* After a value. True: another one follows. */
static bool json_close(json *j)
{
    for (;;) {
        json_skip_space(j);
        if (!json_closes(j)) break;
        j->depth--;
        j->p++;
    }
    if (j->depth > 0 && *j->p == ',') {
        j->p++;
        if (j->object[j->depth - 1]) json_walk_key(j);
        return true;
    }
    if (j->depth > 0 || *j->p != '\0') json_fail(j, "is not JSON");
    return false;
}

static void json_begin(json *j, const char *text, const char *wanted)
{
    j->p = text;
    j->fault = j->value = NULL;
    j->wanted = wanted;
    j->depth = 0;
}

static void json_walk(json *j)
{
    bool more = true;

    while (more && j->fault == NULL) {
        more = json_open(j);
        if (!more && j->fault == NULL) more = json_close(j);
    }
}

const char *pgw__json_fault(const char *text, size_t max, size_t *at)
{
    const char *fault = pgw__text_fault(text, max);
    json j;

    *at = fault != NULL && text != NULL ? pgw__utf8_span(text, strnlen(text, max)) : 0;
    if (fault != NULL) return fault;
    json_begin(&j, text, NULL);
    json_skip_space(&j);
    if (*j.p == '\0') return "is empty";
    json_walk(&j);
    *at = (size_t)(j.p - text);
    return j.fault;
}

bool pgw__json_int(const char *object, const char *name, int64_t *value)
{
    char digits[20];
    size_t n;
    json j;

    json_begin(&j, object, name);
    json_walk(&j);
    if (j.fault != NULL || j.value == NULL) return false;
    j.p = j.value;
    json_skip_space(&j);
    n = strspn(j.p, JSON_DIGITS);
    *value = -1;
    if (n == 0 || n >= sizeof(digits)) return true;
    memcpy(digits, j.p, n);
    digits[n] = '\0';
    if (!pgw__int_parse(value, digits)) *value = -1;
    return true;
}
