/* version: which library is running. */
#include "pgwork.h"

const char *pgw_version(void)
{
    return PGW_VERSION_STRING;
}
