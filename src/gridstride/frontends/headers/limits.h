// Stand-in for the C header. Each limit is given only where nobody has given it before, in the spelling that libcu++ gives it.
#pragma once
#ifndef CHAR_BIT
#define CHAR_BIT 8
#endif
#ifndef SCHAR_MIN
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#endif
#ifndef CHAR_MIN
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#endif
#ifndef SHRT_MAX
#define SHRT_MIN  (-SHRT_MAX - 1)
#define SHRT_MAX  0x7fff
#define USHRT_MAX 0xffff
#endif
#ifndef INT_MAX
#define INT_MIN   (-INT_MAX - 1)
#define INT_MAX   0x7fffffff
#define UINT_MAX  0xffffffff
#endif
#ifndef LLONG_MAX
#define LLONG_MIN  (-LLONG_MAX - 1)
#define LLONG_MAX  0x7fffffffffffffffLL
#define ULLONG_MAX 0xffffffffffffffffUL
#endif
#ifndef LONG_MAX
#define LONG_MIN  (-LONG_MAX - 1)
#if defined(_WIN32) || defined(_WIN64)
#define LONG_MAX  INT_MAX
#define ULONG_MAX UINT_MAX
#else
#define LONG_MAX  LLONG_MAX
#define ULONG_MAX ULLONG_MAX
#endif
#endif
