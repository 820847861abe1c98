// Stand-in for the C header: the compiler itself knows size_t, ptrdiff_t and NULL.
#pragma once
#ifndef NULL
#define NULL 0
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
typedef double max_align_t __attribute__((aligned(16)));
namespace std {
using ::size_t;
using ::ptrdiff_t;
typedef decltype(nullptr) nullptr_t;
}
