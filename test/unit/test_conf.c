/* conf: the table of properties is consistent, and each kind of value is accepted or refused. */
#include "unity.h"
#include "conf.h"
#include "mem.h"
#include "name.h"
#include "oom.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static pgw_conf *conf;

void setUp(void)
{
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_new(&conf));
}
void tearDown(void)
{
    pgw_conf_free(conf);
    pgw_set_allocator(NULL);
}

static void set(const char *name, const char *value)
{
    TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_OK, pgw_conf_set(conf, name, value), pgw_conf_error(conf));
    TEST_ASSERT_EQUAL_STRING("", pgw_conf_error(conf));
}

static void refuse(const char *name, const char *value, const char *error)
{
    char before[300];

    snprintf(before, sizeof(before), "%s", pgw_conf_get(conf, name));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_conf_set(conf, name, value));
    TEST_ASSERT_EQUAL_STRING(error, pgw_conf_error(conf));
    TEST_ASSERT_EQUAL_STRING_MESSAGE(before, pgw_conf_get(conf, name), "left as it was");
}

/* ---- the table ---- */

static const struct {
    const char *name, *type, *initial;
} expected[] = {
    {"dsn", "text", ""},
    {"schema", "text", "pgwork"},
    {"schema.check", "bool", "on"},
    {"holder", "text", ""},
    {"application_name", "text", "pgwork"},
    {"connect.timeout_ms", "int", "10000"},
    {"call.timeout_ms", "int", "30000"},
    {"reconnect.base_ms", "int", "50"},
    {"reconnect.cap_ms", "int", "5000"},
    {"keepalive.idle_s", "int", "1"},
    {"keepalive.interval_s", "int", "1"},
    {"keepalive.count", "int", "3"},
    {"tcp.user_timeout_ms", "int", "4000"},
    {"session.check_interval_ms", "int", "500"},
    {"prepare", "enum", "auto"},
    {"pooler", "enum", "auto"},
    {"durability", "enum", "sync"},
    {"notify", "bool", "on"},
    {"payload.max_bytes", "int", "16777216"},
    {"poll.min_ms", "int", "5"},
    {"poll.max_ms", "int", "500"},
    {"worker.concurrency", "int", "4"},
    {"worker.prefetch", "int", "auto"},
    {"worker.batch", "int", "1"},
    {"worker.lease_ms", "int", "0"},
    {"worker.job_timeout_ms", "int", "0"},
    {"worker.flush_ms", "int", "5"},
    {"worker.flush_jobs", "int", "1000"},
    {"worker.stop_ms", "int", "10000"},
    {"worker.until_empty", "bool", "off"},
    {"worker.max_jobs", "int", "0"},
    {"reaper.max_wait_ms", "int", "50"},
    {"reaper.batch", "int", "1000"},
};
#define EXPECTED ((int)(sizeof(expected) / sizeof(expected[0])))

static int check_row(const pgw_property *p, void *arg)
{
    int *at = arg;

    TEST_ASSERT_LESS_THAN_INT_MESSAGE(EXPECTED, *at, p->name);
    TEST_ASSERT_EQUAL_STRING(expected[*at].name, p->name);
    TEST_ASSERT_EQUAL_STRING(expected[*at].type, p->type);
    TEST_ASSERT_EQUAL_STRING(expected[*at].initial, p->initial);
    TEST_ASSERT_EQUAL_STRING(p->initial, p->value);
    TEST_ASSERT_TRUE_MESSAGE(p->allowed[0] != '\0' && p->text[0] != '\0', p->name);
    ++*at;
    return 0;
}

void test_all_properties_are_there_with_their_defaults(void)
{
    int n = 0;

    TEST_ASSERT_EQUAL_INT(0, pgw_conf_each(conf, check_row, &n));
    TEST_ASSERT_EQUAL_INT(EXPECTED, n);
    n = 0;
    TEST_ASSERT_EQUAL_INT(0, pgw_conf_each(NULL, check_row, &n));
    TEST_ASSERT_EQUAL_INT(EXPECTED, n);
}

/* The default is allowed and spelled as it is stored; both limits are allowed, and what lies beyond
 * is not. */
static int try_limits(const pgw_property *p, void *arg)
{
    char text[80];
    int64_t min, max;
    const char *limits = p->allowed;

    (void)arg;
    set(p->name, p->initial);
    TEST_ASSERT_EQUAL_STRING(p->initial, pgw_conf_get(conf, p->name));
    if (strcmp(p->type, "int") != 0) return 0;

    if (strncmp(limits, "0, ", 3) == 0) {
        set(p->name, "0");
        limits += 3;
    }
    if (strncmp(limits, "auto, ", 6) == 0) limits += 6;
    TEST_ASSERT_EQUAL_INT_MESSAGE(2, sscanf(limits, "%" SCNd64 "..%" SCNd64, &min, &max), p->name);
    snprintf(text, sizeof(text), "%" PRId64, min);
    set(p->name, text);
    TEST_ASSERT_EQUAL_INT64(min, pgw__conf_int(conf, p->name));
    snprintf(text, sizeof(text), "%" PRId64, max);
    set(p->name, text);
    TEST_ASSERT_EQUAL_INT64(max, pgw__conf_int(conf, p->name));
    if (max < INT64_MAX) {
        snprintf(text, sizeof(text), "%" PRId64, max + 1);
        TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_conf_set(conf, p->name, text));
    }
    snprintf(text, sizeof(text), "%" PRId64, min - 1);
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_conf_set(conf, p->name, text));
    return 0;
}

void test_defaults_and_limits_of_every_row(void)
{
    TEST_ASSERT_EQUAL_INT(0, pgw_conf_each(NULL, try_limits, NULL));
}

static int stop_at_third(const pgw_property *p, void *arg)
{
    int *n = arg;

    (void)p;
    return ++*n == 3 ? 33 : 0;
}

void test_each_ends_when_the_callback_returns_non_zero(void)
{
    int n = 0;

    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_each(conf, stop_at_third, &n));
    TEST_ASSERT_EQUAL_INT(3, n);
}

/* ---- values ---- */

void test_numbers_are_stored_in_one_spelling(void)
{
    static const struct {
        const char *value, *stored;
    } cases[] = {
        {"1", "1"}, {"007", "7"}, {"3600000", "3600000"}, {"00000000000000000000000001", "1"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set("poll.max_ms", cases[i].value);
        TEST_ASSERT_EQUAL_STRING(cases[i].stored, pgw_conf_get(conf, "poll.max_ms"));
    }
    set("worker.prefetch", "-0");
    TEST_ASSERT_EQUAL_STRING("0", pgw_conf_get(conf, "worker.prefetch"));
    TEST_ASSERT_EQUAL_INT64(0, pgw__conf_int(conf, "worker.prefetch"));
    set("worker.prefetch", "auto");
    TEST_ASSERT_EQUAL_INT64(-1, pgw__conf_int(conf, "worker.prefetch"));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_conf_set(conf, "worker.prefetch", "-1"));
    TEST_ASSERT_NOT_NULL(strstr(pgw_conf_error(conf), "auto, 0..10000"));
    set("worker.max_jobs", "9223372036854775807");
    TEST_ASSERT_EQUAL_INT64(INT64_MAX, pgw__conf_int(conf, "worker.max_jobs"));
}

void test_text_that_is_not_a_number_is_refused(void)
{
    static const char *const bad[] = {
        "",
        " ",
        "-",
        "--1",
        "+1",
        " 1",
        "1 ",
        "1\n",
        "1.0",
        "1e3",
        "0x10",
        "1,000",
        "10ms",
        "ten",
        "1-",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551617",
        "99999999999999999999999999999999999999",
        "\xd9\xa1",
    };

    set("poll.max_ms", "77");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_EINVAL, pgw_conf_set(conf, "poll.max_ms", bad[i]),
                                      bad[i]);
        TEST_ASSERT_NOT_NULL(strstr(pgw_conf_error(conf), "is not a 64-bit integer"));
    }
    TEST_ASSERT_EQUAL_INT64(77, pgw__conf_int(conf, "poll.max_ms"));
}

void test_numbers_out_of_range_are_refused(void)
{
    refuse("poll.max_ms", "0", "property `poll.max_ms`: `0` is out of range; expected 1..3600000");
    refuse("poll.max_ms", "-1",
           "property `poll.max_ms`: `-1` is out of range; expected 1..3600000");
    refuse("worker.lease_ms", "99",
           "property `worker.lease_ms`: `99` is out of range; expected 0, 100..86400000");
    refuse("worker.max_jobs", "-9223372036854775808",
           "property `worker.max_jobs`: `-9223372036854775808` is out of range; expected "
           "0..9223372036854775807");
    set("worker.lease_ms", "0");
    set("worker.lease_ms", "100");
}

void test_switches_accept_four_words_for_each_side(void)
{
    static const char *const on[] = {"on", "true", "yes", "1"}, *const off[] = {"off", "false",
                                                                                "no", "0"};
    static const char *const bad[] = {"",  "ON", "On", "o",   "onn",
                                      "2", "01", "-1", "on ", "enabled"};

    for (int i = 0; i < 4; i++) {
        set("notify", off[i]);
        TEST_ASSERT_FALSE(pgw__conf_bool(conf, "notify"));
        TEST_ASSERT_EQUAL_STRING("off", pgw_conf_get(conf, "notify"));
        set("notify", on[i]);
        TEST_ASSERT_TRUE(pgw__conf_bool(conf, "notify"));
        TEST_ASSERT_EQUAL_STRING("on", pgw_conf_get(conf, "notify"));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_EINVAL, pgw_conf_set(conf, "notify", bad[i]), bad[i]);
    refuse("notify", "maybe", "property `notify`: `maybe` is neither on nor off; expected on, off");
}

void test_only_the_listed_words_are_accepted(void)
{
    static const char *const bad[] = {"",       "auto,", "aut", "autos",   "auto, never",
                                      "never ", "AUTO",  ",",   ", never", " never"};

    set("prepare", "never");
    TEST_ASSERT_EQUAL_STRING("never", pgw__conf_text(conf, "prepare"));
    set("prepare", "auto");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_EINVAL, pgw_conf_set(conf, "prepare", bad[i]), bad[i]);
    refuse("durability", "fast",
           "property `durability`: `fast` is not an allowed word; expected sync, relaxed");
}

void test_texts_are_checked_by_their_property(void)
{
    set("schema", "other");
    TEST_ASSERT_EQUAL_STRING("other", pgw__conf_text(conf, "schema"));
    refuse("schema", "",
           "property `schema`: `` is empty; expected a-z, 0-9 and _, not beginning with "
           "a digit or pg_, up to 40 bytes");
    refuse("schema", "pg_x",
           "property `schema`: `pg_x` begins with pg_, which PostgreSQL keeps for itself; "
           "expected a-z, 0-9 and _, not beginning with a digit or pg_, up to 40 bytes");
    set("holder", "web-1:77 \xf0\x9f\x98\x80");
    set("holder", "");
    refuse("holder", "a\nb",
           "property `holder`: `a?b` has a control character; expected UTF-8 without "
           "control characters, up to 255 bytes");
    refuse("application_name", "\xff",
           "property `application_name`: `?` is not UTF-8; expected UTF-8 "
           "without control characters, up to 63 bytes");
}

void test_texts_over_their_length_are_refused(void)
{
    char text[8002];

    memset(text, 'x', sizeof(text) - 1);
    text[8001] = '\0';
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_conf_set(conf, "dsn", text));
    text[8000] = '\0';
    set("dsn", text);
    text[256] = '\0';
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_conf_set(conf, "holder", text));
    TEST_ASSERT_NOT_NULL_MESSAGE(strstr(pgw_conf_error(conf), "xxx...` is longer than 255 bytes"),
                                 "a long value is shown cut");
    text[255] = '\0';
    set("holder", text);
    text[64] = '\0';
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_conf_set(conf, "application_name", text));
    text[63] = '\0';
    set("application_name", text);
}

void test_null_brings_the_default_back(void)
{
    set("poll.max_ms", "9");
    set("poll.max_ms", NULL);
    TEST_ASSERT_EQUAL_STRING("500", pgw_conf_get(conf, "poll.max_ms"));
    set("poll.max_ms", NULL);
}

void test_values_are_copied(void)
{
    char value[] = "abc";

    set("schema", value);
    value[0] = 'x';
    TEST_ASSERT_EQUAL_STRING("abc", pgw_conf_get(conf, "schema"));
}

/* ---- names ---- */

void test_unknown_names_of_properties_are_refused(void)
{
    static const char *const bad[] = {"",       "DSN",        "dsn ",        "lease.ms",
                                      "worker", "poll.max_m", "poll.max_mss"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        TEST_ASSERT_EQUAL_INT(PGW_ENOTFOUND, pgw_conf_set(conf, bad[i], "1"));
        TEST_ASSERT_NULL(pgw_conf_get(conf, bad[i]));
    }
    TEST_ASSERT_EQUAL_INT(PGW_ENOTFOUND, pgw_conf_set(conf, "no\x1b[31m", "1"));
    TEST_ASSERT_EQUAL_STRING("there is no property `no?[31m`", pgw_conf_error(conf));
    TEST_ASSERT_EQUAL_INT(PGW_ENOTFOUND, pgw_conf_set(conf, NULL, "1"));
    TEST_ASSERT_NULL(pgw_conf_get(conf, NULL));
}

void test_a_success_clears_the_error(void)
{
    TEST_ASSERT_EQUAL_INT(PGW_ENOTFOUND, pgw_conf_set(conf, "x", "1"));
    set("schema", "a");
}

void test_without_a_configuration_the_defaults_are_returned(void)
{
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_conf_new(NULL));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_conf_set(NULL, "schema", "a"));
    TEST_ASSERT_EQUAL_STRING("", pgw_conf_error(NULL));
    TEST_ASSERT_EQUAL_STRING("pgwork", pgw_conf_get(NULL, "schema"));
    TEST_ASSERT_EQUAL_INT64(4, pgw__conf_int(NULL, "worker.concurrency"));
    TEST_ASSERT_TRUE(pgw__conf_bool(NULL, "schema.check"));
    TEST_ASSERT_EQUAL_STRING("", pgw__conf_text(NULL, "dsn"));
    TEST_ASSERT_TRUE(pgw__conf_log(NULL)->fn == NULL);
    pgw_conf_set_log(NULL, PGW_LOG_INFO, NULL, NULL);
    pgw_conf_free(NULL);
}

/* ---- secrets ---- */

#define SECRET "postgresql://app:hunter2@db/app"

static int find_secret(const pgw_property *p, void *arg)
{
    TEST_ASSERT_NULL(strstr(p->value, "hunter2"));
    if (strcmp(p->name, "dsn") == 0) TEST_ASSERT_EQUAL_STRING(arg, p->value);
    return 0;
}

void test_the_connection_string_is_never_listed_nor_shown_in_errors(void)
{
    char bad[] = SECRET "\xff";

    pgw_conf_each(conf, find_secret, "");
    set("dsn", SECRET);
    pgw_conf_each(conf, find_secret, "(set)");
    TEST_ASSERT_EQUAL_STRING(SECRET, pgw__conf_text(conf, "dsn"));
    refuse("dsn", bad,
           "property `dsn`: the value is not UTF-8; expected a libpq connection string or "
           "URI in UTF-8, up to 8000 bytes");
}

/* ---- copies, logs, memory ---- */

static void sink(pgw_log_level level, const char *component, const char *message, void *arg)
{
    (void)arg, (void)level, (void)component, (void)message;
}

void test_a_copy_is_equal_and_independent(void)
{
    pgw_conf *copy;

    set("schema", "one");
    set("dsn", SECRET);
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, sink, &conf);
    copy = pgw__conf_copy(conf);
    TEST_ASSERT_NOT_NULL(copy);
    set("schema", "two");
    TEST_ASSERT_EQUAL_STRING("one", pgw__conf_text(copy, "schema"));
    TEST_ASSERT_EQUAL_STRING(SECRET, pgw__conf_text(copy, "dsn"));
    TEST_ASSERT_EQUAL_INT64(4, pgw__conf_int(copy, "worker.concurrency"));
    TEST_ASSERT_EQUAL_INT(PGW_LOG_DEBUG, pgw__conf_log(copy)->level);
    TEST_ASSERT_EQUAL_PTR(&conf, pgw__conf_log(copy)->arg);
    TEST_ASSERT_TRUE(pgw__conf_log(copy)->fn == sink);
    pgw_conf_free(copy);

    copy = pgw__conf_copy(NULL);
    TEST_ASSERT_NOT_NULL(copy);
    TEST_ASSERT_EQUAL_STRING("pgwork", pgw__conf_text(copy, "schema"));
    TEST_ASSERT_TRUE(pgw__conf_log(copy)->fn == NULL);
    pgw_conf_free(copy);
}

void test_a_failed_allocation_leaves_the_former_value(void)
{
    pgw_conf *fresh = conf, *copy = NULL;
    int n = 0;

    oom_begin();
    oom_fail(1);
    TEST_ASSERT_EQUAL_INT(PGW_ENOMEM, pgw_conf_new(&fresh));
    TEST_ASSERT_NULL(fresh);
    oom_fail(0);
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_new(&fresh));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_set(fresh, "schema", "before"));

    oom_fail(1);
    TEST_ASSERT_EQUAL_INT(PGW_ENOMEM, pgw_conf_set(fresh, "schema", "after"));
    TEST_ASSERT_EQUAL_STRING("property `schema`: out of memory", pgw_conf_error(fresh));
    TEST_ASSERT_EQUAL_STRING("before", pgw_conf_get(fresh, "schema"));
    oom_fail(1); /* refusals and lists need no memory */
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_conf_set(fresh, "schema", "1"));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_set(fresh, "notify", NULL));
    TEST_ASSERT_EQUAL_INT(0, pgw_conf_each(fresh, find_secret, ""));
    TEST_ASSERT_FALSE(oom_failed());

    oom_fail(0);
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_set(fresh, "notify", "off"));
    do {
        oom_fail(++n);
        copy = pgw__conf_copy(fresh);
        TEST_ASSERT_TRUE((copy == NULL) == oom_failed());
    } while (copy == NULL);
    TEST_ASSERT_EQUAL_INT(4, n);
    pgw_conf_free(copy);
    pgw_conf_free(fresh);
    oom_end();
}

#define CONF_TYPED(name, number, text) {PGW_CONF_##name, text},
static const struct typed {
    int key;
    const char *name;
} ints[] = {PGW_CONF_INT_MAP(CONF_TYPED)}, bools[] = {PGW_CONF_BOOL_MAP(CONF_TYPED)},
  texts[] = {PGW_CONF_TEXT_MAP(CONF_TYPED)};

static bool is_among(const struct typed *keys, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(keys[i].name, name) == 0) return true;
    return false;
}
#define IS_AMONG(keys, name) is_among(keys, sizeof(keys) / sizeof((keys)[0]), name)

static int is_typed(const pgw_property *p, void *arg)
{
    const bool number = strcmp(p->type, "int") == 0, onoff = strcmp(p->type, "bool") == 0;

    ++*(size_t *)arg;
    TEST_ASSERT_EQUAL_MESSAGE(number, IS_AMONG(ints, p->name), p->name);
    TEST_ASSERT_EQUAL_MESSAGE(onoff, IS_AMONG(bools, p->name), p->name);
    TEST_ASSERT_EQUAL_MESSAGE(!number && !onoff, IS_AMONG(texts, p->name), p->name);
    return 0;
}

void test_every_property_has_a_key_of_its_type(void)
{
    size_t n = 0;

    pgw_conf_each(NULL, is_typed, &n);
    TEST_ASSERT_EQUAL_size_t(n,
                             (sizeof(ints) + sizeof(bools) + sizeof(texts)) / sizeof(struct typed));
}

void test_typed_setters_set_what_their_key_names(void)
{
    pgw_conf *c;

    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_new(&c));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_set_int(c, PGW_CONF_WORKER_LEASE_MS, 60000));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_set_bool(c, PGW_CONF_NOTIFY, false));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_set_text(c, PGW_CONF_POOLER, "session"));
    TEST_ASSERT_EQUAL_STRING("60000", pgw_conf_get(c, "worker.lease_ms"));
    TEST_ASSERT_EQUAL_STRING("off", pgw_conf_get(c, "notify"));
    TEST_ASSERT_EQUAL_STRING("session", pgw_conf_get(c, "pooler"));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_conf_set_int(c, PGW_CONF_WORKER_LEASE_MS, 1));
    TEST_ASSERT_EQUAL_STRING("60000", pgw_conf_get(c, "worker.lease_ms"));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_set_int(c, PGW_CONF_WORKER_LEASE_MS, PGW_DEFAULT));
    TEST_ASSERT_EQUAL_STRING("0", pgw_conf_get(c, "worker.lease_ms"));
    TEST_ASSERT_EQUAL_INT(PGW_ENOTFOUND, pgw_conf_set_int(c, (pgw_conf_int)10000, 1));
    pgw_conf_free(c);
}
