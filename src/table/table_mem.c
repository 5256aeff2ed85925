/* table_mem: memory of a table. */
#include <string.h>

#include "base/mem.h"
#include "table/table_int.h"

/* Strings are kept in blocks that are filled one after the other. */

#define TABLE_BLOCK 2048

struct table_block {
    struct table_block *next;
    size_t used, size;
    char data[];
};

const char *pgw__table_keep(pgw_table *t, const char *text)
{
    size_t n = strlen(text) + 1;
    struct table_block *block = t->blocks;
    char *kept;

    if (block == NULL || block->size - block->used < n) {
        size_t size = n > TABLE_BLOCK ? n : TABLE_BLOCK;

        block = pgw__mem_alloc(sizeof(*block) + size);
        if (block == NULL) return NULL;
        *block = (struct table_block){.next = t->blocks, .size = size};
        t->blocks = block;
    }
    kept = block->data + block->used;
    memcpy(kept, text, n);
    block->used += n;
    return kept;
}

void pgw_table_free(pgw_table *t)
{
    if (t == NULL) return;
    for (struct table_block *block = t->blocks, *next; block != NULL; block = next) {
        next = block->next;
        pgw__mem_free(block);
    }
    pgw__mem_free(t->columns);
    pgw__mem_free(t);
}
