/* SPDX-License-Identifier: PostgreSQL
 *
 * check_main.c: `chaos-check FOLDER [CLASS...]`: reads a history and says what it proves. CLASSes
 * need not have fired: they are not available here. `any` excuses them all. Exit status: 0 valid, 1
 * invalid, 3 unknown.
 */
#include "check.h"
#include "classes.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *text;
} classes[] = {
#define XX(name, text) {#name, text},
    CLASSES(XX)
#undef XX
};

static const char *const rule_names[] = {
#define XX(name, text) #name,
    RULES(XX)
#undef XX
};

static bool excused(int argc, char **argv, const char *name)
{
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], name) == 0 || strcmp(argv[i], "any") == 0) return true;
    return false;
}

/* A rule that was never put to the test is not proven: each operation has to be there. */
static int unproven(const history *h)
{
    int64_t seen[OP_COUNT] = {0};
    int missing = 0;
    for (size_t i = 0; i < h->n; i++) seen[h->e[i].op]++;
    for (int op = 0; op < OP_COUNT; op++)
        if (seen[op] == 0 && op != OP_two) missing++, printf("never seen: %s\n", op_names[op]);
    printf("%" PRId64 " jobs, %" PRId64 " leases, %" PRId64 " claims, %" PRId64 " completions, "
           "%" PRId64 " effects, %" PRId64 " locks, %" PRId64 " permits, %" PRId64 " ticks\n",
           seen[OP_new], seen[OP_lea], seen[OP_clm] / 2, seen[OP_don] / 2, seen[OP_snk],
           seen[OP_lck] / 2, seen[OP_sem] / 2, seen[OP_tfi] / 2);
    return missing;
}

int main(int argc, char **argv)
{
    static history h;
    static check c;
    int64_t fired[C_COUNT] = {0};
    int missing = 0;

    if (argc < 2) return 2;
    const int cut = history_read(&h, argv[1]);
    if (cut < 0 || h.n == 0) {
        fprintf(stderr, "chaos-check: no history in \"%s\"\n", argv[1]);
        return 2;
    }
    const int64_t began = now_us();
    const size_t n = check_history(&c, &h);
    for (size_t i = 0; i < h.n; i++)
        if (h.e[i].op == OP_nem && h.e[i].a[0] >= 0 && h.e[i].a[0] < C_COUNT) fired[h.e[i].a[0]]++;
    printf("\n%zu events, %d cut lines; checked %zu calls in %.1f s\n", h.n, cut, c.called,
           (double)(now_us() - began) / 1e6);
    for (int i = 0; i < C_COUNT; i++) {
        const bool excuse = excused(argc, argv, classes[i].name);
        printf("  %-18s %6" PRId64 "  %s%s\n", classes[i].name, fired[i], classes[i].text,
               fired[i] ? ""
               : excuse ? ": NOT AVAILABLE"
                        : ": DID NOT FIRE");
        missing += fired[i] == 0 && !excuse;
    }
    if (!excused(argc, argv, "any")) missing += unproven(&h) + (c.fin == NULL);
    for (int r = 0; r < R_COUNT; r++)
        if (c.count[r]) printf("broken: %s, %zu times\n", rule_names[r], c.count[r]);
    printf("verdict: %s\n", n ? "INVALID" : missing ? "UNKNOWN" : "VALID");
    return n ? 1 : missing ? 3 : 0;
}
