/* status: every code and every SQLSTATE, before and after the commit was sent. */
#include "unity.h"
#include "status.h"

#include <string.h>

void setUp(void) {}
void tearDown(void) {}

static const struct {
    pgw_status status;
    int number;
    const char *name, *text;
} all[] = {
#define ROW(name, number, text) {PGW_##name, number, "PGW_" #name, text},
    PGW_STATUS_MAP(ROW)
#undef ROW
};
#define ALL (sizeof(all) / sizeof(all[0]))

/* ---- the map ---- */

/* Written down a second time: numbers are a promise to bindings, and never change. */
void test_numbers_are_never_changed(void)
{
    static const struct {
        pgw_status status;
        int number;
    } promised[] = {
        {PGW_OK, 0},
        {PGW_OUTCOME_EMPTY, 1},
        {PGW_OUTCOME_AGAIN, 2},
        {PGW_OUTCOME_CANCEL, 3},
        {PGW_OUTCOME_EXISTS, 4},
        {PGW_OUTCOME_REPLACED, 5},
        {PGW_OUTCOME_REPEATED, 6},
        {PGW_EINVAL, -1},
        {PGW_ENOMEM, -2},
        {PGW_EMISUSE, -3},
        {PGW_ECONN, -4},
        {PGW_ETIMEDOUT, -5},
        {PGW_ECANCELED, -6},
        {PGW_ETXN, -7},
        {PGW_ERETRY, -8},
        {PGW_ECONFLICT, -9},
        {PGW_ELEASE, -10},
        {PGW_ELOCKED, -11},
        {PGW_EEXISTS, -12},
        {PGW_ENOTFOUND, -13},
        {PGW_ESCHEMA, -14},
        {PGW_EPERM, -15},
        {PGW_ELIMIT, -16},
        {PGW_EDB, -17},
        {PGW_EPROTO, -18},
        {PGW_EUNKNOWN, -19},
        {PGW_EPAUSED, -20},
        {PGW_EPOOLED, -21},
        {PGW_EHELD, -22},
    };
    const size_t n = sizeof(promised) / sizeof(promised[0]);

    TEST_ASSERT_EQUAL_size_t_MESSAGE(n, ALL, "a new status needs a line here");
    for (size_t i = 0; i < n; i++)
        TEST_ASSERT_EQUAL_INT(promised[i].number, (int)promised[i].status);
}

void test_numbers_and_names_are_unique(void)
{
    for (size_t i = 0; i < ALL; i++) {
        for (size_t k = i + 1; k < ALL; k++) {
            TEST_ASSERT_TRUE_MESSAGE(all[i].number != all[k].number, all[i].name);
            TEST_ASSERT_TRUE_MESSAGE(strcmp(all[i].name, all[k].name) != 0, all[i].name);
            TEST_ASSERT_TRUE_MESSAGE(strcmp(all[i].text, all[k].text) != 0, all[i].text);
        }
    }
}

void test_names_begin_with_E_exactly_for_errors(void)
{
    for (size_t i = 0; i < ALL; i++) {
        bool error = all[i].number < 0;
        bool outcome = all[i].status == PGW_OUTCOME_EMPTY || all[i].status == PGW_OUTCOME_EXISTS;

        TEST_ASSERT_TRUE_MESSAGE(error == (all[i].name[4] == 'E' && !outcome), all[i].name);
    }
}

void test_every_status_has_its_name_and_text(void)
{
    for (size_t i = 0; i < ALL; i++) {
        TEST_ASSERT_EQUAL_STRING(all[i].name, pgw_status_name(all[i].status));
        TEST_ASSERT_EQUAL_STRING(all[i].text, pgw_status_text(all[i].status));
        TEST_ASSERT_TRUE(all[i].text[0] != '\0');
    }
}

void test_numbers_that_are_not_a_status(void)
{
    static const int strangers[] = {7, 100, -23, -1000, 2147483647, -2147483647 - 1};

    for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
        pgw_status st = (pgw_status)strangers[i];

        TEST_ASSERT_EQUAL_STRING("PGW_?", pgw_status_name(st));
        TEST_ASSERT_EQUAL_STRING("unknown status", pgw_status_text(st));
        TEST_ASSERT_FALSE(pgw_is_retriable(st) || pgw_is_lost(st) || pgw_is_unknown(st) ||
                          pgw_is_bug(st));
    }
}

/* ---- the questions ---- */

static bool one_of(pgw_status st, const pgw_status *list)
{
    for (; *list != PGW_OK; list++)
        if (*list == st) return true;
    return false;
}

void test_questions_say_yes_to_what_the_header_lists_and_nothing_else(void)
{
    static const pgw_status retriable[] = {PGW_ECONN, PGW_ETIMEDOUT, PGW_ERETRY, PGW_ELOCKED,
                                           PGW_OK};
    static const pgw_status lost[] = {PGW_ELEASE, PGW_ECONN, PGW_OK};
    static const pgw_status unknown[] = {PGW_EUNKNOWN, PGW_OK};
    static const pgw_status bug[] = {PGW_EINVAL, PGW_EMISUSE, PGW_ESCHEMA, PGW_EPROTO, PGW_OK};

    for (size_t i = 0; i < ALL; i++) {
        pgw_status st = all[i].status;

        TEST_ASSERT_TRUE_MESSAGE(pgw_is_retriable(st) == one_of(st, retriable), all[i].name);
        TEST_ASSERT_TRUE_MESSAGE(pgw_is_lost(st) == one_of(st, lost), all[i].name);
        TEST_ASSERT_TRUE_MESSAGE(pgw_is_unknown(st) == one_of(st, unknown), all[i].name);
        TEST_ASSERT_TRUE_MESSAGE(pgw_is_bug(st) == one_of(st, bug), all[i].name);
    }
}

/* ---- SQLSTATE ---- */

static const struct {
    const char *sqlstate;
    pgw_status status, in_flight;
} sqlstates[] = {
    /* the session is over */
    {NULL, PGW_ECONN, PGW_EUNKNOWN},
    {"", PGW_ECONN, PGW_EUNKNOWN},
    {"08000", PGW_ECONN, PGW_EUNKNOWN},
    {"08001", PGW_ECONN, PGW_EUNKNOWN},
    {"08003", PGW_ECONN, PGW_EUNKNOWN},
    {"08004", PGW_ECONN, PGW_EUNKNOWN},
    {"08006", PGW_ECONN, PGW_EUNKNOWN},
    {"08007", PGW_ECONN, PGW_EUNKNOWN},
    {"08P01", PGW_ECONN, PGW_EUNKNOWN},
    {"25P03", PGW_ECONN, PGW_EUNKNOWN},
    {"25P04", PGW_ECONN, PGW_EUNKNOWN},
    {"57P01", PGW_ECONN, PGW_EUNKNOWN},
    {"57P02", PGW_ECONN, PGW_EUNKNOWN},
    {"57P03", PGW_ECONN, PGW_EUNKNOWN},
    {"57P04", PGW_ECONN, PGW_EUNKNOWN},
    {"57P05", PGW_ECONN, PGW_EUNKNOWN},
    {"40003", PGW_ECONN, PGW_EUNKNOWN},
    {"58030", PGW_ERETRY, PGW_EUNKNOWN},
    /* certainly rolled back, whenever it comes */
    {"40000", PGW_ERETRY, PGW_ERETRY},
    {"40001", PGW_ERETRY, PGW_ERETRY},
    {"40P01", PGW_ERETRY, PGW_ERETRY},
    {"40002", PGW_EDB, PGW_EDB},
    {"72000", PGW_ERETRY, PGW_ERETRY},
    {"53000", PGW_ERETRY, PGW_ERETRY},
    {"53100", PGW_ERETRY, PGW_ERETRY},
    {"53200", PGW_ERETRY, PGW_ERETRY},
    {"53300", PGW_ECONN, PGW_ECONN},
    {"53400", PGW_ERETRY, PGW_ERETRY},
    {"55P03", PGW_ELOCKED, PGW_ELOCKED},
    {"57014", PGW_ECANCELED, PGW_ECANCELED},
    {"25P02", PGW_ETXN, PGW_ETXN},
    /* the item */
    {"22000", PGW_EINVAL, PGW_EINVAL},
    {"22003", PGW_EINVAL, PGW_EINVAL},
    {"22021", PGW_EINVAL, PGW_EINVAL},
    {"22P02", PGW_EINVAL, PGW_EINVAL},
    {"22P05", PGW_EINVAL, PGW_EINVAL},
    {"54000", PGW_ELIMIT, PGW_ELIMIT},
    {"54001", PGW_ELIMIT, PGW_ELIMIT},
    {"23505", PGW_EEXISTS, PGW_EEXISTS},
    {"23502", PGW_EDB, PGW_EDB},
    /* the installation */
    {"25006", PGW_EPERM, PGW_EPERM},
    {"28000", PGW_EPERM, PGW_EPERM},
    {"28P01", PGW_EPERM, PGW_EPERM},
    {"42501", PGW_EPERM, PGW_EPERM},
    {"3D000", PGW_ESCHEMA, PGW_ESCHEMA},
    {"3F000", PGW_ESCHEMA, PGW_ESCHEMA},
    {"42703", PGW_ESCHEMA, PGW_ESCHEMA},
    {"42704", PGW_ESCHEMA, PGW_ESCHEMA},
    {"42725", PGW_ESCHEMA, PGW_ESCHEMA},
    {"42883", PGW_ESCHEMA, PGW_ESCHEMA},
    {"42P01", PGW_ESCHEMA, PGW_ESCHEMA},
    {"26000", PGW_EPOOLED, PGW_EPOOLED},
    {"42P05", PGW_EPOOLED, PGW_EPOOLED},
    /* our own */
    {"PW001", PGW_EINVAL, PGW_EINVAL},
    {"PW002", PGW_ELIMIT, PGW_ELIMIT},
    {"PW003", PGW_ENOTFOUND, PGW_ENOTFOUND},
    {"PW004", PGW_EPAUSED, PGW_EPAUSED},
    {"PW005", PGW_EEXISTS, PGW_EEXISTS},
    {"PW006", PGW_ELOCKED, PGW_ELOCKED},
    {"PW007", PGW_ESCHEMA, PGW_ESCHEMA},
    {"PW009", PGW_ECONFLICT, PGW_ECONFLICT},
    /* whatever else the server says, also what is no SQLSTATE at all */
    {"0A000", PGW_EDB, PGW_EDB},
    {"25001", PGW_EDB, PGW_EDB},
    {"42601", PGW_EDB, PGW_EDB},
    {"55000", PGW_EDB, PGW_EDB},
    {"57000", PGW_EDB, PGW_EDB},
    {"58P01", PGW_EDB, PGW_EDB},
    {"P0001", PGW_EDB, PGW_EDB},
    {"PW010", PGW_EDB, PGW_EDB},
    {"PW000", PGW_EDB, PGW_EDB},
    {"XX000", PGW_EDB, PGW_EDB},
    {"XX001", PGW_EDB, PGW_EDB},
    {"XX002", PGW_EDB, PGW_EDB},
    {"0", PGW_EDB, PGW_EDB},
    {"5", PGW_EDB, PGW_EDB},
    {"57P", PGW_ECONN, PGW_EUNKNOWN},
    {"3d000", PGW_EDB, PGW_EDB},
    {"\xff\xff\xff\xff\xff", PGW_EDB, PGW_EDB},
};

void test_every_sqlstate_before_during_and_without_a_commit(void)
{
    for (size_t i = 0; i < sizeof(sqlstates) / sizeof(sqlstates[0]); i++) {
        const char *code = sqlstates[i].sqlstate;
        const char *which = code != NULL ? code : "NULL";
        int before = sqlstates[i].status, during = sqlstates[i].in_flight;

        TEST_ASSERT_EQUAL_INT_MESSAGE(before, pgw__status_from_sqlstate(code, false, false), which);
        TEST_ASSERT_EQUAL_INT_MESSAGE(before, pgw__status_from_sqlstate(code, false, true), which);
        TEST_ASSERT_EQUAL_INT_MESSAGE(before, pgw__status_from_sqlstate(code, true, false), which);
        TEST_ASSERT_EQUAL_INT_MESSAGE(during, pgw__status_from_sqlstate(code, true, true), which);
    }
}

/* Statuses that promise "nothing was applied" are only given when that is certain. */
void test_a_lost_answer_to_a_write_is_never_called_not_applied(void)
{
    static const char *const ends[] = {NULL,    "",      "08006", "57P01",
                                       "57P02", "58030", "40003", "08007"};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        TEST_ASSERT_TRUE(pgw_is_unknown(pgw__status_from_sqlstate(ends[i], true, true)));
}

/* It is lost to somebody else: a trigger's foreign table, for example. */
void test_an_error_in_a_living_session_is_not_a_lost_session(void)
{
    static const char *const others[] = {"08001", "08006", "08P01", "57P01", "25P03", "53300"};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        TEST_ASSERT_EQUAL_INT(PGW_EDB, pgw__status_in_session(others[i], true, true));
        TEST_ASSERT_EQUAL_INT(PGW_EDB, pgw__status_in_session(others[i], false, false));
    }
    TEST_ASSERT_EQUAL_INT(PGW_EUNKNOWN, pgw__status_in_session("40003", true, true));
    TEST_ASSERT_EQUAL_INT(PGW_EUNKNOWN, pgw__status_in_session("58030", true, true));
    TEST_ASSERT_EQUAL_INT(PGW_ECANCELED, pgw__status_in_session("57014", true, true));
    TEST_ASSERT_EQUAL_INT(PGW_ERETRY, pgw__status_in_session("40001", true, true));
    TEST_ASSERT_EQUAL_INT(PGW_EDB, pgw__status_in_session("P0001", false, true));
}

void test_no_sqlstate_becomes_success(void)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char code[6] = "00000";

    for (size_t a = 0; a < 36; a++) { /* all classes, and two subclasses of each */
        for (size_t b = 0; b < 36; b++) {
            code[0] = digits[a], code[1] = digits[b];
            for (int k = 0; k < 2; k++) {
                memcpy(code + 2, k == 0 ? "000" : "P01", 3);
                TEST_ASSERT_LESS_THAN_INT(0, pgw__status_from_sqlstate(code, true, true));
                TEST_ASSERT_LESS_THAN_INT(0, pgw__status_from_sqlstate(code, false, false));
                TEST_ASSERT_NOT_NULL(pgw__status_hint(code));
            }
        }
    }
}

/* ---- what ends a loop ---- */

void test_a_read_only_server_ends_no_loop(void)
{
    TEST_ASSERT_EQUAL_INT(PGW_ECONN, pgw__status_in_loop(PGW_EPERM, "25006", false));
    TEST_ASSERT_EQUAL_INT(PGW_EPERM, pgw__status_in_loop(PGW_EPERM, "42501", false));
    TEST_ASSERT_EQUAL_INT(PGW_EPERM, pgw__status_in_loop(PGW_EPERM, "", false));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw__status_in_loop(PGW_OK, "", false));
    TEST_ASSERT_EQUAL_INT(PGW_EDB, pgw__status_in_loop(PGW_EEXISTS, "23505", false));
    TEST_ASSERT_EQUAL_INT(PGW_EDB, pgw__status_in_loop(PGW_EPAUSED, "PW004", false));
    TEST_ASSERT_EQUAL_INT(PGW_EDB, pgw__status_in_loop(PGW_ECONFLICT, "PW009", false));
    TEST_ASSERT_EQUAL_INT(PGW_EDB, pgw__status_in_loop(PGW_EINVAL, "22012", false));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw__status_in_loop(PGW_EINVAL, "PW001", false));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw__status_in_loop(PGW_EINVAL, "", false)); /* found here */
    TEST_ASSERT_EQUAL_INT(PGW_EDB, pgw__status_in_loop(PGW_EPERM, "42501", true)); /* a trigger */
    TEST_ASSERT_EQUAL_INT(PGW_EDB, pgw__status_in_loop(PGW_ESCHEMA, "42P01", true));
    TEST_ASSERT_EQUAL_INT(PGW_ECONN, pgw__status_in_loop(PGW_EPERM, "25006", true));
    TEST_ASSERT_TRUE(pgw__status_is_hopeless(PGW_EPERM));
    TEST_ASSERT_TRUE(pgw__status_is_hopeless(PGW_ESCHEMA));
    TEST_ASSERT_FALSE(pgw__status_is_hopeless(PGW_ECONN));
    TEST_ASSERT_FALSE(pgw__status_is_hopeless(PGW_EUNKNOWN));
    TEST_ASSERT_FALSE(pgw__status_is_hopeless(PGW_OUTCOME_EMPTY));
    TEST_ASSERT_FALSE(pgw__status_is_hopeless(PGW_OK));
}

/* ---- by function ---- */

void test_the_raising_function_distinguishes_a_wraparound_from_an_item_that_is_too_large(void)
{
    TEST_ASSERT_TRUE(pgw__status_is_wraparound("54000", "GetNewTransactionId"));
    TEST_ASSERT_TRUE(pgw__status_is_wraparound("54000", "GetNewMultiXactId"));
    TEST_ASSERT_FALSE(pgw__status_is_wraparound("54000", "_bt_check_third_page"));
    TEST_ASSERT_FALSE(pgw__status_is_wraparound("54000", ""));
    TEST_ASSERT_FALSE(pgw__status_is_wraparound("55000", "GetNewTransactionId"));
}

void test_a_commit_that_no_standby_confirmed_is_known_by_the_function(void)
{
    TEST_ASSERT_TRUE(pgw__status_is_unconfirmed("01000", "SyncRepWaitForLSN"));
    TEST_ASSERT_FALSE(pgw__status_is_unconfirmed("57P01", "SyncRepWaitForLSN")); /* it is dead */
    TEST_ASSERT_FALSE(pgw__status_is_unconfirmed("01000", "exec_stmt_raise"));
    TEST_ASSERT_FALSE(pgw__status_is_unconfirmed("01000", NULL));
}

/* ---- hints ---- */

void test_hints_name_the_next_step(void)
{
    static const struct {
        const char *sqlstate, *word;
    } cases[] = {
        {"42501", "pgwork_producer"},
        {"42501", "pgwork_worker"},
        {"42501", "pgwork_operator"},
        {"42501", "pgwork doctor"},
        {"3F000", "pgwork migrate"},
        {"42883", "pgwork migrate"},
        {"42P01", "pgwork migrate"},
        {"42703", "pgwork migrate"},
        {"PW007", "pgwork migrate"},
        {"08P01", "pooler"},
        {"53300", "max_connections"},
        {"25006", "target_session_attrs=read-write"},
        {"28000", "pg_hba.conf"},
        {"28P01", "password"},
        {"3D000", "dbname"},
        {"57P03", "primary"},
        {"53100", "disk"},
        {"53200", "max_locks_per_transaction"},
        {"57014", "statement_timeout"},
        {"26000", "prepare"},
        {"42P05", "prepare"},
        {"25P02", "ROLLBACK"},
        {"53400", "log"},
        {"XX001", "backup"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        TEST_ASSERT_NOT_NULL_MESSAGE(strstr(pgw__status_hint(cases[i].sqlstate), cases[i].word),
                                     cases[i].sqlstate);
}

void test_hints_are_empty_and_never_null_otherwise(void)
{
    TEST_ASSERT_EQUAL_STRING("", pgw__status_hint(NULL));
    TEST_ASSERT_EQUAL_STRING("", pgw__status_hint(""));
    TEST_ASSERT_EQUAL_STRING("", pgw__status_hint("00000"));
    TEST_ASSERT_EQUAL_STRING("", pgw__status_hint("PW001"));
    TEST_ASSERT_EQUAL_STRING("", pgw__status_hint("22021"));
}

void test_every_state_has_a_word_that_is_read_again(void)
{
    pgw_state state = PGW_STATE_ANY;

    for (int i = PGW_STATE_ANY; i <= PGW_STATE_CANCELLED; i++) {
        TEST_ASSERT_EQUAL(PGW_OK, pgw_state_parse(pgw_state_name((pgw_state)i), &state));
        TEST_ASSERT_EQUAL_INT(i, state);
    }
    TEST_ASSERT_NULL(pgw_state_name((pgw_state)(PGW_STATE_CANCELLED + 1)));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_state_parse("sleeping", &state));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_state_parse(NULL, &state));
}
