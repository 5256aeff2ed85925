/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork enqueue: jobs from arguments, a file or stdin. Lines are loaded: by one COPY for the owner
 * of the tables, by statements for others. Jobs with unique keys or an operation id are always
 * enqueued by statements, which return the outcome of each.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job.h"
#include "opts.h"
#include "out.h"
#include "signals.h"
#include "term.h"

#define ENQUEUE_LOT        10000        /* jobs in one statement */
#define ENQUEUE_LOT_BYTES  (8 << 20)    /* and about how many bytes */
#define ENQUEUE_RECORD_MAX (256u << 20) /* bytes of one line: the largest max_bytes */

typedef struct enqueue {
    cli *c;
    const char *queue, *op;
    job_form form; /* how to make a job from a record */
    const char *file, *body;
    bool from_arguments, by_statement, empty;
    char end; /* of a record: newline or NUL */
    /* state */
    pgw_load *load;
    job_text *lot;    /* jobs collected for the next statement */
    int64_t *numbers; /* of the records of the last jobs, the n-th at n % ENQUEUE_LOT */
    size_t lot_count, lot_bytes;
    int64_t added, exists, replaced, repeated;
    progress bar;
} enqueue;

/* Bytes that have been read and not parsed. */
typedef struct source {
    int fd;
    bool ended;
    size_t at, size;
    char bytes[65536];
} source;

/* -- results and errors ----------------------------------------------------------------------- */

static void enqueue_report(enqueue *e, int64_t id, pgw_status outcome)
{
    const char *word = outcome == PGW_OUTCOME_EXISTS     ? "exists"
                       : outcome == PGW_OUTCOME_REPLACED ? "replaced"
                       : outcome == PGW_OUTCOME_REPEATED ? "repeated"
                                                         : "new";
    e->added += outcome == PGW_OK;
    e->exists += outcome == PGW_OUTCOME_EXISTS;
    e->replaced += outcome == PGW_OUTCOME_REPLACED;
    e->repeated += outcome == PGW_OUTCOME_REPEATED;
    if (e->c->json) {
        out o;
        out_begin(&o);
        out_int(&o, "id", id);
        out_text(&o, "outcome", word);
        out_end(&o);
    } else {
        printf("%" PRId64 "\n", id);
    }
}

/* The name of record @p number in messages. */
static const char *enqueue_name(const enqueue *e, int64_t number, char buffer[40])
{
    const char *what = e->from_arguments || e->empty ? "job" : e->end ? "line" : "record";
    snprintf(buffer, 40, "%s %" PRId64, what, number);
    return buffer;
}

/* Prints the error, with the record that it is about, if it is about one. */
static int enqueue_refused(const enqueue *e)
{
    size_t i = pgw_error_index(e->c->h);
    char name[40];
    if (i == PGW_NO_INDEX) return signals_failed(e->c, pgw_error_status(e->c->h));
    return cli_fail_of(e->c->h, enqueue_name(e, e->numbers[i % ENQUEUE_LOT], name));
}

/* Enqueues the collected jobs, all or none. */
static int enqueue_send_lot(enqueue *e)
{
    size_t n = e->lot_count;
    if (n == 0) return CLI_DONE;
    pgw_job_spec *jobs = cli_alloc(n * sizeof *jobs);
    pgw_enqueued *results = cli_alloc(n * sizeof *results);
    for (size_t i = 0; i < n; i++) jobs[i] = e->lot[i].job;
    jobs[0].op = e->op;
    pgw_status st = pgw_enqueue_many(e->c->h, e->queue, jobs, n, results);
    int code = st < 0 ? enqueue_refused(e) : CLI_DONE;
    for (size_t i = 0; i < n; i++) {
        const pgw_enqueued *r = &results[i];
        if (st >= 0) enqueue_report(e, r->id, st == PGW_OUTCOME_REPEATED ? st : r->outcome);
        job_free(&e->lot[i]);
    }
    e->lot_count = e->lot_bytes = 0;
    free(jobs);
    free(results);
    return code;
}

/* -- records -------------------------------------------------------------------------------- */

/* Adds one record. It copies the bytes. */
static int enqueue_record(enqueue *e, const char *bytes, size_t size, int64_t number)
{
    job_text one;
    char why[160], name[40];
    if (!job_from(&one, &e->form, bytes, size, why, sizeof why))
        return cli_fail(CLI_USAGE, NULL, "%s: %s", enqueue_name(e, number, name), why);
    if (!e->by_statement) {
        e->numbers[e->added % ENQUEUE_LOT] = number;
        pgw_status st = pgw_load_add(e->load, &one.job);
        job_free(&one);
        if (st < 0) return enqueue_refused(e);
        e->added++;
        return CLI_DONE;
    }
    if (e->lot_count == ENQUEUE_LOT && e->op) {
        job_free(&one);
        return cli_fail(CLI_USAGE, "split the input, with an operation id for each part",
                        "--op is for up to %d jobs, one statement", ENQUEUE_LOT);
    }
    if (e->lot_count == ENQUEUE_LOT || (e->lot_bytes > ENQUEUE_LOT_BYTES && !e->op)) {
        int code = enqueue_send_lot(e);
        if (code != CLI_DONE) {
            job_free(&one);
            return code;
        }
    }
    if (!e->lot) e->lot = cli_alloc(ENQUEUE_LOT * sizeof *e->lot);
    e->lot_bytes += size;
    e->numbers[e->lot_count] = number;
    e->lot[e->lot_count++] = one;
    return CLI_DONE;
}

/* Reads more input. 1: there is some; 0: the end, or a signal asks to stop; -1: an error (errno).
 */
static int enqueue_fill(const enqueue *e, source *in)
{
    struct pollfd fds[] = {{.fd = in->fd, .events = POLLIN},
                           {.fd = pgw_stop_fd(e->c->stop), .events = POLLIN}};
    ssize_t n = -1;
    do {
        if (in->ended || pgw_stop_count(e->c->stop) > 0) return 0;
        if (poll(fds, 2, -1) > 0 && fds[0].revents) n = read(in->fd, in->bytes, sizeof in->bytes);
    } while (n < 0 && (errno == EINTR || errno == EAGAIN || fds[1].revents));
    in->at = 0;
    in->size = n < 0 ? 0 : (size_t)n;
    in->ended = n == 0;
    return n < 0 ? -1 : n > 0;
}

/* Finds the next record, without its terminator, in *line. 1: there is one; 0: the end, or a signal
 * asks to stop; -1: an error (errno). */
static int enqueue_read(const enqueue *e, source *in, buf *line)
{
    int more = 1;
    line->size = 0;
    while (in->at < in->size || (more = enqueue_fill(e, in)) > 0) {
        const char *from = in->bytes + in->at;
        const char *end = memchr(from, e->end, in->size - in->at);
        size_t n = end ? (size_t)(end - from) : in->size - in->at;
        if (line->size + n > ENQUEUE_RECORD_MAX) {
            errno = EFBIG;
            return -1;
        }
        buf_add(line, from, n);
        in->at += n + (end != NULL);
        if (end) return 1;
    }
    return more < 0 ? -1 : line->size > 0 && pgw_stop_count(e->c->stop) == 0;
}

static int enqueue_stream(enqueue *e, source *in, const char *name)
{
    buf line = {0};
    struct stat st;
    int code = CLI_DONE, more = 0;
    int64_t total = fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : 0;
    int64_t number = 0, bytes = 0;
    buf_add(&line, "", 0);
    progress_begin(&e->bar, !e->c->quiet, "jobs", total);
    while (code == CLI_DONE && pgw_stop_count(e->c->stop) == 0 &&
           (more = enqueue_read(e, in, &line)) > 0) {
        number++;
        bytes += (int64_t)line.size + 1;
        if (line.size == 0) continue; /* skip an empty line */
        code = enqueue_record(e, line.at, line.size, number);
        progress_at(&e->bar, bytes, number);
    }
    progress_end(&e->bar);
    if (more < 0) code = cli_fail(CLI_USAGE, NULL, "cannot read %s: %s", name, strerror(errno));
    buf_free(&line);
    return code;
}

static int enqueue_file(enqueue *e)
{
    bool named = e->file && strcmp(e->file, "-") != 0;
    source *in = cli_alloc(sizeof *in);
    int code;
    in->fd = named ? open(e->file, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (in->fd < 0) {
        code = cli_fail(CLI_USAGE, NULL, "cannot open %s: %s", e->file, strerror(errno));
    } else {
        if (isatty(in->fd)) cli_say(e->c, "reading jobs, one per line; end with Ctrl-D");
        code = enqueue_stream(e, in, named ? e->file : "stdin");
    }
    if (named && in->fd >= 0) close(in->fd);
    free(in);
    return code;
}

/* -- the command ---------------------------------------------------------------------------- */

/* Reads the body of one job from FILE. */
static int enqueue_read_body(enqueue *e)
{
    buf b = {0};
    char bytes[8192];
    size_t n;
    FILE *in = fopen(e->body, "r");
    if (!in) return cli_fail(CLI_USAGE, NULL, "cannot open %s: %s", e->body, strerror(errno));
    buf_add(&b, "", 0);
    while ((n = fread(bytes, 1, sizeof bytes, in)) > 0 && b.size <= ENQUEUE_RECORD_MAX) {
        buf_add(&b, bytes, n);
    }
    int failed = b.size > ENQUEUE_RECORD_MAX ? EFBIG : ferror(in) ? errno : 0;
    fclose(in);
    if (failed) {
        buf_free(&b);
        return cli_fail(CLI_USAGE, NULL, "cannot read %s: %s", e->body, strerror(failed));
    }
    e->form.model.body = b.at; /* freed when the program ends */
    e->form.model.body_size = b.size;
    return CLI_DONE;
}

static int enqueue_input(enqueue *e, const args *a)
{
    if (e->empty) return enqueue_record(e, NULL, 0, 1);
    if (!e->from_arguments) return enqueue_file(e);
    int code = CLI_DONE;
    for (int i = 1; i < a->count && code == CLI_DONE; i++) {
        code = enqueue_record(e, a->at[i], strlen(a->at[i]), i);
    }
    return code;
}

static void enqueue_summary(const enqueue *e, int64_t added)
{
    cli *c = e->c;
    if (e->by_statement) {
        if (e->exists + e->replaced + e->repeated > 0) {
            cli_say(c,
                    "%" PRId64 " new, %" PRId64 " existed, %" PRId64 " replaced, %" PRId64
                    " repeated",
                    e->added, e->exists, e->replaced, e->repeated);
        }
    } else if (c->json) {
        out_number("added", added);
    } else {
        cli_say(c, "%" PRId64 " job%s enqueued", added, added == 1 ? "" : "s");
    }
}

static int enqueue_run(enqueue *e, const args *a)
{
    cli *c = e->c;
    int code = signals_open(c);
    if (code != CLI_DONE) return code;
    if (!e->by_statement && pgw_load_begin(c->h, e->queue, &e->load) < 0) return cli_fail_at(c->h);
    e->numbers = cli_alloc(ENQUEUE_LOT * sizeof *e->numbers);
    code = enqueue_input(e, a);
    if (code == CLI_DONE && pgw_stop_count(c->stop) > 0) code = signals_code();
    int64_t added = e->added;
    if (e->by_statement) {
        if (code == CLI_DONE) code = enqueue_send_lot(e);
        while (e->lot_count > 0) job_free(&e->lot[--e->lot_count]);
        free(e->lot);
        added = e->added;
    } else {
        pgw_status st = pgw_load_end(e->load, code == CLI_DONE, &added);
        if (code == CLI_DONE && st < 0) code = enqueue_refused(e);
    }
    free(e->numbers);
    if (code == CLI_DONE) {
        enqueue_summary(e, added);
        if (added + e->exists + e->replaced + e->repeated == 0) code = CLI_NOTHING;
    } else if (added) {
        /* even with -q: sending all of the input again would add these twice */
        cli_fail(code, NULL, "%" PRId64 " jobs before it were enqueued%s", added,
                 code == CLI_UNKNOWN ? ", those of the next batch: unknown" : "");
    } else if (code != CLI_UNKNOWN && pgw_error_status(c->h) != PGW_EPROTO) {
        cli_say(c, "nothing was enqueued");
    }
    return cli_finish(code);
}

/* The index of a word, or n. */
static int enqueue_word(const char *const *words, int n, const char *word, size_t size)
{
    int i = 0;
    while (i < n && (strlen(words[i]) != size || memcmp(words[i], word, size) != 0)) i++;
    return i;
}

/* Reads a list of words, separated by commas, as flags. */
static int enqueue_replaced(const char *command, const char *text, int *flags)
{
    static const char *const words[] = {"payload", "kind", "priority", "time"};
    for (const char *at = text; at; at = *at ? at + 1 : NULL) {
        size_t size = strcspn(at, ",");
        int i = enqueue_word(words, 4, at, size);
        if (i == 4) {
            return cli_fail(CLI_USAGE, "--key-replace payload,time",
                            "%s: --key-replace is \"%s\": expected a list of payload, kind, "
                            "priority and time",
                            command, text);
        }
        *flags |= 1 << i;
        at += size;
    }
    return CLI_DONE;
}

static int enqueue_key(enqueue *e, const char *scope, const char *policy, const char *replaced)
{
    static const char *const scopes[] = {"unfinished", "ready", "period"};
    static const char *const policies[] = {"skip", "replace", "error", "delay"};
    const char *command = e->c->command;
    pgw_job_spec *job = &e->form.model;
    int s = enqueue_word(scopes, 3, scope, strlen(scope));
    int p = enqueue_word(policies, 4, policy, strlen(policy));
    if (s == 3) {
        return cli_fail(CLI_USAGE, NULL,
                        "%s: --key-scope is \"%s\": expected unfinished, ready or period", command,
                        scope);
    }
    if (p == 4) {
        return cli_fail(CLI_USAGE, NULL,
                        "%s: --key-policy is \"%s\": expected skip, replace, delay or error",
                        command, policy);
    }
    job->key_scope = (pgw_key_scope)s;
    job->key_policy = (pgw_key_policy)p;
    bool delay = job->key_policy == PGW_KEY_POLICY_DELAY;
    bool period = job->key_scope == PGW_KEY_SCOPE_PERIOD;
    if ((period || delay) && job->key_period_ms == 0) {
        return cli_fail(CLI_USAGE, "--key-period 1h", "%s: %s needs a period", command,
                        delay ? "--key-policy delay" : "--key-scope period");
    }
    if (!period && !delay && job->key_period_ms) {
        return cli_fail(CLI_USAGE, NULL,
                        "%s: --key-period is for --key-scope period and --key-policy delay",
                        command);
    }
    if (delay && period) {
        return cli_fail(CLI_USAGE, NULL,
                        "%s: --key-scope is \"period\": expected ready with --key-policy delay",
                        command);
    }
    if (replaced && !delay && job->key_policy != PGW_KEY_POLICY_REPLACE) {
        return cli_fail(CLI_USAGE, NULL, "%s: --key-replace is for --key-policy replace and delay",
                        command);
    }
    return enqueue_replaced(command, replaced, &job->key_replace);
}

static int enqueue_check(enqueue *e, const args *a)
{
    const char *command = e->c->command;
    const pgw_job_spec *job = &e->form.model;
    if (job->run_at_us && job->delay_ms) {
        return cli_fail(CLI_USAGE, NULL, "%s: --run-at or --delay, not both", command);
    }
    if (job->expires_us && job->ttl_ms != PGW_UNLIMITED) {
        return cli_fail(CLI_USAGE, NULL, "%s: --expires or --ttl, not both", command);
    }
    e->from_arguments = a->count > 1;
    if (e->from_arguments + (e->file != NULL) + e->empty > 1) {
        return cli_fail(CLI_USAGE, NULL,
                        "%s: jobs come from arguments, from a file or by --empty, not from two",
                        command);
    }
    bool one = a->count == 2 || e->empty;
    if (!one && (job->key || e->body)) {
        return cli_fail(CLI_USAGE, "with --full each job can have a key of its own",
                        "%s: --key and --body are for one job, given as an argument or by --empty",
                        command);
    }
    e->by_statement = e->from_arguments || e->empty || e->op || e->form.keys;
    return e->body ? enqueue_read_body(e) : CLI_DONE;
}

int cmd_enqueue(cli *c, int argc, char **argv)
{
    enqueue e = {.c = c, .end = '\n', .form = {.model = PGW_JOB_SPEC_INIT}};
    pgw_job_spec *job = &e.form.model;
    wordlist tags = {0};
    bool json_lines = false, full = false, zero = false;
    const char *scope = "unfinished", *policy = "skip", *replaced = NULL;
    const opt opts[] = {
        {'f', "file", "FILE", "read jobs from FILE, one per line (- or none: stdin)",
         .text = &e.file},
        {'0', "null", NULL, "lines end with NUL, like those of `find -print0`", .flag = &zero},
        {'J', "json-lines", NULL, "each line is a payload, as JSON", .flag = &json_lines},
        {'F', "full", NULL, "each line is an object that describes the job", .flag = &full},
        {0, "member", "NAME", "a line of text becomes {\"NAME\": \"text\"} (line)",
         .text = &e.form.member},
        {0, "empty", NULL, "add one job without a payload", .flag = &e.empty},
        {'b', "body", "FILE", "bytes to store beside the payload of one job", .text = &e.body},
        {'k', "kind", "KIND", "kind of the jobs", .text = &job->kind},
        {'p', "priority", "N", "0 (first) to 9 (0)", .number = &job->priority, .min = 0, .max = 9},
        {0, "delay", "TIME", "ready TIME from now", .ms = &job->delay_ms, .max = 10 * CLI_YEAR},
        {0, "run-at", "WHEN", "ready at WHEN, such as 2030-01-31T12:00:00Z",
         .time_us = &job->run_at_us},
        {0, "max-attempts", "N", "failed attempts until a dead letter (that of the queue)",
         .number = &job->max_attempts, .min = 1, .max = 1000, .unlimited = true},
        {0, "lease", "TIME", "lease of these jobs (that of the queue)", .ms = &job->lease_ms,
         .min = 100, .max = 86400000},
        {'t', "tag", "TAG", "add a tag; up to 32 times", .words = &tags},
        {0, "key", "KEY", "unique key of the job", .text = &job->key},
        {0, "key-scope", "SCOPE", "key is taken while unfinished, ready or period (unfinished)",
         .text = &scope},
        {0, "key-policy", "POLICY", "if the key is taken: skip, replace, delay or error (skip)",
         .text = &policy},
        {0, "key-replace", "WHAT",
         "list of payload, kind, priority, time, to be replaced (payload)", .text = &replaced},
        {0, "key-period", "TIME", "period of --key-scope period; with delay the longest delay",
         .ms = &job->key_period_ms, .min = 1, .max = CLI_YEAR},
        {0, "group", "NAME", "group of the job, which has a limit", .text = &job->group},
        {0, "expires", "WHEN", "not started after WHEN, such as 2030-01-31T12:00:00Z (never)",
         .time_us = &job->expires_us},
        {0, "ttl", "TIME", "or: not started later than TIME after it became ready",
         .ms = &job->ttl_ms, .min = 1, .max = 10 * CLI_YEAR},
        {0, "meta", "JSON", "an object that a claim returns beside the payload",
         .text = &job->meta},
        {0, "op", "UUID", "a second call with the same UUID adds nothing", .text = &e.op},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "enqueue QUEUE JOB... [OPTIONS]\nenqueue QUEUE [-f FILE] [OPTIONS] < LINES",
        .about = "Adds jobs. A JOB or line of text becomes the payload {\"line\": \"...\"}. With\n"
                 "--json-lines it is the payload. With --full it is an object with any of\n"
                 "payload, kind, priority, delay_ms, run_at, max_attempts, lease_ms, tags, key,\n"
                 "group, expires_at, ttl_ms and meta. The options supply missing members.",
        .more = "Prints the id of each job that came by an argument, --key, --op or --full. If\n"
                "the role is a member of the tables' owner, one COPY adds all other jobs or\n"
                "none. Otherwise jobs are added in batches of up to 10,000 jobs or 8 MB. If a\n"
                "batch fails, earlier batches stay. A line that is not UTF-8 or not valid JSON\n"
                "is named, and nothing of its batch is added.\n"
                "\n"
                "  pgwork enqueue thumbs a.png b.png\n"
                "  find /data -name '*.png' -print0 | pgwork enqueue -0 thumbs --member file",
        .min = 1,
        .max = -1,
        .missing = "QUEUE",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code == OPTS_GO) {
        e.queue = a.at[0];
        e.end = zero ? '\0' : '\n';
        e.form.shape = full ? JOB_FULL : json_lines ? JOB_JSON : JOB_LINE;
        e.form.keys = full;
        job->tags = tags.at;
        job->tags_count = tags.count;
        code = enqueue_key(&e, scope, policy, replaced);
        if (code == CLI_DONE) code = enqueue_check(&e, &a);
        if (code == CLI_DONE) code = enqueue_run(&e, &a);
        free((void *)(uintptr_t)job->body);
    }
    free(tags.at);
    return code;
}
