/* SPDX-License-Identifier: PostgreSQL
 *
 * nemesis.c: what goes wrong. Each fault is noted when its effect was seen. Faults that disturb
 * everybody lie in a window, within which nobody is promised to be served in time.
 */
#include "driver.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static PGconn *held; /* a snapshot */
static int64_t held_until;
static pid_t upkeep; /* a psql that vacuums and the like, and for what */
static enum class upkeep_class;
static int ahead_s; /* the server's clock */

bool is_heavy(enum class class)
{
    return class == C_kill_backend || class == C_restart_fast || class == C_restart_immediate ||
           class == C_kill_server || class == C_exhaust || class == C_clock_forward ||
           class == C_clock_back || class == C_compact;
}

bool is_ours(enum class class)
{
    const char *only = getenv("CHAOS_FAULTS"); /* names, or none at all: "-" */
    static const char *const names[] = {
#define XX(name, text) #name,
        CLASSES(XX)
#undef XX
    };
    if (only && *only && !strstr(only, names[class])) return false;
    if (class == C_pooler) return *pooler_ini != '\0';
    if (class == C_clock_forward || class == C_clock_back) return *clock_file != '\0';
    return class <= C_snapshot || class >= C_vacuum;
}

/* -- processes -----------------------------------------------------------------------------------
 */

/* Not one that keeps a transaction open for 30 s, nor its session: only few would get that far, and
 * the large faults end it anyway. "late" has long ones that are hit. */
static void hit_process(enum class class)
{
    process *p = &processes[draw(process_count)];
    if (!p->pid || p->stopped || strcmp(p->role, "patient") == 0) return;
    if (class == C_kill_process) {
        kill(p->pid, SIGKILL); /* noted by who buries it */
    } else {
        kill(p->pid, SIGSTOP);
        p->stopped = now_us() + 2000000 + draw(2000000);
    }
}

static bool is_stopped(pid_t pid)
{
    char path[50], line[200] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    const bool there = fgets(line, sizeof(line), f) != NULL;
    fclose(f);
    const char *at = there ? strrchr(line, ')') : NULL;
    return at && at[1] && at[2] == 'T';
}

/* -- the server ----------------------------------------------------------------------------------
 */

static void hit_session(const char *how, const char *which, enum class class)
{
    char sql[600];
    /* The one is chosen inside: a function is also called for rows that an OFFSET leaves out. */
    snprintf(sql, sizeof(sql),
             "WITH a AS (SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'chaos-%%' "
             "AND application_name NOT LIKE 'chaos-patient%%' "
             "AND backend_type = 'client backend' %s) "
             "SELECT pg_%s_backend(pid) FROM (SELECT pid FROM a ORDER BY pid OFFSET %d %% "
             "greatest(1, (SELECT count(*) FROM a)) LIMIT 1) one",
             which, how, draw(1000));
    if (ask(sql) == 1) fired(class);
}

static pid_t postmaster(void)
{
    char path[400], line[100] = "";
    snprintf(path, sizeof(path), "%s/data/postmaster.pid", getenv("CHAOS_SERVER"));
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    const bool there = fgets(line, sizeof(line), f) != NULL;
    fclose(f);
    return there ? (pid_t)atoi(line) : 0;
}

/* A fast stop waits for those who read the WAL, on a busy machine for minutes. */
static void stop_server(const char *mode)
{
    for (int i = 0; i < 5; i++)
        if (shell("%s -m %s stop >/dev/null 2>&1", getenv("CHAOS_CTL"), mode) == 0) return;
}

static void start_server(void)
{
    for (int i = 0; i < 50; i++) {
        if (shell("%s start >/dev/null 2>&1", getenv("CHAOS_CTL")) == 0) return;
        usleep(200000);
    }
}

/* How often the server has begun since the epoch: another number after a crash. */
static int64_t generation(void)
{
    return ask("SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint");
}

static void restart(enum class class)
{
    const int64_t before = generation(), call = window_begin(class);
    if (class == C_kill_server) {
        const pid_t pid = postmaster();
        if (pid > 1) kill(pid, SIGKILL);
        usleep(300000);
        start_server();
    } else {
        stop_server(class == C_restart_fast ? "fast" : "immediate");
        start_server();
    }
    if (generation() != before) fired(class);
    window_end(call);
}

static void kill_backend(void)
{
    const int64_t pid =
        ask("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'chaos-%' "
            "AND backend_type = 'client backend' ORDER BY state, pid LIMIT 1");
    if (pid <= 1) return;
    const int64_t call = window_begin(C_kill_backend);
    PGconn *mine = admin();
    kill((pid_t)pid, SIGKILL);
    for (int i = 0; i < 100; i++) { /* all sessions end with it, and so does ours */
        PGresult *res = PQexec(mine, "SELECT 1");
        const bool dead = PQresultStatus(res) != PGRES_TUPLES_OK;
        PQclear(res);
        if (dead) {
            fired(C_kill_backend);
            break;
        }
        usleep(50000);
    }
    ask("SELECT 1");
    window_end(call);
}

static void exhaust(void)
{
    static PGconn *many[200];
    char user[400];
    int n = 0;
    bool full = false;
    const int64_t call = window_begin(C_exhaust);
    snprintf(user, sizeof(user), "%s user=chaos_worker application_name=exhaust", dsn);
    for (; n < 200 && !full; n++) {
        many[n] = PQconnectdb(user);
        full = PQstatus(many[n]) != CONNECTION_OK &&
               (strstr(PQerrorMessage(many[n]), "connection slots") ||
                strstr(PQerrorMessage(many[n]), "too many clients"));
    }
    for (int i = 0; i < 4; i++) hit_session("terminate", "", C_terminate);
    if (full) {
        usleep(1000000); /* whose session has ended now finds no free connection */
        fired(C_exhaust);
    }
    while (n > 0) PQfinish(many[--n]);
    window_end(call);
}

static void set_clock(enum class class)
{
    if ((class == C_clock_back) == (ahead_s == 0)) return; /* forward first, then back */
    const int64_t before = ask("SELECT extract(epoch FROM clock_timestamp())::bigint");
    const int64_t call = window_begin(class), since = now_us();
    ahead_s = class == C_clock_forward ? 5 + draw(20) : 0;
    shell("printf '%%+d\\n' %d >%s.new && mv %s.new %s", ahead_s, clock_file, clock_file,
          clock_file);
    usleep(2300000); /* until each process of the server has looked */
    const int64_t after = ask("SELECT extract(epoch FROM clock_timestamp())::bigint");
    const int64_t moved = after - before - (now_us() - since) / 1000000;
    if (moved > 3 || moved < -3) fired(class);
    window_end(call);
}

/* -- upkeep --------------------------------------------------------------------------------------
 */

#define INDEX "pgwork.live_job_place"

/* Ends whoever has an open transaction or a snapshot: compact() refuses beside one that is older,
 * and a REINDEX CONCURRENTLY waits for it. */
void make_room(void)
{
    ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> "
        "pg_backend_pid() AND query NOT LIKE 'REINDEX%' "
        "AND backend_type = 'client backend' AND (backend_xmin IS NOT NULL OR backend_xid IS "
        "NOT NULL OR state LIKE 'idle in%')");
}

static void begin_upkeep(enum class class)
{
    /* First what an attempt left that was cut off. Without CONCURRENTLY, all calls would wait
     * behind it for open transactions. */
    static const char *const vacuum[] = {"VACUUM pgwork.live_job", NULL};
    static const char *const reindex[] = {"DROP INDEX CONCURRENTLY IF EXISTS " INDEX "_ccnew",
                                          "DROP INDEX CONCURRENTLY IF EXISTS " INDEX "_ccold",
                                          "REINDEX INDEX CONCURRENTLY " INDEX, NULL};
    const char *argv[16] = {
        "psql", "-qXAtv", "ON_ERROR_STOP=1", "-d", dsn, "-c", "SET statement_timeout = '20s'"};
    int at = 7;
    for (const char *const *sql = class == C_vacuum ? vacuum : reindex; *sql; sql++) {
        argv[at++] = "-c";
        argv[at++] = *sql;
    }
    if (upkeep) return;
    upkeep = launch("upkeep", argv, NULL);
    upkeep_class = class;
}

void nemesis_child(pid_t pid, int status)
{
    if (pid != upkeep) return;
    upkeep = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) fired(upkeep_class);
}

static void compact(void)
{
    const int64_t call = window_begin(C_compact);
    for (int i = 0; i < 6; i++) {
        make_room();
        if (ask("SELECT pgwork.compact()") >= 0) {
            fired(C_compact);
            break;
        }
    }
    window_end(call);
}

static void hold_snapshot(void)
{
    if (held) return;
    held = PQconnectdb(dsn);
    PQclear(PQexec(held, "BEGIN ISOLATION LEVEL REPEATABLE READ"));
    PQclear(PQexec(held, "SELECT count(*) FROM pgwork.queue"));
    held_until = now_us() + 2000000 + draw(5000000);
}

static void end_snapshot(void)
{
    PGresult *res = PQexec(held, "SELECT count(*) FROM pgwork.live_job");
    if (PQresultStatus(res) == PGRES_TUPLES_OK) fired(C_snapshot); /* it was there until now */
    PQclear(res);
    PQfinish(held);
    held = NULL;
}

/* -- all -----------------------------------------------------------------------------------------
 */

static void tell_proxy(const char *command, int ms)
{
    if (dprintf(proxy_in, "%s %d %d\n", command, draw(1000000), ms) < 0) perror("proxy");
}

void inject(enum class class)
{
    switch ((int)class) {
    case C_kill_process:
    case C_stop_process: hit_process(class); break;
    case C_terminate: hit_session("terminate", "", class); break;
    case C_cancel_query: hit_session("cancel", "AND state = 'active'", class); break;
    case C_kill_backend: kill_backend(); break;
    case C_restart_fast:
    case C_restart_immediate:
    case C_kill_server: restart(class); break;
    case C_freeze: tell_proxy("freeze", 500 + draw(3000)); break;
    case C_cut: tell_proxy("cut", 0); break;
    case C_lost_answer: tell_proxy("lose", 0); break;
    case C_exhaust: exhaust(); break;
    case C_pooler:
        if (pooler && draw(4) == 0 && kill(pooler, draw(2) ? SIGTERM : SIGKILL) == 0) fired(class);
        break;
    case C_clock_forward:
    case C_clock_back: set_clock(class); break;
    case C_snapshot: hold_snapshot(); break;
    case C_vacuum:
    case C_reindex: begin_upkeep(class); break;
    case C_compact: compact(); break;
    default: break;
    }
}

void nemesis_tick(void)
{
    for (int i = 0; i < process_count; i++) {
        process *p = &processes[i];
        if (!p->stopped || !p->pid || p->stopped > now_us()) continue;
        if (is_stopped(p->pid)) fired(C_stop_process);
        kill(p->pid, SIGCONT);
        p->stopped = 0;
    }
    if (held && held_until < now_us()) end_snapshot();
}

void nemesis_calm(void)
{
    for (int i = 0; i < process_count; i++) processes[i].stopped = processes[i].stopped ? 1 : 0;
    held_until = 1;
    nemesis_tick();
}
