// What one pixel is made of: the arithmetic that all implementations share, so that they give the same bits.
//
// Arithmetic. Every operation is spelled with its rounding: __fmul_rn, __fadd_rn, and __fmaf_rn where a product is added without being rounded
// before. No compiler may contract others. So every device gives the same bits, and the NumPy float32 reference can follow step by step.
// All stages hold values on the scale of 8 bits, 0 to 255, whatever the depth of the input.
//
// Choices. Blur, border and output are constants of the compilation (parameters.py defines them): loops over the weights unroll, the
// weights sit in the instructions, and a border that was not chosen costs nothing. Without any, these are the defaults:

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

enum { BORDER_REPLICATE, BORDER_REFLECT, BORDER_CONSTANT };
enum { OUTPUT_NONE, OUTPUT_GREY, OUTPUT_BLURRED_ROWS, OUTPUT_BLURRED, OUTPUT_MAGNITUDE, OUTPUT_THRESHOLDED };

#ifndef RADIUS
#define RADIUS 2
#define WEIGHTS 0.06136f, 0.24477f, 0.38774f, 0.24477f, 0.06136f // a Gaussian of sigma 1 over five pixels; they sum to 1
#define BORDER BORDER_REPLICATE
#define BORDER_VALUE 0.0f
#define OUTPUT OUTPUT_NONE // the 8-bit edges alone
#define DEPTH 8
#define THRESHOLD 128.0f
#endif

// ---------------------------------------------------------------------------------------------------------------- border

// An index held inside 0 .. size - 1: beyond the border stands a copy of the border pixel.
__device__ int clamped(int index, int size) { return min(max(index, 0), size - 1); }

// Which pixel a filter finds at `index`, which may lie up to RADIUS outside: -1 where there is none, but BORDER_VALUE.
__device__ int inside(int index, int size) {
    if constexpr (BORDER == BORDER_REPLICATE) {
        return clamped(index, size);
    } else if constexpr (BORDER == BORDER_CONSTANT) {
        return index < 0 || index >= size ? -1 : index;
    } else { // mirrored, the border pixel repeated: c b a | a b c | c b a. A small image is mirrored over and over.
        while (index < 0 || index >= size)
            index = index < 0 ? -1 - index : 2 * size - 1 - index;
        return index;
    }
}

// What is at a place that `inside` gave.
__device__ float at(const float *values, int place) { return BORDER == BORDER_CONSTANT && place < 0 ? BORDER_VALUE : values[place]; }

// ---------------------------------------------------------------------------------------------------------------- grey

// Brightness as ITU-R BT.601 weighs the three colours, added from left to right.
constexpr float RED = 0.299f, GREEN = 0.587f, BLUE = 0.114f;
__device__ float sum_of_colours(float red, float green, float blue) { return __fadd_rn(__fadd_rn(red, green), blue); } // of weighed colours
__device__ float luma(float red, float green, float blue) {
    return sum_of_colours(__fmul_rn(RED, red), __fmul_rn(GREEN, green), __fmul_rn(BLUE, blue));
}

// 16-bit samples reach 65535 = 257 * 255; this brings them to 0 .. 255. 8-bit samples are there already.
__device__ float to_eight_bit_scale(float value, u8) { return value; }
__device__ float to_eight_bit_scale(float value, u16) { return __fmul_rn(value, 1.0f / 257.0f); }

// ---------------------------------------------------------------------------------------------------------------- blur

// The weighted sum of the taps from -RADIUS to RADIUS, added in the order of the pixels. `tap(k)` gives the value of a tap.
template <typename Tap> __device__ float weighted(Tap tap) {
    constexpr float weights[] = {WEIGHTS};
    float sum = __fmul_rn(weights[0], tap(-RADIUS));
#pragma unroll
    for (int k = 1 - RADIUS; k <= RADIUS; k++)
        sum = __fmaf_rn(weights[k + RADIUS], tap(k), sum);
    return sum;
}

// ---------------------------------------------------------------------------------------------------------------- Sobel

// One side of a Sobel operator: 1 2 1. Doubling is exact, so the multiply-add rounds as the sum of the two would.
__device__ float side(float first, float middle, float last) { return __fadd_rn(__fmaf_rn(2.0f, middle, first), last); }

// The length of the gradient, with the correctly rounded root: 0 to about 1,443.
__device__ float square_of_length(float across, float down) { return __fmaf_rn(down, down, __fmul_rn(across, across)); }
__device__ float length(float across, float down) { return __fsqrt_rn(square_of_length(across, down)); }

// ---------------------------------------------------------------------------------------------------------------- output

// To whole numbers: half is rounded up, everything beyond `most` becomes `most`. What is added is the float just below 0.5: with 0.5
// itself, the sum of the float just below 0.5 would round to 1. From 0.5 on the sum rounds as that with 0.5 would (tests look at all).
constexpr float HALF = 0.49999997f;
__device__ u32 rounded(float value, float most) {
    return __float2uint_rz(__fadd_rn(fminf(value, most), HALF)); // rz: towards zero
}

__device__ u32 to_eight_bits(float value) { return rounded(value, 255.0f); }

// The element of an output, and a value of the chosen stage as one: 255 becomes 65535 in 16 bits.
template <int BITS> struct Depth;
template <> struct Depth<8> {
    typedef u8 Type;
    static __device__ Type of(float value) { return to_eight_bits(value); }
};
template <> struct Depth<16> {
    typedef u16 Type;
    static __device__ Type of(float value) { return rounded(__fmul_rn(value, 257.0f), 65535.0f); }
};
template <> struct Depth<32> {
    typedef float Type;
    static __device__ Type of(float value) { return value; }
};
typedef Depth<DEPTH>::Type OutputElement;

__device__ OutputElement to_output(float value) {
    if constexpr (OUTPUT == OUTPUT_THRESHOLDED)
        value = value >= THRESHOLD ? 255.0f : 0.0f;
    return Depth<DEPTH>::of(value);
}
