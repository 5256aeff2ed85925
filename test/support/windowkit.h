/* windowkit: whether a rate was kept over every window of time. */
#ifndef WINDOWKIT_H
#define WINDOWKIT_H

#include <stdlib.h>

/* So many were granted at some time from `begun` to `ended`, in us of the server's clock. */
typedef struct grant {
    long long begun, ended;
    int n;
} grant;

static int grant_by_end(const void *x, const void *y)
{
    const grant *p = x, *q = y;

    return (p->ended > q->ended) - (p->ended < q->ended);
}

/* For the worst window: grants that lie in it for certain, less those that it may have, of a rate
 * per second. Sorts the grants. */
static long long window_excess(grant *all, int n, int burst, int rate)
{
    long long worst = -1000;

    qsort(all, (size_t)n, sizeof(all[0]), grant_by_end);
    for (int s = 0; s < n; s++) {
        const long long begun = all[s].begun;
        long long sum = 0;

        for (int e = 0; e < n; e++) {
            if (all[e].begun < begun) continue;
            sum += all[e].n;
            if (sum - burst - (all[e].ended - begun) * rate / 1000000 > worst)
                worst = sum - burst - (all[e].ended - begun) * rate / 1000000;
        }
    }
    return worst;
}

#endif
