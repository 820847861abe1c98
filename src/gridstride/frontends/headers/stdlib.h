// Stand-in for the C header: what device code can use of it, and the types and macros that shared structures mention.
#pragma once
#include "stddef.h"
#ifndef EXIT_SUCCESS
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#endif
#ifndef RAND_MAX
#define RAND_MAX 2147483647
#endif
typedef struct { int quot, rem; } div_t;
typedef struct { long quot, rem; } ldiv_t;
typedef struct { long long quot, rem; } lldiv_t;
typedef unsigned int uint;
typedef unsigned short ushort;
