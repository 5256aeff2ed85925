/* SPDX-License-Identifier: PostgreSQL
 *
 * text: converts numbers, durations, times and UTF-8 from and to text. Pure functions.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each accepts the whole word or nothing. */
bool text_to_int(int64_t *n, const char *word);
bool text_to_ms(int64_t *ms, const char *word);
bool text_to_time_us(int64_t *us, const char *word);

#define TEXT_AGE 24
/** 850ms, 12s, 3m12s, 5h07m, 3d04h. Returns @p buf. */
char *text_age(char buf[TEXT_AGE], int64_t ms);
#define TEXT_TIME 32
/** 2030-01-31T12:00:00.000000Z. Returns @p buf. */
char *text_time(char buf[TEXT_TIME], int64_t us);

/** "2/10"; "2" if @p whole is 0, which means unknown. */
void text_ratio(char *buf, size_t size, int part, int whole);

/** The length of the UTF-8 character at @p s, which has @p n bytes. 0: it is not valid. */
size_t text_utf8_char(const unsigned char *s, size_t n);
/** The offset of the first byte that is not UTF-8, or @p n. */
size_t text_utf8_span(const char *s, size_t n);

#define TEXT_ESCAPE 16
/** The escape for the first character of @p n bytes, such as "\\x1b" or "\\u202e", in @p buf, or ""
 * if the character can be shown. @p *step: its length. Escaped are control characters, bytes that
 * are not UTF-8, direction marks, zero-width characters and line separators. */
const char *text_escape(char buf[TEXT_ESCAPE], size_t *step, const char *s, size_t n);
/** The code point of such a character, U+FFFD for bytes that are not UTF-8. 0: the character can be
 * shown, or is NUL. */
uint32_t text_unseen(size_t *step, const char *s, size_t n);

#define TEXT_WHERE 64
/** The place of @p at: "column 5", or "line 2, column 5" if the text has several lines. Counts
 * characters, from 1. Returns @p buf. */
char *text_where(char buf[TEXT_WHERE], const char *s, size_t n, size_t at);

/** Microseconds since 1970 by this machine's clock. */
int64_t text_now_us(void);
/** Milliseconds of the monotonic clock. */
int64_t text_tick_ms(void);

#endif
