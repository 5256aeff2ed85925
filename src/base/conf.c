/* conf: the property table, and configurations made of it. */
#include "base/conf.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/name.h"

typedef enum conf_type { CONF_TEXT, CONF_INT, CONF_BOOL, CONF_ENUM } conf_type;

typedef const char *conf_fault_fn(const char *value, size_t max);

/* An int is min .. max, also 0 if zero_too, and `word` (if not NULL), which reads as -1. A text
 * has at most max bytes and must pass `fault`. An enum is one of the words in `allowed`. */
typedef struct conf_row {
    const char *name, *initial, *text;
    const char *word;
    const char *allowed; /* NULL: derived from the limits */
    conf_fault_fn *fault;
    int64_t min, max;
    conf_type type;
    bool zero_too, secret;
} conf_row;

#define CONF_SECOND INT64_C(1000)
#define CONF_HOUR   (3600 * CONF_SECOND)
#define CONF_DAY    (24 * CONF_HOUR)

static const char *conf_schema_fault(const char *value, size_t max)
{
    (void)max;
    return pgw__schema_fault(value);
}

/* Shown in lists and logs, so a name's rules hold; but it may be empty. */
static const char *conf_label_fault(const char *value, size_t max)
{
    return value[0] != '\0' ? pgw__name_fault(value, max) : NULL;
}

/* clang-format off */
#define INT_ROW(NAME, MIN, MAX, INITIAL, TEXT) \
    {.name = NAME, .type = CONF_INT, .initial = INITIAL, .min = MIN, .max = MAX, .text = TEXT}
#define INT_OR_0_ROW(NAME, MIN, MAX, INITIAL, TEXT) \
    {.name = NAME, .type = CONF_INT, .initial = INITIAL, .min = MIN, .max = MAX, .text = TEXT, \
     .zero_too = true}
#define INT_OR_WORD_ROW(NAME, WORD, MIN, MAX, INITIAL, TEXT) \
    {.name = NAME, .type = CONF_INT, .initial = INITIAL, .min = MIN, .max = MAX, .text = TEXT, \
     .word = WORD}
#define BOOL_ROW(NAME, INITIAL, TEXT) \
    {.name = NAME, .type = CONF_BOOL, .initial = INITIAL, .allowed = "on, off", .text = TEXT}
#define ENUM_ROW(NAME, WORDS, INITIAL, TEXT) \
    {.name = NAME, .type = CONF_ENUM, .initial = INITIAL, .allowed = WORDS, .text = TEXT}

static const conf_row conf_rows[] = {
    {.name = "dsn", .type = CONF_TEXT, .initial = "", .max = 8000, .secret = true,
     .fault = pgw__text_fault,
     .allowed = "a libpq connection string or URI in UTF-8, up to 8000 bytes",
     .text = "where the database is; empty: PGWORK_DSN, else libpq's PGHOST, PGSERVICE, ..."},
    {.name = "schema", .type = CONF_TEXT, .initial = "pgwork", .max = PGW__SCHEMA_NAME_MAX,
     .fault = conf_schema_fault,
     .allowed = "a-z, 0-9 and _, not beginning with a digit or pg_, up to 40 bytes",
     .text = "schema that holds the queues"},
    BOOL_ROW("schema.check", "on",
        "compare the schema's version and checksums with the library's at every connection"),
    {.name = "holder", .type = CONF_TEXT, .initial = "", .max = PGW__KEY_MAX,
     .fault = conf_label_fault,
     .allowed = "UTF-8 without control characters, up to 255 bytes",
     .text = "name of the holder of leases, for people; empty: host:pid"},
    {.name = "application_name", .type = CONF_TEXT, .initial = "pgwork", .max = 63,
     .fault = conf_label_fault,
     .allowed = "UTF-8 without control characters, up to 63 bytes",
     .text = "application_name of sessions, as in pg_stat_activity"},

    INT_ROW("connect.timeout_ms", 1, CONF_HOUR, "10000", "limit of an attempt to connect"),
    INT_ROW("call.timeout_ms", 1, CONF_DAY, "30000",
        "limit of a call, unless pgw_set_timeout() sets another"),
    INT_ROW("reconnect.base_ms", 1, CONF_HOUR, "50", "shortest wait before a reconnect"),
    INT_ROW("reconnect.cap_ms", 1, CONF_HOUR, "5000", "longest wait before a reconnect"),
    INT_ROW("keepalive.idle_s", 0, 32767, "1",
        "idle time before the first TCP keepalive, on both ends; 0: the system's"),
    INT_ROW("keepalive.interval_s", 0, 32767, "1", "time between TCP keepalives; 0: the system's"),
    INT_ROW("keepalive.count", 0, 127, "3",
        "lost keepalives that end a connection; 0: the system's"),
    INT_ROW("tcp.user_timeout_ms", 0, CONF_HOUR, "4000",
        "limit for unacknowledged data (TCP_USER_TIMEOUT); 0: the system's"),
    INT_ROW("session.check_interval_ms", 0, CONF_HOUR, "500",
        "how often the server checks its client (client_connection_check_interval); 0: never"),
    ENUM_ROW("prepare", "auto, never", "auto",
        "prepared statements; never: for poolers that cannot keep them"),
    ENUM_ROW("pooler", "auto, session", "auto",
        "how long a pooler keeps a server session for a client; auto: a transaction; session: a session"),
    ENUM_ROW("durability", "sync, relaxed", "sync",
        "relaxed: claim and extend do not wait for the disk, and a crash may undo them"),
    BOOL_ROW("notify", "on",
        "listen for new jobs; off: poll only"),

    INT_ROW("payload.max_bytes", 1, PGW__BYTES_MAX, "16777216", "largest payload, body and meta of a job"),
    INT_ROW("poll.min_ms", 1, CONF_HOUR, "5", "shortest wait of an idle worker"),
    INT_ROW("poll.max_ms", 1, CONF_HOUR, "500",
        "longest wait of an idle worker; bounds how late it sees a job without a notification"),

    INT_ROW("worker.concurrency", 0, 1024, "4",
        "handler threads; 0: one handler, in the thread that runs the worker"),
    INT_OR_WORD_ROW("worker.prefetch", "auto", 0, 10000, "auto",
        "prefetched jobs; auto: as many as handlers finish in 50 ms, up to 1000; 0: none"),
    INT_ROW("worker.batch", 1, 1000, "1", "jobs per call of a batch handler"),
    INT_OR_0_ROW("worker.lease_ms", 100, CONF_DAY, "0",
        "lease of claimed jobs; 0: that of the queue"),
    INT_ROW("worker.job_timeout_ms", 0, 30 * CONF_DAY, "0",
        "time after which a handler is asked to stop; 0: never"),
    INT_ROW("worker.flush_ms", 0, 10 * CONF_SECOND, "5",
        "longest time that a finished job waits to be reported in a batch"),
    INT_ROW("worker.flush_jobs", 1, 10000, "1000", "number of finished jobs that are reported at once"),
    INT_ROW("worker.stop_ms", 0, CONF_DAY, "10000",
        "how long to wait for handlers after the second request to stop"),
    BOOL_ROW("worker.fair", "off",
        "the queues of a worker take turns; off: the most urgent job comes first, then the oldest"),
    BOOL_ROW("worker.until_empty", "off", "end when nothing can be claimed"),
    INT_ROW("worker.max_jobs", 0, INT64_MAX, "0", "number of jobs after which the worker ends; 0: never"),

    INT_ROW("reaper.max_wait_ms", 10, 1000, "50",
        "longest wait between passes; bounds how late a delayed job starts"),
    INT_ROW("reaper.batch", 1, 100000, "1000", "jobs per transaction"),
};
/* clang-format on */

#define CONF_NUMBER_SIZE 21 /* "-9223372036854775808" */
#define CONF_LIMITS_SIZE 64
#define CONF_QUOTE_SIZE  81
#define CONF_COUNT       (sizeof(conf_rows) / sizeof(conf_rows[0]))

struct pgw_conf {
    char *values[CONF_COUNT]; /* NULL: the default */
    pgw__log log;
    char error[400];
};

static const conf_row *conf_find(const char *name)
{
    for (size_t i = 0; i < CONF_COUNT; i++)
        if (strcmp(conf_rows[i].name, name) == 0) return &conf_rows[i];
    return NULL;
}

static const char *conf_value(const pgw_conf *conf, const conf_row *row)
{
    size_t i = (size_t)(row - conf_rows);

    return conf != NULL && conf->values[i] != NULL ? conf->values[i] : row->initial;
}

/* ---- what a value may be ----------------------------------------------------------------------
 */

static bool conf_parse_bool(const char *text, bool *v)
{
    static const char words[][2][6] = {{"off", "on"}, {"false", "true"}, {"no", "yes"}, {"0", "1"}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        for (int is = 0; is < 2; is++) {
            if (strcmp(text, words[i][is]) != 0) continue;
            *v = is == 1;
            return true;
        }
    }
    return false;
}

/* Is value one of the words in "this, that"? */
static bool conf_is_word(const char *value, const char *words)
{
    for (const char *p = words;; p += 2) {
        size_t size = strcspn(p, ",");

        if (strlen(value) == size && memcmp(p, value, size) == 0) return true;
        p += size;
        if (*p == '\0') return false;
    }
}

/* What is wrong with value, or NULL and its canonical spelling in text (a number or a word fits).
 */
static const char *conf_fault(const conf_row *row, const char *value, const char **spelling,
                              char text[CONF_NUMBER_SIZE])
{
    int64_t number;
    bool is;

    *spelling = value;
    switch (row->type) {
    case CONF_TEXT: return row->fault(value, (size_t)row->max);
    case CONF_INT:
        if (row->word != NULL && strcmp(value, row->word) == 0) return NULL;
        if (!pgw__int_parse(&number, value)) return "is not a 64-bit integer";
        if ((number < row->min || number > row->max) && !(row->zero_too && number == 0))
            return "is out of range";
        snprintf(text, CONF_NUMBER_SIZE, "%" PRId64, number);
        *spelling = text;
        return NULL;
    case CONF_BOOL:
        if (!conf_parse_bool(value, &is)) return "is neither on nor off";
        *spelling = is ? "on" : "off";
        return NULL;
    case CONF_ENUM: return conf_is_word(value, row->allowed) ? NULL : "is not an allowed word";
    }
    return NULL;
}

/* What is allowed, for humans: the row's own words, or its limits written into text. */
static const char *conf_allowed(const conf_row *row, char text[CONF_LIMITS_SIZE])
{
    if (row->allowed != NULL) return row->allowed;
    snprintf(text, CONF_LIMITS_SIZE, "%s%s%s%" PRId64 "..%" PRId64, row->zero_too ? "0, " : "",
             row->word != NULL ? row->word : "", row->word != NULL ? ", " : "", row->min, row->max);
    return text;
}

/* Outside text for a message: shortened, and without control characters. */
static const char *conf_quotable(const char *text, char out[CONF_QUOTE_SIZE])
{
    size_t n = strnlen(text, CONF_QUOTE_SIZE - 1);

    for (size_t i = 0; i < n; i++)
        out[i] = (char)(text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
    if (text[n] != '\0') memcpy(out + n - 3, "...", 3);
    out[n] = '\0';
    return out;
}

/* ---- public -----------------------------------------------------------------------------------
 */

pgw_status pgw_conf_new(pgw_conf **conf)
{
    if (conf == NULL) return PGW_EINVAL;
    *conf = pgw__mem_zero(1, sizeof(**conf));
    return *conf != NULL ? PGW_OK : PGW_ENOMEM;
}

pgw_status pgw_conf_set(pgw_conf *conf, const char *name, const char *value)
{
    char number[CONF_NUMBER_SIZE], limits[CONF_LIMITS_SIZE], quoted[CONF_QUOTE_SIZE];
    const char *fault, *spelling = NULL;
    const conf_row *row;
    char *copy = NULL;

    if (conf == NULL) return PGW_EINVAL;
    conf->error[0] = '\0';
    row = name != NULL ? conf_find(name) : NULL;
    if (row == NULL) {
        snprintf(conf->error, sizeof(conf->error), "there is no property `%s`",
                 conf_quotable(name != NULL ? name : "", quoted));
        return PGW_ENOTFOUND;
    }
    if (value != NULL) {
        fault = conf_fault(row, value, &spelling, number);
        if (fault != NULL) {
            snprintf(conf->error, sizeof(conf->error), "property `%s`: %s%s%s %s; expected %s",
                     row->name, row->secret ? "the value" : "`",
                     row->secret ? "" : conf_quotable(value, quoted), row->secret ? "" : "`", fault,
                     conf_allowed(row, limits));
            return PGW_EINVAL;
        }
        copy = pgw__mem_dup(spelling);
        if (copy == NULL) {
            snprintf(conf->error, sizeof(conf->error), "property `%s`: out of memory", row->name);
            return PGW_ENOMEM;
        }
    }
    pgw__mem_free(conf->values[row - conf_rows]);
    conf->values[row - conf_rows] = copy;
    return PGW_OK;
}

#define CONF_NAME(NAME, NUMBER, TEXT) [NUMBER] = TEXT,
static const char *const conf_ints[] = {PGW_CONF_INT_MAP(CONF_NAME)};
static const char *const conf_bools[] = {PGW_CONF_BOOL_MAP(CONF_NAME)};
static const char *const conf_texts[] = {PGW_CONF_TEXT_MAP(CONF_NAME)};
#undef CONF_NAME

static const char *conf_name_at(const char *const *names, size_t count, unsigned at)
{
    return at < count ? names[at] : NULL;
}
#define CONF_NAME_AT(names, at) \
    conf_name_at((names), sizeof(names) / sizeof((names)[0]), (unsigned)(at))

pgw_status pgw_conf_set_int(pgw_conf *conf, pgw_conf_int property, int64_t value)
{
    char text[CONF_NUMBER_SIZE];

    snprintf(text, sizeof(text), "%" PRId64, value);
    return pgw_conf_set(conf, CONF_NAME_AT(conf_ints, property),
                        value != PGW_DEFAULT ? text : NULL);
}

pgw_status pgw_conf_set_bool(pgw_conf *conf, pgw_conf_bool property, bool value)
{
    return pgw_conf_set(conf, CONF_NAME_AT(conf_bools, property), value ? "on" : "off");
}

pgw_status pgw_conf_set_text(pgw_conf *conf, pgw_conf_text property, const char *value)
{
    return pgw_conf_set(conf, CONF_NAME_AT(conf_texts, property), value);
}

const char *pgw_conf_get(const pgw_conf *conf, const char *name)
{
    const conf_row *row = name != NULL ? conf_find(name) : NULL;

    return row != NULL ? conf_value(conf, row) : NULL;
}

const char *pgw_conf_error(const pgw_conf *conf)
{
    return conf != NULL ? conf->error : "";
}

pgw_status pgw_conf_each(const pgw_conf *conf, int (*fn)(const pgw_property *p, void *arg),
                         void *arg)
{
    static const char *const types[] = {"text", "int", "bool", "enum"};

    if (fn == NULL) return PGW_EINVAL;
    for (size_t i = 0; i < CONF_COUNT; i++) {
        const conf_row *row = &conf_rows[i];
        const char *value = conf_value(conf, row);
        char limits[CONF_LIMITS_SIZE];
        pgw_property property = {
            .name = row->name,
            .type = types[row->type],
            .value = row->secret && value[0] != '\0' ? "(set)" : value,
            .initial = row->initial,
            .allowed = conf_allowed(row, limits),
            .text = row->text,
        };

        if (fn(&property, arg) != 0) break;
    }
    return PGW_OK;
}

pgw_status pgw_conf_set_log(pgw_conf *conf, pgw_log_level level, pgw_log_fn *fn, void *arg)
{
    if (conf == NULL) return PGW_EINVAL;
    conf->log = (pgw__log){.level = level, .fn = fn, .arg = arg};
    return PGW_OK;
}

void pgw_conf_free(pgw_conf *conf)
{
    if (conf == NULL) return;
    for (size_t i = 0; i < CONF_COUNT; i++) pgw__mem_free(conf->values[i]);
    pgw__mem_free(conf);
}

/* ---- for the other modules ----------------------------------------------------------------------
 */

const char *pgw__conf_text(const pgw_conf *conf, const char *name)
{
    const conf_row *row = conf_find(name);

    assert(row != NULL && (row->type == CONF_TEXT || row->type == CONF_ENUM));
    return conf_value(conf, row);
}

int64_t pgw__conf_int(const pgw_conf *conf, const char *name)
{
    const conf_row *row = conf_find(name);
    int64_t v = -1;

    assert(row != NULL && row->type == CONF_INT);
    (void)pgw__int_parse(&v, conf_value(conf, row));
    return v;
}

bool pgw__conf_bool(const pgw_conf *conf, const char *name)
{
    const conf_row *row = conf_find(name);
    bool v = false;

    assert(row != NULL && row->type == CONF_BOOL);
    (void)conf_parse_bool(conf_value(conf, row), &v);
    return v;
}

bool pgw__conf_is_set(const pgw_conf *conf, const char *name)
{
    const conf_row *row = conf_find(name);

    assert(row != NULL);
    return conf != NULL && conf->values[row - conf_rows] != NULL;
}

const pgw__log *pgw__conf_log(const pgw_conf *conf)
{
    static const pgw__log silent = {.fn = NULL};

    return conf != NULL ? &conf->log : &silent;
}

pgw_conf *pgw__conf_copy(const pgw_conf *conf)
{
    pgw_conf *copy;

    if (pgw_conf_new(&copy) != PGW_OK || conf == NULL) return copy;
    copy->log = conf->log;
    for (size_t i = 0; i < CONF_COUNT; i++) {
        copy->values[i] = pgw__mem_dup(conf->values[i]);
        if (copy->values[i] == NULL && conf->values[i] != NULL) {
            pgw_conf_free(copy);
            return NULL;
        }
    }
    return copy;
}
