/* SPDX-License-Identifier: PostgreSQL
 *
 * role.h: what the processes of a chaos run have in common.
 */
#ifndef CHAOS_ROLE_H
#define CHAOS_ROLE_H

#include "classes.h"
#include "hist.h"
#include "../support/callkit.h"
#include <libpq-fe.h>
#include <pgwork.h>
#include <stdbool.h>

#define MAX_JOBS 1000

extern pgw_conf *conf;
extern pgw_stop *stop; /* notified by SIGTERM */

bool going(void);
bool calm(void); /* the end is near: all jobs are to be finished */
int draw(int n); /* 0 .. n - 1 */
void nap_ms(int64_t ms);
/* A handle that works. Ends the process if it is stopped meanwhile. */
pgw *open_handle(void);
int64_t outcome(pgw_status st); /* S_ */
/* Shows an effect to the sink, in the order of calls. Returns S_OK, S_STALE or S_UNKNOWN. */
int64_t effect(int64_t object, uint64_t number, uint64_t nonce);
/* Says that a fault has shown its effect. */
void fired(enum class class);
/* The number in a kind such as "12.7"; ticks have none. */
int64_t made_of(const char *kind);
const char *queue_name(int queue);

/* Queues 6 to 9 have groups, g0 to g5 (chaos.sh); queues 10 and 11 have rates, too. Queue
 * 12 has one group and one process. */
enum { GROUPED = 6, RATED = 10, LINE = 12, GROUPS = 6 };
int rated_or(int queue); /* now and then one that has a rate, if they take part; else this one */
bool rates_on(void);     /* they do */
int late_ms(void);       /* how long transactions stay open at most */

/* role_sql.c: plain SQL on a connection of its own. Each returns S_. */
bool sql_up(void);
int64_t sql_run(const char *sql);
int64_t sql_ask(const char *sql, PGresult **res);
/* Enqueues the jobs numbered first .. first + n - 1 in an open transaction. Its end is the outcome
 * of the call. */
int64_t sql_enqueue(const char *sql, int queue, int first, int n, int64_t *call);
/* Ends a transaction with a COMMIT if all of it went well (st) and it is to be kept. */
int64_t sql_end(int64_t st, bool keep);

/* role_operator: calls with their outcomes */
int64_t admin_begin(enum op op, int queue, int64_t what);
void admin_end(enum op op, int64_t call, pgw_status st, bool effect_seen, enum class class);
void admin_cancel(pgw *by, int queue, bool undo);

/* Objects that are not jobs, as the sink knows them */
#define LOCK_OBJECT(i) (-1 - (int64_t)(i))
#define ROW_OBJECT(i)  (-1001 - (int64_t)(i))

/* Each runs until going() is false. */
void role_producer(void), role_late(void), role_patient(void), role_worker(void),
    role_runtime(void), role_reaper(void);
void role_sql(void), role_operator(void), role_group(void), role_keeper(void), role_slow(void);
void role_rated(void), role_taker(void), role_line(void);
void role_lock(void), role_sema(void), role_node(void), role_counter(void), role_rows(void);

#endif
