/* SPDX-License-Identifier: PostgreSQL
 *
 * role.c: the processes of a chaos run: `chaos-role ROLE PROC SEED FOLDER DSN`. Each writes its
 * history into FOLDER/hist, and shows its effects to the sink at FOLDER/sink.
 */
#include "role.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

pgw_conf *conf;
pgw_stop *stop;

static uint64_t dice;
static const char *folder;

static volatile sig_atomic_t is_calm;

static void on_usr1(int sig)
{
    (void)sig;
    is_calm = 1;
}

static void on_term(int sig)
{
    (void)sig;
    pgw_stop_notify(stop);
}

bool calm(void)
{
    return is_calm;
}

bool going(void)
{
    return pgw_stop_count(stop) == 0;
}

int draw(int n)
{
    dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
    return (int)(dice % (uint64_t)n);
}

void nap_ms(int64_t ms)
{
    struct pollfd p = {.fd = pgw_stop_fd(stop), .events = POLLIN};
    if (ms > 0) poll(&p, 1, (int)ms);
}

pgw *open_handle(void)
{
    pgw *h;
    while (pgw_open(conf, &h) != PGW_OK) {
        const pgw_status st = pgw_error_status(h);
        if (st != PGW_ECONN && st != PGW_ETIMEDOUT)
            fprintf(stderr, "%d: open: %s\n", hist_proc, pgw_error_message(h));
        pgw_close(h);
        nap_ms(50 + draw(100));
        if (!going()) exit(0);
    }
    return h;
}

int64_t outcome(pgw_status st)
{
    if (st == PGW_OK || st == PGW_OUTCOME_CANCEL || st == PGW_OUTCOME_REPEATED) return S_OK;
    if (st == PGW_OUTCOME_EMPTY) return S_EMPTY;
    if (st == PGW_OUTCOME_EXISTS) return S_EXISTS;
    if (st == PGW_ELEASE) return S_STALE;
    if (st == PGW_ENOTFOUND) return S_GONE;
    if (st == PGW_ELOCKED) return S_LOCKED;
    if (st == PGW_EUNKNOWN) return S_UNKNOWN;
    if (pgw_is_bug(st)) fprintf(stderr, "%d: %s\n", hist_proc, pgw_status_name(st));
    return S_NOT;
}

static int dial(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof(to.sun_path), "%s/sink", folder);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0) return fd;
    close(fd);
    return -1;
}

int64_t effect(int64_t object, uint64_t number, uint64_t nonce)
{
    static _Thread_local int fd = -1;
    const int64_t call = hist_call(), ask[3] = {object, (int64_t)number, (int64_t)nonce};
    int64_t answer = S_UNKNOWN;

    hist(call, 'i', OP_eff, ask[0], ask[1], ask[2]);
    if (fd < 0) fd = dial();
    if (fd < 0 || send(fd, ask, sizeof(ask), MSG_NOSIGNAL) != sizeof(ask) ||
        recv(fd, &answer, sizeof(answer), 0) != sizeof(answer)) {
        if (fd >= 0) close(fd);
        fd = -1, answer = S_UNKNOWN;
    }
    hist(call, 'o', OP_eff, answer);
    return answer;
}

void fired(enum class class)
{
    hist(0, 'e', OP_nem, class);
}

int64_t made_of(const char *kind)
{
    int proc, n;
    return kind && sscanf(kind, "%d.%d", &proc, &n) == 2 ? MADE(proc, n) : 0;
}

int late_ms(void)
{
    return getenv("CHAOS_LATE_MS") ? atoi(getenv("CHAOS_LATE_MS")) : 30000;
}

bool rates_on(void)
{
    const char *only = getenv("CHAOS_ROLES");
    return !only || !*only || strstr(only, "rated");
}

int rated_or(int queue)
{
    return rates_on() && draw(4) == 0 ? RATED + draw(2) : queue;
}

const char *queue_name(int queue)
{
    static const char *const names[] = {"q0", "q1", "q2", "q3",  "q4",  "q5", "q6",
                                        "q7", "q8", "q9", "q10", "q11", "q12"};
    return names[queue];
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } roles[] = {
        {"producer", role_producer}, {"late", role_late},     {"worker", role_worker},
        {"runtime", role_runtime},   {"reaper", role_reaper}, {"sql", role_sql},
        {"operator", role_operator}, {"group", role_group},   {"keeper", role_keeper},
        {"lock", role_lock},         {"sema", role_sema},     {"node", role_node},
        {"counter", role_counter},   {"rows", role_rows},     {"slow", role_slow},
        {"rated", role_rated},       {"taker", role_taker},   {"line", role_line},
        {"patient", role_patient},
    };
    char path[300];

    if (argc != 6) return 2;
    folder = argv[4];
    snprintf(path, sizeof(path), "%s/hist", folder);
    hist_open(path, argv[1], atoi(argv[2]));
    dice = strtoull(argv[3], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < 20; i++) draw(2);
    if (pgw_stop_new(&stop) != PGW_OK || pgw_conf_new(&conf) != PGW_OK) return 2;
    signal(SIGTERM, on_term);
    signal(SIGUSR1, on_usr1);
    signal(SIGINT, SIG_IGN);
    if (pgw_conf_set(conf, "dsn", argv[5]) != PGW_OK) {
        fprintf(stderr, "dsn: %s\n", pgw_conf_error(conf));
        return 2;
    }
    pgw_conf_set(conf, "call.timeout_ms", "20s");
    pgw_conf_set(conf, "connect.timeout_ms", "5s");
    pgw_conf_set(conf, "reconnect.cap_ms", "500");
    snprintf(path, sizeof(path), "chaos-%s", argv[1]);
    pgw_conf_set(conf, "application_name", path);
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
        if (strcmp(roles[i].name, argv[1]) == 0) {
            roles[i].run();
            return 0;
        }
    return 2;
}
