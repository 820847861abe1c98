// Stand-in for the C header: the compiler itself has memcpy and memset; the rest is spelled out for device code.
#pragma once
#include "stddef.h"
inline __device__ int memcmp(const void* __gs_left, const void* __gs_right, size_t __gs_count) {
    const unsigned char* __gs_a = (const unsigned char*)__gs_left;
    const unsigned char* __gs_b = (const unsigned char*)__gs_right;
    for (size_t __gs_i = 0; __gs_i < __gs_count; ++__gs_i)
        if (__gs_a[__gs_i] != __gs_b[__gs_i]) return __gs_a[__gs_i] < __gs_b[__gs_i] ? -1 : 1;
    return 0;
}
inline __device__ void* memmove(void* __gs_to, const void* __gs_from, size_t __gs_count) {
    unsigned char* __gs_d = (unsigned char*)__gs_to;
    const unsigned char* __gs_s = (const unsigned char*)__gs_from;
    if (__gs_d < __gs_s)
        for (size_t __gs_i = 0; __gs_i < __gs_count; ++__gs_i) __gs_d[__gs_i] = __gs_s[__gs_i];
    else
        for (size_t __gs_i = __gs_count; __gs_i > 0; --__gs_i) __gs_d[__gs_i - 1] = __gs_s[__gs_i - 1];
    return __gs_to;
}
inline __device__ size_t strlen(const char* __gs_text) {
    size_t __gs_length = 0;
    while (__gs_text[__gs_length]) ++__gs_length;
    return __gs_length;
}
inline __device__ int strcmp(const char* __gs_left, const char* __gs_right) {
    size_t __gs_i = 0;
    while (__gs_left[__gs_i] && __gs_left[__gs_i] == __gs_right[__gs_i]) ++__gs_i;
    return (int)(unsigned char)__gs_left[__gs_i] - (int)(unsigned char)__gs_right[__gs_i];
}
inline __device__ int strncmp(const char* __gs_left, const char* __gs_right, size_t __gs_count) {
    for (size_t __gs_i = 0; __gs_i < __gs_count; ++__gs_i) {
        const int __gs_difference = (int)(unsigned char)__gs_left[__gs_i] - (int)(unsigned char)__gs_right[__gs_i];
        if (__gs_difference || !__gs_left[__gs_i]) return __gs_difference;
    }
    return 0;
}
inline __device__ char* strcpy(char* __gs_to, const char* __gs_from) {
    size_t __gs_i = 0;
    do __gs_to[__gs_i] = __gs_from[__gs_i];
    while (__gs_from[__gs_i++]);
    return __gs_to;
}
inline __device__ char* strncpy(char* __gs_to, const char* __gs_from, size_t __gs_count) {
    size_t __gs_i = 0;
    for (; __gs_i < __gs_count && __gs_from[__gs_i]; ++__gs_i) __gs_to[__gs_i] = __gs_from[__gs_i];
    for (; __gs_i < __gs_count; ++__gs_i) __gs_to[__gs_i] = 0;
    return __gs_to;
}
