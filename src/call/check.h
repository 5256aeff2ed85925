/* check: arguments of callers. A refusal names argument, value and allowed values, and comes
 * before anything is sent. With h == NULL every function returns PGW_EINVAL without a message. */
#ifndef PGW_CHECK_H
#define PGW_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pgwork.h"

#define PGW__BATCH_MAX      10000 /* jobs of one statement */
#define PGW__QUEUES_MAX     64    /* queues of one claim */
#define PGW__TAGS_MAX       32
#define PGW__TAG_MAX        255
#define PGW__GROUP_MAX      255
#define PGW__HOLDER_MAX     255
#define PGW__ANY_NAME_MAX   255
#define PGW__LEASE_MIN_MS   100
#define PGW__LEASE_MAX_MS   86400000
#define PGW__REASON_MAX     1000
#define PGW__PROGRESS_MAX   65536
#define PGW__TIMEOUT_MAX_MS INT64_C(2592000000)   /* of a job: 30 days */
#define PGW__DELAY_MAX_MS   INT64_C(315360000000) /* ten years */
#define PGW__PERIOD_MAX_MS  INT64_C(31536000000)  /* a year */

pgw_status pgw__check_handle(pgw *h);
pgw_status pgw__check_given(pgw *h, const char *argument, const void *pointer); /* not NULL */
/* The array, and each of its n elements. */
pgw_status pgw__check_all_given(pgw *h, const char *array, const char *const *pointers, size_t n);
/* What an element of an array is called in errors: array[i], in @p name, which is returned. */
#define PGW__ELEMENT 40
const char *pgw__check_element(char name[PGW__ELEMENT], const char *array, size_t i);
/* For verbs that wait or take several round trips: not armed by pgw_async(). */
pgw_status pgw__check_unarmed(pgw *h, const char *hint);
pgw_status pgw__check_name(pgw *h, const char *argument, const char *text, size_t max);
/* Each of the n elements. */
pgw_status pgw__check_all_names(pgw *h, const char *array, const char *const *names, size_t n,
                                size_t max);
/* Of a lock, a semaphore or a rate: any UTF-8 of 1 to 255 bytes. */
pgw_status pgw__check_any_name(pgw *h, const char *argument, const char *text);
pgw_status pgw__check_queue(pgw *h,
                            const char *queue); /* handle and name: the first line of most verbs */
pgw_status pgw__check_int(pgw *h, const char *argument, int64_t value, int64_t least, int64_t most);
pgw_status pgw__check_count(pgw *h, const char *argument, size_t value, size_t least, size_t most);
/* How many at most: 1 or more, or PGW_UNLIMITED. */
pgw_status pgw__check_limit(pgw *h, const char *argument, int64_t limit);
/* How long to wait: 0 .. most ms, or PGW_UNLIMITED. */
pgw_status pgw__check_wait(pgw *h, const char *argument, int64_t ms, int64_t most);
pgw_status pgw__check_lease(pgw *h, const char *argument, int64_t lease_ms); /* or PGW_DEFAULT */
/* Or PGW_DEFAULT, or PGW_UNLIMITED. */
pgw_status pgw__check_attempts(pgw *h, const char *argument, int attempts);
pgw_status pgw__check_json(pgw *h, const char *argument, const char *json,
                           size_t max); /* max: PGW_ELIMIT above */

/* The delay `argument` and run_at_us: one of the two at most is given, not 0. */
pgw_status pgw__check_one_time(pgw *h, const char *argument, int64_t delay_ms, int64_t run_at_us);

/* A size that the struct may have had: no field is cut in the middle, because fields are as wide
 * as a pointer, or two share that space. An uninitialised size is usually another one. */
#define PGW__STRUCT_MAX 4096 /* more than any struct of pgwork */
static inline bool pgw__size_is_whole(size_t size)
{
    return size >= sizeof(size_t) && size <= PGW__STRUCT_MAX && size % _Alignof(void *) == 0;
}

/* Copies the options of a caller that may know fewer fields: `mine` holds the defaults of the rest
 * and starts with struct_size. given == NULL: all defaults. */
pgw_status pgw__check_opts(pgw *h, const char *argument, void *mine, size_t known,
                           const void *given);

/* A struct of the caller to be filled. Its struct_size says how many fields it has, which may be
 * fewer or more than this library knows. They are 0 until pgw__fill(). */
pgw_status pgw__check_filled(pgw *h, const char *argument, void *theirs);
static inline void pgw__fill(void *theirs, const void *mine, size_t known)
{
    const size_t head = sizeof(size_t);
    size_t size;

    memcpy(&size, theirs, head);
    memset((char *)theirs + head, 0, size - head);
    if (size > known) size = known;
    memcpy((char *)theirs + head, (const char *)mine + head, size - head);
}

/* The holder's name, for people: the given one, or the property `holder`, or "host:pid", written
 * to `buffer`. */
pgw_status pgw__check_holder(pgw *h, const char *argument, const char **holder, const char *given,
                             char buffer[PGW__HOLDER_MAX + 1]);

/* A job to be, copied into `mine` as above. index < 0: the argument is `job`, else `jobs[index]`.
 * payload, body and meta together may have max_bytes. */
pgw_status pgw__check_new(pgw *h, pgw_job_spec *mine, const void *given, int64_t index,
                          size_t max_bytes);

#endif
