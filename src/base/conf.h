/* conf: the property table. One row per property says name, type, limits, default and text;
 * everything else reads it. */
#ifndef PGW_CONF_H
#define PGW_CONF_H

#include "base/log.h"
#include "pgwork.h"

/* The property must exist and be of the type (assert). A NULL conf has the defaults. A text may be
 * ""; an enum is a text. */
const char *pgw__conf_text(const pgw_conf *conf, const char *name);
int64_t pgw__conf_int(const pgw_conf *conf, const char *name);
bool pgw__conf_bool(const pgw_conf *conf, const char *name);
bool pgw__conf_is_set(const pgw_conf *conf, const char *name); /* by pgw_conf_set(): no default */
const pgw__log *pgw__conf_log(const pgw_conf *conf);
pgw_conf *pgw__conf_copy(const pgw_conf *conf); /* NULL conf: defaults. NULL: out of memory */

#endif
