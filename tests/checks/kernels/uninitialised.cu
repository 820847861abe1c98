// Values that nobody wrote, where something depends on them.
#include "twins.cuh"
struct Padded { u8 tag; int value; };
extern "C" {
__global__ void global_branch(const int *a, int *b) {
    if (a[TID] > 3) atomicAdd(&b[TID], 1);                  /*!*/
}
__global__ void global_address(const int *index, const int *a, int *b) {
    int k = index[TID];
    b[TID] = a[(u32)k % 64];                                /*!*/
}
__global__ void accumulate(const int *a, int *b) {
    b[TID] += a[TID];                                       /*!*/
}
__global__ void histogram_without_zeroing(const int *a, int *h) {
    atomicAdd(&h[a[TID] & 15], 1);                          /*!*/
}
__global__ void shared_histogram_without_zeroing(const int *a, int *h) {
    __shared__ int s[16];
    REPAIR(if (TID < 16) s[TID] = 0; __syncthreads();)
    atomicAdd(&s[a[TID] & 15], 1);
    __syncthreads();
    if (TID < 16) h[TID] = s[TID] * 2;                      /*!*/
}
__global__ void shared_tail(const int *a, int *b, int n) {
    __shared__ int s[64];
    if (TID < n) s[TID] = a[TID];
    REPAIR(else s[TID] = 0;)
    __syncthreads();
    for (int k = 32; k; k /= 2) {
        if (TID < k) s[TID] += s[TID + k];
        __syncthreads();
    }
    if (TID == 0) b[0] = s[0];                              /*!*/
}
__global__ void local_array(const int *a, int *b) {
    int v[16];
    for (int k = 0; k < 8 REPAIR(+ 8); ++k) v[a[k] & 15] = k;
    b[TID] = v[(a[TID] & 7) + 8] + 1;                       /*!*/
}
__global__ void device_malloc(const int *a, int *b) {
    int *p = (int *)malloc(64);
    REPAIR(for (int k = 0; k < 16; ++k) p[k] = 0;)
    p[a[TID] & 3] = 1;
    int sum = 0;
    for (int k = 0; k < 4; ++k) sum += p[k];
    b[TID] = sum;                                           /*!*/
    free(p);
}
__global__ void by_shuffle(const int *a, int *b) {
    int v = a[TID];
    v = __shfl_down_sync(~0u, v, 1);
    b[TID] = v * 3;                                         /*!*/
}
__global__ void field_of_a_vector(int4 *mid, int *b) {
    mid[TID].x = TID; mid[TID].y = 1; mid[TID].z = 2;
    REPAIR(mid[TID].w = 3;)
    int4 v = mid[TID];
    b[TID] = v.x + v.y + v.z + v.w;                         /*!*/
}
// a hash over all bytes of a structure takes its padding too
__global__ void hash_of_padding(Padded *mid, u32 *b) {
    REPAIR(((u32 *)mid)[2 * TID] = 0;)
    mid[TID].tag = (u8)TID;
    mid[TID].value = TID * 5;
    u32 h = 0;
    for (int k = 0; k < 2; ++k) h = h * 31 + ((volatile u32 *)&mid[TID])[k];
    b[TID] = h;                                             /*!*/
}
// a copy is no use; the copy's use is
__global__ void copied_then_used(const int *a, int *mid, int *b) {
    mid[TID] = a[TID];
    __syncthreads();
    b[TID] = ((volatile int *)mid)[TID ^ 1] > 0;            /*!*/
}
__global__ void guard_leaves_a_hole(const int *a, int *b, int n) {
    int i = GID;
    if (i < n && i FAULT(!= 7) REPAIR(>= 0)) b[i] = a[i];
}
__global__ void one_byte_of_a_word(u8 *mid, int *b) {
    for (int k = 0; k < 3 REPAIR(+ 1); ++k) mid[4 * TID + k] = 1;
    b[TID] = ((volatile int *)mid)[TID] == 0x01010101;      /*!*/
}
__global__ void scan_reads_ahead(const int *a, int *tmp, int *b) {
    tmp[TID] = a[TID];
    __syncthreads();
    b[TID] = tmp[TID] + tmp[TID + FAULT(1) REPAIR((TID < 31))]; /*!*/
}
// nothing is larger than five: there is no best
__global__ void no_value_on_one_path(const int *a, float *b, int n) {
    float best;
    REPAIR(best = 1;)
    for (int k = 0; k < n; ++k)
        if (a[k] < 0) best = a[k];
    b[TID] = best * 2;                                      /*!*/
}
__global__ void scratch_of_assembly(const int *a, int *b) {
    int x;
    asm volatile("{.reg .u32 t;" REPAIR("mov.u32 t, 6;") "add.u32 %0, t, 1;}" : "=r"(x));
    b[TID] = x + a[TID];                                    /*!*/
}
__global__ void counter_without_zeroing(const int *a, int *count, int *b) {
    if (a[TID] > 500) atomicAdd(count, 1);                  /*!*/
    b[TID] = 1;
}
}
