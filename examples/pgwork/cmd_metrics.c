/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork metrics: metrics in the text format of Prometheus.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "metrics.h"
#include "opts.h"
#include "out.h"

/* Writes a temporary file and renames it, so that readers see a complete file. Collectors ignore
 * the suffix of the temporary name. */
static int metrics_replace(const char *file, const buf *t)
{
    static const char ending[] = ".XXXXXX";
    size_t n = strlen(file);
    char *temp = cli_alloc(n + sizeof ending);
    memcpy(temp, file, n);
    memcpy(temp + n, ending, sizeof ending);
    int fd = mkstemp(temp);
    mode_t mask = umask(0);
    umask(mask);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    bool written = f && fchmod(fd, 0666 & ~mask) == 0 && fwrite(t->at, 1, t->size, f) == t->size;
    if (f && fclose(f) != 0) written = false;
    if (written && rename(temp, file) != 0) written = false;
    int code = written ? CLI_DONE
                       : cli_fail(CLI_OTHER, NULL, "cannot write %s: %s", file, strerror(errno));
    if (fd >= 0 && !written) unlink(temp);
    free(temp);
    return code;
}

int cmd_metrics(cli *c, int argc, char **argv)
{
    const char *file = NULL;
    int64_t at_most = 100000;
    bool no_doctor = false;
    const opt opts[] = {
        {'o', "out", "FILE", "write to FILE, not to stdout; the file is replaced as a whole",
         .text = &file},
        {0, "at-most", "N", "count up to N jobs (100000; 0: all)", .big = &at_most},
        {0, "no-doctor", NULL, "leave out the grades of the doctor", .flag = &no_doctor},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "metrics [-o FILE] [--at-most N] [--no-doctor]",
        .about =
            "Prints metrics of queues, workers, semaphores and schedules, and the grades of\n"
            "the doctor, in the text format of Prometheus. Run it from a timer, for the textfile\n"
            "collector of the node exporter.",
        .more = "If the metrics cannot be read, only pgwork_up 0 is printed, and the exit code\n"
                "says why.",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if (c->json) {
        return cli_fail(CLI_USAGE, "use `pgwork stats --json` and `pgwork doctor --json`",
                        "metrics have the text format of Prometheus, not JSON");
    }
    buf text = {0};
    code = cli_open(c, true);
    metrics *m = metrics_new();
    pgw_status st = metrics_read(m, code == CLI_DONE ? c->h : NULL, NULL, at_most, !no_doctor);
    metrics_end(m, &text);
    if (code == CLI_DONE && st < 0) code = cli_fail_at(c->h);
    int written = CLI_DONE;
    if (file) {
        written = metrics_replace(file, &text);
    } else {
        fwrite(text.at, 1, text.size, stdout);
        written = cli_finish(CLI_DONE);
    }
    buf_free(&text);
    return code != CLI_DONE ? code : written;
}
