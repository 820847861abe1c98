// Races in shared memory.
#include "twins.cuh"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" {
__global__ void halo_tile(const int *a, int *b) {
    __shared__ int s[66];
    int i = GID, n = gridDim.x * blockDim.x;
    s[TID + 1] = a[i];                                      /*!*/
    if (TID == 0) s[0] = i > 0 ? a[i - 1] : 0;              /*!*/
    if (TID == 63) s[65] = i < n - 1 ? a[i + 1] : 0;        /*!*/
    REPAIR(__syncthreads();)
    b[i] = s[TID] + s[TID + 1] + s[TID + 2];                /*!*/
}
__global__ void double_buffer(const int *a, int *b, int tiles) {
    __shared__ int s[2][128];
    int sum = 0;
    s[0][TID] = a[TID];                                     /*!*/
    for (int t = 0; t < tiles; ++t) {
        __syncthreads();
        sum = sum * 3 + s[FAULT(0) REPAIR(t & 1)][TID ^ 64];              /*!*/
        if (t + 1 < tiles) s[FAULT(0) REPAIR((t + 1) & 1)][TID] = a[(t + 1) * 128 + TID]; /*!*/
    }
    b[TID] = sum;
}
// warps 0 and 1 fill, warps 2 and 3 empty; barrier 1: full, barrier 2: empty
__global__ void producer_consumer(const int *a, int *b, int rounds) {
    __shared__ int s[64];
    if (TID < 64) {
        for (int r = 0; r < rounds; ++r) {
            REPAIR(if (r) asm volatile("bar.sync 2, 128;" ::: "memory");)
            s[TID] = a[r * 64 + TID];                       /*!*/
            asm volatile("bar.arrive 1, 128;" ::: "memory");
            FAULT(if (r) asm volatile("bar.sync 2, 128;" ::: "memory");)
        }
    } else {
        int sum = 0;
        for (int r = 0; r < rounds; ++r) {
            asm volatile("bar.sync 1, 128;" ::: "memory");
            sum = sum * 3 + s[(TID - 64) ^ 63];             /*!*/
            if (r + 1 < rounds) asm volatile("bar.arrive 2, 128;" ::: "memory");
        }
        b[TID - 64] = sum;
    }
}
// each pair of warps has a barrier of its own; the exchange is with the partner, or with a stranger
__global__ void named_pairs(const int *a, int *b) {
    __shared__ int s[256];
    s[TID] = a[TID];                                        /*!*/
    asm volatile("bar.sync %0, 64;" ::"r"(1 + TID / 64) : "memory");
    b[TID] = s[TID ^ FAULT(64) REPAIR(32)];                 /*!*/
}
__global__ void scan_in_place(const int *a, int *b) {
    __shared__ int s[128];
    s[TID] = a[TID];
    __syncthreads();
    for (int k = 1; k < 128; k *= 2) {
        FAULT(if (TID >= k) s[TID] += s[TID - k];)          /*!*/
        REPAIR(int v = TID >= k ? s[TID - k] : 0; __syncthreads(); s[TID] += v;)
        __syncthreads();
    }
    b[TID] = s[TID];
}
__global__ void warp_reduction(const int *a, int *b) {
    __shared__ int s[32];
    s[TID] = a[TID];
    __syncwarp();
    for (int k = 16; k; k /= 2) {
        if (TID < k) s[TID] += s[TID + k];                  /*!*/
        REPAIR(__syncwarp();)
    }
    if (TID == 0) *b = s[0];
}
__global__ void halves_of_a_warp(const int *a, int *b) {
    __shared__ int s[32];
    s[TID] = a[TID];                                        /*!*/
    if (TID < 16) __syncwarp(0x0000ffffu); else __syncwarp(0xffff0000u);
    b[TID] = s[TID ^ FAULT(16) REPAIR(8)];                  /*!*/
}
__global__ void histogram_zeroing(const int *a, int *h) {
    __shared__ int s[64];
    if (TID < 64) s[TID] = 0;                               /*!*/
    REPAIR(__syncthreads();)
    atomicAdd(&s[a[TID] & 63], 1);                          /*!*/
    __syncthreads();
    if (TID < 64) h[TID] = s[TID];
}
__global__ void atomic_and_plain(const int *a, int *b) {
    __shared__ int total;
    if (TID == 0) total = 0;
    __syncthreads();
    atomicAdd(&total, a[TID]);                              /*!*/
    REPAIR(__syncthreads();)
    if (TID == 100) *b = total;                             /*!*/
    REPAIR(__syncthreads();)
}
__global__ void part_of_a_word(int *b) {
    __shared__ u32 s[2];
    if (TID < 2) s[TID] = 0;
    __syncthreads();
    if (TID == 40) s[FAULT(0) REPAIR(1)] = 0x20000;         /*!*/
    if (TID == 0) atomicCAS((u16 *)s, (u16)0, (u16)7);      /*!*/
    __syncthreads();
    if (TID < 2) b[TID] = s[TID];
}
__global__ void broadcast_flag(const int *a, int *b) {
    __shared__ bool found;
    if (TID == 0) found = a[0] > 0;                         /*!*/
    REPAIR(__syncthreads();)
    b[TID] = found ? TID : -1;                              /*!*/
}
__global__ void volatile_exchange(const int *a, int *b) {
    __shared__ volatile int s[32];
    s[TID] = a[TID];                                        /*!*/
    REPAIR(__syncwarp();)
    b[TID] = s[TID ^ 1];                                    /*!*/
}
__global__ void same_value(const int *a, int *b) {
    __shared__ int any;
    if (TID == 0) any = 0;
    __syncthreads();
    FAULT(if (a[TID] > 500) any = 1;)                       /*!*/
    REPAIR(if (a[TID] > 500) atomicExch(&any, 1);)
    __syncthreads();
    if (TID == 0) *b = any;
}
__global__ void other_values(const int *a, int *b) {
    __shared__ int most;
    if (TID == 0) most = 0;
    __syncthreads();
    FAULT(if (a[TID] > 500) most = a[TID];)                 /*!*/
    REPAIR(atomicMax(&most, a[TID]);)
    __syncthreads();
    if (TID == 0) *b = most;
}
__global__ void group_tile(const int *a, int *b) {
    __shared__ int s[64];
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    s[TID] = a[TID];                                        /*!*/
    REPAIR(tile.sync();)
    b[TID] = s[(TID & ~7) + 7 - (int)tile.thread_rank()];   /*!*/
}
__global__ void transpose_tile(const int *a, int *b) {
    __shared__ int s[16][17];
    s[threadIdx.y][threadIdx.x] = a[threadIdx.y * 16 + threadIdx.x]; /*!*/
    REPAIR(__syncthreads();)
    b[threadIdx.y * 16 + threadIdx.x] = s[threadIdx.x][threadIdx.y]; /*!*/
}
// of four bytes in a word that four threads write, only the first is read
__global__ void first_byte_of_four(const int *a, int *b) {
    __shared__ u8 s[256];
    s[TID] = (u8)a[TID];                                    /*!*/
    REPAIR(__syncthreads();)
    b[TID] = s[(TID & ~3) ^ 128];                           /*!*/
}
// the same, and whoever reads comes after whoever writes in the usual order
__global__ void first_byte_read_later(const int *a, int *b) {
    __shared__ u8 s[128];
    if (TID < 128) s[TID] = (u8)a[TID];                     /*!*/
    REPAIR(__syncthreads();)
    if (TID >= 128) b[TID - 128] = s[TID - 128 & ~3];       /*!*/
}
__global__ void tile_reuse(const int *a, int *b, int tiles) {
    __shared__ int s[128];
    int sum = 0;
    for (int t = 0; t < tiles; ++t) {
        s[TID] = a[t * 128 + TID];                          /*!*/
        __syncthreads();
        sum = sum * 3 + s[127 - TID];                       /*!*/
        REPAIR(__syncthreads();)
    }
    b[TID] = sum;
}
// many read before one writes
__global__ void readers_then_writer(const int *a, int *b) {
    __shared__ int head;
    if (TID == 0) head = a[0];
    __syncthreads();
    b[TID] = head;                                          /*!*/
    REPAIR(__syncthreads();)
    if (TID == 77) head = a[1];                             /*!*/
    __syncthreads();
    b[TID] += head;
}
__global__ void vector_overlap(const int *a, int *b) {
    __shared__ int4 s[32];
    if (TID < 32) s[TID] = int4{0, 0, 0, 0};                /*!*/
    REPAIR(__syncthreads();)
    ((int *)s)[TID] = a[TID];                               /*!*/
    __syncthreads();
    b[TID] = ((int *)s)[TID];
}
// three warps write a byte each of one word, and a fourth reads only the first of them
__global__ void three_writers_of_a_word(const int *a, int *b) {
    __shared__ u8 s[4];
    if (TID % 32 == 0 && TID < 96) s[TID / 32] = (u8)a[TID]; /*!*/
    REPAIR(__syncthreads();)
    if (TID == 96) b[0] = s[0];                             /*!*/
}
// the same for halves of a word, whose writers are lanes of one warp, and the second half is read
__global__ void two_writers_of_a_word(const int *a, int *b) {
    __shared__ u16 s[2];
    if (TID == 5) s[1] = (u16)a[5];                         /*!*/
    if (TID == 9) s[0] = (u16)a[9];                         /*!*/
    REPAIR(__syncwarp();)
    if (TID == 9) b[0] = s[1];                              /*!*/
}
// warps 1 to 8 read, then arrive where warp 0 waits before it writes; in the faulty build warp 5 does not
__global__ void eight_readers(int *b) {
    __shared__ int s;
    if (TID == 0) s = 7;
    __syncthreads();
    int warp = TID / 32;
    if (warp) {
        b[TID] = s;                                         /*!*/
        FAULT(if (warp != 5)) asm volatile("bar.arrive 1, %0;" ::"n"(FAULT(256) REPAIR(288)) : "memory");
    } else {
        asm volatile("bar.sync 1, %0;" ::"n"(FAULT(256) REPAIR(288)) : "memory");
        if (TID == 3) s = 9;                                /*!*/
    }
}
// lanes of a tile read one word, then one of them writes it
__global__ void readers_of_a_tile(const int *a, int *b) {
    __shared__ int s[4];
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    if (TID % 8 == 0) s[TID / 8] = a[TID];
    tile.sync();
    int v = s[TID / 8];                                     /*!*/
    REPAIR(tile.sync();)
    if (TID % 8 == 5) s[TID / 8] = v + 1;                   /*!*/
    tile.sync();
    b[TID] = s[TID / 8] + v;
}
// some lanes read before a __syncwarp, others after it; a lane then writes
__global__ void readers_on_both_sides(const int *a, int *b) {
    __shared__ int s;
    if (TID == 0) s = a[0];
    __syncthreads();
    if (TID == 4) b[0] = s;
    __syncwarp();
    if (TID == 6) b[1] = s;                                 /*!*/
    REPAIR(__syncwarp();)
    if (TID == 9) s = 1;                                    /*!*/
}
// every thread changes its own byte in place; in the faulty build it looks at its neighbour's too
__global__ void bytes_in_place(const int *a, int *b) {
    __shared__ u8 s[104];
    s[TID + 3] = (u8)a[TID];
    __syncthreads();
    s[TID + 3] = s[TID + 3] + FAULT(s[TID + 4]) REPAIR(1);  /*!*/
    __syncthreads();
    b[TID] = s[TID + 3];
}
// a column of bytes: the four of one word are of four warps
__global__ void transpose_bytes(const int *a, int *b) {
    __shared__ u8 s[8][8 * 4];
    int x = TID % 8, y = TID / 8;
    s[x][y] = (u8)a[TID];                                   /*!*/
    REPAIR(__syncthreads();)
    b[TID] = s[TID / 32][TID % 32];                         /*!*/
}
// whoever reads has added last: its own atomic is the only one that is ordered before
__global__ void total_for_the_last_thread(const int *a, int *b) {
    __shared__ int s;
    if (TID == 0) s = 0;
    __syncthreads();
    atomicAdd(&s, a[TID]);                                  /*!*/
    REPAIR(__syncthreads();)
    if (TID == 127) *b = s;                                 /*!*/
}
// the compiler lets every thread read `left` before the test of the thread's index; two threads take from it in the faulty build
__global__ void one_thread_takes_all(const int *a, int *b) {
    __shared__ int left;
    if (TID == 0) left = 60;
    __syncthreads();
    if ((TID == 5) FAULT(| (TID == 40)))                    /*!*/
        while (left) { b[left - 1] = a[left]; left--; }     /*!*/
}
}
