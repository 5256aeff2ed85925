/* review: reviewers lease a few articles each for an hour. No article has two reviewers.
 *
 *   cc review.c $(pkg-config --cflags --libs pgwork) && PGWORK_DSN=... ./a.out anna 3
 *
 * The table is the program's own, and its key has two columns:
 *
 *   CREATE TABLE article (journal text, number int, title text, grade int);
 *   ALTER TABLE article ADD PRIMARY KEY (journal, number);
 *
 * The first run adds the columns and indexes of leases. A reviewer who starts again, also after a
 * crash, gets the same articles first, because each reviewer has a name. */
#include <stdio.h>
#include <stdlib.h>

#include <pgwork.h>

static int fail(pgw *h)
{
    fprintf(stderr, "%s\n%s\n", pgw_error_message(h), pgw_error_hint(h));
    return 1;
}

/* Describes the table once. Creating missing columns and indexes takes long on a large table. */
static pgw_status describe(pgw *h, pgw_table **t)
{
    static const char *const key[] = {"journal", "number"};
    pgw_table_spec spec = PGW_TABLE_SPEC_INIT;
    pgw_status st;

    spec.table = "article";
    spec.key = key, spec.key_count = 2;
    spec.locked_by = "locked_by", spec.expires_at = "expires_at", spec.token = "token";
    spec.claimable = "grade IS NULL";
    st = pgw_table_open(h, &spec, t);
    if (*t == NULL || *pgw_table_sql(*t) == '\0') return st;
    pgw_set_timeout(h, 3600 * 1000);
    st = pgw_table_init(h, *t);
    pgw_set_timeout(h, PGW_DEFAULT);
    pgw_table_free(*t), *t = NULL;
    return st == PGW_OK ? pgw_table_open(h, &spec, t) : st;
}

/* Here a reviewer reads the article; half of the articles need only their title. */
static int grade_of(const char *title)
{
    int grade = 1;

    while (*title != '\0') grade = (grade * 31 + *title++) % 6 + 1;
    return grade;
}

static int review(pgw *h, const pgw_table *t, const char *reviewer, int max)
{
    static const char *const columns[] = {"title"};
    pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
    pgw_rows *rows;
    pgw_status st;
    int reviewed = 0;

    o.max = max, o.holder = reviewer, o.lease_ms = 3600000;
    o.columns = columns, o.columns_count = 1;
    while ((st = pgw_table_claim(h, t, &o, &rows)) == PGW_OK) {
        for (size_t i = 0; i < pgw_rows_count(rows); i++) {
            pgw_row_ref ref = pgw_rows_ref(rows, i);
            const char *const *key = pgw_rows_key(rows, i);
            const char *title = pgw_rows_get(rows, i, "title");
            char grade[8];
            const char *const values[] = {grade};
            pgw_table_finish_opts f = PGW_TABLE_FINISH_OPTS_INIT;

            snprintf(grade, sizeof(grade), "%d", grade_of(title != NULL ? title : ""));
            f.set = "grade = $1", f.values = values, f.values_count = 1;
            st = pgw_table_finish(h, t, &ref, 1, &f);
            if (st == PGW_ELEASE) {
                printf("%s %s: another reviewer has it by now\n", key[0], key[1]);
            } else if (st == PGW_OK) {
                printf("%s %s: %s\n", key[0], key[1], grade);
                reviewed++;
            } else {
                pgw_rows_free(rows);
                return fail(h);
            }
        }
        pgw_rows_free(rows);
    }
    if (st != PGW_OUTCOME_EMPTY) return fail(h);
    fprintf(stderr, "%s reviewed %d\n", reviewer, reviewed);
    return 0;
}

int main(int argc, char **argv)
{
    const char *reviewer = argc > 1 ? argv[1] : "anna";
    const long max = argc > 2 ? strtol(argv[2], NULL, 10) : 3;
    pgw_table *t = NULL;
    pgw *h;
    int code;

    if (max < 1 || max > 10000) return fprintf(stderr, "how many at a time? 1 to 10000\n"), 2;
    code = pgw_open(NULL, &h) == PGW_OK && describe(h, &t) == PGW_OK
               ? review(h, t, reviewer, (int)max)
               : fail(h);
    pgw_table_free(t);
    pgw_close(h);
    return code;
}
