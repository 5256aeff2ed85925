/* SPDX-License-Identifier: PostgreSQL
 *
 * text: numbers, durations, points in time and UTF-8, from words and to words. Pure.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each takes the whole word or nothing. */
bool text_to_int(int64_t *n, const char *word);
bool text_to_ms(int64_t *ms, const char *word);
bool text_to_time_us(int64_t *us, const char *word);

#define TEXT_AGE 24
/** 850ms, 12s, 3m12s, 5h07m, 3d04h. Returns @p buf. */
char *text_age(char buf[TEXT_AGE], int64_t ms);
#define TEXT_TIME 32
/** 2030-01-31T12:00:00.000000Z. Returns @p buf. */
char *text_time(char buf[TEXT_TIME], int64_t us);

/** "2/10"; "2" where @p whole is not known, 0. */
void text_ratio(char *buf, size_t size, int part, int whole);

/** The length of the UTF-8 character at @p s, of which @p n bytes are there; 0: it is none. */
size_t text_utf8_char(const unsigned char *s, size_t n);
/** Where the first byte that is no UTF-8 stands; @p n when all is well. */
size_t text_utf8_span(const char *s, size_t n);

#define TEXT_ESCAPE 16
/** The first character of @p n bytes, @p *step long, as it may be shown: "" where it stands for
 * itself, else "\\x1b" or "\\u202e", in @p buf, which is returned. Escaped are control characters,
 * what is no UTF-8, and what is not seen but changes what is: marks of direction, characters
 * without a width, line separators. */
const char *text_escape(char buf[TEXT_ESCAPE], size_t *step, const char *s, size_t n);
/** The code point of such a character, U+FFFD for what is no UTF-8; 0: it stands for itself, or is
 * NUL. */
uint32_t text_unseen(size_t *step, const char *s, size_t n);

#define TEXT_WHERE 64
/** Where @p at stands: "column 5", or "line 2, column 5" of what has several lines, counted from 1
 * and in characters. Returns @p buf. */
char *text_where(char buf[TEXT_WHERE], const char *s, size_t n, size_t at);

/** Microseconds since 1970 by this machine's clock. */
int64_t text_now_us(void);
/** Milliseconds of the clock that is never set. */
int64_t text_tick_ms(void);

#endif
