/* fuzz_name: whatever the bytes, the faults agree with each other, and with a decoder that was
 * written another way. The input's first byte chooses the limit. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)           \
    do {                           \
        if (!(condition)) abort(); \
    } while (0)

/* What may follow a lead byte, as ranges: table 3-7 of the Unicode standard. */
static bool utf8_by_ranges(const uint8_t *p, size_t n)
{
    while (n > 0) {
        uint8_t low = 0x80, high = 0xbf;
        size_t more = 0;

        if (p[0] == 0) return false;
        if (p[0] >= 0x80) {
            if (p[0] < 0xc2 || p[0] > 0xf4) return false;
            more = p[0] < 0xe0 ? 1 : p[0] < 0xf0 ? 2 : 3;
            if (p[0] == 0xe0) low = 0xa0;
            if (p[0] == 0xed) high = 0x9f;
            if (p[0] == 0xf0) low = 0x90;
            if (p[0] == 0xf4) high = 0x8f;
            if (more >= n || p[1] < low || p[1] > high) return false;
            for (size_t i = 2; i <= more; i++)
                if ((p[i] & 0xc0) != 0x80) return false;
        }
        p += more + 1;
        n -= more + 1;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char uuid[16], again[16];
    const char *name_fault, *text_fault;
    char *text;
    size_t max, n;

    CHECK(pgw__utf8_ok((const char *)data, size) == utf8_by_ranges(data, size));
    if (size == 0) return 0;
    max = data[0];
    n = size - 1;
    text = malloc(size);
    CHECK(text != NULL);
    memcpy(text, data + 1, n);
    text[n] = '\0';
    n = strlen(text);

    text_fault = pgw__text_fault(text, max);
    CHECK((text_fault == NULL) == (n <= max && utf8_by_ranges((uint8_t *)text, n)));
    name_fault = pgw__name_fault(text, max);
    if (text_fault != NULL) CHECK(name_fault == text_fault);
    if (name_fault == NULL) CHECK(n > 0 && strpbrk(text, "\n\r\t\x1b\x7f") == NULL);

    if (pgw__schema_fault(text) == NULL) CHECK(n > 0 && n <= 40 && strpbrk(text, "\"'; -") == NULL);
    if (pgw__uuid_parse(uuid, text) == NULL) {
        CHECK(n == 36);
        for (size_t i = 0; i < n; i++)
            if (text[i] >= 'A' && text[i] <= 'F') text[i] = (char)(text[i] | 0x20);
        CHECK(pgw__uuid_parse(again, text) == NULL && memcmp(uuid, again, 16) == 0);
    }
    free(text);
    return 0;
}
