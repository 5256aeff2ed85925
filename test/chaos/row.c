/* SPDX-License-Identifier: PostgreSQL
 *
 * row.c: reads what test_decoding prints: name[type]:value, with texts and the like in quotes.
 */
#include "row.h"
#include "hist.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t time_read(const char *text)
{
    struct tm tm = {0};
    double s = 0;
    if (sscanf(text, "%d-%d-%d%*c%d:%d:%lf", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &s) != 6)
        return 0;
    tm.tm_year -= 1900, tm.tm_mon -= 1;
    return (int64_t)timegm(&tm) * 1000000 + (int64_t)(s * 1e6 + 0.5);
}

static int numbers(int64_t *into, const char *text)
{
    int n = 0;
    for (const char *at = text + 1; *at && *at != '}' && n < ROW_JOBS; n++) {
        char *end;
        into[n] = strtoll(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    return n;
}

static int64_t made(const char *kind)
{
    int proc, n;
    return sscanf(kind, "%d.%d", &proc, &n) == 2 ? MADE(proc, n) : 0;
}

static int kinds(int64_t *into, const char *text)
{
    int n = 0;
    for (const char *at = text + 1; n < ROW_JOBS; n++) {
        into[n] = made(*at == '"' ? at + 1 : at);
        at = strchr(at, ',');
        if (!at++) return n + 1;
    }
    return n;
}

static void token(row *r, const char *text)
{
    char hex[33];
    int n = 0;
    for (; *text && n < 32; text++)
        if (*text != '-') hex[n++] = *text;
    hex[n] = '\0';
    r->nonce = strtoull(hex + 16, NULL, 16);
    hex[16] = '\0';
    r->number = strtoull(hex, NULL, 16);
}

/* (n,per_ms,burst) */
static void pace(int64_t into[3], const char *text)
{
    char *at;
    into[0] = strtoll(text + 1, &at, 10);
    into[1] = strtoll(at + 1, &at, 10);
    into[2] = strtoll(at + 1, &at, 10);
    if (into[0] == 0) into[0] = -1;
}

static void column(row *r, const char *name, const char *v)
{
    static const struct {
        const char *name;
        size_t at;
    } integers[] = {
        {"queue", offsetof(row, queue)},
        {"lane", offsetof(row, lane)},
        {"pos", offsetof(row, pos)},
        {"attempt", offsetof(row, attempt)},
        {"id", offsetof(row, id)},
        {"max_attempts", offsetof(row, max_attempts)},
        {"priority", offsetof(row, lane)},
        {"group_limit", offsetof(row, group_limit)},
        {"queue_limit", offsetof(row, queue_limit)},
    };
    const char *tag;

    if (strcmp(v, "unchanged-toast-datum") == 0) return;
    const int null = strcmp(v, "null") == 0;
    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++)
        if (strcmp(name, integers[i].name) == 0)
            *(int64_t *)(void *)((char *)r + integers[i].at) = null ? 0 : strtoll(v, NULL, 10);
    if (strcmp(name, "token") == 0) {
        r->number = r->nonce = 0;
        if (!null) token(r, v);
    } else if (strcmp(name, "lease_until") == 0 || strcmp(name, "run_at") == 0) {
        r->at_us = null ? 0 : time_read(v);
    } else if (strcmp(name, "kind") == 0) {
        snprintf(r->kind, sizeof(r->kind), "%.79s", null ? "" : v);
    } else if (strcmp(name, "name") == 0) {
        snprintf(r->name, sizeof(r->name), "%.79s", v);
    } else if (strcmp(name, "holder") == 0) {
        r->runtime = strncmp(v, "runtime", 7) == 0;
    } else if (strcmp(name, "key") == 0) {
        r->key = null || v[0] != 'k' ? 0 : strtoll(v + 1, NULL, 10);
    } else if (strcmp(name, "tags") == 0 && (tag = strstr(v, "slot=")) != NULL) {
        r->slot = time_read(tag + 5);
    } else if (strcmp(name, "grp") == 0) {
        r->grp = null || v[0] != 'g' ? 0 : strtoll(v + 1, NULL, 10) + 1;
    } else if (strcmp(name, "gate") == 0) {
        r->gated = null ? 0 : v[0] ? 1 : 2;
    } else if (strcmp(name, "group_retry") == 0) {
        r->policy = null ? 0 : v[0] == 'h' ? POLICY_HOLD : v[0] == 'p' ? POLICY_PASS : POLICY_BLOCK;
    } else if (strcmp(name, "held_until") == 0) {
        r->held = null ? 0 : v[0] == 'i' ? 1 : 2;
    } else if (strcmp(name, "rate") == 0 || strcmp(name, "group_rate") == 0) {
        int64_t *into = name[0] == 'r' ? r->rate : r->group_rate;
        if (null)
            memset(into, 0, sizeof(r->rate));
        else
            pace(into, v);
    } else if (strcmp(name, "meta") == 0 && (tag = strstr(v, "rate_weight\": ")) != NULL) {
        r->weight = strtoll(tag + 14, NULL, 10);
    } else if (strcmp(name, "ids") == 0) {
        r->jobs = null ? 0 : numbers(r->ids, v);
    } else if (strcmp(name, "kinds") == 0) {
        r->kinds = null ? 0 : kinds(r->made, v);
    } else if (strcmp(name, "gone_ids") == 0) {
        r->gones = null ? 0 : numbers(r->gone, v);
    }
}

const char *row_read(row *r, const char *text)
{
    static char value[65536];
    char name[64];

    while (*text == ' ') text++;
    while (*text && strncmp(text, "new-tuple:", 10) != 0) {
        size_t n = strcspn(text, "[");
        if (n >= sizeof(name) || !text[n]) break;
        memcpy(name, text, n);
        name[n] = '\0';
        int depth = 0;
        for (text += n; *text; text++) {
            depth += (*text == '[') - (*text == ']');
            if (depth == 0) break;
        }
        text += text[0] && text[1] == ':' ? 2 : 0;
        n = 0;
        if (*text == '\'') {
            for (text++; *text && !(text[0] == '\'' && text[1] != '\''); text++) {
                if (text[0] == '\'') text++;
                if (n < sizeof(value) - 1) value[n++] = *text;
            }
            text += *text != 0;
        } else {
            while (*text && *text != ' ' && n < sizeof(value) - 1) value[n++] = *text++;
        }
        value[n] = '\0';
        column(r, name, value);
        while (*text == ' ') text++;
    }
    return text;
}
