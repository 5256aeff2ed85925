/* claim QUEUE CLIENTS BATCH: claims BATCH jobs at a time through the library, each call completing
 * what the one before has claimed, for BENCH_SECONDS; prints how many were completed in a second.
 */
#include <string.h>

#define PROGRAM "claim"
#include "kit.h"

#define MOST 10000

static const char *queue;
static int batch_size;

static long claim_and_complete(int number)
{
    static pgw_ref refs[MOST];
    static pgw_status verdicts[MOST];
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw *h = opened();
    size_t held = 0;
    long done = 0;

    (void)number;
    o.queues = &queue, o.queues_count = 1, o.max = batch_size;
    begin_together();
    while (goes_on()) {
        pgw_batch *batch;
        const pgw_status st = pgw_complete_and_claim(h, verdicts, refs, held, &batch, &o);

        if (st < PGW_OK) die("claim", pgw_error_message(h));
        for (size_t i = 0; i < held; i++)
            if (verdicts[i] != PGW_OK) die("complete", pgw_status_name(verdicts[i]));
        done += (long)held;
        held = pgw_batch_count(batch);
        for (size_t i = 0; i < held; i++) refs[i] = pgw_job_ref(pgw_batch_job(batch, i));
        pgw_batch_free(batch);
        if (held == 0) break;
    }
    pgw_close(h);
    return done;
}

int main(int argc, char **argv)
{
    if (argc != 4 || atoi(argv[2]) < 1 || atoi(argv[3]) < 1 || atoi(argv[3]) > MOST) {
        fprintf(stderr, "usage: claim QUEUE CLIENTS BATCH\n");
        return 2;
    }
    queue = argv[1];
    batch_size = atoi(argv[3]);
    printf("%.1f\n", rate_of("claim", claim_and_complete, atoi(argv[2]), 1));
    return 0;
}
