/* itpgw: for integration tests of the C interface: handles on a migrated database of the program.
 */
#ifndef ITPGW_H
#define ITPGW_H

#include <stdio.h>
#include <string.h>

#include "pgtemp.h"
#include "pgwork.h"
#include "unity.h"

/* The status, with the diagnostics of the handle in the failure. */
#define ASSERT_ST(expected, call, h)                                              \
    do {                                                                          \
        const pgw_status st_ = (call);                                            \
        char text_[700];                                                          \
        snprintf(text_, sizeof(text_), "%s: %s: %s", #call, pgw_status_name(st_), \
                 (h) != NULL && st_ < 0 ? pgw_error_message(h) : "");             \
        TEST_ASSERT_EQUAL_INT_MESSAGE(expected, st_, text_);                      \
    } while (0)

#define ASSERT_HAS(word, text) TEST_ASSERT_NOT_NULL_MESSAGE(strstr(text, word), text)

/* A configuration for the test's database, with pairs of property and value up to a NULL. */
static inline pgw_conf *it_conf(const char *const *pairs)
{
    pgw_conf *conf;

    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_set(conf, "dsn", pgtemp_dsn()));
    for (; pairs != NULL && *pairs != NULL; pairs += 2) {
        TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_OK, pgw_conf_set(conf, pairs[0], pairs[1]), pairs[0]);
    }
    return conf;
}

static inline pgw *it_open_with(const char *const *pairs)
{
    pgw_conf *conf = it_conf(pairs);
    pgw *h;

    ASSERT_ST(PGW_OK, pgw_open(conf, &h), h);
    pgw_conf_free(conf);
    return h;
}

/* Without a check of the schema: there is none, or pgtemp_migrate() has created it. */
static inline pgw *it_open_bare(void)
{
    static const char *const unchecked[] = {"schema.check", "off", NULL};

    return it_open_with(unchecked);
}

/* The first call migrates the database by the library. Roles belong to the whole server, so only
 * one program migrates at a time. */
static inline pgw *it_open(void)
{
    static int migrated;
    pgw *h;

    if (!migrated) {
        h = it_open_bare();
        ASSERT_ST(PGW_OK, pgw_migrate_up(h, NULL), h);
        pgw_close(h);
        migrated = 1;
    }
    return it_open_with(NULL);
}

static inline int64_t it_enqueue(pgw *h, const char *queue, const char *payload)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    int64_t id;

    job.payload = payload;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, queue, &job, &id), h);
    return id;
}

static inline pgw_status it_claim(pgw *h, pgw_batch **batch, const char *queue, int max)
{
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    const char *queues[] = {queue};

    o.queues = queues;
    o.queues_count = 1;
    o.max = max;
    return pgw_claim(h, &o, batch);
}

/* Claims one job, which must be ready. */
static inline pgw_ref it_claim_one(pgw *h, const char *queue)
{
    pgw_batch *batch;
    pgw_ref ref;

    ASSERT_ST(PGW_OK, it_claim(h, &batch, queue, 1), h);
    ref = pgw_job_ref(pgw_batch_job(batch, 0));
    pgw_batch_free(batch);
    return ref;
}

/* A table of the caller with leases and a version, empty */
static inline void it_create_table(const char *name)
{
    char sql[300];

    snprintf(sql, sizeof(sql),
             "DROP TABLE IF EXISTS %s; CREATE TABLE %s (id text PRIMARY KEY, a int DEFAULT 0, "
             "v int NOT NULL DEFAULT 0, locked_by text, expires_at timestamptz, token uuid)",
             name, name);
    pgtemp_exec(sql);
}

static inline pgw_status it_open_table(pgw *by, const char *name, pgw_table **t)
{
    static const char *const key[] = {"id"};
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;

    s.table = name, s.key = key, s.key_count = 1, s.version = "v";
    s.locked_by = "locked_by", s.expires_at = "expires_at", s.token = "token";
    return pgw_table_open(by, &s, t);
}

#endif
