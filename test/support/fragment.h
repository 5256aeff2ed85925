/* fragment.h: the program around a fragment of C in a Markdown page, included before and after it.
 * The page may use `h`, an open handle, and the functions declared here. The program fails if the
 * last call on `h` failed, or if nothing in the fragment named the handle. */
#ifndef FRAGMENT_H
#define FRAGMENT_H
#include <inttypes.h>
#include <libpq-fe.h>
#include <pgwork.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void render(void)
{
    puts("rendered");
}
static void send_mailing(int number, int64_t fence)
{
    printf("mailing %d, fence %" PRId64 "\n", number, fence);
}

int main(void)
{
    pgw *h;

    (void)render, (void)send_mailing;
    if (pgw_open(NULL, &h) != PGW_OK) {
        fprintf(stderr, "%s\n", pgw_error_message(h));
        return 1;
    }
    {
#else
}
if (*pgw_error_message(h) != '\0') {
    fprintf(stderr, "%s\n", pgw_error_message(h));
    return 1;
}
pgw_close(h);
return 0;
}
#endif
