/* SPDX-License-Identifier: PostgreSQL
 *
 * term: colours and a progress bar, only on a terminal.
 */
#ifndef TERM_H
#define TERM_H

#include <stdbool.h>
#include <stdint.h>

typedef enum term_kind { TERM_PLAIN, TERM_BOLD, TERM_RED, TERM_GREEN, TERM_YELLOW } term_kind;

/** Decides whether to use colours: stdout is a terminal, and none of NO_COLOR, TERM=dumb and
 * @p no_color is set. */
void term_begin(bool no_color);
/** The escape sequence for a style, or "". */
const char *term_style(term_kind kind);
/** Whether stdout is a terminal. */
bool term_is_one(void);
/** Moves the cursor home and clears the screen. Returns whether stdout is a terminal. */
bool term_home(void);
/** A screen of our own, on which lines are cut, and keys that come at once and unseen. False: back
 * to what was there. */
void term_screen(bool on);
int term_lines(void);

/* A bar on stderr, drawn at most ten times a second, and only on a terminal. */
typedef struct progress {
    bool on;
    const char *what;
    int64_t total; /* 0: unknown */
    int64_t drawn_ms, begun_ms;
} progress;
void progress_begin(progress *p, bool wanted, const char *what, int64_t total);
void progress_at(progress *p, int64_t part, int64_t count);
void progress_end(progress *p); /* clears the line */

#endif
