// Stand-in for the C header: the compiler itself has clock and clock_t.
#pragma once
#include "stddef.h"
typedef long long time_t;
#ifndef CLOCKS_PER_SEC
#define CLOCKS_PER_SEC 1000000
#endif
