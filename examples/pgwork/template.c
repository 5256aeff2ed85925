/* SPDX-License-Identifier: PostgreSQL */
#include "template.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"

/* The length of the name of a placeholder at @p brace; 0: there is none. */
static size_t template_name(const char *brace)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789-";
    size_t dot = brace[1] == '.', n = strspn(brace + 1 + dot, letters);
    return n > 0 && brace[1 + dot + n] == '}' ? dot + n : 0;
}

bool template_has_place(const char *word)
{
    for (const char *at = strchr(word, '{'); at; at = strchr(at + 1, '{')) {
        if (template_name(at)) return true;
    }
    return false;
}

static bool template_of_job(buf *t, const char *name, size_t n, const pgw_job *job)
{
    char digits[24];
    if (n == 2 && !memcmp(name, "id", 2)) {
        snprintf(digits, sizeof digits, "%" PRId64, pgw_job_id(job));
        buf_puts(t, digits);
    } else if (n == 7 && !memcmp(name, "attempt", 7)) {
        snprintf(digits, sizeof digits, "%d", pgw_job_attempt(job));
        buf_puts(t, digits);
    } else if (n == 5 && !memcmp(name, "queue", 5)) {
        buf_puts(t, pgw_job_queue(job));
    } else if (n == 4 && !memcmp(name, "kind", 4)) {
        buf_puts(t, pgw_job_kind(job));
    } else {
        return false;
    }
    return true;
}

/* Fills one word. @p unread: the reason if the payload could not be read. */
static bool template_word(buf *t, const char *word, const pgw_job *job, const json *payload,
                          const char *unread, char *why, size_t why_size)
{
    buf_add(t, "", 0);
    while (*word) {
        size_t plain = strcspn(word, "{");
        buf_add(t, word, plain);
        word += plain;
        if (!*word) break;
        size_t n = word[1] == '{' ? template_name(word + 1) : 0;
        if (n && word[n + 3] == '}') { /* doubled braces */
            buf_add(t, word + 1, n + 2);
            word += n + 4;
            continue;
        }
        n = template_name(word);
        if (n == 0) {
            buf_add(t, word++, 1);
            continue;
        }
        const char *name = word + 1;
        word += n + 2;
        if (template_of_job(t, name, n, job)) continue;
        if (*name == '.') name++, n--;
        json v;
        if (*unread) {
            snprintf(why, why_size, "cannot replace {%.*s}: the payload is %s", (int)n, name,
                     unread);
            return false;
        }
        if (!payload || !json_member(payload, name, n, &v)) {
            snprintf(why, why_size, "the payload has no member \"%.*s\"", (int)n, name);
            return false;
        }
        if (v.kind != JSON_NULL) json_add_text(t, &v);
    }
    return true;
}

char **template_fill(char *const *words, const pgw_job *job, bool *ours, char *why, size_t why_size)
{
    const char *source = pgw_job_payload(job);
    char no[JSON_WHY] = "";
    json payload;
    size_t count = 0;
    bool parsed = source && json_read(&payload, source, strlen(source), no);
    *ours = source && !parsed;
    while (words[count]) count++;
    char **filled = cli_alloc((count + 1) * sizeof *filled);
    for (size_t i = 0; i < count; i++) {
        buf t = {0};
        bool good = template_word(&t, words[i], job, parsed ? &payload : NULL, *ours ? no : "", why,
                                  why_size);
        filled[i] = t.at;
        if (good) continue;
        template_free(filled);
        return NULL;
    }
    return filled;
}

void template_free(char **words)
{
    for (size_t i = 0; words && words[i]; i++) free(words[i]);
    free(words);
}
