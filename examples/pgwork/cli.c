/* SPDX-License-Identifier: PostgreSQL */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "out.h"
#include "text.h"

/* -- messages ------------------------------------------------------------------------------- */

/* Prints a line with one write, because several threads print. Escapes control characters, because
 * text from a trigger or a file may contain any. Allocates nothing. */
static void cli_line(const char *lead, const char *text)
{
    char line[8192], escape[TEXT_ESCAPE];
    size_t n = strlen(text), used = (size_t)snprintf(line, sizeof line, "%s: ", lead), step;
    for (size_t i = 0; i < n && used + TEXT_ESCAPE < sizeof line; i += step) {
        text_escape(escape, &step, text + i, n - i);
        const char *shown = *escape ? escape : text + i;
        size_t size = *escape ? strlen(escape) : step;
        memcpy(line + used, shown, size);
        used += size;
    }
    line[used++] = '\n';
    fwrite(line, 1, used, stderr);
}

int cli_fail(int code, const char *hint, const char *format, ...)
{
    va_list args;
    char line[2048];
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    cli_line("pgwork", line);
    if (hint && *hint) cli_line("hint", hint);
    return code;
}

void cli_say(const cli *c, const char *format, ...)
{
    va_list args;
    char line[2048];
    if (c->quiet) return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    cli_line("pgwork", line);
}

int cli_code(pgw_status st)
{
    /* clang-format off */
    switch ((int)st) { /* int, because a newer library may have more */
    case PGW_OK: case PGW_OUTCOME_EXISTS: case PGW_OUTCOME_REPLACED: case PGW_OUTCOME_REPEATED:
        return CLI_DONE;
    case PGW_OUTCOME_EMPTY: case PGW_ECONFLICT: case PGW_ELEASE: case PGW_ELOCKED: case PGW_EEXISTS:
    case PGW_ENOTFOUND: case PGW_EPAUSED:
        return CLI_NOTHING;
    case PGW_OUTCOME_CANCEL:
        return CLI_CANCEL;
    case PGW_EINVAL: case PGW_ELIMIT:
        return CLI_USAGE;
    case PGW_ECONN: case PGW_ETIMEDOUT: case PGW_ECANCELED: case PGW_ERETRY:
        return CLI_SERVER;
    case PGW_ESCHEMA:
        return CLI_SCHEMA;
    case PGW_EPERM: case PGW_EPOOLED:
        return CLI_PERM;
    case PGW_EUNKNOWN:
        return CLI_UNKNOWN;
    default:
        break;
    }
    /* clang-format on */
    return CLI_OTHER;
}

/* For programs it is the property `dsn`; this tool has other names for it. */
static const char *cli_name_dsn(char *buffer, size_t size, const char *hint)
{
    static const char word[] = "`dsn`";
    const char *at = strstr(hint, word);
    if (!at) return hint;
    snprintf(buffer, size, "%.*sPGWORK_DSN (or --dsn-file, PGHOST, ...)%s", (int)(at - hint), hint,
             at + sizeof word - 1);
    return buffer;
}

/* Hints of the library and the schema name functions. Replaces them with commands. */
static const char *cli_translate(const char *hint)
{
    static const struct {
        const char *words, *here;
    } hints[] = {
        {"check the result of other calls first", "check with `pgwork ls` before you repeat it"},
        {"queue_create() creates one",
         "`pgwork queue create` creates one, `pgwork queue list` lists all; names are "
         "case-sensitive"},
        {"queue_resume() opens it", "run `pgwork queue resume`"},
        {"queue_purge(), or pass force",
         "`pgwork queue purge NAME --state all` deletes them; --force deletes leased "
         "jobs, too"},
        {"raise max_bytes",
         "store large data elsewhere and enqueue a reference to it, or raise the limit with "
         "`pgwork queue set NAME --max-bytes N`"},
        {"sema_create() ", "`pgwork sem create` creates one; names are case-sensitive"},
        {"sema_resize() changes", "`pgwork sem resize` changes the number of permits"},
        {"rate_set() creates one", "`pgwork rate set` creates one; names are case-sensitive"},
        {"larger burst with rate_set()",
         "take fewer at a time, or give it a larger burst: `pgwork rate set NAME N --burst N`"},
        {"released, or pass force", "wait until they are released, or pass --force: then the next "
                                    "extend of each holder fails"},
        {"cron_create() creates one",
         "`pgwork cron add` creates one, `pgwork cron list` lists all; names are case-sensitive"},
        {"pgw_table_sql() ",
         "`pgwork table init` prints the statements that add it, --apply runs them"},
        {"pgw_tables_each() ", "`pgwork table list` lists registered tables"},
        {"use pgw_lock_acquire_xact()", "connect to the server itself, not to a pooler: host and "
                                        "port in the connection string; or "
                                        "pass -X pooler=session if it pools sessions"},
    };
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        if (strstr(hint, hints[i].words)) return hints[i].here;
    }
    return hint;
}

int cli_fail_with(pgw_status st, const char *message, const char *hint)
{
    char buffer[700];
    if (st == PGW_ENOMEM && (!message || !*message) && (errno == EMFILE || errno == ENFILE)) {
        message = strerror(errno);
        hint = "raise the limit of open files: `ulimit -n`, LimitNOFILE= of systemd";
    }
    if (!message || !*message) message = pgw_status_text(st);
    if (hint && *hint) {
        hint = cli_name_dsn(buffer, sizeof buffer, cli_translate(hint));
    } else {
        hint = st == PGW_ECONN     ? "run the command again when the server is available"
               : st == PGW_ESCHEMA ? "`pgwork doctor` compares the versions of library and schema"
                                   : NULL;
    }
    return cli_fail(cli_code(st), hint, "%s", message);
}

/* The end of "argument `opts->holder` is ...": "holder` is ...", which is near an option's name. */
static const char *cli_argument(const char *message)
{
    static const char lead[] = "argument `";
    if (strncmp(message, lead, sizeof lead - 1) != 0) return message;
    const char *name = message + sizeof lead - 1, *at = name;
    for (; *at && *at != '`'; at++) {
        if (*at == '.' || *at == '>') name = at + 1;
    }
    return name;
}

/* @p name: the object; NULL: the message names it. */
static int cli_fail_on(const pgw *h, const char *name)
{
    char message[1400];
    if (!h) return cli_fail_with(PGW_ENOMEM, NULL, NULL);
    const char *text = pgw_error_message(h), *from = cli_argument(text);
    snprintf(message, sizeof message, "%s%s%s%s", name ? name : "", name ? ": " : "",
             from == text ? "" : "argument `", from);
    return cli_fail_with(pgw_error_status(h), message, pgw_error_hint(h));
}

int cli_fail_at(const pgw *h)
{
    return cli_fail_on(h, NULL);
}

int cli_fail_of(const pgw *h, const char *name)
{
    return cli_fail_on(h, h && strstr(pgw_error_message(h), name) ? NULL : name);
}

int cli_report_done(const cli *c, int code, const char *member, int64_t n, const char *done,
                    const char *thing)
{
    if (code != CLI_DONE && n == 0) return code;
    if (c->json) out_number(member, n);
    cli_say(c, "%s %" PRId64 " %s%s", done, n, thing, n == 1 ? "" : "s");
    return code;
}

int cli_finish(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    return cli_fail(CLI_OTHER, NULL, "cannot write to stdout: %s", strerror(errno));
}

int cli_listed(cli *c, pgw_status st, const char *none)
{
    if (st < 0) return cli_fail_at(c->h);
    if (st == PGW_OUTCOME_EMPTY && none) cli_say(c, "%s", none);
    return cli_finish(cli_code(st));
}

/* -- configuration -------------------------------------------------------------------------- */

#define CLI_DSN_MAX 16384

bool cli_is_dsn(const char *word)
{
    return strchr(word, '=') || strstr(word, "://");
}

/* Such as password=secret or postgresql://user:secret@host. */
static bool cli_holds_password(const char *dsn)
{
    if (strstr(dsn, "password")) return true;
    const char *user = strstr(dsn, "://");
    if (!user) return false;
    user += 3;
    size_t n = strcspn(user, "@/");
    return user[n] == '@' && memchr(user, ':', n);
}

/* Reads a connection string from a file, and removes blanks around it. */
static int cli_read_dsn(const char *path, pgw_conf *conf)
{
    char dsn[CLI_DSN_MAX + 1];
    FILE *f = fopen(path, "r");
    if (!f && *path != '/' && cli_is_dsn(path)) { /* psql -d takes a connection string */
        return cli_fail(CLI_USAGE, CLI_HINT_ARGV,
                        "--dsn-file takes the name of a file, not a connection string");
    }
    if (!f) return cli_fail(CLI_USAGE, NULL, "cannot open %s: %s", path, strerror(errno));
    struct stat st;
    bool open_to_all = fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077);
    size_t n = fread(dsn, 1, sizeof dsn, f);
    int failed = ferror(f) ? errno : 0;
    fclose(f);
    if (failed) return cli_fail(CLI_USAGE, NULL, "cannot read %s: %s", path, strerror(failed));
    if (n > CLI_DSN_MAX || memchr(dsn, '\0', n)) {
        return cli_fail(CLI_USAGE, NULL, "%s does not contain a connection string", path);
    }
    while (n > 0 && strchr(" \t\r\n", dsn[n - 1])) n--;
    dsn[n] = '\0';
    const char *begin = dsn + strspn(dsn, " \t\r\n");
    if (!*begin) return cli_fail(CLI_USAGE, NULL, "%s is empty", path);
    if (open_to_all && cli_holds_password(begin)) {
        cli_fail(0, "chmod 600", "other users can read %s, which contains a password", path);
    }
    if (pgw_conf_set(conf, "dsn", begin) != PGW_OK) {
        return cli_fail(CLI_USAGE, NULL, "%s: %s", path, pgw_conf_error(conf));
    }
    return CLI_DONE;
}

static int cli_apply(pgw_conf *conf, const char *name, const char *value)
{
    pgw_status st = pgw_conf_set(conf, name, value);
    if (st == PGW_OK) return CLI_DONE;
    const char *hint = st == PGW_ENOTFOUND ? "`pgwork -X list` shows all properties" : NULL;
    return cli_fail(st == PGW_ENOMEM ? CLI_OTHER : CLI_USAGE, hint, "%s", pgw_conf_error(conf));
}

static int cli_apply_setting(pgw_conf *conf, const char *setting)
{
    char name[64];
    const char *equals = strchr(setting, '=');
    const char *url = strstr(setting, "://");
    if (url && (!equals || url < equals)) { /* it may contain a password, so do not print it */
        return cli_fail(CLI_USAGE, CLI_HINT_ARGV, "-X takes KEY=VALUE, not a connection string");
    }
    if (!equals || equals == setting || (size_t)(equals - setting) >= sizeof name) {
        return cli_fail(CLI_USAGE, "`pgwork -X list` shows all properties",
                        "-X takes KEY=VALUE, not \"%s\"", setting);
    }
    snprintf(name, sizeof name, "%.*s", (int)(equals - setting), setting);
    if (strcmp(name, "dsn") == 0) {
        return cli_fail(CLI_USAGE, CLI_HINT_ARGV, "-X dsn is not allowed");
    }
    return cli_apply(conf, name, equals + 1);
}

static void cli_log(pgw_log_level level, const char *component, const char *message, void *arg)
{
    const cli *c = arg;
    char named[2048];
    /* the caller of a statement reports its error; errors of the connection need -v */
    if (c->verbose == 0 && strcmp(component, "pq") == 0) return;
    if (c->quiet && level > PGW_LOG_WARN) return;
    message = cli_name_dsn(named, sizeof named, message);
    if (c->verbose > 0) {
        cli_fail(0, NULL, "%s: %s", component, message);
    } else {
        cli_fail(0, NULL, "%s%s", level == PGW_LOG_WARN ? "warning: " : "", message);
    }
}

int cli_configure(const cli *c, pgw_conf **conf)
{
    int code = CLI_DONE;
    if (pgw_conf_new(conf) != PGW_OK) return cli_fail_with(PGW_ENOMEM, NULL, NULL);
    pgw_log_level level = c->verbose > 2    ? PGW_LOG_TRACE
                          : c->verbose == 2 ? PGW_LOG_DEBUG
                          : c->verbose == 1 ? PGW_LOG_INFO
                                            : PGW_LOG_ERROR;
    /* a command prints its error at the end; work and reap continue, so they need the log */
    if (c->verbose > 0 || c->stop) {
        if (level < PGW_LOG_WARN) level = PGW_LOG_WARN;
        pgw_conf_set_log(*conf, level, cli_log, (void *)(uintptr_t)c);
    }
    const char *schema = getenv("PGWORK_SCHEMA");
    if (schema && !*schema) schema = NULL; /* like unset; an empty --schema is refused */
    if (c->schema) schema = c->schema;
    if (c->dsn_file) code = cli_read_dsn(c->dsn_file, *conf);
    if (code == CLI_DONE && schema) code = cli_apply(*conf, "schema", schema);
    for (size_t i = 0; code == CLI_DONE && i < c->settings.count; i++) {
        if (strcmp(c->settings.at[i], "list") == 0) continue;
        code = cli_apply_setting(*conf, c->settings.at[i]);
    }
    if (code == CLI_DONE) return code;
    pgw_conf_free(*conf);
    *conf = NULL;
    return code;
}

static int cli_fail_to_open(const pgw *h)
{
    if (!h || pgw_error_status(h) != PGW_ECONN || *pgw_error_hint(h)) return cli_fail_at(h);
    return cli_fail_with(PGW_ECONN, pgw_error_message(h),
                         "name the server: PGWORK_DSN, --dsn-file, or PGHOST, PGPORT, "
                         "PGDATABASE, ...");
}

int cli_open(cli *c, bool unmigrated)
{
    int code = c->conf ? CLI_DONE : cli_configure(c, &c->conf);
    if (code == CLI_DONE && unmigrated) code = cli_apply(c->conf, "schema.check", "off");
    if (code != CLI_DONE) return code;
    if (pgw_open(c->conf, &c->h) != PGW_OK) return cli_fail_to_open(c->h);
    if (c->stop) pgw_set_stop(c->h, c->stop);
    return CLI_DONE;
}

int cli_set(cli *c, const char *name, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    return cli_apply(c->conf, name, digits);
}

/* -- names ---------------------------------------------------------------------------------- */

int cli_each(cli *c, char *const *names, int n, pgw_status (*apply)(pgw *, const char *))
{
    int worst = CLI_DONE, code = CLI_DONE;
    for (int i = 0; i < n; i++) {
        if (code > CLI_USAGE) {
            cli_fail(code, NULL, "%s: not tried", names[i]);
            continue;
        }
        if (apply(c->h, names[i]) >= 0) continue;
        code = n > 1 ? cli_fail_of(c->h, names[i]) : cli_fail_at(c->h);
        if (worst == CLI_DONE || code > CLI_USAGE) worst = code;
    }
    return worst;
}

int64_t cli_limit(int64_t n)
{
    return n == 0 ? PGW_UNLIMITED : n;
}

int cli_state(const cli *c, const char *text, const char *allowed, pgw_state *state)
{
    if (!text || pgw_state_parse(text, state) == PGW_OK) return CLI_DONE;
    return cli_fail(CLI_USAGE, NULL, "%s: --state is \"%s\": expected %s", c->command, text,
                    allowed);
}

bool cli_queue_there(cli *c, const char *name)
{
    pgw_depth d = PGW_DEPTH_INIT;
    if (pgw_queue_depth(c->h, name, 1, &d) != PGW_ENOTFOUND) return true;
    cli_fail_at(c->h);
    return false;
}

/* An extend of a job that nobody holds is refused. The status says whether the queue exists. */
void cli_check_queue(cli *c, const char *name)
{
    pgw_ref nobodys = {.id = 1};
    if (c->quiet) return;
    c->quiet = true;
    pgw_status st = pgw_extend(c->h, name, &nobodys, 1, NULL);
    c->quiet = false;
    if (st == PGW_ENOTFOUND)
        cli_say(c, "there is no queue \"%s\" yet; names are case-sensitive", name);
}

static int cli_judge(const pgw_queue_info *q, void *arg)
{
    const pgw_depth *d = q->depth;
    const char **why = arg;
    if (q->paused) {
        *why = "is paused: run `pgwork queue resume`";
    } else if (q->held_until_us) {
        *why = "is held: `pgwork queue list` shows until when, `pgwork queue unhold` ends the hold";
    } else if (d->gated > 0 && d->ready + d->leased == 0) {
        *why = "has only gated jobs: `pgwork groups list` shows what they wait for";
    } else if (d->delayed > 0 && d->ready + d->leased == 0) {
        *why = "has only delayed jobs: none can be claimed yet";
    }
    return 0;
}

const char *cli_queue_state(const pgw_queue_info *q, char text[CLI_QUEUE_STATE])
{
    char time[TEXT_TIME];
    bool shut = q->paused || q->held_until_us;
    if (shut && q->draining) return "closed";
    if (q->paused) return "paused";
    if (!shut) return q->draining ? "draining" : NULL;
    if (!text) return "held";
    snprintf(text, CLI_QUEUE_STATE, "held until %.19sZ", text_time(time, q->held_until_us));
    return text;
}

const char *cli_queue_word(const pgw_queue_info *q, char text[CLI_QUEUE_STATE])
{
    const pgw_depth *d = q->depth;
    const char *state = cli_queue_state(q, text);
    if (state) return state;
    if (d->leased > 0) return "active";
    if (d->ready > 0) return "waiting";
    return d->gated > 0 ? "gated" : d->delayed > 0 ? "delayed" : "empty";
}

void cli_say_why(cli *c, const char *name)
{
    const char *why = NULL;
    pgw_queues_opts o = PGW_QUEUES_OPTS_INIT;
    o.queue = name, o.at_most = 1;
    pgw_status st = pgw_queues_each(c->h, &o, cli_judge, &why);
    if (st != PGW_OK) cli_check_queue(c, name);
    if (why) cli_say(c, "queue \"%s\" %s", name, why);
}

void cli_go_on(const cli *c, int count, int limit, int64_t last)
{
    if (count == limit) cli_say(c, "there may be more: continue with --after %" PRId64, last);
}

/* -- small things --------------------------------------------------------------------------- */

int cli_rate(const char *text, int *n, bool *none)
{
    int64_t number;
    if (none) *none = strcmp(text, "none") == 0;
    if (none && *none) return CLI_DONE;
    if (!text_to_int(&number, text) || number < 1 || number > CLI_RATE_MAX)
        return cli_fail(CLI_USAGE, NULL, "\"%s\" is not the number of a rate: expected 1..%d%s",
                        text, CLI_RATE_MAX, none ? ", or none" : "");
    *n = (int)number;
    return CLI_DONE;
}

int cli_id(int64_t *id, const char *text)
{
    if (text_to_int(id, text) && *id > 0) return CLI_DONE;
    return cli_fail(CLI_USAGE, "ids are numbers, as `pgwork ls` shows them",
                    "\"%s\" is not a job id", text);
}

int cli_ids_not(const char *what, const char *queue, const int64_t *ids, size_t n, int64_t done,
                const char *hint)
{
    if (n == 1) {
        return cli_fail(CLI_NOTHING, hint, "job %" PRId64 " is not a %s of queue \"%s\"", ids[0],
                        what, queue);
    }
    return cli_fail(CLI_NOTHING, hint, "%zu of %zu jobs are not %ss of queue \"%s\"",
                    n - (size_t)done, n, what, queue);
}

int cli_ids(int64_t **ids, char *const *words, size_t n)
{
    *ids = cli_alloc(n * sizeof **ids);
    for (size_t i = 0; i < n; i++) {
        int code = cli_id(&(*ids)[i], words[i]);
        if (code == CLI_DONE) continue;
        free(*ids);
        *ids = NULL;
        return code;
    }
    return CLI_DONE;
}

static int cli_compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

size_t cli_ids_once(int64_t *ids, size_t n)
{
    size_t kept = 0;
    if (n) qsort(ids, n, sizeof *ids, cli_compare_ids);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || ids[i] != ids[kept - 1]) ids[kept++] = ids[i];
    }
    return kept;
}

static _Thread_local bool cli_answers; /* what was asked for is done */

void cli_answering(bool on)
{
    cli_answers = on;
}

void *cli_realloc(void *p, size_t size)
{
    void *q = realloc(p, size ? size : 1);
    if (!q) {
        fprintf(stderr, "pgwork: out of memory%s\n",
                cli_answers ? ": the answer is lost, it may have been applied" : "");
        exit(cli_answers ? CLI_UNKNOWN : CLI_OTHER);
    }
    return q;
}

void *cli_alloc(size_t size)
{
    void *p = cli_realloc(NULL, size);
    memset(p, 0, size);
    return p;
}

char *cli_copy(const char *text, size_t size)
{
    char *copy = cli_alloc(size + 1);
    memcpy(copy, text, size);
    return copy;
}

void wordlist_add(wordlist *l, const char *word)
{
    if ((l->count & (l->count - 1)) == 0) { /* a power of two is full */
        size_t capacity = l->count ? l->count * 2 : 1;
        l->at = cli_realloc(l->at, capacity * sizeof *l->at);
    }
    l->at[l->count++] = word;
}
