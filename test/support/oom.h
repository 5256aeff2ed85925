/* oom: an allocator that fails on request, counts live blocks, and checks its arguments.
 *
 *     oom_begin();
 *     for (int n = 1; ; n++) {
 *         oom_fail(n);                     // the n-th allocation from here fails, once
 *         if (what_is_tested() != PGW_ENOMEM) break;
 *     }
 *     oom_end();                           // malloc again; asserts that nothing is left
 */
#ifndef OOM_H
#define OOM_H

#include <stdbool.h>

void oom_begin(void);
void oom_end(void);
void oom_fail(int n);      /* 0: none */
void oom_fail_from(int n); /* the n-th and all later ones */
bool oom_failed(void);     /* has an allocation failed since? */
int oom_alive(void);

#endif
