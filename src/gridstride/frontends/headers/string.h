// Stand-in for the C header: the compiler itself has memcpy and memset; the rest is spelled out for device code.
#pragma once
#include "stddef.h"
inline __device__ int memcmp(const void* left, const void* right, size_t count) {
    const unsigned char* a = (const unsigned char*)left;
    const unsigned char* b = (const unsigned char*)right;
    for (size_t i = 0; i < count; ++i)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}
inline __device__ void* memmove(void* to, const void* from, size_t count) {
    unsigned char* d = (unsigned char*)to;
    const unsigned char* s = (const unsigned char*)from;
    if (d < s)
        for (size_t i = 0; i < count; ++i) d[i] = s[i];
    else
        for (size_t i = count; i > 0; --i) d[i - 1] = s[i - 1];
    return to;
}
inline __device__ size_t strlen(const char* text) {
    size_t length = 0;
    while (text[length]) ++length;
    return length;
}
inline __device__ int strcmp(const char* left, const char* right) {
    size_t i = 0;
    while (left[i] && left[i] == right[i]) ++i;
    return (int)(unsigned char)left[i] - (int)(unsigned char)right[i];
}
inline __device__ int strncmp(const char* left, const char* right, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        const int difference = (int)(unsigned char)left[i] - (int)(unsigned char)right[i];
        if (difference || !left[i]) return difference;
    }
    return 0;
}
inline __device__ char* strcpy(char* to, const char* from) {
    size_t i = 0;
    do to[i] = from[i];
    while (from[i++]);
    return to;
}
inline __device__ char* strncpy(char* to, const char* from, size_t count) {
    size_t i = 0;
    for (; i < count && from[i]; ++i) to[i] = from[i];
    for (; i < count; ++i) to[i] = 0;
    return to;
}
