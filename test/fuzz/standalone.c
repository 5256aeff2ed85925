/* standalone: runs a fuzz target without libFuzzer, over the files named or, without any, over
 * random bytes and mutations of a few seeds. For gcc, for afl, and for replaying what was found:
 *
 *     make check-fuzz && build/fuzz/fuzz_name.standalone [-n ROUNDS] [FILE...] */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const seeds[] = {
    "mail",
    "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
    "{\"a\":[1,\"\\u0000\\\\\"]}",
    "01234567-89ab-cdef-fedc-ba9876543210",
    "worker.lease_ms=-0099",
    "dsn=postgresql://\xff",
    "schema=pg_",
    "*/5,7 9-17 1-31/2 jan-mar mon,fri",
    "@every 1h30m",
};
#define SEEDS (sizeof(seeds) / sizeof(seeds[0]))

static uint64_t state = 88172645463325252; /* xorshift: the same run everywhere */

static uint32_t draw(uint32_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

/* The target gets a block of exactly its size, so that a read beyond it is seen. */
static void feed(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);

    if (copy == NULL) exit(2);
    memcpy(copy, bytes, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static int feed_file(const char *name)
{
    static uint8_t bytes[1 << 20];
    FILE *file = fopen(name, "rb");

    if (file == NULL) {
        perror(name);
        return 1;
    }
    feed(bytes, fread(bytes, 1, sizeof(bytes), file));
    fclose(file);
    return 0;
}

int main(int argc, char **argv)
{
    long rounds = 200000;
    int first = 1, failed = 0;

    if (argc > 2 && strcmp(argv[1], "-n") == 0) rounds = strtol(argv[2], NULL, 10), first = 3;
    for (int i = first; i < argc; i++) failed |= feed_file(argv[i]);
    if (first < argc) return failed;

    for (long i = 0; i < rounds; i++) {
        const char *seed = seeds[draw(SEEDS)];
        size_t size = strlen(seed);
        uint8_t bytes[256] = {0};

        memcpy(bytes, seed, size);
        for (uint32_t k = draw(6); k > 0; k--) {
            switch (draw(4)) {
            case 0: bytes[draw((uint32_t)size + 1)] = (uint8_t)draw(256); break;
            case 1: bytes[draw((uint32_t)size + 1)] ^= (uint8_t)(1u << draw(8)); break;
            case 2: size = draw((uint32_t)size + 1); break;
            case 3:
                if (size < 200) bytes[size++] = (uint8_t)draw(256);
                break;
            }
        }
        feed(bytes, size);
    }
    printf("%ld rounds\n", rounds);
    return 0;
}
