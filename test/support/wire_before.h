/* wire_before: for wire_verbs.c alone: what a case is about, and what comes before each verb. */
#ifndef WIRE_BEFORE_H
#define WIRE_BEFORE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "callkit.h"
#include "itpgw.h"
#include "pgtemp.h"
#include "unity.h"

static pgw *h, *direct;
static pgw_table *rows_table;

/* What one case is about: objects of its own, all with the same name. */
static struct {
    char name[24], op[40];
    int time; /* of the call */
    int64_t count;
    pgw_ref ref;
    pgw_token token;
    pgw_rows *rows;
    pgw_table *table;
    pgw_lock *lock;
    pgw *other;
    const char *dsn, *schema;
} it;

/* Each case has a line of its own. */
static void open_through_wire(void)
{
    const char *const pairs[] = {"dsn",
                                 it.dsn,
                                 "schema.check",
                                 "off",
                                 "schema",
                                 it.schema,
                                 "reconnect.base_ms",
                                 "1",
                                 "reconnect.cap_ms",
                                 "1",
                                 NULL};

    h = it_open_with(pairs);
}

/* The name of the case is in the setting wire.name. */
#define NAME       "current_setting('wire.name')"
#define JOBS(what) "SELECT " what " FROM pgwork.job WHERE queue = " NAME
#define PERMITS(what)                                                                     \
    "SELECT " what " FROM pgwork.permit p JOIN pgwork.semaphore s ON s.id = p.semaphore " \
    "WHERE s.name = " NAME
#define SCHEDULE(what) "SELECT " what " FROM pgwork.schedules WHERE name = " NAME
#define ROW(what)      "SELECT " what " FROM r WHERE id = " NAME
#define SOON           "clock_timestamp() + interval '1 h'"
#define QUEUE(what)    "SELECT " what " FROM pgwork.queue WHERE name = " NAME
#define GROUP(what)                                                                   \
    "SELECT " what " FROM pgwork.group_rule g JOIN pgwork.queue q ON q.id = g.queue " \
    "WHERE q.name = " NAME
#define RATE(what)   "SELECT " what " FROM pgwork.rate_list(" NAME ")"
#define HELD(what)   "SELECT " what " FROM pgwork._advisory(pgwork.lock_key(" NAME ")) WHERE granted"
#define LEASED(what) "SELECT " what " FROM pgwork.leased_table WHERE table_name = 'r'"

/* NAME is the name of the case. */
static void run_sql(const char *sql)
{
    char text[400];

    snprintf(text, sizeof(text), "SET wire.name = '%s'; %s", it.name, sql);
    pgtemp_exec(text);
}

/* -- what comes before a verb -- */

static void with_nothing(void) {}

static void with_queue(void)
{
    ASSERT_ST(PGW_OK, pgw_queue_create(direct, it.name, NULL), direct);
}

static void with_ready(void)
{
    it.ref.id = it_enqueue(direct, it.name, "1");
}

static void with_job(void)
{
    with_ready();
    it.ref = it_claim_one(direct, it.name);
}

static void with_job_and_another(void)
{
    with_job();
    it_enqueue(direct, it.name, "2");
}

static void with_dead(void)
{
    pgw_fail_opts o = PGW_FAIL_OPTS_INIT;

    with_job();
    o.dead = true;
    ASSERT_ST(PGW_OK, pgw_fail(direct, it.name, &it.ref, 1, &o), direct);
}

static void with_sema(void)
{
    ASSERT_ST(PGW_OK, pgw_sema_create(direct, it.name, 3), direct);
}

static void with_permit(void)
{
    with_sema();
    ASSERT_ST(PGW_OK, pgw_sema_acquire(direct, it.name, NULL, &it.token), direct);
}

static pgw_status create_schedule(pgw *on)
{
    return pgw_cron_create(on, it.name, "0 0 1 1 *", NULL, NULL);
}

static void with_schedule(void)
{
    ASSERT_ST(PGW_OK, create_schedule(direct), direct);
}

static void with_due_tick(void)
{
    with_schedule();
    ASSERT_ST(PGW_OK, pgw_cron_run(direct, it.name, NULL), direct);
}

static pgw_status claim_tick(pgw *on)
{
    const char *names[] = {it.name};
    pgw_tick *tick;
    const pgw_status st = pgw_cron_claim_due(on, DUE_FOR("node", names, 1), &tick, NULL);

    if (st == PGW_OK) it.token = pgw_tick_token(tick);
    pgw_tick_free(tick);
    return st;
}

static void with_tick(void)
{
    with_due_tick();
    ASSERT_ST(PGW_OK, claim_tick(direct), direct);
}

static void with_row(void)
{
    run_sql("INSERT INTO r (id) VALUES (" NAME ")");
}

static pgw_status claim_row(pgw *on)
{
    pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
    const char *values[] = {it.name};

    o.holder = "me", o.lease_ms = 60000;
    o.where = "id = $1", o.values = values, o.values_count = 1;
    pgw_rows_free(it.rows);
    return pgw_table_claim(on, rows_table, &o, &it.rows);
}

static void with_leased_row(void)
{
    with_row();
    ASSERT_ST(PGW_OK, claim_row(direct), direct);
}

static void with_old_lease(void)
{
    run_sql("INSERT INTO r (id, locked_by, expires_at, token) VALUES (" NAME
            ", 'me', now() - interval '1 min', gen_random_uuid())");
}

static void with_registered(void)
{
    with_old_lease();
    ASSERT_ST(PGW_OK, pgw_table_register(direct, rows_table), direct);
}

static void with_unregistered(void)
{
    pgw_table_unregister(direct, "public", "r");
}

static void with_bare_table(void)
{
    char sql[80];

    snprintf(sql, sizeof(sql), "CREATE TABLE %s (id text PRIMARY KEY)", it.name);
    pgtemp_exec(sql);
}

static void with_due_job(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;

    job.delay_ms =
        3600000; /* a short delay may be over when the job is written: then it is ready */
    ASSERT_ST(PGW_OK, pgw_enqueue(direct, it.name, &job, NULL), direct);
    run_sql("UPDATE pgwork.delayed_job j SET run_at = now() FROM pgwork.queue q "
            "WHERE q.id = j.queue AND q.name = " NAME);
}

static void with_delayed(void)
{
    with_job();
    ASSERT_ST(PGW_OK, pgw_snooze(direct, it.name, &it.ref, 1, SNOOZE_BY(3600000)), direct);
}

static void with_paused(void)
{
    with_queue();
    ASSERT_ST(PGW_OK, pgw_queue_pause(direct, it.name), direct);
}

static pgw_status hold_queue(pgw *on)
{
    pgw_queue_hold_opts o = PGW_QUEUE_HOLD_OPTS_INIT;

    o.for_ms = 7200000;
    return pgw_queue_hold(on, it.name, &o);
}

static void with_held_queue(void)
{
    with_queue();
    ASSERT_ST(PGW_OK, hold_queue(direct), direct);
}

static void with_queue_and_sema(void)
{
    with_queue();
    with_sema();
}

static void with_held_group(void)
{
    with_queue();
    ASSERT_ST(PGW_OK, pgw_group_hold(direct, it.name, "g", 7200000), direct);
}

static void with_gated(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;

    job.group = "g";
    ASSERT_ST(PGW_OK, pgw_enqueue(direct, it.name, &job, NULL), direct);
}

static pgw_status set_rate(pgw *on)
{
    pgw_rate_opts o = PGW_RATE_OPTS_INIT;

    o.burst = 2, o.per_ms = 3600000;
    return pgw_rate_set(on, it.name, &o);
}

static void with_rate(void)
{
    ASSERT_ST(PGW_OK, set_rate(direct), direct);
}

static void with_paused_schedule(void)
{
    with_schedule();
    ASSERT_ST(PGW_OK, pgw_cron_pause(direct, it.name), direct);
}

static void with_due_schedule(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    o.queue = it.name;
    ASSERT_ST(PGW_OK, pgw_cron_create(direct, it.name, "0 0 1 1 *", &o, NULL), direct);
    run_sql("UPDATE pgwork.schedule SET base = now() - interval '1 year', next_at = now(), "
            "next_slot = date_trunc('year', now(), 'UTC') WHERE name = " NAME);
}

static pgw_status acquire(pgw *on, int64_t timeout_ms)
{
    pgw_lock *lock;
    const pgw_status st =
        pgw_lock_acquire(on, it.name, LOCK_AS(PGW_LOCK_EXCLUSIVE, timeout_ms), &lock);

    if (st != PGW_OK) return st;
    pgw_lock_release(it.lock); /* of a lost session */
    it.lock = lock;
    return st;
}

static void with_lock(void)
{
    open_through_wire();
    ASSERT_ST(PGW_OK, acquire(h, 0), h);
}

static void with_lock_of_another(void)
{
    it.other = it_open_bare();
    ASSERT_ST(PGW_OK, acquire(it.other, 0), it.other);
}

static void with_free_lock(void)
{
    ASSERT_ST(PGW_OK, acquire(direct, 0), direct);
    pgw_lock_release(it.lock);
    it.lock = NULL;
}

static void with_a_schema_to_come(void)
{
    it.schema = it.name;
}

#endif
