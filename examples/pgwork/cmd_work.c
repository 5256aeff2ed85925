/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork work: runs a command for each job, as xargs does for each line.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "child.h"
#include "kinds.h"
#include "opts.h"
#include "out.h"
#include "sd.h"
#include "signals.h"
#include "template.h"
#include "text.h"

/* Exit codes of the command, from sysexits.h. */
#define WORK_DEAD  65 /* EX_DATAERR: no attempt can succeed */
#define WORK_LATER 75 /* EX_TEMPFAIL: try later */

#define WORK_OUTPUT_MAX 65536

#define WORK_AFTER_MS 2000 /* for the verdict of a command that was killed */

extern char **environ;

/* Set when the command can no longer be started. */
typedef struct work_end {
    atomic_int broken; /* errno; 0: none */
    const char *command;
} work_end;

typedef struct work {
    const cli *c;
    char *const *command; /* NULL: only some kinds have a command */
    bool keep_output, literal, body;
    int64_t grace_ms, later_ms;
    int hold;              /* exit code that holds the queue; 0: none */
    const wordlist *files; /* of -d: a database each; none: that of the environment */
    work_end *end;         /* of the worker */
} work;

/* -- the environment of a command ----------------------------------------------------------- */

#define WORK_VARIABLES 7

static char *work_variable(const char *name, const char *value)
{
    size_t n = strlen(name) + strlen(value) + 2;
    char *line = cli_alloc(n);
    snprintf(line, n, "%s=%s", name, value);
    return line;
}

static char *work_number(const char *name, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    return work_variable(name, digits);
}

/* Is it a variable that we set? */
static bool work_sets(char *const *ours, const char *variable)
{
    for (int i = 0; i < WORK_VARIABLES; i++) {
        if (strncmp(ours[i], variable, strcspn(ours[i], "=") + 1) == 0) return true;
    }
    return false;
}

/* Replaces inherited variables, because the command of another worker may run this one. Of a name
 * that is there twice, getenv() uses the first, and shells use the last. */
static char **work_environment(const work *w, const pgw_task *task)
{
    const pgw_job *job = pgw_task_job(task);
    size_t source = pgw_task_source(task);
    size_t count = 0, n = WORK_VARIABLES;
    char token[PGW_TOKEN_TEXT_SIZE];
    while (environ[count]) count++;
    char **env = cli_alloc((WORK_VARIABLES + count + 1) * sizeof *env);
    env[0] = work_number("PGWORK_JOB_ID", pgw_job_id(job));
    env[1] = work_number("PGWORK_ATTEMPT", pgw_job_attempt(job));
    env[2] = work_number("PGWORK_MAX_ATTEMPTS", pgw_job_max_attempts(job));
    env[3] = work_variable("PGWORK_QUEUE", pgw_job_queue(job));
    env[4] = work_variable("PGWORK_KIND", pgw_job_kind(job));
    env[5] = work_variable("PGWORK_TOKEN", pgw_token_format(pgw_job_ref(job).token, token));
    env[6] = work_variable("PGWORK_DSN_FILE", w->files->count ? w->files->at[source] : "");
    for (size_t i = 0; i < count; i++) {
        if (!work_sets(env, environ[i])) env[n++] = environ[i];
    }
    return env;
}

static void work_environment_free(char **env)
{
    for (int i = 0; i < WORK_VARIABLES; i++) free(env[i]);
    free(env);
}

/* -- verdicts ------------------------------------------------------------------------------- */

/* Sets the error of the job: @p first and @p last, each of which may be empty. Lists show the last
 * line. */
static void work_set_error(pgw_task *task, const char *first, const char *last)
{
    buf t = {0};
    buf_puts(&t, first);
    if (*first && *last) buf_puts(&t, "\n");
    buf_puts(&t, last);
    pgw_task_set_error(task, t.at);
    buf_free(&t);
}

/* After its last failure, a job that is not lost or cancelled is a dead letter, too. */
static pgw_verdict work_report(const work *w, pgw_task *task, pgw_verdict verdict, const char *what)
{
    const pgw_job *job = pgw_task_job(task);
    int attempt = pgw_job_attempt(job), most = pgw_job_max_attempts(job);
    bool last = verdict == PGW_VERDICT_RETRY && most > 0 && attempt >= most &&
                !(pgw_task_signals(task) & (PGW_SIGNAL_LOST | PGW_SIGNAL_CANCELED));
    char of[16] = "";
    if (most > 0) snprintf(of, sizeof of, " of %d", most);
    cli_say(w->c, "job %" PRId64 ", attempt %d%s: %s%s", pgw_job_id(job), attempt, of, what,
            verdict == PGW_VERDICT_DEAD || last ? ", dead letter" : "");
    return verdict;
}

/* Stopped by us: the cause comes last. */
static pgw_verdict work_failed(const work *w, pgw_task *task, pgw_verdict verdict, const char *what,
                               const char *words)
{
    work_set_error(task, words ? words : "", what);
    return work_report(w, task, verdict, what);
}

/* An exit code comes first, because stderr is more specific. */
static pgw_verdict work_exited(const work *w, pgw_task *task, int code, const char *words)
{
    char what[64];
    snprintf(what, sizeof what, "exit %d", code);
    work_set_error(task, what, words);
    return work_report(w, task, code == WORK_DEAD ? PGW_VERDICT_DEAD : PGW_VERDICT_RETRY, what);
}

static pgw_verdict work_interrupted(const work *w, pgw_task *task, const child *ch)
{
    if (ch->signaled & PGW_SIGNAL_LOST) {
        /* another worker may have the job: any verdict is refused */
        return work_failed(w, task, PGW_VERDICT_RETRY,
                           "the lease was lost, the command was stopped", NULL);
    }
    if (ch->signaled & PGW_SIGNAL_CANCELED) {
        /* a cancelled job is removed when it fails */
        return work_failed(w, task, PGW_VERDICT_RETRY, "cancelled, the command was stopped", NULL);
    }
    if (ch->signaled & PGW_SIGNAL_TIMEOUT) {
        return work_failed(w, task, PGW_VERDICT_RETRY, "took too long, the command was stopped",
                           ch->error);
    }
    pgw_task_set_delay(task, 0);
    return work_failed(w, task, PGW_VERDICT_SNOOZE,
                       "the worker was stopped, the command was stopped", NULL);
}

static void work_keep(const work *w, pgw_task *task, const child *ch)
{
    buf t = {0};
    buf_puts(&t, "{\"exit\":0,\"stdout\":");
    buf_add_json(&t, ch->output, ch->output_size);
    buf_puts(&t, ch->truncated ? ",\"truncated\":true}" : "}");
    if (pgw_task_set_output(task, t.at) < 0) {
        cli_say(w->c, "job %" PRId64 ": its output cannot be kept", pgw_job_id(pgw_task_job(task)));
    }
    buf_free(&t);
}

/* The text of errno, safe in threads. */
static void work_reason(char *to, size_t size, int failed)
{
    if (strerror_r(failed, to, size) != 0) snprintf(to, size, "errno %d", failed);
}

static pgw_verdict work_ended(const work *w, pgw_task *task, const child *ch)
{
    char reason[128], what[192];
    if (ch->unknown) {
        work_reason(reason, sizeof reason, ch->unknown);
        snprintf(what, sizeof what, "cannot determine how the command ended: %s", reason);
        return work_failed(w, task, PGW_VERDICT_RETRY, what, ch->error);
    }
    if (WIFSIGNALED(ch->status)) {
        snprintf(what, sizeof what, "killed by signal %d", WTERMSIG(ch->status));
        return work_failed(w, task, PGW_VERDICT_RETRY, what, ch->error);
    }
    int code = WEXITSTATUS(ch->status);
    if (code == 0) {
        if (w->keep_output) work_keep(w, task, ch);
        return PGW_VERDICT_DONE;
    }
    if (code == WORK_LATER || code == w->hold) {
        pgw_task_set_delay(task, w->later_ms);
        if (code != w->hold) return PGW_VERDICT_SNOOZE;
        if (*ch->error) work_set_error(task, ch->error, "");
        return PGW_VERDICT_HOLD;
    }
    return work_exited(w, task, code, ch->error);
}

/* Does the name of the command come from the job? */
static bool work_is_chosen(const work *w)
{
    return !w->literal && template_has_place(w->command[0]);
}

/* The name comes from the payload, so control characters are escaped. */
static pgw_verdict work_ill_chosen(const work *w, pgw_task *task, const char *name, int failed)
{
    char reason[128], what[512];
    pgw_verdict verdict;
    work_reason(reason, sizeof reason, failed);
    snprintf(what, sizeof what, "cannot start %.300s: %s", name, reason);
    char *visible = out_visible(what);
    verdict = work_failed(w, task, PGW_VERDICT_RETRY, visible, NULL);
    free(visible);
    return verdict;
}

/* After a failed start: decides whether the job, a temporary lack, or the command is the cause. */
static pgw_verdict work_unstarted(const work *w, pgw_task *task, const char *name, int failed)
{
    if (failed == E2BIG) {
        return work_failed(w, task, PGW_VERDICT_DEAD,
                           "the payload is too long for the command's arguments", NULL);
    }
    if (failed == EAGAIN || failed == ENOMEM || failed == EMFILE || failed == ENFILE) {
        char reason[128], what[192];
        work_reason(reason, sizeof reason, failed);
        snprintf(what, sizeof what, "cannot start the command now: %s", reason);
        pgw_task_set_delay(task, 1000);
        return work_failed(w, task, PGW_VERDICT_SNOOZE, what, NULL);
    }
    if (work_is_chosen(w)) return work_ill_chosen(w, task, name, failed);
    /* the next job would fail, too; notify once, because the second time stops running jobs */
    if (atomic_exchange(&w->end->broken, failed) == 0) {
        w->end->command = w->command[0];
        if (pgw_stop_count(w->c->stop) == 0) pgw_stop_notify(w->c->stop);
    }
    return PGW_VERDICT_RELEASE;
}

/* -- one job -------------------------------------------------------------------------------- */

static int work_signals(void *task)
{
    return pgw_task_signals(task);
}

static pgw_verdict work_job(pgw_task *task, void *arg)
{
    const work *w = arg;
    const pgw_job *job = pgw_task_job(task);
    char why[300];
    bool ours = false;
    size_t body_size;
    const char *payload = pgw_job_payload(job), *body = pgw_job_body(job, &body_size);
    if (w->end->broken) return PGW_VERDICT_RELEASE;
    char **filled = w->literal ? NULL : template_fill(w->command, job, &ours, why, sizeof why);
    if (!w->literal && !filled) {
        return work_failed(w, task, ours ? PGW_VERDICT_RETRY : PGW_VERDICT_DEAD, why, NULL);
    }
    child ch = {.argv = filled ? filled : w->command,
                .envp = work_environment(w, task),
                .input = w->body ? body : payload,
                .input_size = w->body   ? body_size
                              : payload ? strlen(payload)
                                        : 0,
                .keep = w->keep_output ? WORK_OUTPUT_MAX : 0,
                .wake_fd = pgw_task_fd(task),
                .signals = work_signals,
                .arg = task,
                .grace_ms = w->grace_ms};
    int failed = child_run(&ch);
    pgw_verdict verdict = failed        ? work_unstarted(w, task, ch.argv[0], failed)
                          : ch.signaled ? work_interrupted(w, task, &ch)
                                        : work_ended(w, task, &ch);
    free(ch.output);
    work_environment_free((char **)(uintptr_t)ch.envp);
    template_free(filled);
    return verdict;
}

/* -- the worker ----------------------------------------------------------------------------- */

/* @p file: of which database; NULL: of all. */
static void work_summary(const cli *c, const pgw_worker_stats *s, const char *file)
{
    if (c->json) {
        out o;
        out_begin(&o);
        if (file) out_text(&o, "dsn_file", file);
        out_int(&o, "claimed", s->claimed);
        out_int(&o, "completed", s->completed);
        out_int(&o, "failed", s->failed);
        out_int(&o, "dead", s->dead);
        out_int(&o, "snoozed", s->snoozed);
        out_int(&o, "released", s->released);
        out_int(&o, "refused", s->refused);
        out_int(&o, "lost", s->lost);
        out_int(&o, "reconnects", s->reconnects);
        out_end(&o);
        return;
    }
    cli_say(c,
            "%s%s%" PRId64 " completed, %" PRId64 " failed, %" PRId64 " dead, %" PRId64
            " snoozed, %" PRId64 " released, %" PRId64 " refused, %" PRId64 " lost",
            file ? file : "", file ? ": " : "", s->completed, s->failed, s->dead, s->snoozed,
            s->released, s->refused, s->lost);
}

static void work_summaries(const work *w, const pgw_worker *worker)
{
    pgw_worker_stats s = PGW_WORKER_STATS_INIT;
    for (size_t i = 0; w->files->count > 1 && i < w->files->count; i++) {
        pgw_worker_get_source_stats(worker, i, &s);
        work_summary(w->c, &s, w->files->at[i]);
    }
    pgw_worker_get_stats(worker, &s);
    work_summary(w->c, &s, NULL);
}

typedef struct work_news {
    const cli *c;
    const args *a;
    size_t databases;
} work_news;

/* Called after the first claim. */
static void work_announce(void *arg)
{
    const cli *c = ((const work_news *)arg)->c;
    const args *a = ((const work_news *)arg)->a;
    size_t databases = ((const work_news *)arg)->databases;
    buf t = {0};
    char from[48] = "";
    for (int i = 0; i < a->count; i++) {
        if (i > 0) buf_puts(&t, ", ");
        buf_puts(&t, a->at[i]);
    }
    if (databases > 1) snprintf(from, sizeof from, " of %zu databases", databases);
    cli_say(c, "working on %s%s, %s at a time", t.at, from,
            pgw_conf_get(c->conf, "worker.concurrency"));
    buf_free(&t);
    sd_notify("READY=1");
}

/* pgw_worker_new() returns no message: find the name that is not valid. */
static int work_refused(const cli *c, const work *w, const args *a, pgw_status st)
{
    for (int i = 0; st == PGW_EINVAL && i < a->count; i++) {
        pgw_worker *alone;
        pgw_status one = pgw_worker_new(c->conf,
                                        &(pgw_worker_spec){sizeof(pgw_worker_spec),
                                                           (const char *const *)a->at + i, 1,
                                                           work_job, NULL, (void *)(uintptr_t)w},
                                        &alone);
        pgw_worker_free(alone);
        if (one == PGW_EINVAL) {
            return cli_fail(
                CLI_USAGE, "a queue's name has 1 to 200 bytes of UTF-8, without control characters",
                "argument %d is not the name of a queue", i + 1);
        }
    }
    if (st != PGW_EINVAL) return cli_fail_with(st, NULL, NULL);
    return cli_fail(CLI_USAGE, "start another worker for the other queues",
                    "%d queues: a worker serves 1 to 64", a->count);
}

/* A worker that ends when its queues are empty warns about missing queues at the end. */
static void work_check_queues(cli *c, const args *a)
{
    if (cli_open(c, false) != CLI_DONE) return;
    for (int i = 0; i < a->count; i++) cli_check_queue(c, a->at[i]);
}

static int work_set_holder(pgw_conf *conf, const char *holder)
{
    if (!holder || pgw_conf_set(conf, "holder", holder) == PGW_OK) return CLI_DONE;
    return cli_fail(CLI_USAGE, NULL, "%s", pgw_conf_error(conf));
}

/* The databases of all files of -d but the first. */
static int work_add_sources(const work *w, pgw_worker *worker)
{
    for (size_t i = 1; i < w->files->count; i++) {
        cli c = *w->c;
        pgw_conf *conf;
        c.dsn_file = w->files->at[i];
        int code = cli_configure(&c, &conf);
        if (code != CLI_DONE) return code;
        code = work_set_holder(conf, pgw_conf_get(w->c->conf, "holder"));
        pgw_status st = code == CLI_DONE ? pgw_worker_add_source(worker, conf) : PGW_OK;
        pgw_conf_free(conf);
        if (st < 0) return cli_fail_with(st, pgw_worker_error(worker), NULL);
        if (code != CLI_DONE) return code;
    }
    return CLI_DONE;
}

/* Handlers by kind, and databases. */
static int work_equip(pgw_worker *worker, work *all, const kinds *k)
{
    for (size_t i = 0; i < k->count; i++) {
        pgw_status st = pgw_worker_handle(worker, k->at[i].name, work_job, &all[i], &k->at[i].opts);
        if (st < 0) return cli_fail_with(st, pgw_worker_error(worker), NULL);
    }
    return work_add_sources(&all[k->count], worker);
}

/* The exit code of a worker that has run. */
static int work_outcome(const work *w, const pgw_worker *worker, pgw_status st, bool once)
{
    bool stopped = pgw_stop_count(w->c->stop) > 1;
    pgw_worker_stats s = PGW_WORKER_STATS_INIT;
    if (st < 0) {
        int code = cli_fail_with(st, pgw_worker_error(worker), NULL);
        /* even KILL did not end the command: report the signal, not the timeout */
        return st == PGW_ETIMEDOUT && stopped ? signals_code() : code;
    }
    if (w->end->broken) {
        return cli_fail(w->end->broken == ENOENT ? 127 : 126,
                        "the job was requeued, no attempt was counted", "cannot start %s: %s",
                        w->end->command, strerror(w->end->broken));
    }
    if (stopped) return signals_code();
    pgw_worker_get_stats(worker, &s);
    return once && s.completed == 0 ? CLI_NOTHING : CLI_DONE;
}

static int work_run(cli *c, work *all, const kinds *k, const args *a, bool once)
{
    pgw_worker *worker;
    pgw_worker_stats s = PGW_WORKER_STATS_INIT;
    work *w = &all[k->count];
    work_news news = {c, a, w->files->count};
    pgw_status st =
        pgw_worker_new(c->conf,
                       &(pgw_worker_spec){sizeof(pgw_worker_spec), (const char *const *)a->at,
                                          (size_t)a->count, w->command ? work_job : NULL, NULL, w},
                       &worker);
    if (st < 0) return work_refused(c, w, a, st);
    int code = work_equip(worker, all, k);
    if (code != CLI_DONE) {
        pgw_worker_free(worker);
        return code;
    }
    pgw_worker_on_ready(worker, work_announce, &news);
    st = pgw_worker_run(worker, c->stop);
    sd_notify("STOPPING=1");
    code = work_outcome(w, worker, st, once);
    pgw_worker_get_stats(worker, &s);
    if (st >= 0 && s.claimed == 0 && w->files->count < 2 && pgw_stop_count(c->stop) == 0)
        work_check_queues(c, a);
    work_summaries(w, worker);
    pgw_worker_free(worker);
    return cli_finish(code);
}

static const char *work_name(const char *command)
{
    const char *slash = strrchr(command, '/');
    return slash ? slash + 1 : command;
}

static bool work_is_shell(const char *command)
{
    static const char *const shells[] = {"sh", "bash", "dash", "ksh", "zsh", "ash"};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (!strcmp(shells[i], work_name(command))) return true;
    }
    return false;
}

/* A payload must not become part of a program: sh -ec '...', bash -euo pipefail -c '...'. */
static bool work_begins_trap(char *const *command)
{
    bool script = false;
    if (!work_is_shell(*command)) return false;
    for (command++; *command && strchr("-+", **command); command++) {
        const char *option = *command;
        bool is_long = option[0] == '-' && option[1] == '-';
        bool takes_one = is_long ? !strcmp(option, "--rcfile") || !strcmp(option, "--init-file")
                                 : strpbrk(option, "oO") != NULL;
        script |= !is_long && option[0] == '-' && strchr(option, 'c');
        if (takes_one && command[1]) command++;
    }
    return script && *command && template_has_place(*command);
}

/* Also after env, timeout, sudo, pgwork lock and others that run a command. */
static bool work_is_shell_trap(char *const *command)
{
    while (*command && !work_begins_trap(command)) command++;
    return *command != NULL;
}

static int work_check(cli *c, const work *w)
{
    if (w->literal) return CLI_DONE;
    if (work_is_shell_trap(w->command)) {
        return cli_fail(CLI_USAGE, "pass it as an argument: sh -c 'convert \"$1\"' sh {file}",
                        "%s: a placeholder inside a shell script would run text of the payload",
                        c->command);
    }
    return CLI_DONE;
}

static int work_find(const work *w)
{
    if (work_is_chosen(w)) return CLI_DONE;
    int missing = child_find(w->command[0]);
    if (!missing) return CLI_DONE;
    return cli_fail(missing == ENOENT ? 127 : 126, NULL, "cannot start %s: %s", w->command[0],
                    strerror(missing));
}

/* Sets the number of threads: -j, else -X, else 1. Never 0: then the worker would extend no leases
 * while a command runs. */
static int work_set_threads(cli *c, int jobs)
{
    static const char name[] = "worker.concurrency";
    bool given = false;
    for (size_t i = 0; i < c->settings.count; i++) {
        const char *setting = c->settings.at[i];
        given |= strncmp(setting, name, sizeof name - 1) == 0 && setting[sizeof name - 1] == '=';
    }
    if (jobs == 0 && given && strcmp(pgw_conf_get(c->conf, name), "0") != 0) return CLI_DONE;
    return cli_set(c, name, jobs > 0 ? jobs : 1);
}

/* After worker.stop_ms the worker gives up a command and stops extending its lease. So the command
 * must be killed and its verdict sent before that. */
static int work_set_grace(cli *c, int64_t grace_ms)
{
    static const char name[] = "worker.stop_ms";
    int64_t enough = grace_ms + WORK_AFTER_MS, stop_ms = 0;
    if (enough > CLI_DAY) enough = CLI_DAY;
    if (text_to_int(&stop_ms, pgw_conf_get(c->conf, name)) && stop_ms >= enough) return CLI_DONE;
    return cli_set(c, name, enough);
}

/* The commands of the kinds, in order, and last the command of all others. */
static int work_commands(cli *c, work *all, size_t n, const kinds *k)
{
    for (size_t i = 0; i < n; i++) {
        char *const *own = i < k->count ? k->at[i].command : NULL;
        int code;
        if (i + 1 < n) all[i] = all[n - 1];
        if (own) all[i].command = own;
        if (!all[i].command && i + 1 < n) {
            return cli_fail(CLI_USAGE, "--kind KIND=COMMAND, or -- COMMAND",
                            "%s: kind \"%s\" has no command", c->command, k->at[i].name);
        }
        if (!all[i].command) continue;
        if ((code = work_check(c, &all[i])) != CLI_DONE) return code;
        if ((code = work_find(&all[i])) != CLI_DONE) return code;
    }
    return CLI_DONE;
}

typedef struct work_given {
    int64_t lease_ms, timeout_ms, max;
    int threads;
    const char *holder, *pass;
    bool once, until_empty;
} work_given;

static int work_configure(cli *c, const work_given *g, int64_t grace_ms)
{
    const int64_t max = g->once ? 1 : g->max;
    const struct {
        const char *name;
        int64_t value;
        bool given;
    } settings[] = {{"worker.max_jobs", max, max > 0},
                    {"worker.lease_ms", g->lease_ms, g->lease_ms > 0},
                    {"worker.job_timeout_ms", g->timeout_ms, g->timeout_ms > 0}};
    int code;
    if ((code = cli_configure(c, &c->conf)) != CLI_DONE) return code;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (settings[i].given &&
            (code = cli_set(c, settings[i].name, settings[i].value)) != CLI_DONE)
            return code;
    }
    if ((code = work_set_threads(c, g->threads)) != CLI_DONE) return code;
    if ((code = work_set_grace(c, grace_ms)) != CLI_DONE) return code;
    if ((g->until_empty || g->once) &&
        pgw_conf_set(c->conf, "worker.until_empty", "on") != PGW_OK) {
        return cli_fail(CLI_OTHER, NULL, "%s", pgw_conf_error(c->conf));
    }
    return work_set_holder(c->conf, g->holder);
}

static int work_main(cli *c, const work *w, const kinds *k, const args *a, const work_given *g)
{
    const size_t n = k->count + 1;
    work *all = cli_alloc(n * sizeof *all);
    int code;
    all[n - 1] = *w;
    code = work_commands(c, all, n, k);
    if (code == CLI_DONE) code = signals_install(c);
    if (code == CLI_DONE) code = signals_pass(c, g->pass);
    if (code == CLI_DONE) code = work_configure(c, g, w->grace_ms);
    if (code == CLI_DONE) code = work_run(c, all, k, a, g->once);
    free(all);
    return code;
}

int cmd_work(cli *c, int argc, char **argv)
{
    work_given g = {0};
    work_end end = {0};
    wordlist commands = {0}, jobs = {0}, timeouts = {0}, files = {0};
    work w = {.c = c, .grace_ms = 5000, .later_ms = 30000, .files = &files, .end = &end};
    if (c->dsn_file) wordlist_add(&files, c->dsn_file); /* before the command */
    const opt opts[] = {
        {'j', "jobs", "N", "run up to N commands at a time (1)", .number = &g.threads, .min = 1,
         .max = 1024},
        {'n', "max", "N", "end after N jobs", .big = &g.max, .min = 1, .max = INT64_MAX},
        {0, "once", NULL, "run one job if there is one, then end", .flag = &g.once},
        {0, "until-empty", NULL, "end when nothing can be claimed now", .flag = &g.until_empty},
        {0, "lease", "TIME", "lease of jobs that have none (that of the queue)", .ms = &g.lease_ms,
         .min = 100, .max = CLI_DAY},
        {0, "timeout", "TIME", "stop a command that takes longer (0: no limit)",
         .ms = &g.timeout_ms, .max = 30 * CLI_DAY},
        {0, "grace", "TIME", "between TERM and KILL for a command (5s)", .ms = &w.grace_ms,
         .max = CLI_DAY},
        {0, "later", "TIME", "delay of a job after exit code 75 (30s)", .ms = &w.later_ms,
         .max = 10 * CLI_YEAR},
        {0, "kind", "KIND=COMMAND", "a command for this kind, without quotes; may be repeated",
         .words = &commands},
        {0, "kind-jobs", "KIND=N", "run up to N commands of this kind; may be repeated",
         .words = &jobs},
        {0, "kind-timeout", "KIND=TIME", "--timeout for this kind; may be repeated",
         .words = &timeouts},
        {0, "hold", "CODE", "exit code that delays the job and holds its queue (none)",
         .number = &w.hold, .min = 1, .max = 255},
        {'k', "keep-output", NULL, "keep stdout as the job's output, up to 64 KB",
         .flag = &w.keep_output},
        {'b', "body", NULL, "write the body to stdin, not the payload", .flag = &w.body},
        {0, "literal", NULL, "replace no placeholders in COMMAND", .flag = &w.literal},
        {'d', "dsn-file", "FILE", "connection string of a database; may be repeated",
         .words = &files},
        {0, "holder", "NAME", "name of the worker (host:pid)", .text = &g.holder},
        {0, "pass", "SIGNALS", "pass these signals to commands: USR1,USR2,HUP", .text = &g.pass},
        {.name = NULL}};
    const usage use = {
        .synopsis = "work QUEUE... [OPTIONS] -- COMMAND [ARG...]\n"
                    "work QUEUE... --kind KIND=COMMAND... [OPTIONS] [-- COMMAND [ARG...]]",
        .about = "Runs COMMAND for each job. In its words, {name} is replaced by that member of\n"
                 "the payload, and {id}, {attempt}, {queue}, {kind} by these properties of the\n"
                 "job. {{name}} becomes {name}. A job whose payload lacks the member becomes a\n"
                 "dead letter at its first attempt. COMMAND reads the payload on stdin.\n"
                 "PGWORK_JOB_ID, PGWORK_ATTEMPT, PGWORK_MAX_ATTEMPTS, PGWORK_QUEUE, PGWORK_KIND,\n"
                 "PGWORK_TOKEN and PGWORK_DSN_FILE are set; `pgwork progress JSON` reads them.",
        .more = "The exit code of COMMAND decides what happens to the job:\n"
                "\n"
                "  0        the job is done\n"
                "  65       the job becomes a dead letter at once\n"
                "  75       the job is delayed by --later; no attempt is counted\n"
                "  others   the attempt failed; the job is retried, or becomes a dead letter\n"
                "\n"
                "The job's error says how COMMAND ended, and contains the end of its stderr. On\n"
                "TERM, INT, QUIT or HUP the worker claims nothing more, and running commands\n"
                "end. A second signal, except HUP, stops them. A third one kills them and ends\n"
                "pgwork at once. A reaper requeues their jobs when the leases end. --once ends\n"
                "with 1 when no job was completed.\n"
                "\n"
                "  pgwork work thumbs -j4 -- convert {file} -resize 200 thumbs/{id}.png\n"
                "  pgwork work site -j8 --kind 'video=./transcode {file}' --kind-jobs video=2 -- "
                "./handle {kind}",
        .min = 1,
        .max = -1, /* more than 64 are refused later */
        .missing = "QUEUE",
        .command = true,
        .instead = &commands,
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if (files.count) c->dsn_file = files.at[0];
    w.command = a.command;
    kinds k;
    code = kinds_read(c, &k, &commands, &jobs, &timeouts);
    if (code == CLI_DONE) code = work_main(c, &w, &k, &a, &g);
    kinds_free(&k);
    free(commands.at);
    free(jobs.at);
    free(timeouts.at);
    free(files.at);
    return code;
}
