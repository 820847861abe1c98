// Accesses outside of what is there.
#include "twins.cuh"
__constant__ int weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
extern "C" {
// the guard tests the linear index, the access is by row and column
__global__ void linear_guard(const int *a, int *b, int w, int h, int pitch) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (FAULT(y * w + x < w * h) REPAIR(x < w && y < h)) b[y * pitch + x] = a[0] + x; /*!*/
}
// a pitch in bytes used as one in elements
__global__ void pitch_in_bytes(const int *a, int *b, int w, int h, int pitch) {
    int x = threadIdx.x, y = threadIdx.y;
    if (x < w && y < h) b[y * FAULT(pitch) REPAIR((pitch / 4)) + x] = a[y * w + x]; /*!*/
}
// 50,000 squared does not fit 32 bits
__global__ void index_overflow(const int *a, int *b, int stride) {
    int i = GID;
    if (i < 32) {
        FAULT(int k = stride * (i + 49969);)
        REPAIR(long long k = (long long)stride * (i + 49969);)
        b[i] = a[k / 100000000];                            /*!*/
    }
}
__global__ void off_by_one(const int *a, int *b, int n) {
    int i = GID;
    if (i FAULT(<=) REPAIR(<) n) b[i] = a[i < n ? i : 0];   /*!*/
}
__global__ void halo_before_the_start(const int *a, int *b, int n) {
    int i = GID;
    if (i < n) b[i] = a[i] + FAULT(a[i - 1]) REPAIR((i ? a[i - 1] : 0)); /*!*/
}
// an overrun into whatever was allocated next
__global__ void into_the_neighbour(int *first, int *second, int n) {
    if (TID == 0) second[0] = 5;
    for (int i = TID; i < n FAULT(+ 200); i += blockDim.x) first[i] = i; /*!*/
}
__global__ void constant_overrun(const int *a, int *b) {
    b[TID] = weights[FAULT(a[TID] * 1000 + 20000) REPAIR(a[TID] & 7)]; /*!*/
}
__global__ void shared_overrun(const int *a, int *b) {
    __shared__ int s[64];
    s[TID FAULT(+ 16)] = a[TID];                            /*!*/
    __syncthreads();
    b[TID] = s[TID];
}
__global__ void dynamic_shared_too_small(const int *a, int *b) {
    extern __shared__ int s[];
    s[TID] = a[TID];                                        /*!*/
    __syncthreads();
    b[TID] = s[63 - TID];
}
__global__ void stack_array(const int *idx, int *b) {
    int v[8];
    for (int k = 0; k < 8; ++k) v[k] = k * TID;
    int sum = 0;
    for (int k = 0; k < 8; ++k) sum += v[FAULT(idx[k] - 200000) REPAIR((idx[k] & 7))]; /*!*/
    b[TID] = sum;
}
__global__ void vector_tail(const int4 *a, int *b, int n) {
    int i = GID;
    if (i * 4 FAULT() REPAIR(+ 3) < n) {
        int4 v = a[i];                                      /*!*/
        b[i] = v.x + v.y + v.z + v.w;
    }
}
__global__ void use_after_free(int *b) {
    if (TID == 0) {
        volatile int *p = (int *)malloc(64);
        p[3] = 11;
        FAULT(free((void *)p);)
        b[0] = p[3];                                        /*!*/
        REPAIR(free((void *)p);)
    }
}
__global__ void null_pointer(const int *a, int *b, const int *maybe) {
    b[TID] = a[TID] REPAIR(+ (maybe ? maybe[TID] : 0)) FAULT(+ maybe[TID]); /*!*/
}
__global__ void atomic_past_the_end(const int *a, int *h) {
    atomicAdd(&h[a[TID] REPAIR(% 16)], 1);                  /*!*/
}
__global__ void wrong_row_order(const int *a, int *b, int w, int h) {
    int x = threadIdx.x, y = threadIdx.y;
    if (x < w && y < h) b[FAULT(x * w + y) REPAIR(y * w + x)] = a[y * w + x]; /*!*/
}
}
