/* pq_dsn: reports faults of a connection string without showing any part of a password. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/name.h"
#include "pq/pq_int.h"

#define DSN_BOM      "\xef\xbb\xbf"
#define DSN_SCHEME   "://"
#define DSN_PASSWORD "password" /* sslpassword, too */
#define DSN_BLANKS   " \t\r\n"

static const char *dsn_authority(const char *dsn)
{
    const bool uri = strncmp(dsn, "postgres://", 11) == 0 || strncmp(dsn, "postgresql://", 13) == 0;

    return uri ? strstr(dsn, DSN_SCHEME) + sizeof(DSN_SCHEME) - 1 : NULL;
}

/* A raw "@", "/" or ":" in the password of a URI: libpq takes the rest of the password for host,
 * port or database. */
bool pgw__dsn_is_split(const char *dsn)
{
    const char *user = dsn_authority(dsn), *colon, *first, *last;
    size_t n;

    if (user == NULL) return false;
    n = strcspn(user, "?");
    colon = memchr(user, ':', n);
    first = memchr(user, '@', n);
    if (colon == NULL || first == NULL || colon > first) return false;
    for (last = user + n - 1; *last != '@'; last--) {
    }
    return first != last || memchr(colon, '/', (size_t)(first - colon)) != NULL;
}

/* Where the password is, including what may be a part of it. In a URI: from the first ":" to the
 * last "@". Otherwise: to the closing quote, or without quotes to the end. */
static bool dsn_secret(const char *dsn, const char **from, const char **to)
{
    const char *user = dsn_authority(dsn);
    const char *at = user != NULL ? strrchr(user, '@') : NULL;

    if (at != NULL && memchr(user, ':', (size_t)(at - user)) != NULL) {
        *from = strchr(user, ':') + 1;
        *to = at;
        return true;
    }
    *from = strstr(dsn, DSN_PASSWORD);
    if (*from == NULL) return false;
    *from += sizeof(DSN_PASSWORD) - 1;
    *from += strspn(*from, DSN_BLANKS "=");
    *to = *from + strlen(*from);
    if (**from != '\'') return true;
    for (const char *p = *from + 1; *p != '\0' && *to != p; p++) {
        if (*p == '\\' && p[1] != '\0')
            p++;
        else if (*p == '\'')
            *to = p;
    }
    return true;
}

/* Whether the piece that libpq quotes may be part of a password. Outside a URI only keywords
 * cannot be. A piece that is not in the string was decoded, perhaps from within the password. */
static bool dsn_is_secret(const char *dsn, const char *piece, size_t n)
{
    const char *from = "", *to = from;
    const bool has_secret = dsn_secret(dsn, &from, &to), uri = dsn_authority(dsn) != NULL;
    bool found = false;

    if (n <= 1 || (uri && !has_secret)) return false;
    for (const char *p = dsn; strlen(p) >= n; p++) {
        if (memcmp(p, piece, n) != 0) continue;
        if (has_secret && p < to && p + n > from) return true;
        if (!uri && p[n + strspn(p + n, DSN_BLANKS)] != '=') return true;
        found = true;
    }
    return !found;
}

/* libpq's reason with "..." in place of what may be secret. True: something was hidden. */
static bool dsn_redact(char *to, size_t size, const char *reason, const char *dsn)
{
    bool hidden = false;
    size_t n = 0;

    for (const char *p = reason; *p != '\0' && n + 8 < size; p++) {
        const char *end = *p == '"' ? strchr(p + 1, '"') : NULL;

        if (*p == '\n') continue;
        to[n++] = *p;
        if (end == NULL) continue;
        if (strncmp(end + 1, "\" ", 2) == 0) continue; /* a quotation mark in quotes */
        if (dsn_is_secret(dsn, p + 1, (size_t)(end - p - 1))) {
            memcpy(to + n, "...", 3);
            n += 3;
            hidden = true;
        } else {
            for (p++; p < end && n + 8 < size; p++) to[n++] = *p;
        }
        to[n++] = '"';
        p = end;
    }
    to[n] = '\0';
    return hidden;
}

static pgw_status dsn_refuse(pgw__fault *f, const char *shown, bool from_conf, const char *how)
{
    char text[sizeof(f->message)], hint[sizeof(f->hint)];

    snprintf(text, sizeof(text), "cannot parse the connection string: %s", shown);
    snprintf(hint, sizeof(hint), "correct %s: %s",
             from_conf ? "`dsn`" : "the variable " PGW__DSN_VARIABLE, how);
    return pgw__fault_set(f, PGW_EINVAL, text, hint);
}

static pgw_status dsn_explain(pgw__fault *f, const char *dsn, const char *reason, bool from_conf)
{
    char shown[sizeof(f->message)], how[200];

    if (dsn_redact(shown, sizeof(shown), reason, dsn))
        return dsn_refuse(f, shown, from_conf,
                          "the hidden part may contain the password; put a password into "
                          "quotes, or better into a password file (PGPASSFILE)");
    snprintf(how, sizeof(how),
             "valid keywords are those of libpq %d.%d, such as host, port, dbname, user, service, "
             "sslmode",
             PQlibVersion() / 10000, PQlibVersion() % 10000);
    return dsn_refuse(f, shown, from_conf, how);
}

pgw_status pgw__dsn_check(pgw__fault *f, const char *dsn, bool from_conf)
{
    char *error = NULL;
    PQconninfoOption *options;
    pgw_status st = PGW_OK;

    if (strncmp(dsn, DSN_BOM, sizeof(DSN_BOM) - 1) == 0)
        return dsn_refuse(f, "it begins with a byte order mark (U+FEFF)", from_conf,
                          "save the file without it");
    options = PQconninfoParse(dsn, &error);
    if (options == NULL && error == NULL)
        st = pgw__fault_set(f, PGW_ENOMEM, NULL, NULL);
    else if (options == NULL)
        st = dsn_explain(f, dsn, error, from_conf);
    PQconninfoFree(options);
    PQfreemem(error);
    return st;
}

/* A database "name" may be another connection string. */
static bool dsn_is_plain(const char *value)
{
    return value != NULL && value[0] != '\0' && strpbrk(value, "=" DSN_BLANKS) == NULL &&
           strstr(value, DSN_SCHEME) == NULL;
}

void pgw__pq_server(const pgw_conf *conf, char *to, size_t size)
{
    static const char *const shown[] = {"service", "host", "hostaddr", "port", "dbname"};
    const char *dsn = pgw__conf_text(conf, "dsn");
    PQconninfoOption *options;
    size_t n = 0;

    to[0] = '\0';
    if (dsn[0] == '\0') dsn = getenv(PGW__DSN_VARIABLE);
    options = dsn != NULL && !pgw__dsn_is_split(dsn) ? PQconninfoParse(dsn, NULL) : NULL;
    for (size_t k = 0; options != NULL && k < sizeof(shown) / sizeof(shown[0]); k++)
        for (const PQconninfoOption *o = options; o->keyword != NULL && n < size; o++)
            if (strcmp(o->keyword, shown[k]) == 0 && dsn_is_plain(o->val))
                n += (size_t)snprintf(to + n, size - n, "%s%s=%s", n > 0 ? " " : "", shown[k],
                                      o->val);
    PQconninfoFree(options);
}
