/* Out of memory: in each public function the n-th allocation fails, for every n; once only that
 * one, once all later ones, too. Nothing crashes, hangs or leaks, the handle remains usable, and no
 * report is false. The truth is a digest of everything in the database. PGW_OOM_ALL=1: also every n
 * of the functions that make hundreds of allocations.
 *
 * Longer than 600 lines: one world and one judge serve all public functions. */
#include "unity.h"
#include "callkit.h"
#include "pgw_all.h"
#include "itpgw.h"
#include "pgtemp.h"
#include "oom.h"
#include "verbs.h"

#include <glob.h>
#include <stdlib.h>

static pgw *direct;
static pgw_conf *conf;
static struct verbs_on there;

/* ---- a world in which each verb has something to do ---- */

/* Everything that lasts, as texts. What is upkeep differs between equal calls. */
static void watch_the_world(void)
{
    pgtemp_exec(
        "DO $$BEGIN EXECUTE format('CREATE VIEW everything AS %s', (SELECT string_agg(format("
        " 'SELECT %L AS t, x::text AS r FROM %I.%I x', schemaname || '.' || tablename, schemaname,"
        " tablename), ' UNION ALL ') FROM pg_tables WHERE schemaname IN ('pgwork', 'public'))"
        " || ' UNION ALL SELECT ''rate'', sequencename || '' '' || last_value FROM pg_sequences "
        "WHERE sequencename ~ ''^rate_tat''"
        " UNION ALL SELECT ''index'', indexname FROM pg_indexes WHERE schemaname = ''public'''"
        " || ' UNION ALL SELECT ''lock'', pid::text || objid FROM pg_locks WHERE locktype = "
        "''advisory'' AND database = (SELECT oid FROM pg_database WHERE datname = "
        "current_database())'); END$$;"
        "CREATE FUNCTION digest(loose boolean) RETURNS text LANGUAGE plpgsql AS $$ BEGIN"
        " IF loose THEN RETURN (SELECT md5(string_agg(t || r, '' ORDER BY t, r)) FROM ("
        "  SELECT t, regexp_replace(r, '\\\\x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|-?[0-9]+', '#', "
        "'g')"
        "  FROM everything WHERE t !~ 'mark|tick|event|report|total|minute|heartbeat') x (t, r));"
        " ELSE RETURN (SELECT md5(string_agg(t || r, '' ORDER BY t, r)) FROM everything);"
        " END IF; END $$;");
}

/* Puts back what differs from its copy in schema kept. */
static void keep_the_world(void)
{
    pgtemp_exec(
        "CREATE SCHEMA kept;"
        "DO $$DECLARE t record; BEGIN FOR t IN SELECT * FROM pg_tables"
        " WHERE schemaname IN ('pgwork', 'public') LOOP"
        " EXECUTE format('CREATE TABLE kept.%I AS TABLE %I.%I', t.tablename, t.schemaname, "
        "t.tablename); END LOOP; END$$;"
        "CREATE TABLE kept.everything AS TABLE everything;"
        "CREATE FUNCTION restore() RETURNS void LANGUAGE plpgsql "
        "SET session_replication_role = replica AS $$ DECLARE x record; BEGIN"
        " FOR x IN SELECT DISTINCT d.t, split_part(d.t, '.', 2) AS name, (SELECT string_agg("
        "  quote_ident(attname), ',') FROM pg_attribute WHERE attrelid = to_regclass(d.t)"
        "  AND attnum > 0 AND NOT attisdropped AND attgenerated = '') AS columns"
        "  FROM ((TABLE everything EXCEPT ALL TABLE kept.everything) UNION ALL "
        "        (TABLE kept.everything EXCEPT ALL TABLE everything)) d WHERE d.t LIKE '%.%' LOOP"
        "  EXECUTE format('DELETE FROM %s', x.t);"
        "  EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM kept.%I',"
        "   x.t, x.columns, x.columns, x.name); END LOOP;"
        " FOR x IN SELECT split_part(r, ' ', 1) AS name, split_part(r, ' ', 2)::bigint AS value"
        "  FROM kept.everything WHERE t = 'rate' LOOP"
        "  EXECUTE format('CREATE UNLOGGED SEQUENCE IF NOT EXISTS pgwork.%I', x.name);"
        "  PERFORM setval('pgwork.' || x.name, x.value); END LOOP;"
        " FOR x IN SELECT r AS name FROM everything WHERE t = 'index' EXCEPT "
        "  SELECT r FROM kept.everything WHERE t = 'index' LOOP"
        "  EXECUTE format('DROP INDEX public.%I', x.name); END LOOP; END $$;");
}

static pgw_ref finished(bool well)
{
    pgw_fail_opts o = PGW_FAIL_OPTS_INIT;
    pgw_ref ref;

    it_enqueue(direct, "q", "1");
    ref = it_claim_one(direct, "q");
    o.error = "no", o.dead = true;
    if (well)
        ASSERT_ST(PGW_OK, pgw_complete(direct, "q", &ref, 1, NULL), direct);
    else
        ASSERT_ST(PGW_OK, pgw_fail(direct, "q", &ref, 1, &o), direct);
    return ref;
}

static void make_jobs(void)
{
    pgtemp_exec("SELECT pgwork.queue_create('q', lease_ms => 3600000, retention_ms => 86400000);"
                "SELECT pgwork.queue_create('r'); SELECT pgwork.queue_create('paused')");
    there.done = finished(true).id;
    there.dead = finished(false).id;
    it_enqueue(direct, "q", "1");
    there.ref = it_claim_one(direct, "q");
    ASSERT_ST(PGW_OK, pgw_progress(direct, "q", &there.ref, "1"), direct);
    there.ref.outcome = PGW_EUNKNOWN;
    pgtemp_exec("SELECT pgwork.enqueue('q', '2', tags => '{a,b}');"
                "SELECT pgwork.enqueue('q', delay_ms => 3600000);"
                "SELECT pgwork.group_set('q', 'g', 2); SELECT pgwork.enqueue('q', grp => 'g');"
                "SELECT pgwork.group_hold('q', 'held'); SELECT pgwork.enqueue('q', grp => 'held');"
                "SELECT pgwork.rate_set('q', 5, 1000); SELECT pgwork.sema_create('q', 4);"
                "SELECT pgwork.queue_semaphore('r', 'q'); SELECT pgwork.queue_rate('r', 5);"
                "SELECT pgwork.queue_hold('r', for_ms => 3600000);"
                "SELECT pgwork.sema_create('free', 1); SELECT pgwork.queue_pause('paused');"
                "SELECT pgwork.log_write('cancel', '{}')");
}

/* Schedules that are paused, due at a node, and held by one; a permit; a lock that nobody holds. */
static void make_the_rest(void)
{
    const char *node = "node";
    pgw_sema_opts o = PGW_SEMA_OPTS_INIT;
    pgw_lock *lock;
    pgw_tick *tick;

    pgtemp_exec("SELECT pgwork.cron_create('q', '@every 1h', queue => 'q');"
                "UPDATE pgwork.schedule SET next_at = now() - interval '1 s', "
                "next_slot = now() - interval '1 s';"
                "SELECT pgwork.cron_create('r', '0 0 1 1 *'); SELECT pgwork.cron_pause('r');"
                "SELECT pgwork.cron_create('due', '0 0 1 1 *'); SELECT pgwork.cron_run('due');"
                "SELECT pgwork.cron_create('node', '0 0 1 1 *', timeout_ms => 3600000);"
                "SELECT pgwork.cron_run('node')");
    ASSERT_ST(PGW_OK, pgw_cron_claim_due(direct, DUE_FOR("me", &node, 1), &tick, NULL), direct);
    there.tick = pgw_tick_token(tick);
    pgw_tick_free(tick);
    o.ttl_ms = 3600000;
    ASSERT_ST(PGW_OK, pgw_sema_acquire(direct, "q", &o, &there.permit), direct);
    ASSERT_ST(PGW_OK, pgw_lock_acquire(direct, "old", NULL, &lock), direct);
    ASSERT_ST(PGW_OK, pgw_lock_release(lock), direct);
}

static void make_tables(void)
{
    pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
    pgw_table *other;
    pgw_rows *rows;

    make_table(direct, "s", &other);
    ASSERT_ST(PGW_OK, pgw_table_register(direct, other), direct);
    pgw_table_free(other);
    make_table(direct, "r", &there.t);
    o.where = "id = 'mine'", o.lease_ms = 3600000;
    ASSERT_ST(PGW_OK, pgw_table_claim(direct, there.t, &o, &rows), direct);
    there.row.token = pgw_rows_ref(rows, 0).token;
    there.row.key = my_row;
    there.row.outcome = PGW_EUNKNOWN;
    pgw_rows_free(rows);
    pgtemp_exec(
        "INSERT INTO r (id, locked_by, expires_at, token) SELECT 'late', 'him', '2000-1-1', "
        "gen_random_uuid(); INSERT INTO s SELECT * FROM r WHERE id = 'late'");
}

static void make_the_world(void)
{
    static bool made;

    if (made) {
        ASSERT_ST(PGW_OK, it_open_table(direct, "r", &there.t), direct);
        return;
    }
    made = true;
    make_jobs();
    make_the_rest();
    make_tables();
    watch_the_world();
    keep_the_world();
}

/* Whether it is another one than at first. */
static bool is_changed(void)
{
    static char first[33];
    const char *now = pgtemp_value("SELECT digest(false)");

    if (*first == '\0') snprintf(first, sizeof(first), "%s", now);
    return strcmp(first, now) != 0;
}

static void restore(void)
{
    if (!is_changed()) return;
    pgtemp_exec("SELECT restore()");
    TEST_ASSERT_FALSE_MESSAGE(is_changed(), "the world is not as it was");
}

void setUp(void)
{
    pgw_close(it_open()); /* migrated by the library */
    oom_begin();
    conf = it_conf((const char *[]){"worker.concurrency", "0", "worker.until_empty", "on", NULL});
    direct = it_open_bare();
    h = it_open_bare();
    make_the_world();
    restore();
}

void tearDown(void)
{
    oom_fail(0);
    pgw_table_free(there.t);
    pgw_close(h);
    pgw_close(direct);
    pgw_conf_free(conf);
    oom_end();
}

/* ---- one call ---- */

static int cases, failures;
static char where[60];

typedef struct effect {
    pgw_status st;
    bool failed; /* an allocation */
    bool changed;
    char is[33]; /* the digest without numbers and upkeep */
} effect;

/* As in a new handle: what a handle keeps between calls is gone, or does not count. */
static int forget(void)
{
    int kept = 0;

    pgw__args_free(&h->op.args);
    for (int i = 0; i < (int)PGW__SQL_COUNT; i++) {
        pgw__mem_free(h->texts[i]);
        h->texts[i] = NULL;
    }
    for (int i = 0; i < PGW__HOST_LISTS; i++) kept += h->host_lists[i] != NULL;
    return oom_alive() - kept;
}

/* Those that hold a lock. */
static void await_the_end_of_sessions(void)
{
    while (pgtemp_number("SELECT count(*) FROM everything WHERE t = 'lock'") > 0) continue;
}

/* Without memory from the n-th allocation on, or only for that one; 0: with memory. */
static effect call(const verb *v, int n, bool all_later)
{
    effect e = {.is = ""};
    int alive;

    it = there;
    alive = forget();
    if (all_later)
        oom_fail_from(n);
    else
        oom_fail(n);
    e.st = v->call(v->at);
    e.failed = oom_failed();
    oom_fail(0);
    TEST_ASSERT_EQUAL_INT_MESSAGE(alive, forget(), "blocks left");
    if (e.st == PGW_ELEASE) await_the_end_of_sessions();
    e.changed = is_changed();
    if (e.changed) snprintf(e.is, sizeof(e.is), "%s", pgtemp_value("SELECT digest(true)"));
    if (e.changed) restore();
    return e;
}

/* What the call reports is true. */
static void judge(const verb *v, const effect *usual, const effect *e)
{
    if (e->st >= PGW_OK) {
        TEST_ASSERT_EQUAL_INT(usual->st, e->st);
        TEST_ASSERT_EQUAL_INT_MESSAGE(usual->changed, e->changed, "changed");
        if (!(v->flags & VARIES)) TEST_ASSERT_EQUAL_STRING_MESSAGE(usual->is, e->is, "the effect");
        return;
    }
    TEST_ASSERT_TRUE_MESSAGE(e->failed, "there was memory");
    if (e->st != PGW_ELEASE || !(v->flags & HANGS_UP)) TEST_ASSERT_EQUAL_INT(PGW_ENOMEM, e->st);
    if (e->changed && !(v->flags & PIECES)) {
        TEST_ASSERT_TRUE_MESSAGE((v->flags & ANSWERS) || e->st == PGW_ELEASE,
                                 "an error, but applied");
        TEST_ASSERT_EQUAL_STRING_MESSAGE(usual->is, e->is, "not all was applied");
    }
    if (!e->changed) TEST_ASSERT_TRUE_MESSAGE(it.ref.outcome < 0, "a false outcome of a job");
    if (!e->changed) TEST_ASSERT_TRUE_MESSAGE(it.row.outcome < 0, "a false outcome of a row");
}

/* The error of the last call has words, and the handle is as before. */
static void handle_is_well(const verb *v, const effect *e)
{
    bool is_free;

    if (e->st < 0 && !(v->flags & HANDLELESS)) {
        TEST_ASSERT_EQUAL_INT(e->st, pgw_error_status(h));
        TEST_ASSERT_TRUE_MESSAGE(*pgw_error_message(h) != '\0', "no words");
    }
    TEST_ASSERT_FALSE_MESSAGE(pgw__pq_in_txn(h), "a transaction is open");
    ASSERT_ST(PGW_OK, pgw_lock_is_free(h, "any", &is_free), h);
}

static void sweep(const verb *v, const effect *usual, bool all_later)
{
    const int step = v->flags & LONG && getenv("PGW_OOM_ALL") == NULL ? 9 : 1;
    effect e = {.failed = true};

    for (int n = 1; e.failed; n += step) {
        snprintf(where, sizeof(where), "%s, %s %d", v->name, all_later ? "from" : "at", n);
        UNITY_SET_DETAIL(where);
        e = call(v, n, all_later);
        handle_is_well(v, &e);
        judge(v, usual, &e);
        cases++;
        failures += e.failed;
    }
}

static void sweep_all(const verb *list, size_t count)
{
    cases = failures = 0;
    for (size_t i = 0; i < count; i++) {
        const verb *v = &list[i];
        effect usual;

        UNITY_SET_DETAIL(v->name);
        usual = call(v, 0, false);
        if (usual.st < 0) TEST_FAIL_MESSAGE(pgw_error_message(h));
        TEST_ASSERT_EQUAL_INT_MESSAGE(!(v->flags & (READS | LEAVES)) || (v->flags & FINDS),
                                      usual.changed, v->name);
        sweep(v, &usual, false);
        sweep(v, &usual, true);
    }
    printf("%zu functions, %d calls, %d of them without memory\n", count, cases, failures);
}

void test_each_verb_runs_out_of_memory_and_reports_the_truth(void)
{
    sweep_all(verbs, VERBS);
}

/* ---- another handle, or none; or the faults of test_it_verb_faults.c do not apply ---- */

EACH(migration, pgw_migration)
EACH(finding, pgw_finding)
EACH(property, pgw_property)
VERB(is_pooled)
{
    bool pooled;
    return (void)name, pgw_is_pooled(h, &pooled);
}
VERB(migrate_up)
{
    pgw_status st = pgw_migrations_each(h, on_migration, NULL);
    return (void)name, st == PGW_OK ? pgw_migrate_up(h, NULL) : st;
}
VERB(doctor)
{
    return (void)name, pgw_doctor(h, on_finding, NULL);
}
VERB(reconnect)
{
    pgw_status st;

    pgw__pq_drop(h);
    st = call_enqueue(name);
    TEST_ASSERT_EQUAL_MESSAGE(h->host_lists[0] != NULL, h->host_lists[2] != NULL,
                              "hosts and ports");
    return st;
}
VERB(open)
{
    pgw *other;
    pgw_status st = pgw_open(conf, &other);

    TEST_ASSERT_EQUAL_INT(st, pgw_error_status(other));
    return (void)name, pgw_close(other), st;
}
VERB(attach)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw *other;
    pgw_status st = pgw_attach(pgtemp_conn(), conf, &other);

    if (st == PGW_OK) st = pgw_enqueue(other, name, &job, NULL);
    TEST_ASSERT_EQUAL_INT(st, pgw_error_status(other));
    return pgw_close(other), st;
}
VERB(conf)
{
    pgw_conf *c;
    pgw_status st = pgw_conf_new(&c);

    if (st == PGW_OK) st = pgw_conf_set(c, "dsn", "host=h");
    if (st == PGW_OK) st = pgw_conf_set_int(c, PGW_CONF_POLL_MIN_MS, 7);
    if (st == PGW_OK) st = pgw_conf_set_bool(c, PGW_CONF_NOTIFY, false);
    if (st == PGW_OK) st = pgw_conf_set_text(c, PGW_CONF_HOLDER, name);
    if (st == PGW_OK) st = pgw_conf_set_log(c, PGW_LOG_WARN, NULL, NULL);
    if (st == PGW_OK) st = pgw_conf_each(c, on_property, NULL);
    if (st != PGW_OK && c != NULL) TEST_ASSERT_TRUE(*pgw_conf_error(c) != '\0');
    return pgw_conf_free(c), st;
}

static void end_it(const pgw_reap_stats *stats, void *stop)
{
    (void)stats, pgw_stop_notify(stop);
}
static const pgw_conf *the_same(void *arg)
{
    return (void)arg, conf;
}
VERB(reaper_run)
{
    pgw_stop *stop;
    pgw_reaper *r = NULL;
    pgw_status st = pgw_stop_new(&stop);

    if (st == PGW_OK) st = pgw_reaper_new(conf, &r);
    if (st == PGW_OK) st = pgw_reaper_on_tick(r, end_it, stop);
    if (st == PGW_OK) st = pgw_reaper_on_reload(r, the_same, NULL);
    pgw_reaper_reload(r);
    if (st == PGW_OK) st = pgw_reaper_run(r, stop);
    if (st < 0 && r != NULL) TEST_ASSERT_TRUE(*pgw_reaper_error(r) != '\0');
    pgw_reaper_free(r);
    return (void)name, pgw_stop_free(stop), st;
}

/* What cannot be kept is missing in the job, and nothing else happens. */
static pgw_verdict tell(pgw_task *task, void *arg)
{
    const char *before;

    pgw_task_progress(task, "1");
    pgw_task_last_progress(task, &before);
    pgw_task_set_output(task, "{\"a\": 1}");
    pgw_task_set_error(task, "none");
    pgw_task_set_delay(task, 1);
    pgw_task_set_verdict(task, PGW_VERDICT_RETRY);
    return (void)arg, PGW_VERDICT_DONE;
}
static pgw_status new_worker(const pgw_conf *c, const char *name, pgw_worker **w)
{
    pgw_worker_spec spec = PGW_WORKER_SPEC_INIT;

    spec.queues = &name, spec.queues_count = 1, spec.handler = tell;
    return pgw_worker_new(c, &spec, w);
}
static pgw_status prepare_worker(pgw_worker *w, bool threads)
{
    pgw_status st = pgw_worker_handle(w, "resize", tell, NULL, NULL);

    if (st == PGW_OK && threads) st = pgw_worker_add_source(w, conf);
    return st == PGW_OK ? pgw_worker_on_ready(w, NULL, NULL) : st;
}
VERB(worker_new)
{
    pgw_worker *w;
    pgw_status st = new_worker(NULL, name, &w);

    if (st == PGW_OK) st = prepare_worker(w, true);
    return pgw_worker_free(w), st;
}
VERB(worker_run)
{
    pgw_worker_stats stats = PGW_WORKER_STATS_INIT;
    pgw_worker *w;
    pgw_status st = new_worker(conf, name, &w);

    if (st == PGW_OK) st = prepare_worker(w, false);
    if (st == PGW_OK) {
        st = pgw_worker_run(w, NULL);
        if (st < 0) TEST_ASSERT_TRUE(*pgw_worker_error(w) != '\0');
        TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_get_stats(w, &stats));
        TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_get_source_stats(w, 0, &stats));
    }
    return pgw_worker_free(w), st;
}

void test_what_is_beside_a_handle_runs_out_of_memory_and_reports_the_truth(void)
{
    static const verb beside[] = {
        ROW(is_pooled, READS),
        ROW(migrate_up, READS),
        ROW(doctor, READS | LONG),
        ROW(reconnect, 0),
        ROW(open, READS | HANDLELESS),
        ROW(attach, HANDLELESS),
        ROW(conf, READS | HANDLELESS),
        ROW(reaper_run, VARIES | PIECES | HANDLELESS | LONG),
        ROW(worker_new, READS | HANDLELESS),
        ROW(worker_run, VARIES | PIECES | HANDLELESS | LONG),
    };

    sweep_all(beside, sizeof(beside) / sizeof(beside[0]));
}

/* ---- what reports no status ---- */

static void look_at_job(const pgw_job *j)
{
    size_t size;

    pgw_job_id(j), pgw_job_ref(j), pgw_job_queue(j), pgw_job_kind(j), pgw_job_payload(j);
    pgw_job_meta(j), pgw_job_body(j, &size), pgw_job_priority(j), pgw_job_attempt(j);
    pgw_job_max_attempts(j), pgw_job_tags_count(j), pgw_job_tag(j, 0), pgw_job_created_us(j);
    pgw_job_lease_until_us(j), pgw_job_state(j), pgw_job_holder(j), pgw_job_error(j);
    pgw_job_key(j), pgw_job_group(j), pgw_job_expires_us(j), pgw_job_output(j);
    pgw_job_progress(j), pgw_job_payload_hidden(j), pgw_job_run_at_us(j), pgw_job_finished_us(j);
}

static void look_at_tick(const pgw_tick *t)
{
    size_t size;

    pgw_tick_schedule(t), pgw_tick_slot_us(t), pgw_tick_token(t), pgw_tick_attempt(t);
    pgw_tick_until_us(t), pgw_tick_kind(t), pgw_tick_payload(t), pgw_tick_body(t, &size);
}

static void look_at_rows(const pgw_rows *r)
{
    pgw_rows_count(r), pgw_rows_columns(r), pgw_rows_name(r, 0), pgw_rows_at(r, 0, 0);
    pgw_rows_get(r, 0, "a"), pgw_rows_key(r, 0), pgw_rows_version(r, 0), pgw_rows_ref(r, 0);
    pgw_rows_lease_until_us(r, 0), pgw_table_sql(there.t);
}

static void look_at_handle(void)
{
    char text[PGW_TOKEN_TEXT_SIZE], fault[40];
    pgw_state state;
    pgw_token token;

    pgw_error_status(h), pgw_error_message(h), pgw_error_hint(h), pgw_error_sqlstate(h);
    pgw_error_statement(h), pgw_error_index(h), pgw_server_time_us(h), pgw_gated_ms(h);
    pgw_fd(h), pgw_events(h), pgw_timeout_ms(h), pgw_set_timeout(h, 1000), pgw_set_stop(h, NULL);
    pgw_set_timeout(h, PGW_DEFAULT), pgw_conf_get(conf, "dsn"), pgw_version();
    pgw_state_name(PGW_STATE_DONE), pgw_state_parse("done", &state);
    pgw_token_parse(pgw_token_format(it.tick, text), &token);
    pgw_status_name(PGW_OK), pgw_status_text(PGW_OK), pgw_is_retriable(PGW_OK);
    pgw_is_lost(PGW_OK), pgw_is_unknown(PGW_OK), pgw_is_bug(PGW_OK);
    pgw_cron_check("@daily", fault, sizeof(fault));
}

static void look_at_lock(pgw_lock *lock)
{
    pgw_lock_name(lock), pgw_lock_fence(lock), pgw_lock_watch(lock), pgw_lock_is_held(lock);
}

static pgw_verdict look_at_task(pgw_task *task, void *arg)
{
    oom_fail_from(1);
    look_at_job(pgw_task_job(task));
    pgw_task_source(task), pgw_task_signals(task), pgw_task_fd(task);
    *(bool *)arg = oom_failed();
    oom_fail(0);
    return PGW_VERDICT_DONE;
}

void test_what_reports_no_status_needs_no_memory(void)
{
    const char *q = "q";
    pgw_worker_spec spec = PGW_WORKER_SPEC_INIT;
    bool failed = true;
    pgw_batch *batch;
    pgw_tick *tick;
    pgw_rows *rows;
    pgw_lock *lock;
    pgw_worker *w;
    pgw_stop *stop;

    spec.queues = &q, spec.queues_count = 1, spec.handler = look_at_task, spec.arg = &failed;
    ASSERT_ST(PGW_OK, pgw_worker_new(conf, &spec, &w), NULL);
    ASSERT_ST(PGW_OK, pgw_worker_run(w, NULL), NULL);
    TEST_ASSERT_FALSE(failed);
    restore();
    ASSERT_ST(PGW_OK, it_claim(h, &batch, q, 1), h);
    ASSERT_ST(PGW_OK, pgw_cron_claim_due(h, NULL, &tick, NULL), h);
    ASSERT_ST(PGW_OK, pgw_table_get(h, there.t, THE_ROW(free_row, NULL, 0), &rows), h);
    ASSERT_ST(PGW_OK, pgw_lock_acquire(h, "q", NULL, &lock), h);
    ASSERT_ST(PGW_OK, pgw_stop_new(&stop), NULL);
    oom_fail_from(1);
    pgw_batch_count(batch), look_at_job(pgw_batch_job(batch, 0)), look_at_tick(tick);
    look_at_rows(rows), look_at_lock(lock), look_at_handle();
    pgw_stop_notify(stop), pgw_stop_count(stop), pgw_stop_fd(stop), pgw_stop_free(stop);
    pgw_batch_free(batch), pgw_tick_free(tick), pgw_rows_free(rows), pgw_worker_free(w);
    TEST_ASSERT_FALSE(oom_failed());
    oom_fail(0);
    ASSERT_ST(PGW_OK, pgw_lock_release(lock), h);
    restore();
}

/* ---- nothing is left out ---- */

static char *text_of(const char *path, char *to, size_t size)
{
    FILE *f = fopen(path, "r");
    size_t n;

    TEST_ASSERT_NOT_NULL_MESSAGE(f, path);
    n = fread(to, 1, size - 1, f);
    fclose(f);
    to[n] = '\0';
    return to;
}

static bool is_called(const char *function)
{
    static const char *const at[] = {"test/integration/test_it_oom.c", "test/support/verbs.h",
                                     "test/support/itpgw.h"};
    static char text[1 << 16];

    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
        if (strstr(text_of(at[i], text, sizeof(text)), function) != NULL) return true;
    /* called in the child of a fork only; and by oom_begin() */
    return strcmp(function, "pgw_abandon(") == 0 || strcmp(function, "pgw_set_allocator(") == 0;
}

void test_each_function_of_the_headers_is_called(void)
{
    static char header[1 << 17];
    char function[60];
    glob_t headers;
    int count = 0;

    TEST_ASSERT_EQUAL_INT(0, glob("inc/pgwork/*.h", 0, NULL, &headers));
    for (size_t i = 0; i < headers.gl_pathc; i++) {
        const char *at = text_of(headers.gl_pathv[i], header, sizeof(header));

        while ((at = strstr(at, "\nPGW_API ")) != NULL) {
            at = strstr(at, "pgw_");
            while (at[strspn(at, "abcdefghijklmnopqrstuvwxyz_")] != '(')
                at = strstr(at + 1, "pgw_");
            snprintf(function, sizeof(function), "%.*s(", (int)strcspn(at, "("), at);
            TEST_ASSERT_TRUE_MESSAGE(is_called(function), function);
            count++;
        }
    }
    globfree(&headers);
    TEST_ASSERT_GREATER_THAN_INT(200, count);
}
