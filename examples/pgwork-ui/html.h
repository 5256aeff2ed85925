/* SPDX-License-Identifier: PostgreSQL
 *
 * html: writes pages. Text of the database reaches a page through html_text() or html_url() only.
 */
#ifndef HTML_H
#define HTML_H

#include "../pgwork/out.h"

/** Text, escaped for element content and for quoted attributes. Control characters and marks of
 * direction are shown as "\x1b" and "\u202e". NULL: nothing. */
void html_text(buf *b, const char *text);
/** At most @p size bytes of it, and how much is left out. */
void html_long(buf *b, const char *text, size_t size);
/** A value in the query of an address. */
void html_url(buf *b, const char *text);
/** Markup with values: %s text, %u as in an address, %d int, %l int64_t, %r markup of our own, %%.
 */
void html(buf *b, const char *format, ...);

/** "3m12s ago" or "in 5s", with the time in its title. PGW_NONE: a dash. */
void html_time(buf *b, int64_t us, int64_t now_us);
/** 1,234,567 */
void html_count(buf *b, int64_t n);
/** A count that ends at @p most: "1,000+". */
void html_bounded(buf *b, int64_t n, int64_t most);
void html_age(buf *b, int64_t ms); /* negative: a dash */
void html_badge(buf *b, const char *word, const char *kind);
/** Text in which `words` are code. */
void html_advice(buf *b, const char *text);

/** A table; @p headings are separated by "|", and those of numbers end with ">". */
void html_table(buf *b, const char *caption, const char *headings);
void html_table_end(buf *b);

#define HTML_MINUTES 60
/* Counts of each of the last minutes, the oldest first. */
typedef struct minutes {
    int64_t done[HTML_MINUTES], failed[HTML_MINUTES], wait_ms[HTML_MINUTES], run_ms[HTML_MINUTES];
} minutes;
/** Reads "AGO:done:failed:wait_ms:run_ms ..."; NULL: nothing happened. */
void minutes_read(minutes *m, const char *text);

typedef struct chart {
    const char *title, *unit;     /* "Throughput", "jobs a minute" */
    const char *name, *more_name; /* of the values: "done", "failed" */
    const int64_t *values, *more; /* more: of failures, drawn below; NULL: none */
    bool bad;                     /* the values are failures */
    bool times;                   /* they are times in ms */
    int64_t now_us;
} chart;
/** Bars, one a minute. */
void html_chart(buf *b, const chart *c);
/** A line without axes, for a cell. */
void html_spark(buf *b, const minutes *m);

#endif
