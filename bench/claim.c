/* claim QUEUE CLIENTS BATCH -T SECONDS|-t CALLS LOG: claims BATCH jobs at a time through the
 * library, each call completing what the one before has claimed, for so long or so often, or until
 * nothing is left. Each client is a process of its own, and writes LOG.<number> as pgbench --log
 * does: its number, the call's, microseconds that it took, 0, and when it ended (seconds,
 * microseconds; of the machine's steady clock). */
#include <string.h>

#define PROGRAM "claim"
#include "kit.h"

#define MOST 10000

static const char *queue, *prefix;
static int batch_size;
static long calls_most; /* 0: by the clock */

static long claim_and_complete(int number)
{
    static pgw_ref refs[MOST];
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw *h = opened();
    char path[4096];
    size_t held = 0;
    long calls = 0;
    FILE *to;

    snprintf(path, sizeof(path), "%s.%d", prefix, number);
    to = fopen(path, "w");
    if (to == NULL) die("log", path);
    o.queues = &queue, o.queues_count = 1, o.max = batch_size;
    begin_together();
    do {
        const double began = now_ms();
        pgw_batch *batch;
        const pgw_status st = pgw_complete_and_claim(h, refs, held, &o, &batch);
        const double ended = now_ms();

        if (st < PGW_OK) die("claim", pgw_error_message(h));
        for (size_t i = 0; i < held; i++)
            if (refs[i].outcome != PGW_OK) die("complete", pgw_status_name(refs[i].outcome));
        held = pgw_batch_count(batch);
        for (size_t i = 0; i < held; i++) refs[i] = pgw_job_ref(pgw_batch_job(batch, i));
        pgw_batch_free(batch);
        fprintf(to, "%d %ld %ld 0 %ld %06ld\n", number, ++calls, (long)((ended - began) * 1e3),
                (long)(ended / 1e3), (long)(ended * 1e3) % 1000000L);
    } while (held > 0 && (calls_most > 0 ? calls < calls_most : goes_on()));
    if (fclose(to) != 0) die("log", path);
    pgw_close(h);
    return calls;
}

int main(int argc, char **argv)
{
    if (argc != 7 || atoi(argv[2]) < 1 || atoi(argv[3]) < 1 || atoi(argv[3]) > MOST ||
        atol(argv[5]) < 1 || (strcmp(argv[4], "-T") != 0 && strcmp(argv[4], "-t") != 0)) {
        fprintf(stderr, "usage: claim QUEUE CLIENTS BATCH -T SECONDS|-t CALLS LOG\n");
        return 2;
    }
    queue = argv[1];
    batch_size = atoi(argv[3]);
    prefix = argv[6];
    if (strcmp(argv[4], "-t") == 0) calls_most = atol(argv[5]);
    run_clients("claim", claim_and_complete, atoi(argv[2]), 0, (double)atol(argv[5]));
    return 0;
}
