/* traced: one trace from the program that enqueues a job to the handler that runs it.
 *
 *   cc traced.c $(pkg-config --cflags --libs pgwork) && PGWORK_DSN=... ./a.out 3 >spans.json
 *
 * It enqueues jobs with a W3C trace context in their meta, and runs each once it has failed once.
 * The first attempt is a child of the span that enqueued the job. A retry is a trace of its own
 * with a link to that span, because it can come days later. Spans are lines of OTLP JSON, as the
 * receiver otlpjsonfile of the OpenTelemetry Collector reads them. With the OpenTelemetry library
 * for C++, of which Debian has no package, replace print_span() by StartSpan() with the same parent
 * and link. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <pgwork.h>

#define KIND_PRODUCER 4 /* of OTLP */
#define KIND_CONSUMER 5
#define STATUS_ERROR  2

typedef struct span {
    char trace[33], id[17];
    int64_t begin_ns;
} span;

static pgw_stop *stop;
static int left; /* jobs */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Begins a span in the trace of @p parent, or, without one, in a trace of its own. */
static span begin_span(const span *parent)
{
    unsigned char bytes[24];
    char hex[49];
    span s = {.begin_ns = now_ns()};

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) abort();
    for (int i = 0; i < 24; i++) snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    snprintf(s.trace, sizeof s.trace, "%.32s", parent ? parent->trace : hex);
    snprintf(s.id, sizeof s.id, "%.16s", hex + 32);
    return s;
}

static void print_span(const span *s, const char *name, int kind, const span *parent,
                       const span *link, int status)
{
    printf("{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":"
           "{\"stringValue\":\"traced\"}}]},\"scopeSpans\":[{\"spans\":[{\"traceId\":\"%s\","
           "\"spanId\":\"%s\",\"parentSpanId\":\"%s\",\"name\":\"%s\",\"kind\":%d,"
           "\"startTimeUnixNano\":\"%" PRId64 "\",\"endTimeUnixNano\":\"%" PRId64 "\",\"links\":[",
           s->trace, s->id, parent ? parent->id : "", name, kind, s->begin_ns, now_ns());
    if (link) printf("{\"traceId\":\"%s\",\"spanId\":\"%s\"}", link->trace, link->id);
    printf("],\"status\":{\"code\":%d}}]}]}]}\n", status);
}

/* Reads "traceparent" from the meta of a job: "00-", 32 digits, "-", 16 digits, "-", 2 digits. */
static bool read_context(span *s, const char *meta)
{
    const char *at = meta ? strstr(meta, "\"traceparent\": \"00-") : NULL;
    return at && sscanf(at, "\"traceparent\": \"00-%32[0-9a-f]-%16[0-9a-f]-", s->trace, s->id) == 2;
}

static pgw_verdict handle(pgw_task *task, void *arg)
{
    const pgw_job *job = pgw_task_job(task);
    const bool retry = pgw_job_attempt(job) > 1;
    span from = {.begin_ns = 0};
    const bool known = read_context(&from, pgw_job_meta(job));
    const span *parent = known && !retry ? &from : NULL, *link = known && retry ? &from : NULL;
    const span s = begin_span(parent);

    (void)arg;
    /* a real program works here */
    print_span(&s, pgw_job_kind(job), KIND_CONSUMER, parent, link, retry ? 0 : STATUS_ERROR);
    if (retry) {
        if (--left == 0) pgw_stop_notify(stop);
        return PGW_VERDICT_DONE;
    }
    pgw_task_set_error(task, "the first attempt fails");
    pgw_task_set_delay(task, 0);
    return PGW_VERDICT_RETRY;
}

static pgw_status enqueue(pgw *h)
{
    char meta[100];
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    const span s = begin_span(NULL);

    snprintf(meta, sizeof meta, "{\"traceparent\": \"00-%s-%s-01\"}", s.trace, s.id);
    job.kind = "resize", job.payload = "{\"file\": \"a.png\"}", job.meta = meta;
    const pgw_status st = pgw_enqueue(h, "traced", &job, NULL);
    print_span(&s, "enqueue", KIND_PRODUCER, NULL, NULL, st < 0 ? STATUS_ERROR : 0);
    return st;
}

static int fail(const char *message)
{
    fprintf(stderr, "%s\n", message);
    return 1;
}

int main(int argc, char **argv)
{
    const char *queues[] = {"traced"};
    const pgw_worker_spec spec = {sizeof spec, queues, 1, handle, NULL, NULL};
    pgw_conf *conf = NULL;
    pgw_worker *w = NULL;
    pgw *h = NULL;
    int code = 0;

    left = argc > 1 ? atoi(argv[1]) : 3;
    if (left < 1 || left > 1000) return fail("how many jobs? 1 to 1000"), 2;
    if (pgw_stop_new(&stop) != PGW_OK || pgw_conf_new(&conf) != PGW_OK) return 1;
    pgw_conf_set(conf, "worker.concurrency", "1"); /* handle() runs in one thread */
    pgw_status st = pgw_open(conf, &h);
    for (int i = 0; i < left && st >= 0; i++) st = enqueue(h);
    if (st < 0) code = fail(h ? pgw_error_message(h) : pgw_status_text(st));
    if (code == 0) st = pgw_worker_new(conf, &spec, &w);
    if (code == 0 && st == PGW_OK) st = pgw_worker_run(w, stop);
    if (code == 0 && st != PGW_OK) code = fail(w ? pgw_worker_error(w) : pgw_status_text(st));
    pgw_worker_free(w);
    pgw_close(h);
    pgw_conf_free(conf);
    pgw_stop_free(stop);
    return code;
}
