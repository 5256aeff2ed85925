/* mailer: many processes, and each mailing is sent by one of them. A process that finds a mailing
 * locked waits a second at most, then continues with the next one.
 *
 *   cc mailer.c $(pkg-config --cflags --libs pgwork)
 *   PGWORK_DSN=... ./a.out [MAILINGS [PROCESSES]]
 *
 * Sent mailings are recorded, and the record is read again under the lock, because another process
 * may have sent the mailing meanwhile. When a process dies, its lock is free. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pgwork.h>

/* The slow part. A real program passes the fence to everything that it writes to. */
static void send_mailing(int mailing, int64_t fence)
{
    printf("%d sends mailing %d (fence %lld)\n", (int)getpid(), mailing, (long long)fence);
    fflush(stdout);
    (void)poll(NULL, 0, 30);
}

/* Records what was sent: here a file, in a real program a table. */
static int was_sent(FILE *book, int mailing)
{
    char state = 0;

    return fseek(book, mailing, SEEK_SET) == 0 && fread(&state, 1, 1, book) == 1 && state == 's';
}

static int note_sent(FILE *book, int mailing)
{
    return fseek(book, mailing, SEEK_SET) == 0 && fwrite("s", 1, 1, book) == 1 && fflush(book) == 0;
}

/* 1: sent; 0: another process has sent it, or is sending it; -1: failed. */
static int send_one(pgw *h, FILE *book, int mailing, int *busy)
{
    char name[32];
    pgw_lock_opts o = PGW_LOCK_OPTS_INIT;
    pgw_lock *lock;
    pgw_status st;
    int sent = 0;

    snprintf(name, sizeof(name), "mailing %d", mailing);
    o.timeout_ms = 1000;
    st = pgw_lock_acquire(h, name, &o, &lock);
    if (st == PGW_ELOCKED) {
        ++*busy; /* check again later: its holder may die */
        return 0;
    }
    if (st == PGW_OK) {
        if (!was_sent(book, mailing)) { /* read again, now that nobody else can write it */
            send_mailing(mailing, pgw_lock_fence(lock));
            sent = pgw_lock_is_held(lock) && note_sent(book, mailing) ? 1 : -1;
        }
        st = pgw_lock_release(lock);
    }
    if (st != PGW_OK) fprintf(stderr, "%s: %s\n", name, pgw_error_message(h));
    return st == PGW_OK ? sent : -1;
}

/* Returns how many mailings this process sent; -1: it failed. */
static int work(const char *path, int mailings)
{
    FILE *book = fopen(path, "r+");
    int sent = 0, busy = 1;
    pgw *h;

    if (book == NULL) return -1;
    setvbuf(book, NULL, _IONBF, 0); /* others write it, too */
    if (pgw_open(NULL, &h) != PGW_OK) {
        fprintf(stderr, "%s\n%s\n", pgw_error_message(h), pgw_error_hint(h));
        sent = -1;
    }
    while (sent >= 0 && busy > 0) {
        busy = 0;
        for (int m = 1; m <= mailings && sent >= 0; m++) {
            const int one = was_sent(book, m) ? 0 : send_one(h, book, m, &busy);

            sent = one < 0 ? -1 : sent + one;
        }
    }
    pgw_close(h);
    fclose(book);
    return sent;
}

int main(int argc, char **argv)
{
    const int mailings = argc > 1 ? atoi(argv[1]) : 20, processes = argc > 2 ? atoi(argv[2]) : 8;
    char path[] = "/tmp/mailer.XXXXXX";
    int fd, all = 0, failed = 0, status;

    if (mailings < 1 || mailings > 100 || processes < 1 || processes > 50)
        return fprintf(stderr, "mailer [MAILINGS [PROCESSES]], up to 100 and 50\n"), 2;
    if ((fd = mkstemp(path)) < 0) return 2;
    for (int i = 0; i < processes; i++) {
        if (fork() == 0) {
            int sent = work(path, mailings);

            _exit(sent < 0 ? 255 : sent);
        }
    }
    while (wait(&status) > 0) {
        if (!WIFEXITED(status) || WEXITSTATUS(status) == 255)
            failed++;
        else
            all += WEXITSTATUS(status);
    }
    close(fd);
    unlink(path);
    printf("%d mailings sent %d times by %d processes\n", mailings, all, processes);
    return failed == 0 && all == mailings ? 0 : 1;
}
