/* SPDX-License-Identifier: PostgreSQL */
#include "html.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../pgwork/text.h"

/* -- text ----------------------------------------------------------------------------------- */

static const char *html_entity(char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

static void html_bytes(buf *b, const char *text, size_t n)
{
    size_t plain = 0, step; /* text[plain .. i) goes out as it is */
    for (size_t i = 0; i < n; i += step) {
        char escape[TEXT_ESCAPE];
        const char *instead = html_entity(text[i]);
        step = 1;
        if (!instead && text[i] != '\n' && text[i] != '\t') {
            instead = text_escape(escape, &step, text + i, n - i);
            if (!*instead) instead = NULL;
        }
        if (!instead) continue;
        buf_add(b, text + plain, i - plain);
        buf_puts(b, instead);
        plain = i + step;
    }
    buf_add(b, text + plain, n - plain);
}

void html_text(buf *b, const char *text)
{
    if (text) html_bytes(b, text, strlen(text));
}

void html_long(buf *b, const char *text, size_t size)
{
    size_t n = text ? strlen(text) : 0;
    if (n <= size) {
        html_text(b, text);
        return;
    }
    while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80)
        size--; /* not within a character */
    html_bytes(b, text, size);
    html(b, "<span class=\"more\"> … %l bytes more</span>", (int64_t)(n - size));
}

void html_url(buf *b, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (; text && *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                     c == '-' || c == '_' || c == '.' || c == '~';
        char escape[] = {'%', digits[c >> 4], digits[c & 15]};
        buf_add(b, plain ? text : escape, plain ? 1 : sizeof escape);
    }
}

void html(buf *b, const char *format, ...)
{
    va_list args;
    char number[32];
    va_start(args, format);
    for (const char *at; (at = strchr(format, '%')) != NULL; format = at + 2) {
        buf_add(b, format, (size_t)(at - format));
        switch (at[1]) {
        case 's': html_text(b, va_arg(args, const char *)); break;
        case 'u': html_url(b, va_arg(args, const char *)); break;
        case 'r': buf_puts(b, va_arg(args, const char *)); break;
        case 'd':
            snprintf(number, sizeof number, "%d", va_arg(args, int));
            buf_puts(b, number);
            break;
        case 'l':
            snprintf(number, sizeof number, "%" PRId64, va_arg(args, int64_t));
            buf_puts(b, number);
            break;
        default: buf_puts(b, "%"); break;
        }
    }
    buf_puts(b, format);
    va_end(args);
}

/* -- values --------------------------------------------------------------------------------- */

void html_time(buf *b, int64_t us, int64_t now_us)
{
    char time[TEXT_TIME], age[TEXT_AGE];
    int64_t ms = (now_us - us) / 1000;
    if (us == PGW_NONE) {
        html(b, "<span class=\"none\">–</span>");
        return;
    }
    text_time(time, us);
    strcpy(time + strlen(time) - 8, "Z"); /* no microseconds */
    if (ms > -1000 && ms < 1000) {
        html(b, "<time datetime=\"%s\" title=\"%s\">now</time>", time, time);
        return;
    }
    text_age(age, ms < 0 ? -ms : ms);
    html(b, "<time datetime=\"%s\" title=\"%s\">%s%s%s</time>", time, time, ms < 0 ? "in " : "",
         age, ms < 0 ? "" : " ago");
}

void html_count(buf *b, int64_t n)
{
    char digits[32], grouped[48];
    size_t size = (size_t)snprintf(digits, sizeof digits, "%" PRId64, n), to = 0;
    for (size_t i = 0; i < size; i++) {
        if (i > 0 && (size - i) % 3 == 0 && digits[i - 1] != '-') grouped[to++] = ',';
        grouped[to++] = digits[i];
    }
    buf_add(b, grouped, to);
}

void html_bounded(buf *b, int64_t n, int64_t most)
{
    if (n == 0) {
        html(b, "<span class=\"none\">0</span>");
        return;
    }
    html_count(b, n);
    if (n >= most) html(b, "<abbr title=\"or more\">+</abbr>");
}

void html_age(buf *b, int64_t ms)
{
    char age[TEXT_AGE];
    if (ms < 0)
        html(b, "<span class=\"none\">–</span>");
    else
        html_text(b, text_age(age, ms));
}

void html_badge(buf *b, const char *word, const char *kind)
{
    html(b, "<span class=\"badge %s\">%s</span>", kind, word);
}

void html_advice(buf *b, const char *text)
{
    bool code = false;
    for (const char *at; (at = strchr(text, '`')) != NULL; text = at + 1, code = !code) {
        html_bytes(b, text, (size_t)(at - text));
        html(b, code ? "</code>" : "<code>");
    }
    html_text(b, text);
    if (code) html(b, "</code>");
}

/* -- tables --------------------------------------------------------------------------------- */

void html_table(buf *b, const char *caption, const char *headings)
{
    html(b,
         "<div class=\"scroll\" role=\"group\" aria-label=\"%s\" tabindex=\"0\"><table>"
         "<caption class=\"unseen\">%s</caption><thead><tr>",
         caption, caption);
    while (*headings) {
        size_t n = strcspn(headings, "|");
        bool number = n > 0 && headings[n - 1] == '>';
        html(b, number ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">");
        html_bytes(b, headings, n - number);
        html(b, "</th>");
        headings += n + (headings[n] == '|');
    }
    html(b, "</tr></thead><tbody>");
}

void html_table_end(buf *b)
{
    html(b, "</tbody></table></div>\n");
}

/* -- charts --------------------------------------------------------------------------------- */

void minutes_read(minutes *m, const char *text)
{
    *m = (minutes){0};
    while (text && *text) {
        char *end;
        int64_t v[5] = {0};
        for (size_t i = 0; i < 5; i++) {
            v[i] = strtoll(text, &end, 10);
            if (end == text) return;
            text = end + (*end == ':' || *end == ' ');
        }
        if (v[0] < 0 || v[0] >= HTML_MINUTES) continue;
        size_t at = HTML_MINUTES - 1 - (size_t)v[0];
        m->done[at] += v[1];
        m->failed[at] += v[2];
        if (v[3] > m->wait_ms[at]) m->wait_ms[at] = v[3];
        if (v[4] > m->run_ms[at]) m->run_ms[at] = v[4];
    }
}

static int64_t chart_peak(const int64_t *values, const int64_t *more)
{
    int64_t peak = 0;
    for (size_t i = 0; i < HTML_MINUTES; i++) {
        int64_t sum = values[i] + (more ? more[i] : 0);
        if (sum > peak) peak = sum;
    }
    return peak;
}

/* A bar of @p value that stands on @p below; both in parts of @p peak. Returns its upper end. */
static int64_t chart_bar(buf *b, size_t at, const char *kind, int64_t below, int64_t value,
                         int64_t peak)
{
    int64_t top = (int64_t)((double)value / (double)peak * 960);
    if (value > 0 && top < 12) top = 12; /* one failure is to be seen */
    if (value > 0) {
        html(b, "<rect class=\"%s\" x=\"%d\" y=\"%l\" width=\"8\" height=\"%l\"/>", kind,
             (int)at * 10 + 1, 1000 - below - top, top);
    }
    return below + (value > 0 ? top : 0);
}

static void chart_value(buf *b, const chart *c, int64_t value)
{
    if (c->times)
        html_age(b, value);
    else
        html_count(b, value);
}

/* One minute: its title, and its bar. */
static void chart_minute(buf *b, const chart *c, size_t at, int64_t peak)
{
    char time[TEXT_TIME];
    int64_t below = 0;
    text_time(time, c->now_us - (int64_t)(HTML_MINUTES - 1 - at) * 60000000);
    html(b, "<g><title>");
    html_bytes(b, time + 11, 5);
    html(b, ": ");
    chart_value(b, c, c->values[at]);
    html(b, " %s", c->name);
    if (c->more) html(b, ", %l %s", c->more[at], c->more_name);
    html(b, "</title><rect class=\"hit\" x=\"%d\" y=\"0\" width=\"10\" height=\"1000\"/>",
         (int)at * 10);
    if (c->more) below = chart_bar(b, at, "bad", 0, c->more[at], peak);
    chart_bar(b, at, c->bad ? "bad" : "good", below, c->values[at], peak);
    html(b, "</g>");
}

void html_chart(buf *b, const chart *c)
{
    int64_t peak = chart_peak(c->values, c->more);
    html(b, "<figure class=\"chart\"><figcaption><b>%s</b> <span>", c->title);
    if (peak) {
        html(b, "peak ");
        chart_value(b, c, peak);
        html(b, " %s", c->unit);
    } else {
        html(b, "nothing in the last hour");
    }
    html(b,
         "</span></figcaption><svg role=\"img\" aria-label=\"%s by minute, last hour\" "
         "viewBox=\"0 0 600 1000\" preserveAspectRatio=\"none\">",
         c->title);
    for (size_t i = 0; peak && i < HTML_MINUTES; i++) chart_minute(b, c, i, peak);
    html(b, "</svg><div class=\"axis\" aria-hidden=\"true\"><span>1 h ago</span><span>now</span>"
            "</div></figure>\n");
}

/* All bars as one shape: pages with a hundred of them stay small. */
static void spark_path(buf *b, const char *kind, const int64_t *values, const int64_t *below,
                       int64_t peak)
{
    html(b, "<path class=\"%s\" d=\"", kind);
    for (size_t i = 0; i < HTML_MINUTES; i++) {
        int64_t sum = values[i] + (below ? below[i] : 0);
        if (values[i] == 0) continue;
        html(b, "M%d 1000v-%lh8V1000z", (int)i * 10 + 1,
             (int64_t)((double)sum / (double)peak * 960) + 40);
    }
    html(b, "\"/>");
}

void html_spark(buf *b, const minutes *m)
{
    int64_t peak = chart_peak(m->done, m->failed), sum = 0;
    for (size_t i = 0; i < HTML_MINUTES; i++) sum += m->done[i];
    if (peak == 0) {
        html(b, "<span class=\"none\">–</span>");
        return;
    }
    html(b,
         "<svg class=\"spark\" role=\"img\" aria-label=\"%l done in the last hour\" viewBox=\"0 0 "
         "600 1000\""
         " preserveAspectRatio=\"none\"><title>%l done in the last hour</title>",
         sum, sum);
    spark_path(b, "good", m->done, m->failed, peak);
    spark_path(b, "bad", m->failed, NULL, peak);
    html(b, "</svg>");
}
