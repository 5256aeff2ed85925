/* lock: named locks across machines. The state at the server and the state here differ in one case
 * only: an acquisition whose answer is missing (a timeout, a cancel, an error after the grant). It
 * is settled at once: the library releases the lock that the session may hold, and ends the
 * session if that fails. So a lock is held if and only if there is a pgw_lock of the session
 * (epoch) that took it. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/name.h"
#include "call/ask.h"
#include "call/check.h"
#include "pq/pq.h"

#define LOCK_NAME_MAX     255
/* A waiting statement holds a snapshot, and vacuum and CREATE INDEX CONCURRENTLY by the lock's
 * holder wait for it. So the statement ends, and the next one continues from its place. */
#define LOCK_TURN_MS      500
/* The first check for a deadlock comes then, the next when a quarter more is over, and so on. Of
 * two sessions that check at the same time, neither sees the other wait. */
#define LOCK_CHECK_MS     1000
#define LOCK_CHECK_MAX_MS 30000
#define LOCK_TIMEOUT_MAX  INT64_C(31536000000) /* a year */

struct pgw_lock {
    pgw *h; /* NULL: the handle was closed */
    uint64_t epoch;
    int64_t fence;
    pgw_lock *next; /* of those that the handle knows */
    bool shared;
    char name[];
};

/* ---- which locks a handle holds ---- */

/* The handle is freed: its locks stay with their owners, lost. */
static void lock_orphan_all(void *kept)
{
    pgw_lock *next;

    for (pgw_lock *l = kept; l != NULL; l = next) {
        next = l->next;
        l->h = NULL;
        l->next = NULL;
    }
}

static void lock_link(pgw_lock *l)
{
    l->next = pgw__pq_kept(l->h);
    pgw__pq_keep(l->h, l, lock_orphan_all);
}

static void lock_unlink(pgw_lock *l)
{
    pgw_lock *head = pgw__pq_kept(l->h), **at = &head;

    while (*at != l) at = &(*at)->next;
    *at = l->next;
    pgw__pq_keep(l->h, head, lock_orphan_all);
}

/* Lost ones do not count: they may be taken again. */
static bool lock_is_known(pgw *h, const char *name)
{
    const pgw_lock *l = pgw__pq_kept(h);

    if (l == NULL || pgw__pq_check_session(h) != PGW_OK) return false;
    for (; l != NULL; l = l->next)
        if (l->epoch == pgw__pq_epoch(h) && strcmp(l->name, name) == 0) return true;
    return false;
}

/* ---- arguments ---- */

static pgw_status lock_check_armed(pgw *h)
{
    return pgw__check_unarmed(h, "call it without pgw_async(), or in another thread");
}

static pgw_status lock_check(pgw *h, const char *name, pgw_lock_opts *mine,
                             const pgw_lock_opts *given)
{
    pgw_status st = pgw__check_any_name(h, "name", name);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", mine, sizeof(*mine), given);
    if (st == PGW_OK)
        st = pgw__check_int(h, "opts->mode", (int64_t)mine->mode, PGW_LOCK_EXCLUSIVE,
                            PGW_LOCK_SHARED);
    if (st == PGW_OK)
        st = pgw__check_wait(h, "opts->timeout_ms", mine->timeout_ms, LOCK_TIMEOUT_MAX);
    return st == PGW_OK ? lock_check_armed(h) : st;
}

/* Another acquisition would draw another fence, and make the first one stale. */
static pgw_status lock_check_unknown(pgw *h, const char *name)
{
    if (!lock_is_known(h, name)) return PGW_OK;
    return pgw__pq_reject(h, PGW_EHELD, NULL, "locks are not re-entrant: release it first");
}

/* ---- acquiring ---- */

typedef struct lock_line { /* a step of a wait */
    const char *name;
    bool shared, xact;
    int64_t fence; /* 0: not granted */
    int64_t place; /* for the next turn */
} lock_line;

typedef struct lock_answer {
    lock_line *line;
} lock_answer;

static pgw_status lock_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    lock_line *line = ((const lock_answer *)ctx)->line;

    if (pgw__rows_count(rows) != 1)
        return pgw__pq_fail(h, PGW_EPROTO, "the server did not return one row for a lock",
                            "run the migrations");
    line->fence = pgw__rows_int(rows, 0, 0);
    line->place = pgw__rows_columns(rows) > 1 ? pgw__rows_int(rows, 0, 1) : 0;
    return line->fence != 0 ? PGW_OK : PGW_ELOCKED;
}

static pgw_status lock_ask(pgw *h, lock_line *line, pgw__sql sql, const pgw__param *params,
                           int64_t wait_ms)
{
    const lock_answer ctx = {line};
    const pgw__call call = {
        .sql = sql,
        .params = params,
        .read = lock_read,
        .ctx = &ctx,
        .ctx_size = sizeof(ctx),
        .flags = PGW__WRITES | (line->xact ? 0u : PGW__OWNED | PGW__DIRECT),
        .wait_ms = wait_ms,
    };

    line->fence = 0;
    return pgw__pq_call(h, &call);
}

/* One statement, and no wait. */
static pgw_status lock_try(pgw *h, lock_line *line)
{
    const pgw__param params[] = {P_TEXT(line->name), P_BOOL(line->shared), P_INT8(0), P_END};

    return lock_ask(h, line, line->xact ? PGW__SQL_LOCK_ACQUIRE_XACT : PGW__SQL_LOCK_ACQUIRE,
                    params, 0);
}

/* One statement that waits. */
static pgw_status lock_turn(pgw *h, lock_line *line, int64_t left_ms, bool check)
{
    const bool last = left_ms >= 0 && left_ms <= LOCK_TURN_MS;
    const int64_t wait_ms = last ? left_ms : LOCK_TURN_MS;
    const pgw__param params[] = {
        P_TEXT(line->name),  P_BOOL(line->shared), P_BOOL(line->xact), P_INT8(wait_ms),
        P_INT4(line->place), P_BOOL(last),         P_BOOL(check),      P_END};

    return lock_ask(h, line, PGW__SQL_LOCK_QUEUE, params, wait_ms);
}

/* A lock that is not held cannot be lost: the wait starts again in a new session, unless the old
 * session held other locks. False: it cannot. */
static bool lock_wait_on(pgw *h, lock_line *line, pgw_status st, int64_t deadline)
{
    const int64_t left = pgw__deadline_left_ms(deadline);

    if (line->xact || left == 0 || (st != PGW_ECONN && st != PGW_EUNKNOWN)) return false;
    if (pgw__pq_kept(h) != NULL || pgw__pq_check_session(h) == PGW_OK) return false;
    line->place = 0;
    return pgw__pq_connect(h, left) == PGW_OK;
}

static pgw_status lock_wait(pgw *h, lock_line *line, int64_t timeout_ms)
{
    const int64_t deadline = pgw__deadline_in(timeout_ms);
    int64_t check_at = pgw__deadline_in(LOCK_CHECK_MS), check_ms = LOCK_CHECK_MS;
    pgw_status st;

    for (;;) {
        const bool check = pgw__deadline_left_ms(check_at) == 0;

        st = lock_turn(h, line, pgw__deadline_left_ms(deadline), check);
        if (lock_wait_on(h, line, st, deadline)) continue;
        if (st != PGW_ELOCKED || pgw__pq_sqlstate(h)[0] != '\0') return st;
        if (pgw__deadline_left_ms(deadline) == 0) return st;
        if (pgw__pq_stopped(h))
            return pgw__pq_fail(h, PGW_ECANCELED, "asked to stop while waiting for a lock", NULL);
        if (!check) continue;
        check_at = pgw__deadline_in(check_ms / 4);
        if (check_ms / 4 < LOCK_CHECK_MAX_MS) check_ms += check_ms / 4;
    }
}

static pgw_status lock_take(pgw *h, lock_line *line, int64_t timeout_ms)
{
    const pgw_status st = timeout_ms == 0 ? lock_try(h, line) : lock_wait(h, line, timeout_ms);

    if (st == PGW_EPOOLED)
        pgw__pq_advise(
            h, st,
            "use pgw_lock_acquire_xact() in a transaction, connect directly to the server, or "
            "set property `pooler` to session if it pools sessions");
    if (st != PGW_ELOCKED || pgw__pq_sqlstate(h)[0] != '\0') return st;
    return pgw__pq_fail(h, st, "another session holds the lock",
                        "`pgwork locks NAME` lists the holders; or wait longer");
}

/* The statement failed, and the session lives: did it get the lock? */
static void lock_settle(pgw *h, const char *name)
{
    pgw__diagnostics diagnostics;
    bool was_held;
    const pgw__param params[] = {P_TEXT(name), P_END};

    if (pgw__pq_check_session(h) != PGW_OK) return;
    pgw__pq_keep_diagnostics(h, &diagnostics);
    if (pgw__ask_flag(h, &was_held, PGW__SQL_LOCK_FORGET, params, 0) != PGW_OK) pgw__pq_drop(h);
    pgw__pq_report(h, &diagnostics);
}

/* The error came before the request or the grant. But a deferred trigger may raise any error after
 * the grant. */
static bool lock_was_refused(const pgw *h, pgw_status st)
{
    if (pgw__pq_sqlstate(h)[0] != '\0') return false;
    return st == PGW_ELOCKED || st == PGW_EINVAL || st == PGW_EMISUSE || st == PGW_EPOOLED ||
           st == PGW_ECONFLICT || st == PGW_EPERM || st == PGW_ESCHEMA;
}

pgw_status pgw_lock_acquire(pgw *h, const char *name, const pgw_lock_opts *opts, pgw_lock **lock)
{
    pgw_lock_opts o = PGW_LOCK_OPTS_INIT;
    lock_line line;
    pgw_lock *l;
    size_t size;
    pgw_status st;

    if (lock == NULL) return pgw__check_given(h, "lock", NULL);
    *lock = NULL;
    st = lock_check(h, name, &o, opts);
    if (st != PGW_OK) return st;
    if (pgw__pq_in_txn(h) && !pgw__pq_attached(h))
        return pgw__pq_reject(h, PGW_EMISUSE,
                              "a transaction is open: a rollback would undo the fencing number",
                              "use pgw_lock_acquire_xact(), or acquire before the transaction");
    st = lock_check_unknown(h, name);
    if (st != PGW_OK) return st;
    size = strlen(name) + 1;
    l = pgw__mem_zero(1, sizeof(*l) + size);
    if (l == NULL) return pgw__pq_reject(h, PGW_ENOMEM, NULL, NULL);
    memcpy(l->name, name, size);
    l->h = h;
    l->shared = o.mode == PGW_LOCK_SHARED;
    pgw__pq_unlisten_slot(h); /* as a claim that waits would, if the lock were held */
    line = (lock_line){.name = l->name, .shared = l->shared};
    st = lock_take(h, &line, o.timeout_ms);
    l->fence = line.fence;
    if (st == PGW_OK && pgw__pq_check_session(h) == PGW_OK) {
        l->epoch = pgw__pq_epoch(h);
        lock_link(l);
        *lock = l;
        return st;
    }
    if (st != PGW_OK && !lock_was_refused(h, st)) lock_settle(h, name);
    if (st == PGW_OK || (st == PGW_EUNKNOWN && pgw__pq_check_session(h) != PGW_OK))
        /* if given, it went with its session */
        st = pgw__pq_fail(h, PGW_ECONN, "the connection was lost while waiting for the lock",
                          "the lock is not held: acquire it again");
    pgw__mem_free(l);
    return st;
}

pgw_status pgw_lock_acquire_xact(pgw *h, const char *name, const pgw_lock_opts *opts,
                                 int64_t *fence)
{
    pgw_lock_opts o = PGW_LOCK_OPTS_INIT;
    lock_line line = {.name = name, .xact = true};
    pgw_status st;

    if (fence != NULL) *fence = 0;
    st = lock_check(h, name, &o, opts);
    if (st != PGW_OK) return st;
    if (!pgw__pq_in_txn(h))
        return pgw__pq_reject(h, PGW_EMISUSE,
                              "no transaction is open: the lock would be released at once",
                              "begin a transaction first, or use pgw_lock_acquire()");
    st = lock_check_unknown(h, name);
    if (st != PGW_OK) return st;
    line.shared = o.mode == PGW_LOCK_SHARED;
    st = lock_take(h, &line, o.timeout_ms);
    if (st == PGW_OK && fence != NULL) *fence = line.fence;
    return st;
}

/* ---- is the lock still held? ---- */

const char *pgw_lock_name(const pgw_lock *lock)
{
    return lock != NULL ? lock->name : NULL;
}

int64_t pgw_lock_fence(const pgw_lock *lock)
{
    return lock != NULL ? lock->fence : 0;
}

/* To a verb, or to a caller that only asks. */
static pgw_status lock_lost(const pgw_lock *l, bool verb)
{
    static const char what[] = "the lock was lost with the session that held it",
                      hint[] = "stop the work: another session may hold the lock";

    if (l->h == NULL) return PGW_ELEASE;
    return verb ? pgw__pq_fail(l->h, PGW_ELEASE, what, hint)
                : pgw__pq_remark(l->h, PGW_ELEASE, what, hint);
}

pgw_status pgw_lock_check(pgw_lock *lock)
{
    pgw_status st;

    if (lock == NULL) return PGW_EINVAL;
    if (lock->h == NULL) return PGW_ELEASE;
    st = pgw__pq_check_session(lock->h);
    if (st == PGW_OK && lock->epoch == pgw__pq_epoch(lock->h)) return PGW_OK;
    return st == PGW_EMISUSE ? st : lock_lost(lock, false);
}

bool pgw_lock_is_held(pgw_lock *lock)
{
    return pgw_lock_check(lock) == PGW_OK;
}

int pgw_lock_watch(const pgw_lock *lock)
{
    if (lock == NULL || lock->h == NULL || lock->epoch != pgw__pq_epoch(lock->h)) return -1;
    return pgw__pq_check_session(lock->h) == PGW_OK ? pgw__pq_fd(lock->h) : -1;
}

pgw_status pgw_lock_guard(pgw_lock *lock, int fd, int64_t timeout_ms)
{
    const int64_t deadline = pgw__deadline_in(timeout_ms);
    pgw_status st = pgw_lock_check(lock);

    if (st == PGW_OK) st = pgw__check_unarmed(lock->h, NULL);
    while (st == PGW_OK) {
        st = pgw__pq_wait(lock->h, pgw__deadline_left_ms(deadline), fd);
        if (st == PGW_OUTCOME_AGAIN) return PGW_OK;
        /* a notification of the caller's LISTEN also ends the wait */
        if (st == PGW_OK) st = pgw_lock_check(lock);
    }
    return st == PGW_ECONN || st == PGW_ELEASE ? lock_lost(lock, true) : st;
}

/* ---- releasing ---- */

static pgw_status lock_unlock(pgw_lock *l)
{
    bool released = false;
    const pgw__param params[] = {P_TEXT(l->name), P_BOOL(l->shared), P_END};
    const pgw_status st =
        pgw__ask_flag(l->h, &released, PGW__SQL_LOCK_RELEASE, params, PGW__OWNED | PGW__DIRECT);

    if (st == PGW_EMISUSE || (st == PGW_OK && released)) return st;
    pgw__pq_drop(l->h);
    return lock_lost(l, true);
}

pgw_status pgw_lock_release(pgw_lock *lock)
{
    pgw_status st;

    if (lock == NULL) return PGW_OK;
    st = pgw_lock_check(lock);
    if (st == PGW_ELEASE) st = lock_lost(lock, true);
    if (st == PGW_OK) st = lock_check_armed(lock->h);
    if (st == PGW_OK && pgw__pq_in_txn(lock->h))
        st = pgw__pq_reject(lock->h, PGW_EMISUSE,
                            "a transaction is open: others could take the lock before it ends",
                            "commit or roll back, then release");
    if (st == PGW_OK) st = lock_unlock(lock);
    if (st == PGW_EMISUSE) return st;
    if (lock->h != NULL) lock_unlink(lock);
    pgw__mem_free(lock);
    return st;
}

/* ---- lists ---- */

pgw_status pgw_lock_is_free(pgw *h, const char *name, bool *is_free)
{
    const pgw__param params[] = {P_TEXT(name), P_END};
    pgw_status st;

    if (is_free != NULL) *is_free = false;
    st = pgw__check_given(h, "is_free", is_free);
    if (st == PGW_OK) st = pgw__check_any_name(h, "name", name);
    if (st == PGW_OK) st = lock_check_armed(h);
    return st == PGW_OK ? pgw__ask_flag(h, is_free, PGW__SQL_LOCK_IS_FREE, params, 0) : st;
}

typedef struct lock_each {
    int (*fn)(const pgw_lock_info *info, void *arg);
    void *arg;
} lock_each;

static pgw_status lock_read_each(pgw *h, const pgw__rows *rows, void *ctx)
{
    const lock_each *each = ctx;
    const int count = pgw__rows_count(rows);
    int stop = 0;

    (void)h;
    for (int row = 0; row < count && stop == 0; row++) {
        const pgw_lock_info info = {
            .struct_size = sizeof(info),
            .name = pgw__rows_text(rows, row, 0, NULL),
            .held = pgw__rows_int(rows, row, 1) != 0,
            .shared = pgw__rows_int(rows, row, 2) != 0,
            .pid = (int)pgw__rows_int(rows, row, 3),
            .application = pgw__rows_text(rows, row, 4, NULL),
            .user = pgw__rows_text(rows, row, 5, NULL),
            .client = pgw__rows_text(rows, row, 6, NULL),
            .since_us = pgw__rows_time_us(rows, row, 7),
            .fence = pgw__rows_int(rows, row, 8),
        };

        stop = each->fn(&info, each->arg);
    }
    return count > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_locks_each(pgw *h, const char *name, int (*fn)(const pgw_lock_info *info, void *arg),
                          void *arg)
{
    const lock_each ctx = {fn, arg};
    const pgw__param params[] = {P_TEXT(name), P_END};
    const pgw__call call = {.sql = PGW__SQL_LOCK_LIST,
                            .params = params,
                            .read = lock_read_each,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx)};
    pgw_status st = h == NULL ? PGW_EINVAL : PGW_OK;

    if (st == PGW_OK && name != NULL) st = pgw__check_any_name(h, "name", name);
    if (st == PGW_OK && fn == NULL) st = pgw__pq_refuse(h, "fn", NULL, "a function");
    if (st == PGW_OK) st = lock_check_armed(h);
    return st == PGW_OK ? pgw__pq_call(h, &call) : st;
}

static void lock_keep(char to[64], const char *text)
{
    snprintf(to, 64, "%s", text != NULL ? text : "");
}

typedef struct lock_find {
    pgw_lock_who who;
    bool found;
} lock_find;

/* Holders come first; of shared ones the one whose number stands in the registry knows since when.
 */
static int lock_take_holder(const pgw_lock_info *info, void *arg)
{
    lock_find *find = arg;

    if (!info->held) return 1;
    if (find->found && info->since_us == 0) return 0;
    find->found = true;
    lock_keep(find->who.application, info->application);
    lock_keep(find->who.user, info->user);
    lock_keep(find->who.client, info->client);
    find->who.fence = info->fence;
    find->who.since_us = info->since_us;
    find->who.pid = info->pid;
    find->who.shared = info->shared;
    return 0;
}

pgw_status pgw_lock_holder(pgw *h, const char *name, pgw_lock_who *who)
{
    lock_find find = {PGW_LOCK_WHO_INIT, false};
    pgw_status st = pgw__check_filled(h, "who", who);

    if (st == PGW_OK) st = pgw__check_any_name(h, "name", name);
    if (st == PGW_OK) st = pgw_locks_each(h, name, lock_take_holder, &find);
    if (st == PGW_OK && !find.found) return PGW_OUTCOME_EMPTY;
    if (st == PGW_OK) pgw__fill(who, &find.who, sizeof(find.who));
    return st;
}

pgw_status pgw_lock_break(pgw *h, const char *name, int64_t *ended)
{
    const pgw__param params[] = {P_TEXT(name), P_END};
    pgw_status st = pgw__check_any_name(h, "name", name);

    if (ended != NULL) *ended = 0;
    if (st == PGW_OK) st = lock_check_armed(h);
    return st == PGW_OK ? pgw__ask_number(h, ended, PGW__SQL_LOCK_BREAK, params) : st;
}

pgw_status pgw_locks_prune(pgw *h, int64_t idle_ms, int limit, int64_t *forgotten)
{
    const pgw__param params[] = {P_INT8(idle_ms), P_INT4(limit), P_END};
    pgw_status st;

    if (forgotten != NULL) *forgotten = 0;
    st = pgw__check_int(h, "idle_ms", idle_ms, 0, 100 * LOCK_TIMEOUT_MAX);
    if (st == PGW_OK) st = pgw__check_int(h, "limit", limit, 1, 1000);
    if (st == PGW_OK) st = lock_check_armed(h);
    return st == PGW_OK ? pgw__ask_number(h, forgotten, PGW__SQL_LOCK_PRUNE, params) : st;
}
