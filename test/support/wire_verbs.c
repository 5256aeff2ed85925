#include "wire_before.h"
#include "wire_verbs.h"

#include <poll.h>

/* -- verbs -- */

/* A verb on many leaves out what another transaction has locked, such as that of the first call
 * whose line was cut. Then it is to be called once more. */
static pgw_status any(pgw_status st)
{
    return st == PGW_OK && it.count == 0 ? PGW_OUTCOME_EMPTY : st;
}

static pgw_status do_enqueue(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;

    job.op = it.op;
    return pgw_enqueue(h, it.name, &job, NULL);
}

static pgw_status do_enqueue_many(void)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_job_spec jobs[3] = {job, job, job};

    jobs[0].op = it.op; /* of the call */
    return pgw_enqueue_many(h, it.name, jobs, 3, NULL);
}

static pgw_status enqueue_after(pgw_status (*first)(void))
{
    pgw_status st = pgw_txn_begin(h);

    if (st == PGW_OK && first) st = first();
    if (st == PGW_OK) st = do_enqueue();
    if (st >= PGW_OK) return pgw_txn_commit(h);
    pgw_txn_rollback(h);
    return st;
}

static pgw_status do_txn(void)
{
    return enqueue_after(NULL);
}

static pgw_status enqueue_in_txn(pgw *on, void *arg)
{
    return (void)on, (void)arg, do_enqueue();
}

static pgw_status do_load(void)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;
    pgw_status st = pgw_load_begin(h, it.name, &load), ended;

    if (st != PGW_OK) return st;
    st = pgw_load_add(load, &job);
    ended = pgw_load_end(load, st == PGW_OK, NULL);
    return st == PGW_OK ? ended : st;
}

static pgw_status do_claim(void)
{
    pgw_batch *batch = NULL;
    const pgw_status st = it_claim(h, &batch, it.name, 1);

    pgw_batch_free(batch);
    return st;
}

static pgw_status do_complete_and_claim(void)
{
    const char *queue = it.name;
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_batch *batch = NULL;
    pgw_status st;

    o.queues = &queue, o.queues_count = 1;
    st = pgw_complete_and_claim(h, &it.ref, 1, &o, &batch);
    pgw_batch_free(batch);
    return st;
}

static pgw_status do_queue_set(void)
{
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;

    o.max_attempts = 3;
    return pgw_queue_set(h, it.name, &o);
}

static pgw_status do_group_set(void)
{
    pgw_group_opts o = PGW_GROUP_OPTS_INIT;

    o.limit = 4;
    return pgw_group_set(h, it.name, "g", &o);
}

static pgw_status do_bulk(void)
{
    pgw_filter f = PGW_FILTER_INIT;
    pgw_bulk_opts o = PGW_BULK_OPTS_INIT;

    f.queue = it.name, o.filter = &f;
    return any(pgw_bulk(h, &o, &it.count, NULL));
}

static pgw_status do_cron_rename(void)
{
    char to[40];

    snprintf(to, sizeof(to), "%s new", it.name);
    return pgw_cron_rename(h, it.name, to);
}

/* The first time without a wait. A repeat may find the lost session still there. */
static pgw_status do_lock_acquire(void)
{
    return acquire(h, it.time > 0 ? 5000 : 0);
}

/* Lost, or not confirmed: then the session is closed, and nobody holds it either. */
static pgw_status do_lock_release(void)
{
    const pgw_status st = pgw_lock_release(it.lock);

    it.lock = NULL;
    return st == PGW_ELEASE ? PGW_EUNKNOWN : st;
}

static pgw_status lock_in_txn(void)
{
    return pgw_lock_acquire_xact(h, it.name, LOCK_AS(PGW_LOCK_EXCLUSIVE, it.time > 0 ? 5000 : 0),
                                 NULL);
}

static pgw_status lock_row_in_txn(void)
{
    pgw_table_lock_opts o = PGW_TABLE_LOCK_OPTS_INIT;
    const char *key[] = {it.name};

    o.keys = key, o.keys_count = 1;
    pgw_rows_free(it.rows);
    return pgw_table_lock(h, rows_table, &o, &it.rows);
}

/* clang-format off */
static pgw_status do_complete(void) { return pgw_complete(h, it.name, &it.ref, 1, NULL); }
static pgw_status do_fail(void) { return pgw_fail(h, it.name, &it.ref, 1, NULL); }
static pgw_status do_release(void) { return pgw_release(h, it.name, &it.ref, 1); }
static pgw_status do_snooze(void) { return pgw_snooze(h, it.name, &it.ref, 1, SNOOZE_BY(3600000)); }
static pgw_status do_extend(void) { return pgw_extend(h, it.name, &it.ref, 1, EXTEND_BY(7200000)); }
static pgw_status do_cancel(void) { return pgw_cancel(h, it.name, &it.ref, 1); }
static pgw_status do_redrive(void) { return any(pgw_redrive(h, it.name, NULL, &it.count)); }
static pgw_status do_dead_purge(void) { return any(pgw_dead_purge(h, it.name, NULL, &it.count)); }
static pgw_status do_queue_create(void) { return pgw_queue_create(h, it.name, NULL); }
static pgw_status do_queue_pause(void) { return pgw_queue_pause(h, it.name); }
static pgw_status do_hold(void) { return pgw_hold(h, it.name, &it.ref, 1, NULL); }
static pgw_status do_queue_purge(void) { return any(pgw_queue_purge(h, it.name, PGW_STATE_ANY, &it.count)); }
static pgw_status do_queue_drop(void) { return pgw_queue_drop(h, it.name, true); }
static pgw_status do_sema_create(void) { return pgw_sema_create(h, it.name, 3); }
static pgw_status do_sema_resize(void) { return pgw_sema_resize(h, it.name, 5); }
static pgw_status do_sema_acquire(void) { return pgw_sema_acquire(h, it.name, NULL, &it.token); }
static pgw_status do_sema_extend(void) { return pgw_sema_extend(h, it.name, it.token, 7200000); }
static pgw_status do_sema_release(void) { return pgw_sema_release(h, it.name, it.token); }
static pgw_status do_cron_create(void) { return create_schedule(h); }
static pgw_status do_cron_pause(void) { return pgw_cron_pause(h, it.name); }
static pgw_status do_cron_run(void) { return pgw_cron_run(h, it.name, NULL); }
static pgw_status do_cron_drop(void) { return pgw_cron_drop(h, it.name); }
static pgw_status do_cron_claim(void) { return claim_tick(h); }
static pgw_status do_cron_finish(void) { return pgw_cron_finish(h, it.token, NULL); }
static pgw_status do_cron_extend(void) { return pgw_cron_extend(h, it.token, 7200000, NULL); }
static pgw_status do_cron_release(void) { return pgw_cron_release(h, it.token); }
static pgw_status do_table_claim(void) { return claim_row(h); }
static pgw_status do_txn_run(void) { return pgw_txn_run(h, 3, enqueue_in_txn, NULL); }
static pgw_status do_progress(void) { return pgw_progress(h, it.name, &it.ref, "{\"n\": 1}"); }
static pgw_status do_reschedule(void) { return any(pgw_reschedule(h, it.name, NULL, &it.count)); }
static pgw_status do_queue_drain(void) { return pgw_queue_drain(h, it.name); }
static pgw_status do_queue_resume(void) { return pgw_queue_resume(h, it.name); }
static pgw_status do_queue_hold(void) { return hold_queue(h); }
static pgw_status do_queue_unhold(void) { return pgw_queue_unhold(h, it.name); }
static pgw_status do_queue_limit(void) { return pgw_queue_limit(h, it.name, 4); }
static pgw_status do_queue_semaphore(void) { return pgw_queue_semaphore(h, it.name, it.name); }
static pgw_status do_queue_rate(void) { return pgw_queue_rate(h, it.name, &(pgw_rate_opts)PGW_RATE_OPTS_INIT); }
static pgw_status do_group_rate(void) { return pgw_group_rate(h, it.name, "g", &(pgw_rate_opts)PGW_RATE_OPTS_INIT); }
static pgw_status do_group_reset(void) { return pgw_group_reset(h, it.name, "g"); }
static pgw_status do_group_hold(void) { return pgw_group_hold(h, it.name, "g", 7200000); }
static pgw_status do_group_unblock(void) { return pgw_group_unblock(h, it.name, "g", NULL); }
static pgw_status do_group_purge(void) { return any(pgw_group_purge(h, it.name, "g", &it.count)); }
static pgw_status do_rate_set(void) { return set_rate(h); }
static pgw_status do_rate_take(void) { return pgw_rate_take(h, it.name, NULL, NULL); }
static pgw_status do_rate_drop(void) { return pgw_rate_drop(h, it.name); }
static pgw_status do_sema_drop(void) { return pgw_sema_drop(h, it.name, false); }
static pgw_status do_cron_resume(void) { return pgw_cron_resume(h, it.name); }
static pgw_status do_cron_tick(void) { return any(pgw_cron_tick(h, &it.count, NULL)); }
static pgw_status do_cron_break(void) { return pgw_cron_break(h, it.name, NULL); }
static pgw_status do_lock_wait(void) { return acquire(h, 5000); }
static pgw_status do_lock_xact(void) { return enqueue_after(lock_in_txn); }
static pgw_status do_lock_break(void) { return pgw_lock_break(h, it.name, NULL); }
static pgw_status do_locks_prune(void) { return any(pgw_locks_prune(h, 0, 1000, &it.count)); }
static pgw_status do_table_lock(void) { return enqueue_after(lock_row_in_txn); }
static pgw_status do_table_reap(void) { return any(pgw_table_reap(h, rows_table, 1000, &it.count)); }
static pgw_status do_table_register(void) { return pgw_table_register(h, rows_table); }
static pgw_status do_table_unregister(void) { return pgw_table_unregister(h, "public", "r"); }
static pgw_status do_migrate_up(void) { return pgw_migrate_up(h, NULL); }
/* clang-format on */

static pgw_status do_table_extend(void)
{
    pgw_row_ref ref = pgw_rows_ref(it.rows, 0);

    return pgw_table_extend(h, rows_table, &ref, 1, ROWS_BY(7200000));
}

static pgw_status do_table_release(void)
{
    pgw_row_ref ref = pgw_rows_ref(it.rows, 0);

    return pgw_table_release(h, rows_table, &ref, 1);
}

static pgw_status do_table_finish(void)
{
    pgw_row_ref ref = pgw_rows_ref(it.rows, 0);

    return pgw_table_finish(h, rows_table, &ref, 1, FINISH("a = a + 1", NULL, 0));
}

static pgw_status do_table_update(void)
{
    const char *key[] = {it.name};
    const pgw_cell cell = {"a", "1"};
    char next[PGW_ROW_VERSION_SIZE];

    return pgw_table_update(h, rows_table, CHANGE(key, "0", &cell, 1), next);
}

static pgw_status add_one(pgw_edit *edit, void *arg)
{
    char sum[24];

    snprintf(sum, sizeof(sum), "%ld", strtol(pgw_edit_get(edit, "a"), NULL, 10) + 1);
    return (void)arg, pgw_edit_set(edit, "a", sum);
}

static pgw_status do_table_process(void)
{
    pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;
    const char *key[] = {it.name};

    o.op = it.op;
    return pgw_table_process(h, rows_table, AT_ROW(key, &o), add_one, NULL);
}

/* As its text says: the table is opened before each call. */
static pgw_status do_table_init(void)
{
    const char *key[] = {"id"};
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;
    pgw_status st;

    s.table = it.name, s.key = key, s.key_count = 1;
    s.locked_by = "locked_by", s.expires_at = "expires_at", s.token = "token";
    pgw_table_free(it.table);
    st = pgw_table_open(direct, &s, &it.table);
    if (st != PGW_ESCHEMA) TEST_ASSERT_EQUAL_INT(PGW_OK, st);
    return pgw_table_init(h, it.table);
}

/* `freed` says what was done: a fault of one table, such as a deadline, is kept with that table,
 * and a later fault of the pass does not undo it. A pass that was slow lets the next ones wait. */
static pgw_status do_tables_reap(void)
{
    pgw_status st;

    pgtemp_exec("UPDATE pgwork.leased_table SET rests_until = NULL");
    st = any(pgw_tables_reap(h, 1000, &it.count));
    if (st == PGW_OUTCOME_EMPTY && it.time == 0) return PGW_ETIMEDOUT;
    return st < PGW_OK && it.count > 0 ? PGW_EUNKNOWN : st;
}

/* A tick that took long makes the next ones of its session do less, and one that is under way keeps
 * others out. So come again, as a reaper does. Other jobs may be due, too. */
static pgw_status do_reaper_tick(void)
{
    pgw_reap_stats stats = PGW_REAP_STATS_INIT;

    for (int i = 0;; i++) {
        const pgw_status st = pgw_reaper_tick(h, &stats, NULL);

        it.count = *pgtemp_value(JOBS("min(state) = 'ready'")) == 't';
        if (it.time < 2 || it.count > 0 || st < PGW_OK || i == 400) return any(st);
        poll(NULL, 0, 25);
    }
}

const verb verbs[] = {
    {"enqueue", do_enqueue, with_queue, JOBS("count(*) = 1"), PGW_OK},
    {"enqueue_many", do_enqueue_many, with_queue, JOBS("count(*) = 3"), PGW_OK},
    {"txn_begin txn_commit", do_txn, with_queue, JOBS("count(*) = 1"), PGW_OK},
    {"load_begin load_add load_end", do_load, with_queue, JOBS("count(*) = 1"), VERB_NEVER},
    {"claim", do_claim, with_ready,
     JOBS("count(*) = 1 AND min(attempt) = 1 AND min(state) = 'leased'"), PGW_OK},
    {"complete", do_complete, with_job, JOBS("count(*) = 0"), PGW_ELEASE},
    {"complete_and_claim", do_complete_and_claim, with_job_and_another,
     JOBS("count(*) = 1 AND min(attempt) = 1 AND min(state) = 'leased'"), PGW_ELEASE},
    {"fail", do_fail, with_job,
     JOBS("count(*) = 1 AND min(state) <> 'leased' AND min(attempt) = 1"), PGW_ELEASE},
    {"release", do_release, with_job, JOBS("count(*) = 1 AND min(state) = 'ready'"), PGW_ELEASE},
    {"snooze", do_snooze, with_job, JOBS("count(*) = 1 AND min(state) = 'delayed'"), PGW_ELEASE},
    {"hold", do_hold, with_job,
     JOBS("count(*) = 1 AND min(state) = 'delayed' AND min(attempt) = 0"), PGW_ELEASE},
    {"extend", do_extend, with_job, JOBS("count(*) = 1 AND min(lease_until) > " SOON), PGW_OK},
    {"cancel", do_cancel, with_ready, JOBS("count(*) = 0"), PGW_ENOTFOUND},
    {"redrive", do_redrive, with_dead, JOBS("count(*) = 1 AND min(state) = 'ready'"), PGW_OK},
    {"dead_purge", do_dead_purge, with_dead, JOBS("count(*) = 0"), PGW_OK},
    {"queue_create", do_queue_create, with_nothing, QUEUE("count(*) = 1"), PGW_OK},
    {"queue_pause", do_queue_pause, with_queue, QUEUE("paused"), PGW_OK},
    {"queue_purge", do_queue_purge, with_ready, JOBS("count(*) = 0"), PGW_OK},
    {"queue_drop", do_queue_drop, with_ready, QUEUE("count(*) = 0"), PGW_ENOTFOUND},
    {"sema_create", do_sema_create, with_nothing, PERMITS("count(*) = 3"), PGW_OK},
    {"sema_resize", do_sema_resize, with_sema, PERMITS("count(*) = 5"), PGW_OK},
    {"sema_acquire", do_sema_acquire, with_sema, PERMITS("count(nonce) = 1"), VERB_NEVER},
    {"sema_extend", do_sema_extend, with_permit, PERMITS("max(until) > " SOON), PGW_OK},
    {"sema_release", do_sema_release, with_permit, PERMITS("count(nonce) = 0"), PGW_ELEASE},
    {"cron_create", do_cron_create, with_nothing, SCHEDULE("count(*) = 1"), PGW_OK},
    {"cron_pause", do_cron_pause, with_schedule, SCHEDULE("paused"), PGW_OK},
    {"cron_run", do_cron_run, with_schedule, SCHEDULE("asked IS NOT NULL"), PGW_OK},
    {"cron_drop", do_cron_drop, with_schedule, SCHEDULE("count(*) = 0"), PGW_ENOTFOUND},
    {"cron_claim_due", do_cron_claim, with_due_tick, SCHEDULE("holder = 'node'"), PGW_OK},
    {"cron_finish", do_cron_finish, with_tick, SCHEDULE("holder IS NULL"), PGW_ELEASE},
    {"cron_extend", do_cron_extend, with_tick, SCHEDULE("until > " SOON), PGW_OK},
    {"cron_release", do_cron_release, with_tick, SCHEDULE("holder IS NULL"), PGW_ELEASE},
    {"table_claim", do_table_claim, with_row, ROW("locked_by = 'me'"), PGW_OK},
    {"table_extend", do_table_extend, with_leased_row, ROW("expires_at > " SOON), PGW_OK},
    {"table_release", do_table_release, with_leased_row, ROW("expires_at IS NULL"), PGW_ELEASE},
    {"table_finish", do_table_finish, with_leased_row, ROW("expires_at IS NULL AND a = 1"),
     PGW_ELEASE},
    {"table_update", do_table_update, with_row, ROW("a = 1 AND v = 1"), PGW_ECONFLICT},
    {"txn_run", do_txn_run, with_queue, JOBS("count(*) = 1"), PGW_OK},
    {"progress", do_progress, with_job, JOBS("max(progress->>'n') = '1'"), PGW_OK},
    {"reschedule", do_reschedule, with_delayed, JOBS("count(*) = 1 AND min(state) = 'ready'"),
     PGW_OK},
    {"bulk", do_bulk, with_ready,
     JOBS("count(*) = 0 AND (SELECT sum(n) = 1 FROM pgwork.log WHERE filter->>'queue' = " NAME ")"),
     PGW_OK},
    {"queue_set", do_queue_set, with_queue, QUEUE("max_attempts = 3"), PGW_OK},
    {"queue_drain", do_queue_drain, with_queue, QUEUE("draining"), PGW_OK},
    {"queue_resume", do_queue_resume, with_paused, QUEUE("NOT paused"), PGW_OK},
    {"queue_hold", do_queue_hold, with_queue,
     QUEUE("EXISTS (SELECT FROM pgwork.hold WHERE queue = id AND until > " SOON ")"), PGW_OK},
    {"queue_unhold", do_queue_unhold, with_held_queue,
     QUEUE("NOT paused AND NOT EXISTS (SELECT FROM pgwork.hold WHERE queue = id)"), PGW_OK},
    {"queue_limit", do_queue_limit, with_queue, QUEUE("queue_limit = 4"), PGW_OK},
    {"queue_semaphore", do_queue_semaphore, with_queue_and_sema,
     QUEUE("(rate).semaphore IS NOT NULL"), PGW_OK},
    {"queue_rate", do_queue_rate, with_queue, QUEUE("(rate).n = 1"), PGW_OK},
    {"group_set", do_group_set, with_queue, GROUP("g.group_limit = 4"), PGW_OK},
    {"group_reset", do_group_reset, with_held_group, GROUP("count(*) = 0"), PGW_OK},
    {"group_hold", do_group_hold, with_queue, GROUP("held_until > " SOON), PGW_OK},
    {"group_unblock", do_group_unblock, with_held_group, GROUP("count(held_until) = 0"), PGW_OK},
    {"group_purge", do_group_purge, with_gated, JOBS("count(*) = 0"), PGW_OK},
    {"group_rate", do_group_rate, with_queue, GROUP("(g.rate).n = 1"), PGW_OK},
    {"rate_set", do_rate_set, with_nothing, RATE("count(*) = 1"), PGW_OK},
    {"rate_take", do_rate_take, with_rate, RATE("available = 1"), VERB_NEVER},
    {"rate_drop", do_rate_drop, with_rate, RATE("count(*) = 0"), PGW_ENOTFOUND},
    {"sema_drop", do_sema_drop, with_sema, PERMITS("count(*) = 0"), PGW_ENOTFOUND},
    {"cron_resume", do_cron_resume, with_paused_schedule, SCHEDULE("NOT paused"), PGW_OK},
    {"cron_rename", do_cron_rename, with_schedule,
     "SELECT min(name) = " NAME " || ' new' FROM pgwork.schedules WHERE name IN (" NAME ", " NAME
     " || ' new')",
     PGW_ENOTFOUND},
    {"cron_tick", do_cron_tick, with_due_schedule, JOBS("count(*) = 1"), PGW_OK},
    {"cron_break", do_cron_break, with_tick, SCHEDULE("holder IS NULL"), PGW_OK},
    {"lock_acquire", do_lock_acquire, with_nothing, HELD("count(*) = 1"), PGW_EHELD},
    {"lock_acquire, which waits", do_lock_wait, with_nothing, HELD("count(*) = 1"), PGW_EHELD},
    {"lock_acquire_xact", do_lock_xact, with_queue,
     JOBS("count(*) = 1 AND pgwork.lock_is_free(" NAME ")"), PGW_OK},
    {"lock_release", do_lock_release, with_lock, HELD("count(*) = 0"), PGW_OK},
    {"lock_break", do_lock_break, with_lock_of_another, HELD("count(*) = 0"), PGW_OK},
    {"locks_prune", do_locks_prune, with_free_lock,
     "SELECT count(*) = 0 FROM pgwork.named_lock WHERE name = " NAME, PGW_OK},
    {"table_init", do_table_init, with_bare_table,
     "SELECT count(*) = 3 AND bool_and(indisvalid) FROM pg_index WHERE indrelid = "
     "to_regclass('public.' || " NAME ")",
     PGW_OK},
    {"table_process", do_table_process, with_row, ROW("a = 1 AND v = 1"), PGW_OK},
    {"table_lock", do_table_lock, with_row, JOBS("count(*) = 1"), PGW_OK},
    {"table_reap", do_table_reap, with_old_lease, ROW("expires_at IS NULL"), PGW_OK},
    {"table_register", do_table_register, with_unregistered, LEASED("count(*) = 1"), PGW_OK},
    {"table_unregister", do_table_unregister, with_registered, LEASED("count(*) = 0"),
     PGW_ENOTFOUND},
    {"tables_reap", do_tables_reap, with_registered, ROW("expires_at IS NULL"), PGW_OK},
    {"reaper_tick", do_reaper_tick, with_due_job, JOBS("min(state) = 'ready'"), PGW_OK},
    {"migrate_up", do_migrate_up, with_a_schema_to_come,
     "SELECT count(*) FILTER (WHERE nspname = " NAME
     ") = count(*) FILTER (WHERE nspname = 'pgwork') "
     "FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace",
     PGW_OK},
};
const int verbs_count = sizeof(verbs) / sizeof(verbs[0]);

/* -- cases -- */

void verbs_open(void)
{
    pgtemp_migrate();
    direct = it_open_bare();
    it_create_table("r");
    ASSERT_ST(PGW_OK, it_open_table(direct, "r", &rows_table), direct);
}

static void end_case(void)
{
    char sql[80];

    pgw_lock_release(it.lock);
    pgw_close(h);
    pgw_close(it.other);
    pgw_rows_free(it.rows);
    pgw_table_free(it.table);
    if (it.schema == it.name) {
        snprintf(sql, sizeof(sql), "DROP SCHEMA IF EXISTS %s CASCADE", it.name);
        pgtemp_exec(sql);
    }
    memset(&it, 0, sizeof(it));
    h = NULL;
}

void verbs_close(void)
{
    end_case();
    pgw_table_free(rows_table);
    pgw_close(direct);
}

pgw *verbs_begin(const verb *v, const char *dsn)
{
    static int number;

    end_case();
    number++;
    snprintf(it.name, sizeof(it.name), "w%d", number);
    snprintf(it.op, sizeof(it.op), "00000000-0000-4000-8000-%012d", number);
    it.dsn = dsn;
    it.schema = "pgwork";
    run_sql("");
    v->prepare();
    if (!h) open_through_wire();
    return h;
}

pgw_status verbs_call(const verb *v, int time)
{
    it.time = time;
    return v->call();
}

/* The server needs its time to notice that a line was cut, and to end what it was asked before. */
void verbs_settle(bool connected)
{
    const int expected = 2 + connected + (it.other != NULL); /* with pgtemp_conn() and `direct` */

    for (int i = 0; i < 1000; i++) {
        if (pgtemp_number("SELECT count(*) FROM pg_stat_activity WHERE datname = "
                          "current_database() AND backend_type = 'client backend'") <= expected)
            return;
        poll(NULL, 0, 2);
    }
}

bool verbs_is_done(const verb *v, bool expected)
{
    const bool of_session = strstr(v->done, "_advisory") != NULL;
    bool is;

    for (int i = 0;; i++) {
        const char *value = pgtemp_value(v->done);

        is = value != NULL && *value == 't';
        if (is == expected || !of_session || i == 1000) return is;
        poll(NULL, 0, 5);
    }
}
