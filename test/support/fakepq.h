/* fakepq: replaces the module pq. It records what a verb sends, and answers from a table of the
 * test. The test also includes mock_pq.h, which Ceedling needs to see. */
#ifndef FAKEPQ_H
#define FAKEPQ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mock_pq.h"
#include "name.h"
#include "sql.h"
#include "unity.h"

typedef struct fake_cell {
    enum { FAKE_NULL, FAKE_INT, FAKE_TEXT, FAKE_UUID, FAKE_TAGS } kind;
    int64_t i;
    const char *text; /* of tags: separated by commas */
} fake_cell;

#define F_NULL             \
    {                      \
        FAKE_NULL, 0, NULL \
    }
#define F_INT(v)            \
    {                       \
        FAKE_INT, (v), NULL \
    }
#define F_TEXT(s)         \
    {                     \
        FAKE_TEXT, 0, (s) \
    }
#define F_UUID(s)         \
    {                     \
        FAKE_UUID, 0, (s) \
    }
#define F_TAGS(s)         \
    {                     \
        FAKE_TAGS, 0, (s) \
    }

static struct fake {
    /* the answer */
    const fake_cell *cells;
    int rows, columns;
    pgw_status status; /* < 0: the call fails, the reader is not called */
    void (*on_call)(const pgw__call *call);
    bool armed, attached, stopped, in_txn, misread;
    /* what the verb sent */
    int calls;
    pgw__sql sql, history[64];
    unsigned flags;
    pgw_status error;
    char message[512];
    size_t index; /* of the element that the error is about */
    int64_t server_time, gated_ms;
} fake;

/* Never read. */
static char fake_handle_bytes[8];
#define FAKE_H ((pgw *)(void *)fake_handle_bytes)

/* ---- errors, with the texts of pq_error.c ---- */

static pgw_status fake_fail(pgw *h, pgw_status st, const char *message, const char *hint, int n)
{
    TEST_ASSERT_EQUAL_PTR(FAKE_H, h);
    fake.armed = false;
    fake.error = st;
    fake.index = PGW_NO_INDEX;
    snprintf(fake.message, sizeof(fake.message), "%s", message ? message : "");
    return st;
}

static pgw_status fake_advise(pgw *h, pgw_status st, const char *hint, int n)
{
    fake.armed = false;
    return fake.error = st;
}

static pgw_status fake_remark(pgw *h, pgw_status st, const char *message, const char *hint, int n)
{
    const bool armed = fake.armed;

    fake_fail(h, st, message, hint, n);
    fake.armed = armed;
    return st;
}

static pgw_status fake_refuse(pgw *h, const char *argument, const char *value, const char *allowed,
                              int n)
{
    char text[512];

    snprintf(text, sizeof(text), "argument `%s` is %s: expected %s", argument,
             value ? value : "NULL", allowed);
    return fake_fail(h, PGW_EINVAL, text, NULL, n);
}

static pgw_status fake_refuse_int(pgw *h, const char *argument, int64_t value, const char *allowed,
                                  int n)
{
    char text[32];

    snprintf(text, sizeof(text), "%lld", (long long)value);
    return fake_refuse(h, argument, text, allowed, n);
}

/* ---- rows; the pointer is the index of the first row plus one ---- */

static const fake_cell *fake_at(int row, int col)
{
    TEST_ASSERT_TRUE_MESSAGE(row >= 0 && row < fake.rows && col >= 0 && col < fake.columns,
                             "no such cell");
    return &fake.cells[row * fake.columns + col];
}

static bool fake_misread(const pgw__rows *r, int n)
{
    return fake.misread;
}

static int fake_count(const pgw__rows *r, int n)
{
    return fake.rows;
}

static int fake_columns(const pgw__rows *r, int n)
{
    return fake.columns;
}

static bool fake_null(const pgw__rows *r, int row, int col, int n)
{
    return fake_at(row, col)->kind == FAKE_NULL;
}

static int64_t fake_int(const pgw__rows *r, int row, int col, int n)
{
    return fake_at(row, col)->i;
}

static const char *fake_text(const pgw__rows *r, int row, int col, size_t *size, int n)
{
    const fake_cell *c = fake_at(row, col);

    if (size) *size = c->text ? strlen(c->text) : 0;
    return c->text;
}

static void fake_uuid(const pgw__rows *r, int row, int col, unsigned char out[16], int n)
{
    TEST_ASSERT_NULL(pgw__uuid_parse(out, fake_at(row, col)->text));
}

/* Elements are separated by commas. */
static int fake_items(const pgw__rows *r, int row, int col, pgw__items *items, int n)
{
    const char *p = fake_at(row, col)->text;

    items->at = (const unsigned char *)p;
    for (items->left = p != NULL; p != NULL && (p = strchr(p, ',')) != NULL; p++) items->left++;
    return items->left;
}

static bool fake_next(pgw__items *items, pgw__bytes *item, int n)
{
    const char *p = (const char *)items->at;

    if (items->left == 0) return false;
    items->left--;
    item->p = p, item->n = strcspn(p, ",");
    items->at += item->n + 1;
    return true;
}

static int fake_array(const pgw__rows *r, int row, int col, pgw__bytes *items, int max, int n)
{
    pgw__items all;
    const int count = fake_items(r, row, col, &all, 0);

    for (int i = 0; i < max && fake_next(&all, &items[i], 0); i++) continue;
    return count;
}

static int64_t fake_item(const pgw__bytes *item, int n)
{
    return strtoll(item->p, NULL, 10);
}

static void fake_set_time(pgw *h, int64_t us, int n)
{
    fake.server_time = us;
}

static void fake_set_gated(pgw *h, int64_t ms, int n)
{
    fake.gated_ms = ms;
}

static int64_t fake_gated(const pgw *h, int n)
{
    return fake.gated_ms;
}

/* ---- calls ---- */

/* As many parameters as the statement's header line says. */
static void fake_check_params(const pgw__call *call)
{
    const char *text = pgw__sql_text(call->sql), *line = strstr(text, "-- params: ");
    int declared = 1, given = 0;

    TEST_ASSERT_NOT_NULL_MESSAGE(line, pgw__sql_name(call->sql));
    line += strlen("-- params: ");
    if (strncmp(line, "none\n", 5) == 0)
        declared = 0;
    else
        for (; *line != '\n'; line++) declared += *line == ',';
    while (call->params != NULL && call->params[given].type != PGW__END) given++;
    TEST_ASSERT_EQUAL_INT_MESSAGE(declared, given, pgw__sql_name(call->sql));
}

static pgw_status fake_call(pgw *h, const pgw__call *call, int n)
{
    char ctx[192];

    TEST_ASSERT_EQUAL_PTR(FAKE_H, h);
    fake_check_params(call);
    TEST_ASSERT_LESS_OR_EQUAL(sizeof(ctx), call->ctx_size);
    if (fake.calls < 64) fake.history[fake.calls] = call->sql;
    fake.calls++;
    fake.sql = call->sql;
    fake.flags = call->flags;
    if (fake.on_call) fake.on_call(call);
    if (fake.status < 0) return fake_fail(h, fake.status, "the fake failed", NULL, 0);
    if (call->read == NULL) return PGW_OK;
    if (call->ctx_size > 0) memcpy(ctx, call->ctx, call->ctx_size);
    return call->read(h, (const pgw__rows *)(const void *)&fake, ctx);
}

static const pgw_conf *fake_conf(const pgw *h, int n)
{
    return NULL; /* the defaults */
}

static bool fake_armed(const pgw *h, int n)
{
    return fake.armed;
}

static bool fake_stopped(const pgw *h, int n)
{
    return fake.stopped;
}

static bool fake_attached(const pgw *h, int n)
{
    return fake.attached;
}

static bool fake_in_txn(const pgw *h, int n)
{
    return fake.in_txn;
}

static void fake_keep_diagnostics(const pgw *h, pgw__diagnostics *diagnostics, int n)
{
    memset(diagnostics, 0, sizeof(*diagnostics));
    diagnostics->fault.status = fake.error;
    snprintf(diagnostics->fault.message, sizeof(diagnostics->fault.message), "%s", fake.message);
}

static pgw_status fake_report(pgw *h, const pgw__diagnostics *diagnostics, int n)
{
    return fake_fail(h, diagnostics->fault.status, diagnostics->fault.message, NULL, n);
}

static int64_t fake_sent_us(const pgw *h, int n)
{
    return 0;
}

static pgw_status fake_about(pgw *h, size_t index, pgw_status st, int n)
{
    if (st < PGW_OK) fake.index = index;
    return st;
}

static inline void fake_begin(void)
{
    memset(&fake, 0, sizeof(fake));
    pgw__pq_about_Stub(fake_about);
    pgw__pq_fail_Stub(fake_fail);
    pgw__pq_advise_Stub(fake_advise);
    pgw__pq_reject_Stub(fake_fail);
    pgw__pq_remark_Stub(fake_remark);
    pgw__pq_refuse_Stub(fake_refuse);
    pgw__pq_refuse_int_Stub(fake_refuse_int);
    pgw__rows_misread_Stub(fake_misread);
    pgw__rows_count_Stub(fake_count);
    pgw__rows_columns_Stub(fake_columns);
    pgw__rows_null_Stub(fake_null);
    pgw__rows_int_Stub(fake_int);
    pgw__rows_time_us_Stub(fake_int);
    pgw__rows_text_Stub(fake_text);
    pgw__rows_uuid_Stub(fake_uuid);
    pgw__rows_array_Stub(fake_array);
    pgw__rows_items_Stub(fake_items);
    pgw__items_next_Stub(fake_next);
    pgw__item_int_Stub(fake_item);
    pgw__item_time_us_Stub(fake_item);
    pgw__pq_call_Stub(fake_call);
    pgw__pq_conf_Stub(fake_conf);
    pgw__pq_set_server_time_Stub(fake_set_time);
    pgw__pq_set_gated_ms_Stub(fake_set_gated);
    pgw__pq_gated_ms_Stub(fake_gated);
    pgw__pq_sent_us_Stub(fake_sent_us);
    pgw__pq_armed_Stub(fake_armed);
    pgw__pq_stopped_Stub(fake_stopped);
    pgw__pq_attached_Stub(fake_attached);
    pgw__pq_in_txn_Stub(fake_in_txn);
    pgw__pq_keep_diagnostics_Stub(fake_keep_diagnostics);
    pgw__pq_report_Stub(fake_report);
}

/* The server's answer from here on. */
#define FAKE_ROWS(table, n_columns)                    \
    (fake.cells = (table), fake.columns = (n_columns), \
     fake.rows = (int)(sizeof(table) / sizeof(fake_cell)) / (n_columns))

/* The last failure names these words. */
#define ASSERT_SAYS(word) TEST_ASSERT_NOT_NULL_MESSAGE(strstr(fake.message, word), fake.message)

#endif
