/* handle: public functions of a handle. The module pq does the work. */
#include "handle/handle.h"

#include <stdio.h>

#include "call/check.h"
#include "pq/pq.h"

static pgw_status handle_check_version(pgw *h, int64_t version)
{
    char text[160], migrate[100];

    if (version >= PGW__SCHEMA_MIN && version <= PGW__SCHEMA_MAX) return PGW_OK;
    snprintf(migrate, sizeof(migrate), "run `pgwork --schema %s migrate up`", pgw__pq_schema(h));
    snprintf(text, sizeof(text), "schema `%s` has version %lld, this library works with %d to %d",
             pgw__pq_schema(h), (long long)version, PGW__SCHEMA_MIN, PGW__SCHEMA_MAX);
    return pgw__pq_fail(h, PGW_ESCHEMA, text,
                        version < PGW__SCHEMA_MIN ? migrate : "install a newer libpgwork");
}

/* Library and schema are updated separately, so each new session is checked. */
static pgw_status handle_check(pgw *h, const pgw__rows *rows, void *ctx)
{
    const pgw_status st = handle_check_version(h, pgw__rows_int(rows, 0, 0));
    const char *applied = pgw__rows_text(rows, 0, 1, NULL);
    const int changed = applied != NULL ? pgw__sql_differs(applied) : 0;
    char text[160];

    (void)ctx;
    if (st != PGW_OK || changed == 0) return st;
    snprintf(text, sizeof(text),
             "migration %d of schema `%s` was applied with another text than this library has",
             changed, pgw__pq_schema(h));
    return pgw__pq_fail(h, PGW_ESCHEMA, text, PGW__SQL_DIFFERS);
}

static pgw_status handle_greet(pgw **h)
{
    if (pgw__conf_bool(pgw__pq_conf(*h), "schema.check"))
        pgw__pq_greet(*h, PGW__SQL_HANDLE_GREETING, handle_check);
    return pgw__pq_connect_once(*h);
}

pgw_status pgw__handle_open(pgw **h, const pgw_conf *conf, pgw_stop *stop, int64_t lock_ms)
{
    pgw_status st = pgw__pq_new(h, conf);

    if (st != PGW_OK) return st;
    pgw__pq_own(*h);
    pgw__pq_set_stop(*h, stop);
    pgw__pq_limit_locks(*h, lock_ms);
    return handle_greet(h);
}

pgw_status pgw_open(const pgw_conf *conf, pgw **h)
{
    pgw_status st = h != NULL ? pgw__pq_new(h, conf) : PGW_EINVAL;

    return st == PGW_OK ? handle_greet(h) : st;
}

pgw_status pgw_attach(struct pg_conn *conn, const pgw_conf *conf, pgw **h)
{
    return h != NULL ? pgw__pq_attach(h, conn, conf) : PGW_EINVAL;
}

void pgw_close(pgw *h)
{
    pgw__pq_close(h);
}

void pgw_abandon(pgw *h)
{
    pgw__pq_abandon(h);
}

pgw_status pgw_error_status(const pgw *h)
{
    return h != NULL ? pgw__pq_error_status(h) : PGW_ENOMEM;
}

const char *pgw_error_message(const pgw *h)
{
    return h != NULL ? pgw__pq_error_message(h) : pgw_status_text(PGW_ENOMEM);
}

void pgw__handle_diagnostics(const pgw *h, char *diagnostics, size_t size)
{
    const char *hint = pgw_error_hint(h);

    snprintf(diagnostics, size, "%s%s%s", pgw_error_message(h), *hint != '\0' ? ": " : "", hint);
}

const char *pgw_error_hint(const pgw *h)
{
    return h != NULL ? pgw__pq_error_hint(h) : "";
}

const char *pgw_error_sqlstate(const pgw *h)
{
    return h != NULL ? pgw__pq_sqlstate(h) : "";
}

const char *pgw_error_statement(const pgw *h)
{
    return h != NULL ? pgw__pq_error_statement(h) : "";
}

size_t pgw_error_index(const pgw *h)
{
    return h != NULL ? pgw__pq_error_index(h) : PGW_NO_INDEX;
}

pgw_status pgw_set_stop(pgw *h, pgw_stop *stop)
{
    if (h == NULL) return PGW_EINVAL;
    pgw__pq_set_stop(h, stop);
    return PGW_OK;
}

pgw_status pgw_set_timeout(pgw *h, int64_t timeout_ms)
{
    if (h == NULL) return PGW_EINVAL;
    if (timeout_ms < 1 && timeout_ms != PGW_DEFAULT && timeout_ms != PGW_UNLIMITED)
        return pgw__pq_refuse_int(h, "timeout_ms", timeout_ms,
                                  "1 or more, PGW_DEFAULT or PGW_UNLIMITED");
    pgw__pq_set_timeout(h, timeout_ms == PGW_DEFAULT ? 0 : timeout_ms);
    return PGW_OK;
}

int64_t pgw_server_time_us(const pgw *h)
{
    return h != NULL ? pgw__pq_server_time(h) : 0;
}

pgw_status pgw_is_pooled(pgw *h, bool *pooled)
{
    pgw_status st;

    if (pooled != NULL) *pooled = false;
    st = pgw__check_given(h, "pooled", pooled);
    if (st == PGW_OK) st = pgw__check_unarmed(h, NULL);
    return st == PGW_OK ? pgw__pq_pooled(h, pooled) : st;
}

pgw_status pgw_async(pgw *h, pgw_done_fn *done, void *arg)
{
    if (h == NULL) return PGW_EINVAL;
    pgw__pq_arm(h, done, arg);
    return PGW_OK;
}

int pgw_fd(const pgw *h)
{
    return h != NULL ? pgw__pq_fd(h) : PGW_NO_FD;
}

int pgw_events(const pgw *h)
{
    return h != NULL ? pgw__pq_events(h) : 0;
}

int64_t pgw_timeout_ms(const pgw *h)
{
    return h != NULL ? pgw__pq_timeout_ms(h) : PGW_UNLIMITED;
}

pgw_status pgw_step(pgw *h)
{
    return h != NULL ? pgw__pq_step(h) : PGW_EINVAL;
}
