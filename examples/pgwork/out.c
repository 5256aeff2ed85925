/* SPDX-License-Identifier: PostgreSQL */
#define _XOPEN_SOURCE 700 /* wcwidth() */
#include "out.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "cli.h"
#include "term.h"
#include "text.h"

/* -- text ----------------------------------------------------------------------------------- */

void buf_add(buf *t, const char *bytes, size_t n)
{
    if (t->size + n + 1 > t->capacity) {
        t->capacity = (t->size + n + 1) * 2;
        t->at = cli_realloc(t->at, t->capacity);
    }
    if (n) memcpy(t->at + t->size, bytes, n);
    t->size += n;
    t->at[t->size] = '\0';
}

void buf_puts(buf *t, const char *s)
{
    buf_add(t, s, strlen(s));
}

/* Adds a JSON escape. */
static void out_add_unseen(buf *t, uint32_t c)
{
    char escape[16];
    if (c > 0xffff) {
        snprintf(escape, sizeof escape, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (c >> 10)),
                 (unsigned)(0xdc00 + (c & 0x3ff)));
    } else {
        snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
    }
    buf_puts(t, escape);
}

void buf_add_json(buf *t, const char *bytes, size_t n)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    buf_add(t, "\"", 1);
    size_t plain = 0, i = 0, step; /* bytes[plain .. i) needs no escape */
    for (; i < n; i += step) {
        uint32_t unseen = text_unseen(&step, bytes + i, n - i);
        const char *at = memchr(from, bytes[i], sizeof from - 1);
        if (!at && !unseen && bytes[i]) continue;
        buf_add(t, bytes + plain, i - plain);
        if (at) {
            char escape[] = {'\\', to[at - from], '\0'};
            buf_puts(t, escape);
        } else {
            out_add_unseen(t, unseen ? unseen : 0xfffd);
        }
        plain = i + step;
    }
    buf_add(t, bytes + plain, i - plain);
    buf_add(t, "\"", 1);
}

void buf_add_json_text(buf *t, const char *json)
{
    size_t n = strlen(json), plain = 0, i = 0, step;
    for (; i < n; i += step) {
        uint32_t unseen = text_unseen(&step, json + i, n - i);
        if (unseen < 0x7f || unseen == 0xfffd) continue; /* whitespace between tokens */
        buf_add(t, json + plain, i - plain);
        out_add_unseen(t, unseen);
        plain = i + step;
    }
    buf_add(t, json + plain, n - plain);
}

void buf_add_visible(buf *t, const char *value)
{
    size_t n = strlen(value), step;
    buf_add(t, "", 0);
    for (size_t i = 0; i < n; i += step) {
        char escape[TEXT_ESCAPE];
        if (*text_escape(escape, &step, value + i, n - i)) {
            buf_puts(t, escape);
        } else {
            buf_add(t, value + i, step);
        }
    }
}

void buf_free(buf *t)
{
    free(t->at);
    *t = (buf){0};
}

/* -- JSON ----------------------------------------------------------------------------------- */

static void out_name(out *o, const char *name)
{
    if (o->line.size > 1) buf_puts(&o->line, ",");
    buf_add_json(&o->line, name, strlen(name));
    buf_puts(&o->line, ":");
}

void out_begin(out *o)
{
    *o = (out){0};
    cli_answering(true);
    buf_puts(&o->line, "{");
}

void out_json(out *o, const char *name, const char *json)
{
    out_name(o, name);
    buf_add_json_text(&o->line, json ? json : "null");
}

void out_text(out *o, const char *name, const char *value)
{
    if (!value) {
        out_json(o, name, NULL);
        return;
    }
    out_name(o, name);
    buf_add_json(&o->line, value, strlen(value));
}

void out_int(out *o, const char *name, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    out_json(o, name, digits);
}

void out_bool(out *o, const char *name, bool value)
{
    out_json(o, name, value ? "true" : "false");
}

void out_time(out *o, const char *name, int64_t us)
{
    char time[TEXT_TIME];
    out_text(o, name, us == 0 ? NULL : text_time(time, us));
}

void out_base64(out *o, const char *name, const void *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *b = bytes;
    if (!b) {
        out_json(o, name, NULL);
        return;
    }
    out_name(o, name);
    buf_puts(&o->line, "\"");
    for (size_t i = 0; i < n; i += 3) {
        size_t rest = n - i;
        unsigned long three = (unsigned long)b[i] << 16 |
                              (unsigned long)(rest > 1 ? b[i + 1] : 0) << 8 |
                              (unsigned long)(rest > 2 ? b[i + 2] : 0);
        char four[4] = {digits[three >> 18 & 63], digits[three >> 12 & 63],
                        rest > 1 ? digits[three >> 6 & 63] : '=',
                        rest > 2 ? digits[three & 63] : '='};
        buf_add(&o->line, four, 4);
    }
    buf_puts(&o->line, "\"");
}

void out_rate(out *o, const pgw_rate_opts *rate)
{
    if (rate) {
        out_int(o, "rate_n", rate->n);
        out_int(o, "rate_per_ms", rate->per_ms);
        out_int(o, "rate_burst", rate->burst);
    } else {
        out_json(o, "rate_n", NULL);
        out_json(o, "rate_per_ms", NULL);
        out_json(o, "rate_burst", NULL);
    }
}

void out_end(out *o)
{
    buf_puts(&o->line, "}\n");
    fwrite(o->line.at, 1, o->line.size, stdout);
    buf_free(&o->line);
    cli_answering(false);
}

void out_number(const char *name, int64_t value)
{
    out o;
    out_begin(&o);
    out_int(&o, name, value);
    out_end(&o);
}

static void out_tags(out *o, const pgw_job *job)
{
    buf tags = {0};
    buf_puts(&tags, "[");
    for (size_t i = 0; i < pgw_job_tags_count(job); i++) {
        const char *tag = pgw_job_tag(job, i);
        if (i) buf_puts(&tags, ",");
        buf_add_json(&tags, tag, strlen(tag));
    }
    buf_puts(&tags, "]");
    out_json(o, "tags", tags.at);
    buf_free(&tags);
}

void out_job(const pgw_job *job, bool claimed, int64_t running_us, const char *attempts)
{
    out o;
    size_t size;
    const void *body = pgw_job_body(job, &size);
    out_begin(&o);
    out_int(&o, "id", pgw_job_id(job));
    if (claimed) {
        char token[PGW_TOKEN_TEXT_SIZE];
        out_text(&o, "token", pgw_token_format(pgw_job_ref(job).token, token));
    }
    out_text(&o, "queue", pgw_job_queue(job));
    out_text(&o, "state", pgw_state_name(claimed ? PGW_STATE_LEASED : pgw_job_state(job)));
    out_text(&o, "kind", pgw_job_kind(job));
    out_int(&o, "priority", pgw_job_priority(job));
    out_int(&o, "attempt", pgw_job_attempt(job));
    if (pgw_job_max_attempts(job)) {
        out_int(&o, "max_attempts", pgw_job_max_attempts(job));
    } else {
        out_text(&o, "max_attempts", NULL);
    }
    out_time(&o, "created_at", pgw_job_created_us(job));
    out_time(&o, "lease_until", pgw_job_lease_until_us(job));
    out_tags(&o, job);
    out_json(&o, "payload", pgw_job_payload(job));
    out_json(&o, "meta", pgw_job_meta(job));
    if (claimed) {
        out_base64(&o, "body_base64", body, size);
    } else {
        out_int(&o, "body_bytes", (int64_t)size);
        out_text(&o, "holder", pgw_job_holder(job));
        out_time(&o, "running_since", running_us);
        out_time(&o, "run_at", pgw_job_run_at_us(job));
        out_time(&o, "finished_at", pgw_job_finished_us(job));
        out_text(&o, "key", pgw_job_key(job));
        out_text(&o, "group", pgw_job_group(job));
        out_time(&o, "expires_at", pgw_job_expires_us(job));
        out_text(&o, "error", pgw_job_error(job));
        out_json(&o, "output", pgw_job_output(job));
        out_json(&o, "progress", pgw_job_progress(job));
        out_bool(&o, "payload_hidden", pgw_job_payload_hidden(job));
    }
    if (attempts) out_json(&o, "attempts", attempts);
    out_end(&o);
}

/* -- columns -------------------------------------------------------------------------------- */

char *out_visible(const char *value)
{
    buf t = {0};
    buf_add_visible(&t, value);
    return t.at;
}

void table_begin(table *t, const char *const *headings, size_t columns)
{
    *t = (table){.headings = headings, .columns = columns};
}

void table_text(table *t, const char *value)
{
    if (t->cells == t->capacity) {
        t->capacity = t->capacity ? t->capacity * 2 : 64;
        t->cell = cli_realloc(t->cell, t->capacity * sizeof *t->cell);
    }
    t->cell[t->cells++] = out_visible(value && *value ? value : "-");
}

void table_int(table *t, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    table_text(t, digits);
}

void table_age(table *t, int64_t ms)
{
    char age[TEXT_AGE];
    table_text(t, ms < 0 ? NULL : text_age(age, ms));
}

void table_rate(table *t, const pgw_rate_opts *rate)
{
    char age[TEXT_AGE], text[TEXT_AGE + 48];
    int used = 0;
    if (rate) used = snprintf(text, sizeof text, "%d/%s", rate->n, text_age(age, rate->per_ms));
    if (rate && rate->burst != rate->n)
        snprintf(text + used, sizeof text - (size_t)used, ", burst %d", rate->burst);
    table_text(t, rate ? text : NULL);
}

/* The width on a terminal: a Chinese character has two columns, a combining accent none. */
static size_t table_width(const char *s)
{
    size_t width = 0;
    for (size_t n; *s; s += n) {
        mbstate_t state = {0};
        wchar_t c;
        n = text_utf8_char((const unsigned char *)s, 4);
        int columns = mbrtowc(&c, s, n, &state) == n ? wcwidth(c) : -1;
        width += columns < 0 ? 1 : (size_t)columns;
    }
    return width;
}

static void table_put(const char *s, size_t width, bool right, bool last)
{
    size_t used = table_width(s);
    int pad = used < width ? (int)(width - used) : 0;
    if (right) {
        printf("%*s%s", pad, "", s);
    } else {
        printf("%s%*s", s, last ? 0 : pad, "");
    }
    fputs(last ? "\n" : "  ", stdout);
}

void table_end(table *t)
{
    /* wcwidth() needs a UTF-8 locale, whatever the user's is */
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0), before = uselocale(utf8);
    size_t *width = cli_alloc(t->columns * sizeof *width);
    for (size_t i = 0; i < t->columns; i++) {
        width[i] = strlen(t->headings[i]) - (strchr(t->headings[i], '>') != NULL);
    }
    for (size_t i = 0; i < t->cells; i++) {
        size_t w = table_width(t->cell[i]), *most = &width[i % t->columns];
        if (w > *most) *most = w;
    }
    if (t->cells) {
        fputs(term_style(TERM_BOLD), stdout);
        for (size_t i = 0; i < t->columns; i++) {
            char heading[32];
            size_t n = strcspn(t->headings[i], ">");
            snprintf(heading, sizeof heading, "%.*s", (int)n, t->headings[i]);
            table_put(heading, width[i], t->headings[i][n] == '>', i + 1 == t->columns);
        }
        fputs(term_style(TERM_PLAIN), stdout);
    }
    for (size_t i = 0; i < t->cells; i++) {
        size_t column = i % t->columns;
        table_put(t->cell[i], width[column], strchr(t->headings[column], '>') != NULL,
                  column + 1 == t->columns);
        free(t->cell[i]);
    }
    free(width);
    uselocale(before);
    if (utf8) freelocale(utf8);
    free(t->cell);
    *t = (table){0};
}
