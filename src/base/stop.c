/* stop: a self-pipe and a counter. */
#include "base/stop.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "base/wake.h"

/* Anything else could deadlock in a signal handler. */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "atomic_int must be lock-free");

struct pgw_stop {
    atomic_int count;
    pgw__wake wake; /* poked once, and never drained */
};

pgw_status pgw_stop_new(pgw_stop **stop)
{
    pgw_stop *s;

    if (stop == NULL) return PGW_EINVAL;
    *stop = NULL;
    s = pgw__mem_alloc(sizeof(*s));
    if (s == NULL) return PGW_ENOMEM;
    if (!pgw__wake_open(&s->wake)) {
        pgw__mem_free(s);
        return PGW_ENOMEM;
    }
    atomic_init(&s->count, 0);
    *stop = s;
    return PGW_OK;
}

void pgw_stop_notify(pgw_stop *stop)
{
    int before;

    if (stop == NULL) return;
    before = atomic_load(&stop->count);
    while (before < 2 && !atomic_compare_exchange_weak(&stop->count, &before, before + 1)) continue;
    if (before == 0) pgw__wake_poke(&stop->wake);
}

int pgw_stop_count(const pgw_stop *stop)
{
    return stop != NULL ? atomic_load(&stop->count) : 0;
}

int pgw_stop_fd(const pgw_stop *stop)
{
    return stop != NULL ? stop->wake.read_fd : -1;
}

void pgw_stop_free(pgw_stop *stop)
{
    if (stop == NULL) return;
    pgw__wake_close(&stop->wake);
    pgw__mem_free(stop);
}
