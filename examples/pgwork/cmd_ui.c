/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork ui: starts pgwork-ui, the dashboard, which is a program of its own: it needs a library for
 * HTTP, and pgwork needs none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static void ui_add(wordlist *words, const char *option, const char *value)
{
    if (!value) return;
    wordlist_add(words, option);
    wordlist_add(words, value);
}

/* The one beside us, else the first of PATH. Returns only when there is none. */
static void ui_exec(char **argv)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 16);
    if (n > 0) self[n] = '\0';
    char *slash = n > 0 ? strrchr(self, '/') : NULL;
    if (slash) {
        strcpy(slash, "/pgwork-ui");
        execv(self, argv);
    }
    execvp("pgwork-ui", argv);
}

int cmd_ui(cli *c, int argc, char **argv)
{
    wordlist words = {0};
    wordlist_add(&words, "pgwork-ui");
    ui_add(&words, "--dsn-file", c->dsn_file);
    ui_add(&words, "--schema", c->schema);
    for (size_t i = 0; i < c->settings.count; i++) ui_add(&words, "--set", c->settings.at[i]);
    if (c->quiet) wordlist_add(&words, "--quiet");
    for (int i = 0; i < c->verbose; i++) wordlist_add(&words, "--verbose");
    if (c->help) wordlist_add(&words, "--help");
    for (int i = 1; i < argc; i++) wordlist_add(&words, argv[i]);
    wordlist_add(&words, NULL);
    ui_exec((char **)(uintptr_t)words.at);
    int code =
        cli_fail(CLI_OTHER, "build it with libmicrohttpd-dev, or install the package that has it",
                 "cannot start pgwork-ui: %s", strerror(errno));
    free(words.at);
    return code;
}
