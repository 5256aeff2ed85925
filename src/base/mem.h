/* mem: the process-wide allocator and helpers on it. The only module that may call malloc. */
#ifndef PGW_MEM_H
#define PGW_MEM_H

#include <stddef.h>

#include "pgwork.h"

void *pgw__mem_alloc(size_t size); /* uninitialised; NULL: out of memory; size 0 counts as 1 */
void *pgw__mem_zero(size_t count, size_t size);    /* zeroed, checks count * size for overflow */
void *pgw__mem_realloc(void *ptr, size_t size);    /* ptr may be NULL */
char *pgw__mem_dup(const char *text);              /* NULL in, NULL out */
char *pgw__mem_dup_n(const void *bytes, size_t n); /* adds a NUL */
void pgw__mem_free(void *ptr);                     /* NULL is fine; keeps errno */

#endif
