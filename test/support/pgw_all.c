/* The whole library in one unit, for integration tests; made by `make gen`. */
#include "../../src/version.c"
