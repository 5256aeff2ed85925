/* token: sixteen bytes on the wire, a UUID for people. */
#include "base/token.h"

#include "base/name.h"

pgw_token pgw__token_read(const unsigned char bytes[16])
{
    pgw_token token = {0, 0};

    for (int i = 0; i < 8; i++) {
        token.number = token.number << 8 | bytes[i];
        token.nonce = token.nonce << 8 | bytes[8 + i];
    }
    return token;
}

void pgw__token_write(unsigned char bytes[16], pgw_token token)
{
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(token.number >> (56 - 8 * i));
        bytes[8 + i] = (unsigned char)(token.nonce >> (56 - 8 * i));
    }
}

char *pgw_token_format(pgw_token token, char text[PGW_TOKEN_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    char *p = text;
    int i;

    for (i = 0; i < 32; i++) {
        const uint64_t half = i < 16 ? token.number : token.nonce;

        if (i == 8 || i == 12 || i == 16 || i == 20) *p++ = '-';
        *p++ = digits[half >> (60 - 4 * (i % 16)) & 15];
    }
    *p = '\0';
    return text;
}

pgw_status pgw_token_parse(const char *text, pgw_token *token)
{
    unsigned char bytes[16] = {0}; /* stays if text is not a token */
    const char *fault;

    if (token == NULL) return PGW_EINVAL;
    fault = pgw__uuid_parse(bytes, text);
    *token = pgw__token_read(bytes);
    return fault == NULL ? PGW_OK : PGW_EINVAL;
}
