/* SPDX-License-Identifier: PostgreSQL
 *
 * classes.h: the classes of faults. A process that injects one, or sees its effect, notes it as an
 * event `nem`. A class that never fired makes the verdict of a run `unknown`.
 */
#ifndef CHAOS_CLASSES_H
#define CHAOS_CLASSES_H

/* clang-format off */
#define CLASSES(XX)                                                                                \
    XX(kill_process, "kill -9 of a process of ours")                                               \
    XX(stop_process, "SIGSTOP past the lease, then SIGCONT")                                       \
    XX(terminate, "pg_terminate_backend()")                                                        \
    XX(cancel_query, "pg_cancel_backend() of a running query")                                     \
    XX(kill_backend, "kill -9 of a backend: crash recovery")                                       \
    XX(restart_fast, "restart of the server, fast")                                                \
    XX(restart_immediate, "restart of the server, immediate")                                      \
    XX(kill_server, "kill -9 of the postmaster")                                                   \
    XX(freeze, "connections that went silent for a while")                                         \
    XX(cut, "connections that were reset")                                                         \
    XX(lost_answer, "answers that were lost after the commit")                                     \
    XX(exhaust, "no connection left")                                                              \
    XX(pooler, "restart of PgBouncer")                                                             \
    XX(clock_forward, "the server's clock set forward")                                            \
    XX(clock_back, "the server's clock set back")                                                  \
    XX(snapshot, "a snapshot held for seconds")                                                    \
    XX(late_commit, "a producer's transaction open for long, committed")                           \
    XX(late_rollback, "the same, rolled back")                                                     \
    XX(open_commit, "one open for 30 s, committed") XX(open_rollback, "rolled back")               \
    XX(claim_rollback, "a claim that was rolled back")                                             \
    XX(claim_open, "a claim whose transaction stayed open")                                        \
    XX(claim_1, "a claim of 1") XX(claim_7, "of 7") XX(claim_33, "of 33") XX(claim_100, "of 100")  \
    XX(claim_1000, "of 1000 that found more than 100")                                             \
    XX(pause, "a queue paused") XX(purge, "purged") XX(drop, "dropped")                            \
    XX(redrive, "dead letters redriven") XX(reschedule, "delayed jobs rescheduled")                \
    XX(cancel_job, "jobs cancelled")                                                               \
    XX(claim_rr, "a claim at REPEATABLE READ")                                                    \
    XX(group_hold, "a group held") XX(group_limit, "a limit changed")                              \
    XX(group_unblock, "a group unblocked that a dead letter had stopped")                          \
    XX(rate_change, "a rate changed")                                                              \
    XX(take_rollback, "a take from a rate, and its transaction rolled back")                       \
    XX(commit_fails, "a statement that succeeds, and fails at its commit")                         \
    XX(vacuum, "VACUUM") XX(reindex, "REINDEX CONCURRENTLY") XX(compact, "compact()")
/* clang-format on */

enum class {
#define XX(name, text) C_##name,
    CLASSES(XX)
#undef XX
        C_COUNT
};

#endif
