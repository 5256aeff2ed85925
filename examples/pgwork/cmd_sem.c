/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork sem: counting semaphores, over all machines.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard.h"
#include "opts.h"
#include "out.h"
#include "signals.h"
#include "text.h"

#define SEM_TTL_MIN 100
#define SEM_TTL_MAX 86400000

static int sem_number(int *permits, const char *word)
{
    int64_t n;
    if (!text_to_int(&n, word) || n < 1 || n > 10000)
        return cli_fail(CLI_USAGE, NULL, "\"%s\" is not a number of permits: expected 1..10000",
                        word);
    *permits = (int)n;
    return CLI_DONE;
}

static int sem_token(pgw_token *token, const char *word)
{
    if (pgw_token_parse(word, token) == PGW_OK) return CLI_DONE;
    return cli_fail(CLI_USAGE, "`pgwork sem acquire` prints the token",
                    "\"%s\" is not a valid token: expected a UUID", word);
}

/* -- create, resize, drop ------------------------------------------------------------------- */

static int sem_size(cli *c, int argc, char **argv, const usage *use,
                    pgw_status (*apply)(pgw *, const char *, int))
{
    static const opt none[] = {{.name = NULL}};
    args a;
    int permits = 0, code = opts_parse(c, &a, use, none, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = sem_number(&permits, a.at[1])) != CLI_DONE) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return apply(c->h, a.at[0], permits) < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

static int sem_create(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "sem create NAME PERMITS",
        .about = "Creates a semaphore. Does nothing if it exists with the same number of permits.",
        .min = 2,
        .max = 2,
        .missing = "NAME PERMITS",
    };
    return sem_size(c, argc, argv, &use, pgw_sema_create);
}

static int sem_resize(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "sem resize NAME PERMITS",
        .about = "Changes the number of permits, even while permits are held. If more are held\n"
                 "than the new number, the rest are removed as they are released. Nothing is\n"
                 "granted until then.",
        .min = 2,
        .max = 2,
        .missing = "NAME PERMITS",
    };
    return sem_size(c, argc, argv, &use, pgw_sema_resize);
}

static int sem_drop(cli *c, int argc, char **argv)
{
    bool force = false;
    const opt opts[] = {{0, "force", NULL, "drop it even while permits are held", .flag = &force},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "sem drop NAME [--force]",
        .about = "Removes a semaphore. Refuses while permits are held.",
        .min = 1,
        .max = 1,
        .missing = "NAME",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return pgw_sema_drop(c->h, a.at[0], force) < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

/* -- permits -------------------------------------------------------------------------------- */

typedef struct sem {
    cli *c;
    const char *name;
    pgw_sema_opts o;
    pgw_token token;
    bool no_wait;
    /* for run; times are of the monotonic clock */
    int64_t extend_at, asked_at;
    int64_t until; /* the permits are ours until then, even without the server */
    bool asking, lost, reported;
} sem;

static int sem_open(sem *s)
{
    int code = guard_wait(s->c, s->no_wait, &s->o.timeout_ms);
    if (code != CLI_DONE) return code;
    if ((code = signals_install(s->c)) != CLI_DONE) return code;
    if ((code = cli_open(s->c, false)) != CLI_DONE) return code;
    pgw_set_stop(s->c->h, s->c->stop);
    return CLI_DONE;
}

/* The lease began when the request was sent, or later. */
static void sem_count(sem *s)
{
    s->extend_at = s->asked_at + s->o.ttl_ms / 3;
    s->until = s->asked_at + s->o.ttl_ms;
}

static pgw_status sem_take(sem *s)
{
    s->asked_at = text_tick_ms();
    sem_count(s);
    return pgw_sema_acquire(s->c->h, s->name, &s->o, &s->token);
}

static pgw_status sem_renew(sem *s)
{
    s->asked_at = text_tick_ms();
    sem_count(s);
    return pgw_sema_extend(s->c->h, s->name, s->token, s->o.ttl_ms);
}

/* For a command that was not started: releases the permits. */
static int sem_give_up(sem *s, pgw_status st, int held)
{
    int code = guard_refused(s->c, st, held);
    pgw_set_stop(s->c->h, NULL);
    pgw_sema_release(s->c->h, s->name, s->token); /* if it fails, their lease ends later */
    return st == PGW_ELEASE ? held : code;
}

static int sem_acquire(cli *c, int argc, char **argv)
{
    sem s = {.c = c, .o = PGW_SEMA_OPTS_INIT};
    s.o.timeout_ms = PGW_UNLIMITED;
    const opt opts[] = {{0, "permits", "N", "take N permits, all or none (1)",
                         .number = &s.o.permits, .min = 1, .max = 10000},
                        {'w', "wait", "TIME", "wait up to TIME (no limit)", .ms = &s.o.timeout_ms,
                         .max = GUARD_WAIT_MAX},
                        {'n', "no-wait", NULL, "do not wait", .flag = &s.no_wait},
                        {0, "ttl", "TIME", "lease of the permits (30s)", .ms = &s.o.ttl_ms,
                         .min = SEM_TTL_MIN, .max = SEM_TTL_MAX},
                        {0, "holder", "NAME", "name of the holder (host:pid)", .text = &s.o.holder},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "sem acquire NAME [--permits N] [-w TIME | -n] [--ttl TIME] [--holder NAME]",
        .about = "Takes permits and prints their token, for scripts.",
        .more = "Exit code 75: not enough permits are free.",
        .min = 1,
        .max = 1,
        .missing = "NAME",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    s.name = a.at[0];
    if ((code = sem_open(&s)) != CLI_DONE) return code;
    pgw_status st = sem_take(&s);
    if (st != PGW_OK) return guard_refused(c, st, CLI_HELD);
    char token[PGW_TOKEN_TEXT_SIZE];
    pgw_token_format(s.token, token);
    if (c->json) {
        out o;
        out_begin(&o);
        out_text(&o, "semaphore", s.name);
        out_text(&o, "token", token);
        out_int(&o, "permits", s.o.permits);
        out_end(&o);
    } else {
        puts(token);
    }
    code = cli_finish(CLI_DONE);
    if (code == CLI_DONE) return code;
    pgw_set_stop(c->h, NULL); /* permits whose token was not printed must be released */
    return pgw_sema_release(c->h, s.name, s.token) < 0 ? cli_fail_at(c->h) : code;
}

/* CLI_NOTHING means that permits are lost, so a resize that blocks the call gets another code. */
static int sem_code(const cli *c, pgw_status st)
{
    return st >= 0 ? CLI_DONE : guard_refused(c, st, CLI_HELD);
}

static int sem_extend(cli *c, int argc, char **argv)
{
    int64_t ttl_ms = 30000;
    const opt opts[] = {{0, "ttl", "TIME", "new lease, from now (30s)", .ms = &ttl_ms,
                         .min = SEM_TTL_MIN, .max = SEM_TTL_MAX},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "sem extend NAME TOKEN [--ttl TIME]",
        .about = "Extends the lease of permits. Exit code 1: the permits are lost, because their\n"
                 "lease ended. 75: another transaction is resizing or dropping the semaphore, try\n"
                 "again.",
        .min = 2,
        .max = 2,
        .missing = "NAME TOKEN",
    };
    args a;
    pgw_token token;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = sem_token(&token, a.at[1])) != CLI_DONE) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return sem_code(c, pgw_sema_extend(c->h, a.at[0], token, ttl_ms));
}

static int sem_release(cli *c, int argc, char **argv)
{
    static const opt none[] = {{.name = NULL}};
    static const usage use = {
        .synopsis = "sem release NAME TOKEN",
        .about = "Releases permits. Exit code 1: their lease had ended, others may hold them. 75:\n"
                 "another transaction is resizing or dropping the semaphore, try again.",
        .min = 2,
        .max = 2,
        .missing = "NAME TOKEN",
    };
    args a;
    pgw_token token;
    int code = opts_parse(c, &a, &use, none, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = sem_token(&token, a.at[1])) != CLI_DONE) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return sem_code(c, pgw_sema_release(c->h, a.at[0], token));
}

/* -- run ------------------------------------------------------------------------------------ */

#define SEM_POLL_MS 50 /* wait for an answer; the command is not watched meanwhile */

static void sem_answered(pgw *h, pgw_status st, void *arg)
{
    sem *s = arg;
    s->asking = false;
    s->extend_at = text_tick_ms() + s->o.ttl_ms / 12;
    if (st == PGW_OK) {
        sem_count(s);
    } else if (st == PGW_ELEASE || st == PGW_ENOTFOUND) {
        s->lost = true;
    } else if ((st == PGW_ELOCKED || st == PGW_ETIMEDOUT) && !s->reported) {
        /* it is tried again; the message names a transaction that must commit */
        cli_say(s->c, "%s", pgw_error_message(h));
        s->reported = true;
    }
}

static void sem_ask(sem *s)
{
    s->asking = true;
    s->asked_at = text_tick_ms();
    /* permits of a session need that session: do not reconnect */
    pgw_set_timeout(s->c->h, s->o.session ? s->until - s->asked_at : s->o.ttl_ms / 3);
    pgw_async(s->c->h, sem_answered, s);
    pgw_status st = pgw_sema_extend(s->c->h, s->name, s->token, s->o.ttl_ms);
    if (st != PGW_OUTCOME_AGAIN) sem_answered(s->c->h, st, s);
}

/* A permit of the session is lost with the session, even if another session could still extend it:
 * the server may notice the broken connection later than we do. */
static bool sem_is_ours(sem *s)
{
    pgw *h = s->c->h;
    if (!s->asking) pgw_step(h); /* reads messages of the server, or notices that it is gone */
    if (s->o.session && pgw_fd(h) < 0) s->lost = true;
    return !s->lost;
}

static void sem_listen(sem *s)
{
    pgw *h = s->c->h;
    int64_t end = text_tick_ms() + SEM_POLL_MS, left = SEM_POLL_MS;
    while (pgw_step(h) == PGW_OUTCOME_AGAIN && sem_is_ours(s) && left > 0) {
        int events = pgw_events(h);
        int64_t timer = pgw_timeout_ms(h);
        struct pollfd p = {.fd = events ? pgw_fd(h) : -1};
        if (events & PGW_EVENT_READ) p.events |= POLLIN;
        if (events & PGW_EVENT_WRITE) p.events |= POLLOUT;
        poll(&p, 1, (int)(timer >= 0 && timer < left ? timer : left));
        left = end - text_tick_ms();
    }
}

/* Extends the lease after a third of it, so that two failures in a row do no harm. If the server
 * cannot be reached until the lease ends, the permits are lost, because others may get them. */
static bool sem_holds(void *arg)
{
    sem *s = arg;
    if (!sem_is_ours(s)) return false;
    if (!s->asking && text_tick_ms() >= s->extend_at) sem_ask(s);
    if (s->asking) sem_listen(s);
    if (text_tick_ms() >= s->until) s->lost = true;
    return sem_is_ours(s);
}

/* After the command ended with @p code: releases the permits. */
static int sem_return(sem *s, const char *command, int code)
{
    pgw *h = s->c->h;
    while (s->asking && text_tick_ms() < s->until && sem_is_ours(s)) sem_listen(s);
    if (!sem_is_ours(s)) {
        return code == CLI_LOST
                   ? code
                   : cli_fail(CLI_LOST, "more commands than permits may have run at the same time",
                              "the permit was lost while %s ran", command);
    }
    if (s->asking) return code; /* their lease is over as well */
    pgw_set_timeout(h, PGW_DEFAULT);
    pgw_status st = pgw_sema_release(h, s->name, s->token);
    if (st == PGW_OK || code == CLI_LOST) return code;
    cli_fail_at(h);
    return st == PGW_ELEASE || st == PGW_ENOTFOUND ? CLI_LOST : code;
}

static int sem_run(cli *c, int argc, char **argv)
{
    sem s = {.c = c, .o = PGW_SEMA_OPTS_INIT};
    int64_t grace_ms = 5000;
    int held = CLI_HELD;
    const char *pass = NULL;
    s.o.timeout_ms = PGW_UNLIMITED;
    const opt opts[] = {
        {0, "permits", "N", "take N permits, all or none (1)", .number = &s.o.permits, .min = 1,
         .max = 10000},
        {'w', "wait", "TIME", "wait up to TIME (no limit)", .ms = &s.o.timeout_ms,
         .max = GUARD_WAIT_MAX},
        {'n', "no-wait", NULL, "do not wait", .flag = &s.no_wait},
        {'E', "held-code", "N", "exit code when the permits are not obtained (75)", .number = &held,
         .min = 0, .max = 255},
        {0, "ttl", "TIME", "lease, extended while the command runs (30s)", .ms = &s.o.ttl_ms,
         .min = SEM_TTL_MIN, .max = SEM_TTL_MAX},
        {0, "grace", "TIME", "between TERM and KILL when the permits are lost (5s)",
         .ms = &grace_ms, .max = SEM_TTL_MAX},
        {0, "holder", "NAME", "name of the holder (host:pid)", .text = &s.o.holder},
        {0, "pass", "SIGNALS", "pass these signals to the command: USR1,USR2,HUP", .text = &pass},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "sem run NAME [OPTIONS] -- COMMAND [ARG...]",
        .about = "Runs a command while holding permits, and releases them when it ends. The\n"
                 "command is stopped if they are lost, or by any signal that would end this\n"
                 "process. It finds the token in PGWORK_PERMIT.",
        .more = "Exit code: that of the command. 75: the permits were not obtained. 74: they\n"
                "were lost while the command ran. 126, 127: the command cannot be started, or\n"
                "does not exist.\n"
                "\n"
                "Processes that the command started are stopped with it, except if stdin is a\n"
                "terminal, or if this process is killed. A third signal kills them and ends\n"
                "pgwork at once.",
        .min = 1,
        .max = 1,
        .missing = "NAME",
        .command = true,
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = guard_find(a.command)) != CLI_DONE) return code;
    s.name = a.at[0];
    if ((code = sem_open(&s)) != CLI_DONE) return code;
    if ((code = signals_pass(c, pass)) != CLI_DONE) return code;
    bool pooled;
    if (pgw_is_pooled(c->h, &pooled) != PGW_OK) return cli_fail_at(c->h);
    s.o.session = !pooled;
    pgw_status st = sem_take(&s);
    if (st != PGW_OK) return guard_refused(c, st, held);
    /* after a wait the time of the grant is unknown */
    if (text_tick_ms() >= s.extend_at && (st = sem_renew(&s)) != PGW_OK)
        return sem_give_up(&s, st, held);
    char token[PGW_TOKEN_TEXT_SIZE];
    setenv("PGWORK_PERMIT", pgw_token_format(s.token, token), 1);
    guard g = {.c = c,
               .command = a.command,
               .what = "permit",
               .wake_fd = s.o.session ? pgw_fd(c->h) : -1,
               .holds = sem_holds,
               .arg = &s,
               .grace_ms = grace_ms};
    pgw_set_stop(c->h, NULL); /* from here on signals are for the command */
    return sem_return(&s, a.command[0], guard_run(&g));
}

/* -- list ----------------------------------------------------------------------------------- */

typedef struct listing {
    const char *name;
    bool json;
    table rows;
} listing;

static int sem_each(const pgw_sema_info *s, void *arg)
{
    listing *l = arg;
    if (l->json) {
        out o;
        out_begin(&o);
        out_text(&o, "semaphore", s->name);
        out_int(&o, "permits", s->permits);
        out_int(&o, "taken", s->taken);
        out_int(&o, "waiting", s->waiting);
        out_end(&o);
        return 0;
    }
    table_text(&l->rows, s->name);
    table_int(&l->rows, s->permits);
    table_int(&l->rows, s->taken);
    table_int(&l->rows, s->waiting);
    return 0;
}

static int sem_each_grant(const pgw_sema_grant *g, void *arg)
{
    listing *l = arg;
    if (l->json) {
        out o;
        out_begin(&o);
        out_text(&o, "semaphore", l->name);
        out_int(&o, "number", (int64_t)g->number);
        out_int(&o, "permits", g->permits);
        out_text(&o, "holder", g->holder);
        out_time(&o, "taken", g->taken_us);
        out_time(&o, "until", g->until_us);
        out_int(&o, "pid", g->pid);
        out_end(&o);
        return 0;
    }
    char time[TEXT_TIME];
    table_int(&l->rows, (int64_t)g->number);
    table_int(&l->rows, g->permits);
    table_text(&l->rows, g->holder);
    table_text(&l->rows, text_time(time, g->taken_us));
    table_text(&l->rows, g->until_us != PGW_NONE ? text_time(time, g->until_us) : NULL);
    table_int(&l->rows, g->pid);
    return 0;
}

static int sem_list(cli *c, int argc, char **argv)
{
    static const opt none[] = {{.name = NULL}};
    static const usage use = {
        .synopsis = "sem list [NAME]",
        .about = "Lists all semaphores, or the holders of NAME. Permits with a PID are released\n"
                 "when that process of the server ends. Permits with PID 0 are released when\n"
                 "their lease ends, and without a time in UNTIL when their job does.",
        .more = "Exit code 1: nothing was found.",
        .max = 1,
    };
    static const char *const all[] = {"SEMAPHORE", "PERMITS>", "TAKEN>", "WAITING>"},
                             *const one[] = {"NUMBER>", "PERMITS>", "HOLDER",
                                             "TAKEN",   "UNTIL",    "PID>"};
    args a;
    int code = opts_parse(c, &a, &use, none, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    listing l = {.name = a.count ? a.at[0] : NULL, .json = c->json};
    pgw_status st;
    if (l.name) {
        pgw_sema_info info = PGW_SEMA_INFO_INIT;
        table_begin(&l.rows, one, sizeof one / sizeof *one);
        st = pgw_sema_status(c->h, l.name, &info);
        if (st == PGW_OK) st = pgw_sema_grants_each(c->h, l.name, sem_each_grant, &l);
    } else {
        table_begin(&l.rows, all, sizeof all / sizeof *all);
        st = pgw_semas_each(c->h, sem_each, &l);
    }
    table_end(&l.rows);
    return cli_listed(c, st, l.name ? "no permits are held" : "there are no semaphores");
}

int cmd_sem(cli *c, int argc, char **argv)
{
    static const verb verbs[] = {
        {"create", "", sem_create},   {"acquire", "", sem_acquire}, {"extend", "", sem_extend},
        {"release", "", sem_release}, {"resize", "", sem_resize},   {"drop", "", sem_drop},
        {"list", "", sem_list},       {"run", "", sem_run},         {NULL, NULL, NULL}};
    static const usage use = {
        .synopsis = "sem create|resize NAME PERMITS\nsem drop NAME [--force]\nsem list [NAME]\n"
                    "sem run NAME [OPTIONS] -- COMMAND [ARG...]\nsem acquire NAME [OPTIONS]\n"
                    "sem extend|release NAME TOKEN",
        .about = "Manages counting semaphores. All machines together hold at most the number of\n"
                 "permits.\n"
                 "\n"
                 "  create    create a semaphore\n"
                 "  resize    change the number of permits\n"
                 "  drop      remove a semaphore\n"
                 "  list      list all semaphores, or the holders of one\n"
                 "  run       run a command while holding permits\n"
                 "  acquire   take permits and print their token, for scripts\n"
                 "  extend    extend the lease of permits\n"
                 "  release   release permits",
        .more = "Options of a verb: `pgwork sem run --help`.",
        .missing = "create, acquire, extend, release, resize, drop, list or run",
    };
    return opts_dispatch(c, &use, verbs, NULL, argc, argv);
}
