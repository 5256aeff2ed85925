/* fuzz_conf: any lines of name=value, set one after the other. Whatever is refused leaves the
 * property as it was and tells why in printable words; whatever is accepted is accepted again in
 * the spelling that it is stored in. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)           \
    do {                           \
        if (!(condition)) abort(); \
    } while (0)

static void check_error(const char *error)
{
    CHECK(error[0] != '\0' && strlen(error) < 399);
    for (; *error != '\0'; error++) CHECK(*error >= ' ' && *error <= '~');
}

static void set(pgw_conf *conf, const char *name, const char *value)
{
    const char *now = pgw_conf_get(conf, name);
    char *before = now != NULL ? strdup(now) : NULL, *stored;
    pgw_status st = pgw_conf_set(conf, name, value);

    CHECK(st == PGW_OK || st == PGW_EINVAL || st == PGW_ENOTFOUND);
    CHECK((st == PGW_ENOTFOUND) == (before == NULL));
    now = pgw_conf_get(conf, name);
    if (st == PGW_OK) {
        CHECK(pgw_conf_error(conf)[0] == '\0');
        stored = strdup(now);
        CHECK(stored != NULL && pgw_conf_set(conf, name, stored) == PGW_OK);
        CHECK(strcmp(pgw_conf_get(conf, name), stored) == 0);
        free(stored);
    } else {
        check_error(pgw_conf_error(conf));
        if (before != NULL) CHECK(strcmp(now, before) == 0);
    }
    free(before);
}

static int visit(const pgw_property *p, void *arg)
{
    (void)arg;
    if (strcmp(p->type, "int") == 0)
        (void)pgw__conf_int(arg, p->name);
    else if (strcmp(p->type, "bool") == 0)
        (void)pgw__conf_bool(arg, p->name);
    else
        (void)pgw__conf_text(arg, p->name);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *line, *end, *value;
    pgw_conf *conf, *copy;

    CHECK(text != NULL && pgw_conf_new(&conf) == PGW_OK);
    if (size > 0) memcpy(text, data, size);
    text[size] = '\0';
    for (line = text; line != NULL; line = end) {
        end = strchr(line, '\n');
        if (end != NULL) *end++ = '\0';
        value = strchr(line, '=');
        if (value != NULL) *value++ = '\0';
        set(conf, line, value != NULL ? value : "");
    }
    copy = pgw__conf_copy(conf);
    CHECK(copy != NULL && pgw_conf_each(copy, visit, copy) == 0);
    pgw_conf_free(copy);
    pgw_conf_free(conf);
    free(text);
    return 0;
}
