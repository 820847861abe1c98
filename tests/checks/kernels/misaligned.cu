// Addresses that are no multiple of the access's width.
#include "twins.cuh"
struct __attribute__((packed)) Record { u8 tag; int value; };
extern "C" {
__global__ void vector_at_one(const int *a, int4 *b) {
    b[TID] = *(const int4 *)(a + FAULT(1) REPAIR(4) + 4 * TID);    /*!*/
}
__global__ void word_among_bytes(const u8 *a, int *b) {
    b[TID] = *(const int *)(a + FAULT(5) REPAIR(8) * TID);  /*!*/
}
__global__ void double_from_floats(const float *a, double *b) {
    b[TID] = *(const double *)(a + FAULT(3) REPAIR(2) * TID); /*!*/
}
__global__ void half_word_at_odd(u8 *b) {
    *(u16 *)(b + 4 * TID FAULT(+ 1)) = (u16)TID;            /*!*/
}
__global__ void shared_vector(const int *a, int *b) {
    __shared__ __align__(16) int s[132];
    for (int k = TID; k < 132; k += 32) s[k] = a[k];
    __syncthreads();
    int4 v = *(int4 *)(s + 4 * TID + FAULT(2) REPAIR(4));   /*!*/
    b[TID] = v.x + v.y + v.z + v.w;
}
__global__ void atomic_among_bytes(u8 *b) {
    atomicAdd((int *)(b + FAULT(2) REPAIR(4) * TID), TID);  /*!*/
}
// rows of an odd number of floats
__global__ void odd_pitch(const float *a, float *b, int pitch) {
    float2 v = *(const float2 *)(a + threadIdx.y * pitch + 2 * threadIdx.x); /*!*/
    b[threadIdx.y * 4 + threadIdx.x] = v.x + v.y;
}
__global__ void local_bytes(const u8 *a, int *b) {
    __align__(8) u8 v[32];
    for (int k = 0; k < 32; ++k) v[k] = a[k] + TID;
    b[TID] = *(volatile int *)(v + FAULT(a[1]) REPAIR((a[1] & 28))); /*!*/
}
__global__ void packed_record(const u8 *a, int *b) {
    FAULT(b[TID] = *(const volatile int *)&((const Record *)a)[TID].value;)  /*!*/
    REPAIR(b[TID] = ((const Record *)a)[TID].value;)
}
__global__ void vector_store_in_a_view(int *b) {
    ((int2 *)(b FAULT(+ 1) REPAIR(+ 2)))[TID] = int2{TID, -TID};   /*!*/
}
}
