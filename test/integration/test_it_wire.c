/* Every verb that writes, with the line disturbed at each message of the answer, or of the request:
 * cut, cut after an error, silent, delayed, or with other messages in between. The outcome is true,
 * and a repeat has one effect together with the first call. The verbs are in
 * test/support/wire_verbs.c. */
#include "unity.h"
#include "pgw_all.h"
#include "itpgw.h"
#include "pgtemp.h"
#include "wire.h"
#include "wire_verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERBS_MAX = 120, FIRST_LIMIT_MS = 160, STEP = 8, MANY = 100 };

static wire *w;

void setUp(void)
{
    verbs_open();
    w = wire_open();
}

void tearDown(void)
{
    verbs_close();
    wire_close(w);
}

typedef struct fault {
    const char *name;
    bool of_client; /* at its messages, else at those of the server */
    wire_deed deed;
    const char *words; /* messages that come before the deed */
    size_t size;
    bool timed;    /* the call has a deadline, and meets it */
    bool harmless; /* the call is to succeed */
    bool seldom;   /* PGW_WIRE_ALL not set: at every second verb */
} fault;

/* How many messages a verb has, if nothing disturbs it. */
static int messages_of(int i, bool of_client)
{
    static int counts[VERBS_MAX][2];
    int *n = counts[i];

    if (n[0] == 0) {
        pgw *h = verbs_begin(&verbs[i], wire_dsn(w));
        const int server = wire_seen(w, false), client = wire_seen(w, true);

        if (verbs_call(&verbs[i], 0) < 0) TEST_FAIL_MESSAGE(pgw_error_message(h));
        TEST_ASSERT_TRUE_MESSAGE(verbs_is_done(&verbs[i], true), verbs[i].name);
        n[0] = wire_seen(w, false) - server;
        n[1] = wire_seen(w, true) - client;
    }
    return n[of_client];
}

/* True if it came to the n-th message. On a busy machine a deadline may be too early for that. */
static bool call_disturbed(const verb *v, const fault *f, int n, pgw **h, pgw_status *st)
{
    const int orders = wire_orders(w);

    for (int ms = FIRST_LIMIT_MS;; ms *= 4) {
        *h = verbs_begin(v, wire_dsn(w));
        if (f->timed) pgw__pq_limit_calls(*h, ms); /* else 2 s more for a cancel */
        if (f->of_client)
            wire_at_client(w, WIRE_ANY, n, f->deed);
        else
            wire_at(w, WIRE_ANY, n, f->words, f->size, f->deed);
        *st = verbs_call(v, 0);
        wire_at(w, 0, 0, NULL, 0, WIRE_PASS);
        if (wire_orders(w) > orders) return true;
        if (*st >= PGW_OK || !f->timed || ms > 10000) return false;
    }
}

static void check_outcome(const verb *v, const fault *f, pgw *h, pgw_status st, const char *where)
{
    if (st >= PGW_OK) {
        TEST_ASSERT_TRUE_MESSAGE(verbs_is_done(v, true), where);
        return;
    }
    if (f->harmless) TEST_FAIL_MESSAGE(pgw_error_message(h));
    if (st == PGW_EUNKNOWN && v->repeat != PGW_EHELD) return; /* a lock is not held then, either */
    if (st != PGW_ECONN && st != PGW_EUNKNOWN)
        TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_ETIMEDOUT, st, where);
    verbs_settle(st != PGW_ECONN);
    TEST_ASSERT_FALSE_MESSAGE(verbs_is_done(v, false), where);
}

/* At the n-th message; false: there are not so many. */
static bool disturb(const verb *v, const fault *f, int n)
{
    char where[160];
    pgw_status st;
    bool came;
    pgw *h;

    snprintf(where, sizeof(where), "%s, %s at message %d", v->name, f->name, n);
    came = call_disturbed(v, f, n, &h, &st);
    if (!came && st < 0) TEST_FAIL_MESSAGE(pgw_error_message(h));
    check_outcome(v, f, h, st, where);
    if (!came || v->repeat == VERB_NEVER) return came;
    pgw_set_timeout(h, PGW_DEFAULT);
    st = verbs_call(v, 1);
    verbs_settle(true);
    /* the first call, not over yet, had locked what this one wanted */
    if (st == PGW_ELOCKED || (st == PGW_OUTCOME_EMPTY && !verbs_is_done(v, true)))
        st = verbs_call(v, 2);
    if (st != v->repeat && st < PGW_OK) {
        snprintf(where + strlen(where), sizeof(where) - strlen(where), ": the repeat: %s",
                 pgw_status_name(st));
        TEST_FAIL_MESSAGE(where);
    }
    TEST_ASSERT_TRUE_MESSAGE(verbs_is_done(v, true), where);
    return true;
}

/* PGW_WIRE_ALL=1: at each message; of a migration, which has a thousand, at some. Else of each verb
 * at one, or at two if it has many; some faults come at every second verb. Each fault comes at
 * others. */
static int step_of(int count, bool all)
{
    if (count > MANY) return all ? count / 4 : count;
    if (all) return 1;
    return count > 2 * STEP ? (count + 1) / 2 : STEP;
}

static void disturb_all(const fault *f)
{
    static int faults;
    const bool all = getenv("PGW_WIRE_ALL") != NULL;
    int times = 0, messages = 0;

    TEST_ASSERT_TRUE(verbs_count <= VERBS_MAX);
    if (all) alarm(0); /* by hand, and longer than the watchdog allows */
    for (int i = 0; i < verbs_count; i++) {
        const int count = messages_of(i, f->of_client), step = step_of(count, all),
                  first = i + faults * (step / 3 + 1);

        messages += count;
        if (!all && (count > MANY ? faults % 3 > 0 : f->seldom && (i + faults) % 2 > 0)) continue;
        for (int n = 1 + first % (count < step ? count : step); n <= count; n += step)
            times += disturb(&verbs[i], f, n);
    }
    faults++;
    printf("%s: at %d of %d messages of %d verbs\n", f->name, times, messages, verbs_count);
    TEST_ASSERT_TRUE(times >= (f->seldom ? verbs_count / 2 : verbs_count) - 1);
}

void test_a_cut_at_each_message_of_each_verb_has_a_true_outcome_and_one_effect(void)
{
    const fault f = {.name = "cut", .deed = WIRE_CUT};

    disturb_all(&f);
}

void test_a_last_error_before_the_cut_changes_nothing_of_that(void)
{
    size_t size;
    const char *words = wire_message('E', "FATAL", "57P01", "terminating connection", &size);
    const fault f = {
        .name = "cut with 57P01", .seldom = true, .deed = WIRE_CUT, .words = words, .size = size};

    disturb_all(&f);
}

void test_silence_at_each_message_of_each_verb_has_a_true_outcome_and_one_effect(void)
{
    const fault f = {.name = "silence", .deed = WIRE_SILENT, .timed = true};

    disturb_all(&f);
}

void test_a_delay_at_each_message_of_each_verb_changes_nothing(void)
{
    const fault f = {.name = "delay", .deed = WIRE_DELAY, .harmless = true};

    disturb_all(&f);
}

/* A notice, a changed parameter and a notification, as a server may send them at any time. */
void test_other_messages_before_each_message_of_each_verb_change_nothing(void)
{
    static const char more[] = "S\0\0\0\x17"
                               "application_name\0x\0"    /* 4 + 17 + 2 */
                               "A\0\0\0\x0c\0\0\0\1c\0p"; /* the last byte is that of the string */
    char words[1400];
    size_t size;
    const char *notice = wire_message('N', "NOTICE", "00000", "by the way", &size);
    fault f = {.name = "other messages", .words = words, .harmless = true};

    memcpy(words, notice, size);
    memcpy(words + size, more, sizeof(more));
    f.size = size + sizeof(more);
    disturb_all(&f);
}

void test_a_cut_before_each_message_of_the_request_has_a_true_outcome_and_one_effect(void)
{
    const fault f = {
        .name = "request cut before", .of_client = true, .seldom = true, .deed = WIRE_CUT};

    disturb_all(&f);
}

void test_a_cut_after_each_message_of_the_request_has_a_true_outcome_and_one_effect(void)
{
    const fault f = {
        .name = "request cut after", .of_client = true, .seldom = true, .deed = WIRE_CUT_AFTER};

    disturb_all(&f);
}

void test_a_request_that_is_swallowed_from_each_message_on_has_a_true_outcome_and_one_effect(void)
{
    const fault f = {.name = "request swallowed",
                     .of_client = true,
                     .seldom = true,
                     .deed = WIRE_SILENT,
                     .timed = true};

    disturb_all(&f);
}
