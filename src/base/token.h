/* token: a fencing token as the server has it, a UUID: number, then nonce, in network byte order.
 */
#ifndef PGW_TOKEN_H
#define PGW_TOKEN_H

#include "pgwork.h"

pgw_token pgw__token_read(const unsigned char bytes[16]);
void pgw__token_write(unsigned char bytes[16], pgw_token token);

#endif
