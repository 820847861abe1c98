// Stand-in for the C header: the compiler itself has printf; files exist on the host only.
#pragma once
#include "stddef.h"
typedef struct gridstride_host_file FILE;
#ifndef EOF
#define EOF (-1)
#endif
