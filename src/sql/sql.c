/* sql: the registry of statements and migrations. */
#include "sql/sql.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

/* One element more than there is, because C has no empty arrays. */
static const struct sql_entry {
    const char *name, *text;
} sql_statements[] = {
#define PGW__SQL(ID, NAME, TEXT) [PGW__SQL_##ID] = {NAME, TEXT},
#include "sql_data.inc"
    [PGW__SQL_COUNT] = {NULL, NULL}};

static const struct sql_entry sql_migration_files[] = {
    {NULL, NULL},
#define PGW__MIGRATION(NUMBER, FILE, TEXT) [NUMBER] = {FILE, TEXT},
#include "sql_data.inc"
};

const char *pgw__sql_name(pgw__sql id)
{
    assert((size_t)id + 1 < sizeof(sql_statements) / sizeof(sql_statements[0]));
    return sql_statements[id].name;
}

const char *pgw__sql_text(pgw__sql id)
{
    assert((size_t)id + 1 < sizeof(sql_statements) / sizeof(sql_statements[0]));
    return sql_statements[id].text;
}

int pgw__sql_migrations(void)
{
    return (int)(sizeof(sql_migration_files) / sizeof(sql_migration_files[0])) - 1;
}

const char *pgw__sql_migration_name(int number)
{
    if (number < 1 || number > pgw__sql_migrations()) return NULL;
    return sql_migration_files[number].name;
}

const char *pgw__sql_migration_text(int number)
{
    if (number < 1 || number > pgw__sql_migrations()) return NULL;
    return sql_migration_files[number].text;
}

/* FNV-1a */
void pgw__sql_checksum(char sum[PGW__SQL_SUM], int number)
{
    const char *text = pgw__sql_migration_text(number);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; text != NULL && *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    snprintf(sum, PGW__SQL_SUM, "%016" PRIx64, hash);
}

int pgw__sql_differs(const char *applied)
{
    char sum[PGW__SQL_SUM];

    for (int number = 1; *applied != '\0' && number <= pgw__sql_migrations(); number++) {
        const size_t n = strcspn(applied, ",");

        pgw__sql_checksum(sum, number);
        if (n != PGW__SQL_SUM - 1 || memcmp(applied, sum, n) != 0) return number;
        applied += n + (applied[n] == ',');
    }
    return 0;
}

/* What an identifier can go on with; bytes beyond ASCII are letters to PostgreSQL. */
static bool sql_is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || (unsigned char)c >= 0x80;
}

/* Can a new identifier begin here: is it not part of a longer word, quoted or qualified name? */
static bool sql_begins_word(const char *text, const char *at)
{
    return at == text || (!sql_is_word(at[-1]) && at[-1] != '.' && at[-1] != '"');
}

static bool sql_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Whether the word SCHEMA, in any case, comes before `at`. */
static bool sql_after_schema(const char *text, const char *at)
{
    static const char word[] = "schema";
    size_t size = sizeof(word) - 1;
    const char *end = at;

    while (end > text && sql_is_space(end[-1])) end--;
    if (end == at || (size_t)(end - text) < size) return false;
    for (size_t i = 0; i < size; i++)
        if ((end[(ptrdiff_t)i - (ptrdiff_t)size] | 0x20) != word[i]) return false;
    return sql_begins_word(text, end - size);
}

char *pgw__sql_in_schema(const char *text, const char *schema)
{
    static const char literal[] = "pgwork";
    size_t size = sizeof(literal) - 1;
    const char *from = text, *hit = text;
    pgw__buf out;

    pgw__buf_init(&out, SIZE_MAX);
    while ((hit = strstr(hit, literal)) != NULL) {
        const char *after = hit + size;

        if (sql_begins_word(text, hit) &&
            (*after == '.' || (!sql_is_word(*after) && sql_after_schema(text, hit)))) {
            pgw__buf_bytes(&out, from, (size_t)(hit - from));
            pgw__buf_text(&out, schema);
            from = after;
        }
        hit = after;
    }
    pgw__buf_text(&out, from);
    if (out.failed != 0) {
        pgw__buf_free(&out);
        return NULL;
    }
    return out.data != NULL ? out.data : pgw__mem_dup("");
}
