/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/conf.h
 * Configuration: named properties, and the log callback. doc/properties.md lists the properties.
 */
#ifndef PGWORK_CONF_H
#define PGWORK_CONF_H

#include <pgwork/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pgw_conf pgw_conf; /* copied by each function that takes it */

/* ------------------------------------------------------------------------------------------- */
/** @name Configuration @{
 * A configuration is a set of named properties. Each has a type, limits, a default and a text:
 * pgw_conf_each() lists them, and `pgwork -X list` prints them. A value is checked when it is set.
 *
 *     static int show(const pgw_property *p, void *arg)
 *     {
 *         return fprintf(arg, "%s=%s (%s; %s)\n", p->name, p->value, p->text, p->allowed) < 0;
 *     }
 *     static void say(pgw_log_level level, const char *component, const char *message, void *arg)
 *     {
 *         fprintf(arg, "<%d> %s: %s\n", level, component, message);
 *     }
 *
 *     pgw_conf *conf;
 *     if (pgw_conf_new(&conf) != PGW_OK) return;
 *     if (pgw_conf_set(conf, "worker.lease_ms", "1m") != PGW_OK) puts(pgw_conf_error(conf));
 *     puts(pgw_conf_get(conf, "worker.lease_ms")); // "0": as it was
 *     pgw_conf_set_log(conf, PGW_LOG_WARN, say, stderr);
 *     pgw_conf_each(conf, show, stdout);
 *     pgw_conf_free(conf);
 */

/* Properties by type. Numbers are never reused. */
/* clang-format off */
#define PGW_CONF_INT_MAP(XX) \
    XX(CONNECT_TIMEOUT_MS, 0, "connect.timeout_ms") \
    XX(CALL_TIMEOUT_MS, 1, "call.timeout_ms") \
    XX(RECONNECT_BASE_MS, 2, "reconnect.base_ms") \
    XX(RECONNECT_CAP_MS, 3, "reconnect.cap_ms") \
    XX(KEEPALIVE_IDLE_S, 4, "keepalive.idle_s") \
    XX(KEEPALIVE_INTERVAL_S, 5, "keepalive.interval_s") \
    XX(KEEPALIVE_COUNT, 6, "keepalive.count") \
    XX(TCP_USER_TIMEOUT_MS, 7, "tcp.user_timeout_ms") \
    XX(SESSION_CHECK_INTERVAL_MS, 8, "session.check_interval_ms") \
    XX(PAYLOAD_MAX_BYTES, 9, "payload.max_bytes") \
    XX(POLL_MIN_MS, 10, "poll.min_ms") \
    XX(POLL_MAX_MS, 11, "poll.max_ms") \
    XX(WORKER_CONCURRENCY, 12, "worker.concurrency") \
    XX(WORKER_PREFETCH, 13, "worker.prefetch") \
    XX(WORKER_BATCH, 14, "worker.batch") \
    XX(WORKER_LEASE_MS, 15, "worker.lease_ms") \
    XX(WORKER_JOB_TIMEOUT_MS, 16, "worker.job_timeout_ms") \
    XX(WORKER_FLUSH_MS, 17, "worker.flush_ms") \
    XX(WORKER_FLUSH_JOBS, 18, "worker.flush_jobs") \
    XX(WORKER_STOP_MS, 19, "worker.stop_ms") \
    XX(WORKER_MAX_JOBS, 20, "worker.max_jobs") \
    XX(REAPER_MAX_WAIT_MS, 21, "reaper.max_wait_ms") \
    XX(REAPER_BATCH, 22, "reaper.batch")
#define PGW_CONF_BOOL_MAP(XX) \
    XX(SCHEMA_CHECK, 0, "schema.check") \
    XX(NOTIFY, 1, "notify") \
    XX(WORKER_UNTIL_EMPTY, 2, "worker.until_empty") \
    XX(WORKER_FAIR, 3, "worker.fair")
#define PGW_CONF_TEXT_MAP(XX) \
    XX(DSN, 0, "dsn") \
    XX(SCHEMA, 1, "schema") \
    XX(HOLDER, 2, "holder") \
    XX(APPLICATION_NAME, 3, "application_name") \
    XX(PREPARE, 4, "prepare") \
    XX(POOLER, 5, "pooler") \
    XX(DURABILITY, 6, "durability")
/* clang-format on */
#define PGW_CONF_ENUM(name, number, text) PGW_CONF_##name = number,
typedef enum pgw_conf_int { PGW_CONF_INT_MAP(PGW_CONF_ENUM) } pgw_conf_int;
typedef enum pgw_conf_bool { PGW_CONF_BOOL_MAP(PGW_CONF_ENUM) } pgw_conf_bool;
typedef enum pgw_conf_text { PGW_CONF_TEXT_MAP(PGW_CONF_ENUM) } pgw_conf_text;
#undef PGW_CONF_ENUM

/**
 * Makes a configuration in which every property has its default.
 *
 * @param conf  takes the configuration; the caller owns it (free with pgw_conf_free)
 * @returns
 * - PGW_OK
 * - PGW_ENOMEM
 */
PGW_API pgw_status pgw_conf_new(pgw_conf **conf);
/**
 * Sets a property by name.
 *
 * @param conf   the configuration
 * @param name   a property, as doc/properties.md lists them
 * @param value   its value as text; NULL: the default
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND: there is no such property
 * - PGW_EINVAL: the value is not allowed. pgw_conf_error() names property, value and what is
 *   allowed.
 * - PGW_ENOMEM
 * @note After a failure the property has its former value.
 */
PGW_API pgw_status pgw_conf_set(pgw_conf *conf, const char *name, const char *value);
/**
 * Sets a property whose value is a number. The compiler finds a name that does not exist.
 *
 * @param conf      the configuration
 * @param property  PGW_CONF_WORKER_LEASE_MS for `worker.lease_ms`, and so on
 * @param value         the number; PGW_DEFAULT: the default
 * @returns as pgw_conf_set()
 *
 *     if (pgw_conf_set_int(conf, PGW_CONF_WORKER_LEASE_MS, 60000) != PGW_OK ||
 *         pgw_conf_set_bool(conf, PGW_CONF_NOTIFY, false) != PGW_OK ||
 *         pgw_conf_set_text(conf, PGW_CONF_POOLER, "session") != PGW_OK)
 *         puts(pgw_conf_error(conf));
 */
PGW_API pgw_status pgw_conf_set_int(pgw_conf *conf, pgw_conf_int property, int64_t value);
/**
 * Sets a property that is on or off.
 *
 * @param conf      the configuration
 * @param property  PGW_CONF_NOTIFY for `notify`, and so on
 * @param value     true for on
 * @returns as pgw_conf_set()
 */
PGW_API pgw_status pgw_conf_set_bool(pgw_conf *conf, pgw_conf_bool property, bool value);
/**
 * Sets a property whose value is a text, or one word of a list.
 *
 * @param conf      the configuration
 * @param property  PGW_CONF_POOLER for `pooler`, and so on
 * @param value         the text; NULL: the default
 * @returns as pgw_conf_set()
 */
PGW_API pgw_status pgw_conf_set_text(pgw_conf *conf, pgw_conf_text property, const char *value);
/**
 * Returns the value of a property as text.
 *
 * @param conf  the configuration; NULL: the defaults
 * @param name  a property
 * @returns the value, borrowed until the next set or free; NULL: there is no such property. Numbers
 *   and switches have one spelling: "007" is "7", "yes" is "on".
 */
PGW_API const char *pgw_conf_get(const pgw_conf *conf, const char *name);
/**
 * Returns why the last set failed.
 *
 * @param conf  the configuration
 * @returns a message or "", borrowed until the next set or free
 */
PGW_API const char *pgw_conf_error(const pgw_conf *conf);

typedef struct pgw_property {
    const char *name, *type, *value, *initial, *allowed, *text;
} pgw_property;
/**
 * Lists the properties.
 *
 * @param conf  the configuration; NULL: the defaults
 * @param fn    called for each until it returns non-zero
 * @param arg   its second argument
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: no @p fn
 * @note A connection string may contain a password, so its value is shown as "(set)" or "".
 */
PGW_API pgw_status pgw_conf_each(const pgw_conf *conf, int (*fn)(const pgw_property *p, void *arg),
                                 void *arg);
/**
 * Frees a configuration. Handles, workers and reapers have copies of it.
 *
 * @param conf  may be NULL
 */
PGW_API void pgw_conf_free(pgw_conf *conf);

typedef enum pgw_log_level {
    PGW_LOG_ERROR = 1,
    PGW_LOG_WARN,
    PGW_LOG_INFO,
    PGW_LOG_DEBUG,
    PGW_LOG_TRACE
} pgw_log_level;
/** Takes a message of a component of the library ("pq", "worker", "reaper"). */
typedef void pgw_log_fn(pgw_log_level level, const char *component, const char *message, void *arg);
/**
 * Sets the function that gets log messages. By default there is none.
 *
 * @param conf   the configuration
 * @param level   messages up to this level are passed to @p fn
 * @param fn     called for each; NULL: no messages
 * @param arg    its last argument
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: @p conf is NULL
 * @note Payloads, parameter values and connection strings are never logged. The callback must not
 *   call a function on the handle that logs. A worker calls it from its own threads, one at a time.
 */
PGW_API pgw_status pgw_conf_set_log(pgw_conf *conf, pgw_log_level level, pgw_log_fn *fn, void *arg);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
