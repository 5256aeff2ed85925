/* SPDX-License-Identifier: PostgreSQL
 *
 * driver.c: a chaos run: `chaos-driver SECONDS SEED`, started by chaos.sh beside a server of its
 * own. Starts the processes, and again those that were killed; lets the nemesis work by a plan that
 * the seed decides; then lets all jobs come to their end, and reads what the counters have come to.
 */
#include "driver.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *folder, *bin, *dsn, *pooler_ini, *clock_file;
int proxy_in = -1;
pid_t pooler;
process processes[64];
int process_count;

static uint64_t dice;
static int procs; /* numbers of processes */
static PGconn *conn;
static pid_t proxy, sink, truth;
static int port; /* of the proxy */

int draw(int n)
{
    dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
    return (int)(dice % (uint64_t)n);
}

static int64_t seen[C_COUNT]; /* faults that have fired here */

void fired(enum class class)
{
    seen[class]++;
    hist(0, 'e', OP_nem, class);
}

int64_t window_begin(int64_t what)
{
    const int64_t call = hist_call();
    hist(call, 'i', OP_win, what);
    return call;
}

void window_end(int64_t call)
{
    hist(call, 'o', OP_win, S_OK);
}

int shell(const char *format, ...)
{
    char command[2000];
    va_list ap;
    va_start(ap, format);
    vsnprintf(command, sizeof(command), format, ap);
    va_end(ap);
    return system(command);
}

PGconn *admin(void)
{
    for (int i = 0; i < 600; i++) {
        if (conn && PQstatus(conn) == CONNECTION_OK && PQtransactionStatus(conn) == PQTRANS_IDLE)
            return conn;
        if (conn) PQfinish(conn);
        conn = PQconnectdb(dsn);
        if (PQstatus(conn) != CONNECTION_OK) usleep(100000);
    }
    fprintf(stderr, "chaos: the server does not come back: %s\n", PQerrorMessage(conn));
    exit(2);
}

int64_t ask(const char *sql)
{
    PGresult *res = PQexec(admin(), sql);
    int64_t value = -1;
    if (PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) > 0 && !PQgetisnull(res, 0, 0))
        value = PQgetvalue(res, 0, 0)[0] == 't' ? 1 : atoll(PQgetvalue(res, 0, 0));
    else if (PQresultStatus(res) == PGRES_COMMAND_OK)
        value = 0;
    PQclear(res);
    return value;
}

/* -- processes -----------------------------------------------------------------------------------
 */

pid_t launch(const char *out, const char *const *argv, int *in)
{
    char path[400];
    int p[2] = {-1, -1};
    if (in && pipe(p) != 0) return -1;
    const pid_t pid = fork();
    if (pid == 0) {
        snprintf(path, sizeof(path), "%s/%s.err", folder, out);
        const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        dup2(in ? p[0] : open("/dev/null", O_RDONLY), STDIN_FILENO);
        for (int i = 3; i < 100; i++) close(i);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    if (in) {
        close(p[0]);
        fcntl(p[1], F_SETFD, FD_CLOEXEC);
        *in = p[1];
    }
    return pid;
}

static pid_t launch_tool(const char *tool, const char *a, const char *b, int *in)
{
    char path[400], number[20];
    snprintf(path, sizeof(path), "%s/%s", bin, tool);
    snprintf(number, sizeof(number), "%d", ++procs);
    const char *argv[] = {path, number, folder, a, b, NULL};
    return launch(tool, argv, in);
}

void start_pooler(void)
{
    const char *argv[] = {"sh", "-c", pooler_ini, NULL};
    if (*pooler_ini) pooler = launch("pooler", argv, NULL);
}

/* The proxy says where it listens. */
static void read_port(void)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/port", folder);
    for (int i = 0; i < 100 && port == 0; i++) {
        usleep(50000);
        FILE *f = fopen(path, "r");
        if (!f) continue;
        if (fscanf(f, "%d", &port) != 1) port = 0;
        fclose(f);
    }
}

static void start(process *p)
{
    char path[400], number[20], seed[30];
    snprintf(path, sizeof(path), "%s/chaos-role", bin);
    snprintf(number, sizeof(number), "%d", ++procs);
    snprintf(seed, sizeof(seed), "%d", draw(1000000000));
    const char *argv[] = {path, p->role, number, seed, folder, p->dsn, NULL};
    p->pid = launch("roles", argv, NULL);
    p->since = now_us();
    p->stopped = 0;
}

static bool is_one(const char *role, const char *const *names)
{
    while (*names && strcmp(role, *names) != 0) names++;
    return *names != NULL;
}

static const char *user_of(const char *role)
{
    static const char *const operators[] = {"operator", "keeper", NULL},
                             *const producers[] = {"producer", "late",  "patient",
                                                   "group",    "rated", NULL},
                             *const both[] = {"line", NULL};
    return is_one(role, operators)   ? "chaos_operator"
           : is_one(role, producers) ? "chaos_producer"
           : is_one(role, both)      ? "postgres"
                                     : "chaos_worker";
}

static void add(const char *role, int n)
{
    const char *direct = getenv("CHAOS_DIRECT"), *wire = getenv("CHAOS_PROXY"),
               *pool = getenv("CHAOS_POOL");
    const char *user = user_of(role);
    static const char *const sessions[] = {"lock", "sql", "group", "rated", "taker", NULL};
    static const char *const nearby[] = {"operator", "patient", NULL}; /* not cut by the proxy */
    const bool needs_session = is_one(role, sessions), is_near = is_one(role, nearby);
    for (int i = 0; i < n && process_count < 64; i++) {
        process *p = &processes[process_count++];
        const int way = is_near ? 0 : i % 4;
        p->role = role;
        p->wanted = true;
        if (way == 1)
            snprintf(p->dsn, sizeof(p->dsn), "%s port=%d user=%s", wire, port, user);
        else if (way == 2 && !needs_session && *pool)
            snprintf(p->dsn, sizeof(p->dsn), "%s", pool);
        else if (way == 3)
            snprintf(p->dsn, sizeof(p->dsn), "%s port=%d user=postgres", wire, port);
        else
            snprintf(p->dsn, sizeof(p->dsn), "%s user=%s", direct, user);
        if (strcmp(role, "sql") == 0 || strcmp(role, "group") == 0 || strcmp(role, "rated") == 0) {
            const size_t used = strlen(p->dsn);
            snprintf(p->dsn + used, sizeof(p->dsn) - used,
                     " application_name=chaos-%s connect_timeout=5", role);
        }
        start(p);
    }
}

/* Plain SQL of its own: PQexec() waits for ever for an answer that the proxy has lost. */
static bool may_hang(const char *role)
{
    static const char *const plain[] = {"sql", "group", "rated", "taker", NULL};
    return is_one(role, plain);
}

/* A process that has ended is started again, under a new number. */
static void reap_children(void)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (int i = 0; i < process_count; i++) {
            process *p = &processes[i];
            if (p->pid != pid) continue;
            p->pid = 0;
            if (!WIFSIGNALED(status) && p->wanted && now_us() - p->since < 100000) usleep(50000);
            if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
                fired(C_kill_process);
            else if (WIFSIGNALED(status))
                fprintf(stderr, "chaos: %s ended by signal %d\n", p->role, WTERMSIG(status));
            if (p->wanted) start(p);
        }
        nemesis_child(pid, status);
        if (pid == pooler) start_pooler();
        if (pid == proxy || pid == sink || pid == truth) {
            fprintf(stderr, "chaos: a tool of ours has ended (see %s/*.err)\n", folder);
            exit(2);
        }
    }
}

static void turn(int64_t ms)
{
    for (const int64_t end = now_us() + ms * 1000; now_us() < end; usleep(20000)) {
        reap_children();
        nemesis_tick();
    }
}

static void stop_role(const char *role)
{
    for (int i = 0; i < process_count; i++)
        if (!role || strcmp(processes[i].role, role) == 0) {
            processes[i].wanted = false;
            if (processes[i].pid) kill(processes[i].pid, SIGTERM);
        }
}

static void end_all(void)
{
    stop_role(NULL);
    for (int i = 0; i < 350; i++) { /* longer than a call may take */
        int left = 0;
        reap_children();
        for (int k = 0; k < process_count; k++) left += processes[k].pid != 0;
        if (!left) return;
        usleep(100000);
    }
    for (int k = 0; k < process_count; k++)
        if (processes[k].pid) {
            kill(processes[k].pid, SIGKILL);
            if (may_hang(processes[k].role)) continue;
            fprintf(stderr, "chaos: %s does not end on SIGTERM\n", processes[k].role);
            exit(2);
        }
}

/* -- the plan ------------------------------------------------------------------------------------
 */

static const char *env(const char *name)
{
    return getenv(name) ? getenv(name) : "";
}

static int64_t env_number(const char *name, int64_t otherwise)
{
    return *env(name) ? atoll(env(name)) : otherwise;
}

/* In turn: a while with small faults only, so that it is seen how long somebody waits; then each of
 * the large ones, in an order that the seed decides. The small ones come all the time. */
static void play(int64_t seconds)
{
    const int64_t begin = now_us(), end = begin + seconds * 1000000;
    enum class heavy[C_COUNT], small[C_COUNT];
    int heavies = 0, smalls = 0, h = 0, s = 0;
    const int64_t calm_us = env_number("CHAOS_CALM_S", 36) * 1000000;

    for (int i = 0; i < C_COUNT; i++)
        if (is_ours((enum class)i)) {
            if (is_heavy((enum class)i))
                heavy[heavies++] = (enum class)i;
            else
                small[smalls++] = (enum class)i;
        }
    int64_t next_heavy = begin + calm_us, next_checkpoint = 0;
    while (now_us() < end) {
        if (now_us() >
            next_checkpoint) { /* so that truth.c has little to read again after a crash */
            ask("CHECKPOINT");
            next_checkpoint = now_us() + 4000000;
        }
        if (s == 0)
            for (int i = smalls - 1; i > 0; i--) {
                const int k = draw(i + 1);
                const enum class c = small[i];
                small[i] = small[k], small[k] = c;
            }
        if (smalls) inject(small[s]), s = (s + 1) % smalls;
        turn(50 + draw(400));
        if (now_us() < next_heavy || heavies == 0) continue;
        if (h == 0)
            for (int i = heavies - 1; i > 0; i--) {
                const int k = draw(i + 1);
                const enum class c = heavy[i];
                heavy[i] = heavy[k], heavy[k] = c;
            }
        inject(heavy[h]);
        h = (h + 1) % heavies;
        next_heavy = now_us() + (h == 0 ? calm_us : 1000000);
    }
}

/* Tries classes again that have not fired yet: some need luck. */
static void make_up(void)
{
    for (const int64_t end = now_us() + 60000000; now_us() < end;) {
        int missing = 0;
        for (int i = 0; i < C_COUNT; i++)
            if (is_ours((enum class)i) && seen[i] == 0 && i != C_freeze && i != C_cut &&
                i != C_lost_answer) {
                missing++;
                if (i == C_reindex) make_room(); /* it waits for open transactions */
                inject((enum class)i);
                turn(1000);
            }
        if (!missing) return;
    }
}

static bool drained(void)
{
    return ask("SELECT count(*) FROM (SELECT FROM pgwork.live_job UNION ALL SELECT FROM "
               "pgwork.delayed_job) j") == 0;
}

/* What stops a group does so no longer: those who would say so have been stopped. */
static void unblock(void)
{
    int64_t calls[13];
    for (int q = 6; q < 13; q++) {
        calls[q] = hist_call();
        hist(calls[q], 'i', OP_unb, q, 0);
    }
    ask("SELECT sum(pgwork.group_unblock(queue, grp)) FROM pgwork.groups WHERE held_until IS NOT "
        "NULL OR queue = 'q8' AND blocked_by IS NOT NULL");
    for (int q = 6; q < 13; q++) hist(calls[q], 'o', OP_unb, S_OK);
}

/* The server says so in its log. */
static void count_failed_commits(void)
{
    char path[400], line[1000];
    snprintf(path, sizeof(path), "%s/log", env("CHAOS_SERVER"));
    FILE *f = fopen(path, "r");
    if (!f) return;
    while (fgets(line, sizeof(line), f))
        if (strstr(line, "ERROR:  chaos: this commit fails")) fired(C_commit_fails);
    fclose(f);
}

static void finish(void)
{
    nemesis_calm();
    while (ask("SELECT pgwork.cron_pause('tick')") < 0 &&
           ask("SELECT count(*) FROM pgwork.schedules WHERE name = 'tick' AND NOT paused") > 0)
        turn(100);
    stop_role("producer");
    stop_role("operator");
    stop_role("keeper");
    stop_role("group");
    stop_role("late");
    stop_role("patient");
    stop_role("rated");
    turn(500);
    while (ask("SELECT pgwork.queue_resume('q2')") < 0)
        turn(100); /* its operator may have been killed */
    for (int i = 0; i < process_count; i++)
        if (processes[i].pid) kill(processes[i].pid, SIGUSR1);
    hist(0, 'e', OP_cal, 0);
    turn(1000);
    for (int64_t end = now_us() + env_number("CHAOS_DRAIN_S", 120) * 1000000;
         now_us() < end && !drained();) {
        unblock();
        turn(500);
    }
    hist(0, 'e', OP_fin, 0);
    end_all();
    count_failed_commits();
    for (int i = 0; i < 8; i++) {
        char sql[100];
        snprintf(sql, sizeof(sql), "SELECT n FROM counter WHERE id = %d", i);
        hist(0, 'e', OP_end, i, ask(sql));
    }
    hist(0, 'e', OP_end, 31, ask("SELECT sum(n) FROM leased"));
    ask("SELECT pgwork.queue_set('q0')");
    const int64_t lsn = ask("SELECT pg_current_wal_flush_lsn() - '0/0'");
    char sql[200];
    snprintf(
        sql, sizeof(sql),
        "SELECT confirmed_flush_lsn - '0/0' >= %lld FROM pg_replication_slots WHERE slot_name = "
        "'truth'",
        (long long)lsn);
    int i = 0;
    for (; i < 300 && ask(sql) != 1; i++) turn(100);
    if (i == 300) fprintf(stderr, "chaos: the server's log was not read to its end\n");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *role;
        int n;
    } crew[] = {{"reaper", 2},  {"producer", 3}, {"late", 2},  {"worker", 4}, {"runtime", 3},
                {"sql", 3},     {"operator", 1}, {"lock", 4},  {"sema", 4},   {"node", 3},
                {"counter", 3}, {"rows", 3},     {"group", 3}, {"keeper", 1}, {"slow", 4},
                {"rated", 2},   {"taker", 3},    {"line", 1},  {"patient", 4}};
    char hist_folder[400];

    if (argc != 3) return 2;
    folder = env("CHAOS_FOLDER"), bin = env("CHAOS_BIN"), dsn = env("CHAOS_DIRECT");
    pooler_ini = env("CHAOS_POOLER"), clock_file = env("CHAOS_CLOCK");
    snprintf(hist_folder, sizeof(hist_folder), "%s/hist", folder);
    hist_open(hist_folder, "driver", ++procs);
    dice = strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < 20; i++) draw(2);
    signal(SIGPIPE, SIG_IGN);
    sink = launch_tool("chaos-sink", NULL, NULL, NULL);
    truth = launch_tool("chaos-truth", env("CHAOS_DIRECT"), "truth", NULL);
    proxy = launch_tool("chaos-proxy", env("CHAOS_SOCKET"), NULL, &proxy_in);
    start_pooler();
    read_port();
    const char *only =
        env("CHAOS_ROLES"); /* for runs that look at a part: "worker producer reaper" */
    for (size_t i = 0; i < sizeof(crew) / sizeof(crew[0]); i++)
        if (!*only || strstr(only, crew[i].role)) add(crew[i].role, crew[i].n);
    play(atoll(argv[1]));
    make_up();
    finish();
    const pid_t tools[] = {proxy, truth, sink, pooler};
    proxy = truth = sink = 0;
    for (int i = 0; i < 4; i++)
        if (tools[i]) kill(tools[i], SIGTERM);
    if (pooler) pooler = 0;
    return 0;
}
