/* table_text: the pieces of statements on a caller's table. The table is always called t. Names of
 * the library begin with pgw_, so that they do not clash with columns. */
#include <string.h>

#include "base/name.h"
#include "table/table_int.h"

const char *pgw__ident_fault(const char *name)
{
    if (name == NULL) return "is NULL";
    if (name[0] == '\0') return "is empty";
    return pgw__text_fault(name, PGW__IDENT_MAX);
}

void pgw__put_ident(pgw__buf *b, const char *name)
{
    if (pgw__ident_fault(name) != NULL) {
        b->failed = PGW_ELIMIT;
        return;
    }
    pgw__buf_bytes(b, "\"", 1);
    for (const char *quote; (quote = strchr(name, '"')) != NULL; name = quote + 1) {
        pgw__buf_bytes(b, name, (size_t)(quote + 1 - name));
        pgw__buf_bytes(b, "\"", 1);
    }
    pgw__buf_text(b, name);
    pgw__buf_bytes(b, "\"", 1);
}

void pgw__put_table(pgw__buf *b, const pgw_table *t)
{
    pgw__put_ident(b, t->schema);
    pgw__buf_text(b, ".");
    pgw__put_ident(b, t->name);
}

void pgw__put_own(pgw__buf *b, const pgw_table *t)
{
    if (!t->partitioned) pgw__buf_text(b, "ONLY ");
    pgw__put_table(b, t);
}

void pgw__put_row_lock(pgw__buf *b, const pgw_table *t)
{
    pgw__buf_text(b, t->keyed_lease ? " FOR UPDATE" : " FOR NO KEY UPDATE");
}

void pgw__put_column(pgw__buf *b, const pgw__column *column)
{
    pgw__buf_text(b, "t.");
    pgw__put_ident(b, column->name);
}

void pgw__put_type(pgw__buf *b, const pgw__column *column)
{
    pgw__put_ident(b, column->type_schema);
    pgw__buf_text(b, ".");
    pgw__put_ident(b, column->type);
}

void pgw__put_collation(pgw__buf *b, const pgw__column *column)
{
    if (column->collation == NULL) return;
    pgw__buf_text(b, " COLLATE ");
    pgw__put_ident(b, column->collation_schema);
    pgw__buf_text(b, ".");
    pgw__put_ident(b, column->collation);
}

void pgw__put_param(pgw__buf *b, int number)
{
    pgw__buf_text(b, "$");
    pgw__buf_int(b, number);
}

void pgw__put_cast(pgw__buf *b, int number, const pgw__column *column)
{
    pgw__put_param(b, number);
    pgw__buf_text(b, "::");
    pgw__put_type(b, column);
}

/* On its own lines, so that a comment at its end does not hide what follows. */
void pgw__put_fragment(pgw__buf *b, const char *before, const char *fragment, const char *after)
{
    if (fragment == NULL) return;
    pgw__buf_text(b, before);
    pgw__buf_text(b, fragment);
    pgw__buf_text(b, "\n");
    pgw__buf_text(b, after);
}

static void put_operator(pgw__buf *b, const pgw__operator *o)
{
    pgw__buf_text(b, "OPERATOR(");
    pgw__put_ident(b, o->schema);
    pgw__buf_text(b, ".");
    pgw__buf_text(b, o->name);
    pgw__buf_text(b, ")");
}

static void put_key_name(pgw__buf *b, size_t k)
{
    pgw__buf_text(b, "pgw_k");
    pgw__buf_int(b, (int64_t)k + 1);
}

void pgw__put_key(pgw__buf *b, const pgw_table *t)
{
    for (size_t k = 0; k < t->key_count; k++) {
        pgw__buf_text(b, k > 0 ? ", " : "");
        pgw__put_column(b, t->key[k].column);
        pgw__buf_text(b, " AS ");
        put_key_name(b, k);
    }
}

void pgw__put_key_text(pgw__buf *b, const pgw_table *t)
{
    for (size_t k = 0; k < t->key_count; k++) {
        pgw__buf_text(b, k > 0 ? ", " : "");
        pgw__put_column(b, t->key[k].column);
        pgw__buf_text(b, "::text");
    }
}

void pgw__put_key_order(pgw__buf *b, const pgw_table *t)
{
    for (size_t k = 0; k < t->key_count; k++) {
        pgw__buf_text(b, k > 0 ? ", " : "");
        pgw__put_column(b, t->key[k].column);
        pgw__buf_text(b, " USING ");
        put_operator(b, &t->key[k].less);
    }
}

/* Column k of the key, and its operator: the other side follows. */
static void put_key_equals(pgw__buf *b, const pgw_table *t, size_t k)
{
    pgw__buf_text(b, k > 0 ? " AND " : "");
    pgw__put_column(b, t->key[k].column);
    pgw__buf_text(b, " ");
    put_operator(b, &t->key[k].equal);
    pgw__buf_text(b, " ");
}

void pgw__put_key_join(pgw__buf *b, const pgw_table *t, const char *with)
{
    for (size_t k = 0; k < t->key_count; k++) {
        put_key_equals(b, t, k);
        pgw__buf_text(b, with);
        pgw__buf_text(b, ".");
        put_key_name(b, k);
    }
}

void pgw__put_key_is(pgw__buf *b, const pgw_table *t, int first)
{
    for (size_t k = 0; k < t->key_count; k++) {
        put_key_equals(b, t, k);
        pgw__put_cast(b, first + (int)k, t->key[k].column);
    }
}

/* The index has the same expression: see pgw__table_ddl(). */
void pgw__put_expiry(pgw__buf *b, const pgw_table *t)
{
    pgw__buf_text(b, "COALESCE(");
    pgw__put_column(b, t->expires_at);
    pgw__buf_text(b, ", '-infinity'::pg_catalog.timestamptz)");
}

/* Every change of the holder draws a new token, which makes the old one stale. Its number grows by
 * one, or to the microsecond of the server's clock if that is more. So it grows for a row that was
 * deleted and inserted again, and needs no sequence. The nonce is random: after a failover to a
 * lagging standby a number may repeat, but not a token. */
void pgw__put_next_token(pgw__buf *b, const pgw_table *t)
{
    pgw__buf_text(b, "(pg_catalog.lpad(pg_catalog.to_hex(GREATEST((EXTRACT(epoch FROM "
                     "pg_catalog.clock_timestamp()) * 1000000)::pg_catalog.int8, "
                     "1 + COALESCE(('x' || pg_catalog.left(pg_catalog.replace(");
    pgw__put_column(b, t->token);
    pgw__buf_text(b,
                  "::text, '-', ''), 16))::bit(64)::pg_catalog.int8, 0))), 16, '0')"
                  " || pg_catalog.left(pg_catalog.gen_random_uuid()::text, 8)"
                  " || pg_catalog.left(pg_catalog.gen_random_uuid()::text, 8))::pg_catalog.uuid");
}

void pgw__put_free(pgw__buf *b, const pgw_table *t)
{
    pgw__put_ident(b, t->locked_by->name);
    pgw__buf_text(b, " = NULL, ");
    pgw__put_ident(b, t->expires_at->name);
    pgw__buf_text(b, " = NULL, ");
    pgw__put_ident(b, t->token->name);
    pgw__buf_text(b, " = ");
    pgw__put_next_token(b, t);
}

/* ---- versions ---- */

/* Without a column for it, a version is xmin/ctid/next transaction/timeline. */
static const char text_clock[] =
    "pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text";
static const char text_timeline[] =
    "CASE WHEN pg_catalog.pg_is_in_recovery() THEN '' "
    "ELSE pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8) END";

bool pgw__has_version(const pgw_table *t)
{
    return t->version != NULL || t->has_xmin;
}

/* A crash of the server loses transactions that did not wait for the disk, and their numbers are
 * given out again: a version with such a number in it would fit another state of the row. */
unsigned pgw__table_relaxed(const pgw_table *t)
{
    return t->version != NULL || t->partitioned ? PGW__RELAXED : 0;
}

void pgw__put_version(pgw__buf *b, const pgw_table *t)
{
    if (t->version != NULL) {
        pgw__put_column(b, t->version);
        pgw__buf_text(b, "::text");
        return;
    }
    pgw__buf_text(b, "t.xmin::text || '/' || t.ctid::text || '/' || ");
    pgw__buf_text(b, text_clock);
    pgw__buf_text(b, " || '/' || ");
    pgw__buf_text(b, text_timeline);
}

static void put_part(pgw__buf *b, int param, const char *part_and_type)
{
    pgw__buf_text(b, "pg_catalog.split_part(");
    pgw__put_param(b, param);
    pgw__buf_text(b, "::text, '/', ");
    pgw__buf_text(b, part_and_type);
}

/* Transaction ids repeat after 2^32: a version older than 2^30 proves nothing. */
void pgw__put_version_is(pgw__buf *b, const pgw_table *t, int param)
{
    if (t->version != NULL) {
        pgw__put_column(b, t->version);
        pgw__buf_text(b, " = ");
        pgw__put_cast(b, param, t->version);
        return;
    }
    pgw__buf_text(b, "t.xmin = ");
    put_part(b, param, "1)::pg_catalog.xid AND t.ctid = ");
    put_part(b, param, "2)::pg_catalog.tid AND ");
    pgw__buf_text(b, text_clock);
    pgw__buf_text(b, "::pg_catalog.int8 - ");
    put_part(b, param, "3)::pg_catalog.int8 BETWEEN 0 AND 1073741823 AND ");
    pgw__buf_text(b, text_timeline);
    pgw__buf_text(b, " = ");
    put_part(b, param, "4)");
}

/* A number at the end of its type begins again at the other end: else the row could not be written
 * any more. */
void pgw__put_next_version(pgw__buf *b, const pgw_table *t)
{
    static const char *const ends[][3] = {
        {"int2", "32767", "-32768"},
        {"int4", "2147483647", "-2147483648"},
        {"int8", "9223372036854775807", "-9223372036854775808"},
    };
    size_t i = 0;

    pgw__put_ident(b, t->version->name);
    if (t->random_version) {
        pgw__buf_text(b, " = pg_catalog.gen_random_uuid()");
        return;
    }
    while (i < 2 && strcmp(t->version->type, ends[i][0]) != 0) i++;
    pgw__buf_text(b, " = CASE WHEN ");
    pgw__put_column(b, t->version);
    pgw__buf_text(b, " = '");
    pgw__buf_text(b, ends[i][1]);
    pgw__buf_text(b, "' THEN '");
    pgw__buf_text(b, ends[i][2]);
    pgw__buf_text(b, "' ELSE ");
    pgw__put_column(b, t->version);
    pgw__buf_text(b, " + 1 END");
}

/* ---- sending ---- */

size_t pgw__put_values(pgw__param *params, const char *const *values, size_t n)
{
    for (size_t i = 0; i < n; i++) params[i] = (pgw__param)P_VALUE(values[i]);
    return n;
}

pgw_status pgw__table_call(pgw *h, const char *name, pgw__buf *b, const pgw__call *call)
{
    pgw_status st = (pgw_status)b->failed;
    pgw__call ours = *call;

    ours.altered = "check your fragments; if the table was altered after pgw_table_open(), open "
                   "it again";
    if (st == PGW_ENOMEM) {
        st = pgw__pq_reject(h, st, NULL, NULL);
    } else if (st != PGW_OK) {
        st = pgw__pq_reject(h, st, "the statement is longer than 1 MB", "pass values in `values`");
    } else {
        st = pgw__pq_text(h, name, pgw__buf_str(b), &ours);
    }
    pgw__buf_free(b);
    return st;
}
