/* verbs: each verb of the C interface, callable with a name, for tests of faults that any of them
 * may meet. The test includes unity.h, callkit.h, pgw_all.h, pgtemp.h and itpgw.h before it, and
 * has the handle `h`. The table is at the end.
 *
 * Longer than 600 lines: one table has a row for each verb, so that no test leaves one out. */
#ifndef VERBS_H
#define VERBS_H

#include <poll.h>

static pgw *h;

enum { GO_ON = 0 };
#define EACH(what, type)                            \
    static int on_##what(const type *it, void *arg) \
    {                                               \
        return (void)it, (void)arg, GO_ON;          \
    }
EACH(job, pgw_job)
EACH(queue, pgw_queue_info)
EACH(lock, pgw_lock_info)
EACH(sema, pgw_sema_info)
EACH(grant, pgw_sema_grant)
EACH(cron, pgw_cron_info)
EACH(attempt, pgw_attempt_info)
EACH(errors, pgw_dead_errors)
EACH(log, pgw_log_info)
EACH(group, pgw_group_info)
EACH(rate, pgw_rate_info)
EACH(worker, pgw_worker_info)
EACH(counts, pgw_queue_counts)
EACH(overdue, pgw_overdue)
EACH(table, pgw_table_info)
static int on_time(int64_t at_us, const char *local, void *arg)
{
    return (void)at_us, (void)local, (void)arg, GO_ON;
}

/* ---- the verbs: each with one name, and otherwise with arguments that are right ---- */

/* What they work on, beside a name. There is none of it, except the table, unless the test makes
 * it.
 */
static const char *const free_row[] = {"free"}, *const my_row[] = {"mine"};
static struct verbs_on {
    pgw_ref ref;            /* a leased job */
    int64_t done, dead;     /* jobs */
    pgw_token permit, tick; /* that are held */
    pgw_row_ref row;        /* a leased row */
    pgw_table *t;
} it = {{1, {33, 2}, PGW_EUNKNOWN}, 1, 1, {33, 2}, {33, 2}, {my_row, {33, 2}, PGW_EUNKNOWN}, NULL};

static inline void make_table(pgw *by, const char *name, pgw_table **t)
{
    char sql[100];

    it_create_table(name);
    snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES ('free'), ('mine')", name);
    pgtemp_exec(sql);
    ASSERT_ST(PGW_OK, it_open_table(by, name, t), by);
}

#define VERB(verb) static pgw_status call_##verb(const char *name)

VERB(enqueue)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    return pgw_enqueue(h, name, &job, NULL);
}
VERB(enqueue_many)
{
    const pgw_job_spec jobs[2] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT};
    return pgw_enqueue_many(h, name, jobs, 2, NULL);
}
VERB(load)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;
    pgw_status st = pgw_load_begin(h, name, &load);

    if (st != PGW_OK) {
        TEST_ASSERT_NULL(load);
        return st;
    }
    st = pgw_load_add(load, &job);
    return st == PGW_OK ? pgw_load_end(load, true, NULL) : (pgw_load_end(load, false, NULL), st);
}
VERB(claim)
{
    pgw_batch *batch = (pgw_batch *)&it;
    pgw_status st = it_claim(h, &batch, name, 1);

    if (st != PGW_OK) TEST_ASSERT_NULL(batch);
    if (st == PGW_OK) pgw_batch_free(batch);
    return st;
}
VERB(complete_and_claim)
{
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_batch *batch;
    pgw_status st;

    o.queues = &name;
    o.queues_count = 1;
    st = pgw_complete_and_claim(h, &it.ref, 1, &o, &batch);
    if (st == PGW_OK) pgw_batch_free(batch);
    return st;
}
VERB(complete)
{
    return pgw_complete(h, name, &it.ref, 1, NULL);
}
VERB(fail)
{
    return pgw_fail(h, name, &it.ref, 1, NULL);
}
VERB(snooze)
{
    return pgw_snooze(h, name, &it.ref, 1, SNOOZE_BY(1000));
}
VERB(hold)
{
    return pgw_hold(h, name, &it.ref, 1, NULL);
}
VERB(release)
{
    return pgw_release(h, name, &it.ref, 1);
}
VERB(extend)
{
    return pgw_extend(h, name, &it.ref, 1, NULL);
}
VERB(cancel)
{
    return pgw_cancel(h, name, &it.ref, 1);
}
VERB(redrive)
{
    return pgw_redrive(h, name, NULL, NULL);
}
VERB(reschedule)
{
    return pgw_reschedule(h, name, NULL, NULL);
}
VERB(dead_purge)
{
    return pgw_dead_purge(h, name, NULL, NULL);
}
VERB(jobs_each)
{
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;
    o.queue = name;
    return pgw_jobs_each(h, &o, on_job, NULL);
}
VERB(queue_create)
{
    return pgw_queue_create(h, name, NULL);
}
VERB(queue_set)
{
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    o.max_attempts = 3;
    return pgw_queue_set(h, name, &o);
}
VERB(queue_pause)
{
    return pgw_queue_pause(h, name);
}
VERB(queue_hold)
{
    pgw_queue_hold_opts o = PGW_QUEUE_HOLD_OPTS_INIT;
    o.for_ms = 1;
    return pgw_queue_hold(h, name, &o);
}
VERB(queue_unhold)
{
    return pgw_queue_unhold(h, name);
}
VERB(queue_semaphore)
{
    return pgw_queue_semaphore(h, name, NULL);
}
VERB(queue_drain)
{
    return pgw_queue_drain(h, name);
}
VERB(queue_resume)
{
    return pgw_queue_resume(h, name);
}
VERB(queue_purge)
{
    return pgw_queue_purge(h, name, PGW_STATE_ANY, NULL);
}
VERB(queue_depth)
{
    pgw_depth depth = PGW_DEPTH_INIT;
    return pgw_queue_depth(h, name, PGW_UNLIMITED, &depth);
}
VERB(queue_drop)
{
    return pgw_queue_drop(h, name, true);
}
VERB(queues_each)
{
    return (void)name, pgw_queues_each(h, COUNTED(NULL, PGW_UNLIMITED), on_queue, NULL);
}
VERB(reaper_tick)
{
    return (void)name, pgw_reaper_tick(h, NULL, NULL);
}
VERB(lock_acquire)
{
    pgw_lock *lock;
    pgw_status st = pgw_lock_acquire(h, name, NULL, &lock), ended;
    if (st != PGW_OK) return st;
    st = pgw_lock_check(lock);
    if (st == PGW_OK) st = pgw_lock_guard(lock, PGW_NO_FD, 0);
    ended = pgw_lock_release(lock);
    return st < PGW_OK ? st : ended;
}
VERB(lock_is_free)
{
    bool is_free;
    return pgw_lock_is_free(h, name, &is_free);
}
VERB(lock_holder)
{
    pgw_lock_who who = PGW_LOCK_WHO_INIT;
    return pgw_lock_holder(h, name, &who);
}
VERB(locks_each)
{
    return pgw_locks_each(h, name, on_lock, NULL);
}
VERB(rate_set)
{
    return pgw_rate_set(h, name, NULL);
}
VERB(queue_rate)
{
    return pgw_queue_rate(h, name, NULL);
}
VERB(rate_take)
{
    return pgw_rate_take(h, name, NULL, NULL);
}
VERB(rate_drop)
{
    return pgw_rate_drop(h, name);
}
VERB(sema_create)
{
    return pgw_sema_create(h, name, 2);
}
VERB(sema_resize)
{
    return pgw_sema_resize(h, name, 3);
}
VERB(sema_acquire)
{
    pgw_token token;
    return pgw_sema_acquire(h, name, NULL, &token);
}
VERB(sema_extend)
{
    return pgw_sema_extend(h, name, it.permit, 1000);
}
VERB(sema_release)
{
    return pgw_sema_release(h, name, it.permit);
}
VERB(sema_status)
{
    pgw_sema_info info = PGW_SEMA_INFO_INIT;
    return pgw_sema_status(h, name, &info);
}
VERB(semas_each)
{
    return (void)name, pgw_semas_each(h, on_sema, NULL);
}
VERB(sema_grants_each)
{
    return pgw_sema_grants_each(h, name, on_grant, NULL);
}
VERB(sema_drop)
{
    return pgw_sema_drop(h, name, true);
}
VERB(cron_create)
{
    return pgw_cron_create(h, name, "0 0 1 1 *", NULL, NULL);
}
VERB(cron_pause)
{
    return pgw_cron_pause(h, name);
}
VERB(cron_resume)
{
    return pgw_cron_resume(h, name);
}
VERB(crons_each)
{
    return pgw_crons_each(h, name, on_cron, NULL);
}
VERB(cron_tick)
{
    return (void)name, pgw_cron_tick(h, NULL, NULL);
}
VERB(cron_finish)
{
    return (void)name, pgw_cron_finish(h, it.tick, NULL);
}
VERB(cron_release)
{
    return (void)name, pgw_cron_release(h, it.tick);
}
VERB(cron_extend)
{
    return (void)name, pgw_cron_extend(h, it.tick, PGW_DEFAULT, NULL);
}
VERB(cron_drop)
{
    return pgw_cron_drop(h, name);
}

/* -- groups, bulk operations, lists -- */
VERB(progress)
{
    return pgw_progress(h, name, &it.ref, "{\"step\": 2}");
}
VERB(progress_read)
{
    pgw_batch *job;
    pgw_status st = pgw_progress_read(h, name, it.ref.id, &job);
    return pgw_batch_free(job), st;
}
VERB(job_wait)
{
    pgw_wait_opts o = PGW_WAIT_OPTS_INIT;
    pgw_batch *job;
    pgw_status st;

    o.queue = name, o.id = it.done;
    st = pgw_job_wait(h, &o, &job);
    return pgw_batch_free(job), st;
}
VERB(attempts_each)
{
    pgw_attempts_opts o = PGW_ATTEMPTS_OPTS_INIT;
    o.queue = name, o.id = it.dead;
    return pgw_attempts_each(h, &o, on_attempt, NULL);
}
VERB(search)
{
    pgw_filter f = PGW_FILTER_INIT;
    pgw_search_opts o = PGW_SEARCH_OPTS_INIT;
    f.queue = name, o.filter = &f;
    return pgw_search(h, &o, on_job, NULL, NULL);
}
VERB(dead_errors_each)
{
    return pgw_dead_errors_each(h, name, on_errors, NULL);
}
VERB(bulk)
{
    pgw_filter f = PGW_FILTER_INIT;
    pgw_bulk_opts o = PGW_BULK_OPTS_INIT;
    f.queue = name, f.state = PGW_STATE_READY, o.filter = &f;
    o.verb = PGW_BULK_PRIORITY, o.priority = 3;
    return pgw_bulk(h, &o, NULL, NULL);
}
VERB(log_each)
{
    return (void)name, pgw_log_each(h, 10, on_log, NULL);
}
VERB(queue_limit)
{
    return pgw_queue_limit(h, name, 5);
}
VERB(group_set)
{
    pgw_group_opts o = PGW_GROUP_OPTS_INIT;
    o.limit = 3;
    return pgw_group_set(h, name, "g", &o);
}
VERB(group_reset)
{
    return pgw_group_reset(h, name, "g");
}
VERB(group_rate)
{
    const pgw_rate_opts o = PGW_RATE_OPTS_INIT;
    return pgw_group_rate(h, name, "g", &o);
}
VERB(group_hold)
{
    return pgw_group_hold(h, name, "g", 3600000);
}
VERB(group_unblock)
{
    return pgw_group_unblock(h, name, "held", NULL);
}
VERB(group_purge)
{
    return pgw_group_purge(h, name, "held", NULL);
}
VERB(groups_each)
{
    return pgw_groups_each(h, name, NULL, on_group, NULL);
}
VERB(rates_each)
{
    return (void)name, pgw_rates_each(h, on_rate, NULL);
}
VERB(workers_each)
{
    return pgw_workers_each(h, name, on_worker, NULL);
}
VERB(counts_each)
{
    return pgw_counts_each(h, name, on_counts, NULL);
}
VERB(overdue_each)
{
    return (void)name, pgw_overdue_each(h, 100, on_overdue, NULL);
}
VERB(gauges_read)
{
    pgw_gauges g = PGW_GAUGES_INIT;
    return (void)name, pgw_gauges_read(h, &g);
}
VERB(demand)
{
    pgw_demand_opts o = PGW_DEMAND_OPTS_INIT;
    int64_t n;
    o.queue = name;
    return pgw_demand(h, &o, &n);
}
VERB(lock_break)
{
    return pgw_lock_break(h, name, NULL);
}
VERB(locks_prune)
{
    return (void)name, pgw_locks_prune(h, 0, 1000, NULL);
}
VERB(cron_next)
{
    return (void)name, pgw_cron_next(h, "@daily", NULL, on_time, NULL);
}
VERB(cron_run)
{
    return pgw_cron_run(h, name, NULL);
}
VERB(cron_rename)
{
    return pgw_cron_rename(h, name, "new");
}
VERB(cron_claim_due)
{
    pgw_tick *tick;
    pgw_status st = pgw_cron_claim_due(h, DUE_FOR("node", NULL, 0), &tick, NULL);
    return (void)name, pgw_tick_free(tick), st;
}
VERB(cron_break)
{
    return pgw_cron_break(h, name, NULL);
}

/* -- several verbs in one transaction -- */
static pgw_status take_and_add(pgw *by, void *name)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_status st = pgw_lock_acquire_xact(by, name, NULL, NULL);
    return st == PGW_OK ? pgw_enqueue(by, name, &job, NULL) : st;
}
VERB(lock_acquire_xact)
{
    pgw_status st = pgw_txn_begin(h);
    if (st == PGW_OK) st = take_and_add(h, (void *)(uintptr_t)name);
    return st == PGW_OK ? pgw_txn_commit(h) : (pgw_txn_rollback(h), st);
}
VERB(txn_run)
{
    return pgw_txn_run(h, 1, take_and_add, (void *)(uintptr_t)name);
}

/* -- without waiting -- */
static void on_done(pgw *by, pgw_status st, void *status)
{
    (void)by, *(pgw_status *)status = st;
}
VERB(step)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_status done = PGW_OUTCOME_AGAIN, st = pgw_async(h, on_done, &done);

    if (st == PGW_OK) st = pgw_enqueue(h, name, &job, NULL);
    if (st != PGW_OUTCOME_AGAIN) return st;
    while (done == PGW_OUTCOME_AGAIN) {
        struct pollfd p = {.fd = pgw_fd(h)};

        p.events = (short)((pgw_events(h) & PGW_EVENT_READ ? POLLIN : 0) |
                           (pgw_events(h) & PGW_EVENT_WRITE ? POLLOUT : 0));
        poll(&p, 1, (int)pgw_timeout_ms(h));
        pgw_step(h);
    }
    return done;
}

/* -- the caller's table -- */
VERB(table_open)
{
    pgw_table *t;
    pgw_status st = it_open_table(h, "r", &t);
    return (void)name, pgw_table_free(t), st;
}
VERB(table_init)
{
    return (void)name, pgw_table_init(h, it.t);
}
VERB(table_claim)
{
    static const char *const columns[] = {"a"}, *const values[] = {"0"};
    pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
    pgw_rows *rows;
    pgw_status st;

    o.holder = "you", o.where = "a = $1", o.values = values, o.values_count = 1;
    o.columns = columns, o.columns_count = 1;
    st = pgw_table_claim(h, it.t, &o, &rows);
    return (void)name, pgw_rows_free(rows), st;
}
VERB(table_extend)
{
    return (void)name, pgw_table_extend(h, it.t, &it.row, 1, NULL);
}
VERB(table_release)
{
    return (void)name, pgw_table_release(h, it.t, &it.row, 1);
}
VERB(table_finish)
{
    return (void)name, pgw_table_finish(h, it.t, &it.row, 1, FINISH("a = a + 1", NULL, 0));
}
VERB(table_reap)
{
    return (void)name, pgw_table_reap(h, it.t, 100, NULL);
}
VERB(table_get)
{
    pgw_rows *rows;
    pgw_status st = pgw_table_get(h, it.t, THE_ROW(free_row, NULL, 0), &rows);
    return (void)name, pgw_rows_free(rows), st;
}
VERB(table_update)
{
    return (void)name, pgw_table_update(h, it.t, CHANGE(free_row, "0", CELL("a", "1"), 1), NULL);
}
static pgw_status add_one(pgw_edit *edit, void *arg)
{
    return (void)arg, pgw_edit_set(edit, "a", *pgw_edit_get(edit, "a") == '0' ? "1" : "2");
}
VERB(table_process)
{
    return (void)name, pgw_table_process(h, it.t, AT_ROW(free_row, NULL), add_one, NULL);
}
VERB(table_lock)
{
    pgw_rows *rows = NULL;
    pgw_status st = pgw_txn_begin(h);

    if (st == PGW_OK) st = pgw_table_lock(h, it.t, NULL, &rows);
    pgw_rows_free(rows);
    if (st == PGW_OK) return (void)name, pgw_txn_rollback(h);
    return pgw_txn_rollback(h), st;
}
VERB(table_register)
{
    return (void)name, pgw_table_register(h, it.t);
}
VERB(table_unregister)
{
    return (void)name, pgw_table_unregister(h, "public", "s");
}
VERB(tables_each)
{
    return (void)name, pgw_tables_each(h, on_table, NULL);
}
VERB(tables_reap)
{
    return (void)name, pgw_tables_reap(h, 100, NULL);
}

enum {
    READS = 1,        /* or finds nothing to write, with these arguments, where there is nothing */
    NAMELESS = 2,     /* takes no name */
    ALL_OF_IT = 4,    /* NULL as its name means all */
    OWN_TABLE = 8,    /* needs no schema pgwork */
    FINDS = 16,       /* READS, but finds something where there is something */
    LEAVES = 32,      /* does not only read, but nothing of it lasts */
    VARIES = 64,      /* what it does depends on the time */
    ANSWERS = 128,    /* applied, although memory is missing for the answer: its header says so */
    PIECES = 256,     /* several transactions: after an error, some of them may be applied */
    HANGS_UP = 512,   /* without memory it ends its session, and reports PGW_ELEASE */
    LONG = 2048,      /* makes so many allocations that a part of them must do */
    HANDLELESS = 1024 /* is about another handle, or none */
};

/* at: the name in a world where there is something; NULL: "q" */
typedef struct verb {
    const char *name;
    pgw_status (*call)(const char *name);
    int flags;
    const char *at;
} verb;
#define ROW(verb, flags) ROW_AT(verb, flags, "q")
#define ROW_AT(verb, flags, name)       \
    {                                   \
#verb, call_##verb, flags, name \
    }
static const verb verbs[] = {
    /* what makes things comes first, what drops them last */
    ROW_AT(queue_create, 0, "new"),
    ROW(enqueue, 0),
    ROW(enqueue_many, 0),
    ROW(load, 0),
    ROW(lock_acquire_xact, 0),
    ROW(txn_run, 0),
    ROW(step, 0),
    ROW(claim, ANSWERS),
    ROW(complete_and_claim, ANSWERS),
    ROW(complete, 0),
    ROW(fail, 0),
    ROW(snooze, 0),
    ROW(hold, 0),
    ROW(release, 0),
    ROW(extend, 0),
    ROW(progress, 0),
    ROW(progress_read, READS),
    ROW(job_wait, READS | ALL_OF_IT),
    ROW(attempts_each, READS | ALL_OF_IT),
    ROW(cancel, 0),
    ROW(redrive, 0),
    ROW(reschedule, 0),
    ROW(dead_purge, 0),
    ROW(bulk, 0),
    ROW(log_each, READS | NAMELESS),
    ROW(jobs_each, READS | ALL_OF_IT),
    ROW(search, READS | ALL_OF_IT),
    ROW(dead_errors_each, READS | ALL_OF_IT),
    ROW(workers_each, READS | ALL_OF_IT),
    ROW(counts_each, READS | ALL_OF_IT),
    ROW(overdue_each, READS | NAMELESS),
    ROW(gauges_read, READS | NAMELESS),
    ROW(demand, READS),
    ROW(queue_set, 0),
    ROW(queue_pause, 0),
    ROW(queue_hold, 0),
    ROW_AT(queue_unhold, 0, "r"),
    ROW_AT(queue_rate, 0, "r"),
    ROW_AT(queue_semaphore, 0, "r"),
    ROW(queue_drain, 0),
    ROW_AT(queue_resume, 0, "paused"),
    ROW(queue_limit, 0),
    ROW(group_set, 0),
    ROW(group_reset, 0),
    ROW(group_rate, 0),
    ROW(group_hold, 0),
    ROW(group_unblock, 0),
    ROW(group_purge, 0),
    ROW(groups_each, READS),
    ROW(queue_purge, 0),
    ROW(queue_depth, READS),
    ROW(queues_each, READS | NAMELESS),
    ROW(reaper_tick, NAMELESS | VARIES),
    ROW(lock_acquire, HANGS_UP),
    ROW(lock_is_free, READS),
    ROW(lock_holder, READS),
    ROW(locks_each, READS | ALL_OF_IT),
    ROW(lock_break, LEAVES),
    ROW(locks_prune, NAMELESS),
    ROW(rate_set, 0),
    ROW(rate_take, 0),
    ROW(rates_each, READS | NAMELESS),
    ROW_AT(sema_create, READS | FINDS, "new"), /* that one is there */
    ROW(sema_resize, 0),
    ROW(sema_acquire, 0),
    ROW(sema_extend, READS | FINDS),
    ROW(sema_release, READS | FINDS),
    ROW(sema_status, READS),
    ROW(semas_each, READS | NAMELESS),
    ROW(sema_grants_each, READS),
    ROW_AT(cron_create, 0, "new"),
    ROW(cron_pause, 0),
    ROW_AT(cron_resume, 0, "r"),
    ROW(cron_next, READS | NAMELESS),
    ROW(cron_run, 0),
    ROW(cron_rename, 0),
    ROW(cron_claim_due, NAMELESS | ANSWERS),
    ROW_AT(cron_break, 0, "node"),
    ROW(crons_each, READS | ALL_OF_IT),
    ROW(cron_tick, NAMELESS),
    ROW(cron_finish, NAMELESS),
    ROW(cron_release, NAMELESS),
    ROW(cron_extend, NAMELESS),
    ROW(cron_drop, 0),
    ROW(table_open, READS | NAMELESS | OWN_TABLE),
    ROW(table_init, NAMELESS | OWN_TABLE | PIECES),
    ROW(table_claim, NAMELESS | OWN_TABLE | ANSWERS),
    ROW(table_extend, NAMELESS | OWN_TABLE),
    ROW(table_release, NAMELESS | OWN_TABLE),
    ROW(table_finish, NAMELESS | OWN_TABLE),
    ROW(table_reap, NAMELESS | OWN_TABLE),
    ROW(table_get, READS | NAMELESS | OWN_TABLE),
    ROW(table_update, NAMELESS | OWN_TABLE),
    ROW(table_process, NAMELESS | OWN_TABLE),
    ROW(table_lock, LEAVES | NAMELESS | OWN_TABLE),
    ROW(table_register, NAMELESS),
    ROW(table_unregister, NAMELESS),
    ROW(tables_each, READS | NAMELESS),
    ROW(tables_reap, NAMELESS | PIECES | VARIES),
    ROW(rate_drop, 0),
    ROW_AT(sema_drop, 0, "free"),
    ROW(queue_drop, PIECES),
};
#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

#endif
