/* SPDX-License-Identifier: PostgreSQL
 *
 * term: what only a terminal gets to see: colours, and a progress bar.
 */
#ifndef TERM_H
#define TERM_H

#include <stdbool.h>
#include <stdint.h>

typedef enum term_kind { TERM_PLAIN, TERM_BOLD, TERM_RED, TERM_GREEN, TERM_YELLOW } term_kind;

/** Decides once: stdout is a terminal, and neither NO_COLOR nor TERM=dumb nor @p no_color say no.
 */
void term_begin(bool no_color);
/** The sequence that switches stdout, or "". */
const char *term_style(term_kind kind);
/** Whether stdout is a terminal. */
bool term_is_one(void);
/** Cursor home and the rest cleared, on a terminal. Returns whether it is one. */
bool term_home(void);
/** A screen of our own, on which lines are cut, and keys that come at once and unseen. False: back
 * to what was there. */
void term_screen(bool on);
int term_lines(void);

/* A bar on stderr, drawn ten times a second at most. Nothing is drawn elsewhere than on a terminal.
 */
typedef struct progress {
    bool on;
    const char *what;
    int64_t total; /* 0: unknown */
    int64_t drawn_ms, begun_ms;
} progress;
void progress_begin(progress *p, bool wanted, const char *what, int64_t total);
void progress_at(progress *p, int64_t part, int64_t count);
void progress_end(progress *p); /* wipes the line */

#endif
