/* callkit: options structs in one line, for tests that set a single field. */
#ifndef PGW_CALLKIT_H
#define PGW_CALLKIT_H

#include "pgwork.h"

#define OUTPUTS(texts) \
    (&(pgw_complete_opts){.struct_size = sizeof(pgw_complete_opts), .outputs = (texts)})
#define SNOOZE_BY(ms) (&(pgw_snooze_opts){.struct_size = sizeof(pgw_snooze_opts), .delay_ms = (ms)})
#define EXTEND_BY(ms) (&(pgw_extend_opts){.struct_size = sizeof(pgw_extend_opts), .lease_ms = (ms)})
#define LOCK_AS(how, ms) \
    (&(pgw_lock_opts){.struct_size = sizeof(pgw_lock_opts), .mode = (how), .timeout_ms = (ms)})
#define COUNTED(name, most) \
    (&(pgw_queues_opts){.struct_size = sizeof(pgw_queues_opts), .queue = (name), .at_most = (most)})
#define TIMES(where, after, n)                                        \
    (&(pgw_cron_next_opts){.struct_size = sizeof(pgw_cron_next_opts), \
                           .zone = (where),                           \
                           .after_us = (after),                       \
                           .max = (n)})
#define DUE_FOR(who, names, n)                                          \
    (&(pgw_cron_claim_opts){.struct_size = sizeof(pgw_cron_claim_opts), \
                            .holder = (who),                            \
                            .schedules = (names),                       \
                            .schedules_count = (n)})
#define ROWS_BY(ms) \
    (&(pgw_table_extend_opts){.struct_size = sizeof(pgw_table_extend_opts), .lease_ms = (ms)})
#define FINISH(text, vals, n)                                               \
    (&(pgw_table_finish_opts){.struct_size = sizeof(pgw_table_finish_opts), \
                              .set = (text),                                \
                              .values = (vals),                             \
                              .values_count = (n)})
#define THE_ROW(of, names, n)                                         \
    (&(pgw_table_get_opts){.struct_size = sizeof(pgw_table_get_opts), \
                           .key = (of),                               \
                           .columns = (names),                        \
                           .columns_count = (n)})
#define CELL(name, text) (&(pgw_cell){(name), (text)})
#define CHANGE(of, was, what, n)                                            \
    (&(pgw_table_update_opts){.struct_size = sizeof(pgw_table_update_opts), \
                              .key = (of),                                  \
                              .version = (was),                             \
                              .cells = (what),                              \
                              .cells_count = (n)})

/* Options of pgw_table_process() for the row of this key: @p opts, or NULL for the defaults. */
#define AT_ROW(of, opts) \
    callkit_at_row(&(pgw_table_process_opts)PGW_TABLE_PROCESS_OPTS_INIT, (of), (opts))
static inline const pgw_table_process_opts *callkit_at_row(pgw_table_process_opts *o,
                                                           const char *const *key,
                                                           const pgw_table_process_opts *given)
{
    if (given != NULL) *o = *given;
    o->key = key;
    return o;
}

#endif
