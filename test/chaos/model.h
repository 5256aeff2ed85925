/* SPDX-License-Identifier: PostgreSQL
 *
 * model.h: histories as a right system would write them, made from a seed, for the tests of the
 * checker.
 */
#ifndef CHAOS_MODEL_H
#define CHAOS_MODEL_H

#include "hist.h"
#include <stdbool.h>

/* Of about so many steps; clock: the server's is set meanwhile. */
void model_history(history *h, uint64_t seed, int steps, bool clock);
int model_draw(int n);

#endif
