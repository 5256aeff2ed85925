/* poll_loop: the library inside a poll(2) loop that also has other things to do.
 *
 *   cc poll_loop.c $(pkg-config --cflags --libs pgwork) && PGWORK_DSN=... ./a.out
 *
 * pgw_async() arms the next verb: it sends its statement and returns PGW_OUTCOME_AGAIN. pgw_step()
 * calls the callback when the answer is complete and committed. Here a chain of callbacks enqueues,
 * claims and completes a job, while the same loop reads standard input. */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include <pgwork.h>

#define OTHERS_MAX 100

static const char *const queues[] = {"poll_loop"};
static int over;

/* Outputs are filled when the answer arrives, so they must outlive the call. So must refs: each
 * gets its outcome. */
static int64_t id;
static pgw_batch *batch;
static pgw_ref own;

/* Jobs of others, such as an earlier run that was killed: held until our job is claimed. */
static pgw_ref others[OTHERS_MAX];
static size_t others_count;

/* The verb could not be sent, so its callback is never called. */
static void started(pgw *h, pgw_status st)
{
    if (st == PGW_OUTCOME_AGAIN) return;
    fprintf(stderr, "%s: %s\n", pgw_status_name(st), pgw_error_message(h));
    over = 1;
}

static int failed(pgw *h, pgw_status st)
{
    if (st >= 0) return 0;
    started(h, st);
    return 1;
}

static void on_release(pgw *h, pgw_status st, void *arg)
{
    (void)arg;
    over = 1;
    if (!failed(h, st)) printf("of others, requeued: %zu\n", others_count);
}

static void release_others(pgw *h)
{
    if (others_count == 0) {
        over = 1;
        return;
    }
    pgw_async(h, on_release, NULL);
    started(h, pgw_release(h, queues[0], others, others_count));
}

static void on_complete(pgw *h, pgw_status st, void *arg)
{
    (void)arg;
    if (failed(h, st)) return;
    puts("completed");
    release_others(h);
}

static void claim(pgw *h);

/* A claim returns the oldest job: only our own job has been done here. */
static void on_claim(pgw *h, pgw_status st, void *arg)
{
    pgw_ref ref;

    (void)arg;
    if (failed(h, st)) return;
    if (st == PGW_OUTCOME_EMPTY) {
        puts("another worker was faster");
        release_others(h);
        return;
    }
    ref = pgw_job_ref(pgw_batch_job(batch, 0));
    pgw_batch_free(batch);
    printf("claimed %lld\n", (long long)ref.id);
    if (ref.id == id) {
        own = ref;
        pgw_async(h, on_complete, NULL);
        started(h, pgw_complete(h, queues[0], &own, 1, NULL));
        return;
    }
    others[others_count++] = ref;
    if (others_count < OTHERS_MAX)
        claim(h);
    else
        release_others(h);
}

static void claim(pgw *h)
{
    pgw_claim_opts opts = PGW_CLAIM_OPTS_INIT;

    opts.queues = queues;
    opts.queues_count = 1;
    pgw_async(h, on_claim, NULL);
    started(h, pgw_claim(h, &opts, &batch));
}

static void on_enqueue(pgw *h, pgw_status st, void *arg)
{
    (void)arg;
    if (failed(h, st)) return;
    printf("enqueued %lld\n", (long long)id);
    claim(h);
}

static short to_poll(int events)
{
    return (short)((events & PGW_EVENT_READ ? POLLIN : 0) |
                   (events & PGW_EVENT_WRITE ? POLLOUT : 0));
}

int main(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    int input = STDIN_FILENO;
    pgw_status st;
    pgw *h;

    st = pgw_open(NULL, &h); /* only connecting waits */
    if (failed(h, st)) return 1;
    pgw_async(h, on_enqueue, NULL);
    started(h, pgw_enqueue(h, queues[0], &job, &id));

    while (!over) {
        struct pollfd fds[2] = {{pgw_fd(h), to_poll(pgw_events(h)), 0}, {input, POLLIN, 0}};
        char line[256];

        poll(fds, 2, (int)pgw_timeout_ms(h));
        if (fds[1].revents) {
            if (read(input, line, sizeof(line)) <= 0) input = -1;
            puts("other things happen, too");
        }
        pgw_step(h);
    }
    st = pgw_error_status(h);
    pgw_close(h);
    return st < 0;
}
