/* SPDX-License-Identifier: PostgreSQL */
#include "term.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "text.h"

static bool term_colors;

void term_begin(bool no_color)
{
    const char *no = getenv("NO_COLOR"), *type = getenv("TERM");
    term_colors =
        !no_color && !(no && *no) && !(type && strcmp(type, "dumb") == 0) && isatty(STDOUT_FILENO);
}

const char *term_style(term_kind kind)
{
    static const char *const styles[] = {"\033[0m", "\033[1m", "\033[31m", "\033[32m", "\033[33m"};
    return term_colors ? styles[kind] : "";
}

bool term_is_one(void)
{
    return isatty(STDOUT_FILENO);
}

bool term_home(void)
{
    if (!isatty(STDOUT_FILENO)) return false;
    fputs("\033[H\033[J", stdout);
    return true;
}

void term_screen(bool on)
{
    static struct termios before;
    static bool changed;
    struct termios keys;
    if (on && tcgetattr(STDIN_FILENO, &before) == 0) {
        keys = before;
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        keys.c_cc[VMIN] = 1, keys.c_cc[VTIME] = 0;
        keys.c_cc[VSUSP] = _POSIX_VDISABLE; /* a shell would get the screen as it is */
        changed = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
    } else if (!on && changed) {
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
        changed = false;
    }
    /* the other screen; no cursor; no wrapping */
    fputs(on ? "\033[?1049h\033[?25l\033[?7l" : "\033[?7h\033[?25h\033[?1049l", stdout);
    fflush(stdout);
}

int term_lines(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

void progress_begin(progress *p, bool wanted, const char *what, int64_t total)
{
    *p = (progress){.on = wanted && isatty(STDERR_FILENO), .what = what, .total = total};
    p->begun_ms = text_tick_ms();
}

void progress_at(progress *p, int64_t part, int64_t count)
{
    static const char full[] = "##############################";
    static const char none[] = "..............................";
    if (!p->on) return;
    int64_t now = text_tick_ms();
    if (now - p->drawn_ms < 100) return;
    p->drawn_ms = now;
    int64_t ms = now - p->begun_ms, rate = ms > 0 ? count * 1000 / ms : 0;
    if (p->total > 0) {
        if (part > p->total) part = p->total;
        double share = (double)part / (double)p->total;
        int width = (int)sizeof full - 1, done = (int)(share * width);
        fprintf(stderr, "\r\033[K[%.*s%.*s] %3d%%  %" PRId64 " %s  %" PRId64 "/s", done, full,
                width - done, none, (int)(share * 100), count, p->what, rate);
    } else {
        fprintf(stderr, "\r\033[K%" PRId64 " %s  %" PRId64 "/s", count, p->what, rate);
    }
}

void progress_end(progress *p)
{
    if (p->on && p->drawn_ms) fputs("\r\033[K", stderr);
    p->on = false;
}
