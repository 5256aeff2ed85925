/* backoff: decorrelated jitter: next = random(base .. 3 * last), capped. */
#ifndef PGW_BACKOFF_H
#define PGW_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

typedef struct pgw__backoff {
    int64_t base_ms, cap_ms, last_ms;
    bool begun;               /* there has been a pause since it was made or reset */
    uint64_t (*random)(void); /* tests put their own here */
} pgw__backoff;

void pgw__backoff_init(pgw__backoff *b, int64_t base_ms, int64_t cap_ms);
int64_t pgw__backoff_next_ms(pgw__backoff *b);
void pgw__backoff_reset(pgw__backoff *b);

/* Without jitter, for a caller that shares no rhythm with others: *next_ms, which becomes four
 * times as long, at most cap_ms. */
int64_t pgw__backoff_grow_ms(int64_t *next_ms, int64_t cap_ms);

/* From the kernel, else /dev/urandom, else clock and addresses: never fails. */
uint64_t pgw__random_u64(void);

#endif
