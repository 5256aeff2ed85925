/* SPDX-License-Identifier: PostgreSQL
 *
 * kinds: see kinds.h.
 */
#include "kinds.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

#define KINDS_BLANKS " \t\n"

static char *kinds_keep(const char *text, size_t n)
{
    char *kept = cli_alloc(n + 1);
    memcpy(kept, text, n);
    kept[n] = '\0';
    return kept;
}

/* Splits a command at blanks, without quotes. The caller frees the first word and the array. */
static char **kinds_split(const char *text)
{
    size_t n = 0;
    char **words = cli_alloc((strlen(text) / 2 + 2) * sizeof *words), *end = NULL;
    char *all = kinds_keep(text, strlen(text));
    for (char *word = strtok_r(all, KINDS_BLANKS, &end); word;
         word = strtok_r(NULL, KINDS_BLANKS, &end)) {
        if (n == 0) memmove(all, word, strlen(word) + 1);
        words[n] = n == 0 ? all : word;
        n++;
    }
    words[n] = NULL;
    if (n == 0) {
        free(all);
        free(words);
        return NULL;
    }
    return words;
}

static kind *kinds_find(kinds *k, const char *name, size_t n)
{
    for (size_t i = 0; i < k->count; i++) {
        if (strlen(k->at[i].name) == n && memcmp(k->at[i].name, name, n) == 0) return &k->at[i];
    }
    kind *one = &k->at[k->count++];
    *one = (kind){kinds_keep(name, n), NULL, PGW_KIND_OPTS_INIT};
    return one;
}

static bool kinds_command(kind *one, const char *value)
{
    if (one->command) return false;
    one->command = kinds_split(value);
    return one->command != NULL;
}

static bool kinds_jobs(kind *one, const char *value)
{
    int64_t n;
    if (!text_to_int(&n, value) || n < 1 || n > 1024) return false;
    one->opts.concurrency = (int)n;
    return true;
}

static bool kinds_timeout(kind *one, const char *value)
{
    int64_t ms;
    if (!text_to_ms(&ms, value) || ms < 0 || ms > 30 * CLI_DAY) return false;
    one->opts.timeout_ms = ms > 0 ? ms : PGW_UNLIMITED;
    return true;
}

static int kinds_take(const cli *c, kinds *k, const wordlist *words, const char *name,
                      bool (*set)(kind *, const char *), const char *allowed)
{
    for (size_t i = 0; i < words->count; i++) {
        const char *word = words->at[i], *is = strchr(word, '=');
        if (is && set(kinds_find(k, word, (size_t)(is - word)), is + 1)) continue;
        return cli_fail(CLI_USAGE, NULL, "%s: --%s is \"%s\": expected %s", c->command, name, word,
                        allowed);
    }
    return CLI_DONE;
}

int kinds_read(const cli *c, kinds *k, const wordlist *commands, const wordlist *jobs,
               const wordlist *timeouts)
{
    int code;
    k->count = 0;
    k->at = cli_alloc((commands->count + jobs->count + timeouts->count + 1) * sizeof *k->at);
    code = kinds_take(c, k, commands, "kind", kinds_command, "KIND=COMMAND, each KIND once");
    if (code != CLI_DONE) return code;
    code = kinds_take(c, k, jobs, "kind-jobs", kinds_jobs, "KIND=N, with N from 1 to 1024");
    if (code != CLI_DONE) return code;
    return kinds_take(c, k, timeouts, "kind-timeout", kinds_timeout,
                      "KIND=TIME, with TIME from 0 to 30d");
}

void kinds_free(kinds *k)
{
    for (size_t i = 0; i < k->count; i++) {
        free(k->at[i].name);
        if (k->at[i].command) free(k->at[i].command[0]);
        free(k->at[i].command);
    }
    free(k->at);
}
