/* SPDX-License-Identifier: PostgreSQL
 *
 * auth: which requests are answered, and which POST may act. What a user may do in the database is
 * decided there, by the role that we connect as.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "ui.h"

#define AUTH_FILE_MAX  65536
#define AUTH_TOKEN_MIN 16

/* -- the token file ------------------------------------------------------------------------- */

/* The next line of @p text, as name and token; false: there is none. Both are terminated in place.
 */
static bool auth_next(char **text, const char **name, const char **token)
{
    while (**text) {
        char *line = *text;
        size_t n = strcspn(line, "\n");
        *text += n + (line[n] == '\n');
        line[n] = '\0';
        line += strspn(line, " \t");
        if (*line == '\0' || *line == '#') continue;
        size_t size = strcspn(line, " \t");
        *name = line;
        *token = line + size + strspn(line + size, " \t");
        line[size] = '\0';
        size = strcspn(*token, " \t\r");
        ((char *)(uintptr_t)*token)[size] = '\0';
        return true;
    }
    return false;
}

static int auth_read(ui *u)
{
    char chunk[4096];
    struct stat st;
    size_t n;
    FILE *f = fopen(u->token_file, "r");
    if (!f) return cli_fail(CLI_USAGE, NULL, "cannot open %s: %s", u->token_file, strerror(errno));
    bool open_to_all = fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0 && u->credentials.size < AUTH_FILE_MAX)
        buf_add(&u->credentials, chunk, n);
    int failed = ferror(f) ? errno : 0;
    fclose(f);
    if (failed)
        return cli_fail(CLI_USAGE, NULL, "cannot read %s: %s", u->token_file, strerror(failed));
    if (open_to_all)
        return cli_fail(CLI_USAGE, "chmod 600", "other users can read %s", u->token_file);
    return CLI_DONE;
}

static int auth_check_file(ui *u)
{
    const char *name, *token;
    int code = auth_read(u), count = 0;
    if (code != CLI_DONE) return code;
    buf copy = {0};
    buf_puts(&copy, u->credentials.at ? u->credentials.at : "");
    for (char *at = copy.at; code == CLI_DONE && auth_next(&at, &name, &token); count++) {
        if (strlen(token) >= AUTH_TOKEN_MIN && strlen(name) < sizeof(((req *)0)->user) &&
            !strchr(name, ':'))
            continue;
        code = cli_fail(CLI_USAGE, "make one with: openssl rand -hex 20",
                        "%s: line %d is not \"NAME TOKEN\": a token has %d characters at least, a "
                        "name no colon",
                        u->token_file, count + 1, AUTH_TOKEN_MIN);
    }
    if (code == CLI_DONE && count == 0)
        code = cli_fail(CLI_USAGE, NULL, "%s names nobody", u->token_file);
    buf_free(&copy);
    return code;
}

int auth_prepare(ui *u)
{
    if (u->token_file && u->proxy_header) {
        return cli_fail(CLI_USAGE, NULL, "ui: --token-file and --proxy-header exclude each other");
    }
    if (!u->loopback && !u->unix_socket && !u->token_file && !u->proxy_header) {
        return cli_fail(CLI_USAGE,
                        "name the users in a --token-file, or the header of a proxy that knows "
                        "them: --proxy-header",
                        "ui: --listen \"%s\" is not an address of this machine only, and nothing "
                        "says who may ask",
                        u->listen);
    }
    return u->token_file ? auth_check_file(u) : CLI_DONE;
}

/* -- who asks ------------------------------------------------------------------------------- */

static void auth_base64(buf *b, const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i += 3) {
        unsigned word = 0;
        char four[4];
        for (size_t k = 0; k < 3; k++)
            word = word << 8 | (i + k < n ? (unsigned char)text[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            four[k] = i + k > n ? '=' : digits[word >> (18 - 6 * k) & 63];
        buf_add(b, four, 4);
    }
}

/* In a time that does not depend on where they differ. */
static bool auth_same(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned char differ = n != m;
    for (size_t i = 0; i < n && m > 0; i++) differ |= (unsigned char)(a[i] ^ b[i % m]);
    return !differ;
}

/* Does @p authorization, "Basic ..." or "Bearer ...", name a line of the token file? Then r->user
 * has its name. */
static bool auth_known(req *r, const char *authorization)
{
    const char *name, *token;
    bool known = false;
    buf copy = {0};
    buf_puts(&copy, r->u->credentials.at);
    for (char *at = copy.at; auth_next(&at, &name, &token);) {
        buf both = {0}, basic = {0}, bearer = {0};
        buf_puts(&both, name);
        buf_puts(&both, ":");
        buf_puts(&both, token);
        buf_puts(&basic, "Basic ");
        auth_base64(&basic, both.at);
        buf_puts(&bearer, "Bearer ");
        buf_puts(&bearer, token);
        const bool is_basic = auth_same(authorization, basic.at);
        const bool is_bearer = auth_same(authorization, bearer.at); /* it always takes as long */
        if (is_basic || is_bearer) {
            snprintf(r->user, sizeof r->user, "%s", name);
            known = true;
        }
        buf_free(&both), buf_free(&basic), buf_free(&bearer);
    }
    buf_free(&copy);
    return known;
}

/* The host of "HOST:PORT", also of "[::1]:PORT". */
static size_t auth_host(const char *host)
{
    return *host == '[' ? strcspn(host, "]") + (strchr(host, ']') != NULL) : strcspn(host, ":");
}

/* A name that a page elsewhere can point at us, by DNS, is not ours. */
static bool auth_is_local(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; host && i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (auth_host(host) == n && strncasecmp(host, names[i], n) == 0) return true;
    }
    return false;
}

static bool auth_refuse(req *r, int status, const char *text)
{
    page_message(r, status, status == 401 ? "Who are you?" : "Refused", text);
    return false;
}

bool auth_admit(req *r, const headers *h)
{
    const ui *u = r->u;
    if (u->token_file) {
        if (h->authorization && auth_known(r, h->authorization)) return true;
        return auth_refuse(r, 401, "This dashboard asks for a name and a token.");
    }
    if (u->proxy_header) {
        const char *user = h->proxy_user;
        size_t n = user ? strlen(user) : 0;
        if (n == 0 || n >= sizeof r->user)
            return auth_refuse(r, 403, "The proxy in front of this dashboard did not name a user.");
        memcpy(r->user, user, n + 1);
        return true;
    }
    if (!u->unix_socket && !auth_is_local(h->host)) {
        return auth_refuse(
            r, 403, "Without a token file or a proxy this dashboard answers to localhost only.");
    }
    snprintf(r->user, sizeof r->user, "local");
    return true;
}

/* -- which POST may act --------------------------------------------------------------------- */

bool auth_allows_post(req *r, const headers *h)
{
    const char *origin = h->origin ? strstr(h->origin, "://") : NULL, *token = req_form(r, "token");
    if (h->fetch_site && strcmp(h->fetch_site, "same-origin") != 0)
        return auth_refuse(r, 403, "The form was sent by another site.");
    if (!h->fetch_site && !h->origin)
        return auth_refuse(r, 403, "The request does not say which page sent it.");
    if (h->origin && (!origin || !h->host || strcasecmp(origin + 3, h->host) != 0)) {
        return auth_refuse(
            r, 403,
            "The form was sent by another site. A proxy in front has to pass on the header Host.");
    }
    if (!token || !auth_same(token, r->u->token))
        return auth_refuse(r, 403, "The page is too old. Load it again, then repeat the action.");
    return true;
}
