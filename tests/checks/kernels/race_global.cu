// Races in global memory.
#include "twins.cuh"
#include <cuda/atomic>
extern "C" {
__global__ void last_block(const int *a, int *part, u32 *count, int *out) {
    __shared__ bool last;
    int v = a[GID];
    for (int o = 16; o; o /= 2) v += __shfl_down_sync(~0u, v, o);
    if (TID == 0) {
        part[blockIdx.x] = v;                               /*!*/
        REPAIR(__threadfence();)
        last = atomicAdd(count, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && TID == 0) {
        REPAIR(__threadfence();)
        int s = 0;
        for (int k = 0; k < gridDim.x; k++) s += part[k];   /*!*/
        *out = s;
    }
}
// all threads of the block write, one fences after the barrier: fences are cumulative
__global__ void last_block_rides_along(const int *a, int *part, u32 *count, int *out) {
    __shared__ bool last;
    part[GID] = a[GID] * 2;                                 /*!*/
    __syncthreads();
    if (TID == 0) {
        REPAIR(__threadfence();)
        last = atomicAdd(count, 1u) == gridDim.x - 1;
        REPAIR(__threadfence();)
    }
    __syncthreads();
    if (last)
        for (int k = TID; k < gridDim.x * blockDim.x; k += blockDim.x) out[k] = part[k]; /*!*/
}
__global__ void last_block_cta_fence(const int *a, int *part, u32 *count, int *out) {
    __shared__ bool last;
    part[GID] = a[GID] * 2;                                 /*!*/
    __syncthreads();
    if (TID == 0) {
        FAULT(__threadfence_block();) REPAIR(__threadfence_system();)
        last = atomicAdd(count, 1u) == gridDim.x - 1;
        FAULT(__threadfence_block();) REPAIR(__threadfence_system();)
    }
    __syncthreads();
    if (last)
        for (int k = TID; k < gridDim.x * blockDim.x; k += blockDim.x) out[k] = part[k]; /*!*/
}
__global__ void flag_release_gpu(int *data, u32 *flag, int *out) {
    if (TID) return;
    if (blockIdx.x == 0) {
        data[0] = 42;                                       /*!*/
        FAULT(asm volatile("st.relaxed.gpu.u32 [%0], 1;" ::"l"(flag) : "memory");)
        REPAIR(asm volatile("st.release.gpu.u32 [%0], 1;" ::"l"(flag) : "memory");)
    } else {
        u32 f;
        do asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(f) : "l"(flag) : "memory"); while (!f);
        out[0] = data[0];                                   /*!*/
    }
}
__global__ void flag_acquire_gpu(int *data, u32 *flag, int *out) {
    if (TID) return;
    if (blockIdx.x == 0) {
        data[0] = 42;                                       /*!*/
        asm volatile("st.release.gpu.u32 [%0], 1;" ::"l"(flag) : "memory");
    } else {
        u32 f;
        FAULT(do asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(f) : "l"(flag) : "memory"); while (!f);)
        REPAIR(do asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(f) : "l"(flag) : "memory"); while (!f);)
        out[0] = data[0];                                   /*!*/
    }
}
__global__ void flag_scope_cta(int *data, u32 *flag, int *out) {
    if (TID) return;
    if (blockIdx.x == 0) {
        data[0] = 42;                                       /*!*/
        FAULT(asm volatile("st.release.cta.u32 [%0], 1;" ::"l"(flag) : "memory");)
        REPAIR(asm volatile("st.release.sys.u32 [%0], 1;" ::"l"(flag) : "memory");)
    } else {
        u32 f;
        FAULT(do asm volatile("ld.acquire.cta.u32 %0, [%1];" : "=r"(f) : "l"(flag) : "memory"); while (!f);)
        REPAIR(do asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(f) : "l"(flag) : "memory"); while (!f);)
        out[0] = data[0];                                   /*!*/
    }
}
// within one block the scope of a block is enough
__global__ void flag_within_block(int *data, u32 *flag, int *out) {
    if (TID == 0) {
        data[0] = 42;                                       /*!*/
        FAULT(asm volatile("st.relaxed.cta.u32 [%0], 1;" ::"l"(flag) : "memory");)
        REPAIR(asm volatile("st.release.cta.u32 [%0], 1;" ::"l"(flag) : "memory");)
    } else if (TID == 64) {
        u32 f;
        do asm volatile("ld.acquire.cta.u32 %0, [%1];" : "=r"(f) : "l"(flag) : "memory"); while (!f);
        out[0] = data[0];                                   /*!*/
    }
}
__global__ void atomic_ref_flag(int *data, u32 *flag, int *out) {
    if (TID) return;
    cuda::atomic_ref<u32, cuda::thread_scope_device> f(*flag);
    if (blockIdx.x == 0) {
        data[0] = 42;                                       /*!*/
        f.store(1, FAULT(cuda::memory_order_relaxed) REPAIR(cuda::memory_order_release));
    } else {
        while (f.load(cuda::memory_order_acquire) == 0) { }
        out[0] = data[0];                                   /*!*/
    }
}
__global__ void atomic_ref_block_scope(int *data, u32 *flag, int *out) {
    if (TID) return;
    cuda::atomic_ref<u32, FAULT(cuda::thread_scope_block) REPAIR(cuda::thread_scope_system)> f(*flag);
    if (blockIdx.x == 0) {
        data[0] = 42;                                       /*!*/
        f.store(1, cuda::memory_order_release);
    } else {
        while (f.load(cuda::memory_order_acquire) == 0) { }
        out[0] = data[0];                                   /*!*/
    }
}
__global__ void ticket_lock(u32 *lock, int *total) {
    if (TID) return;
    u32 mine = atomicAdd(&lock[0], 1);
    while (atomicAdd(&lock[1], 0) != mine) { }
    REPAIR(__threadfence();)
    total[0] += blockIdx.x + 1;                             /*!*/
    REPAIR(__threadfence();)
    atomicAdd(&lock[1], 1);
}
__global__ void spin_lock(int *lock, int *total) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            REPAIR(__threadfence();)
            total[0] += GID;                                /*!*/
            REPAIR(__threadfence();)
            atomicExch(lock, 0);
            done = true;
        }
    }
}
// the even blocks push, the odd blocks pop
__global__ void work_queue(const int *a, int *items, u32 *tail, int *out) {
    if (TID) return;
    if (blockIdx.x % 2 == 0) {
        u32 k = blockIdx.x / 2;
        items[k] = a[k] * 3;                                /*!*/
        REPAIR(__threadfence();)
        atomicExch(&tail[k], 1u);
    } else {
        u32 k = blockIdx.x / 2;
        while (atomicAdd(&tail[k], 0u) == 0) { }
        REPAIR(__threadfence();)
        out[k] = items[k] + 1;                              /*!*/
    }
}
__global__ void grid_stride(int *a, int n) {
    for (int i = GID; i < n; i += FAULT(blockDim.x) REPAIR(gridDim.x * blockDim.x))
        a[i] = a[i] * 3 + 1;                                /*!*/
}
__global__ void stencil_in_place(const int *a, int *b, int n) {
    int i = GID;
    if (i > 0 && i < n - 1) b[i] = FAULT(b)REPAIR(a)[i - 1] + FAULT(b)REPAIR(a)[i + 1]; /*!*/
}
__global__ void histogram(const int *a, int *h) {
    FAULT(h[a[GID] & 15] += 1;)                             /*!*/
    REPAIR(atomicAdd(&h[a[GID] & 15], 1);)
}
__global__ void grid_barrier(const int *a, int *mid, u32 *count, int *out) {
    mid[GID] = a[GID] + 1;                                  /*!*/
    __syncthreads();
    if (TID == 0) {
        REPAIR(__threadfence();)
        atomicAdd(count, 1u);
        while (atomicAdd(count, 0u) < gridDim.x) { }
        REPAIR(__threadfence();)
    }
    __syncthreads();
    int n = gridDim.x * blockDim.x;
    out[GID] = mid[n - 1 - GID];                            /*!*/
}
__global__ void same_value(const int *a, int *any) {
    FAULT(if (a[GID] > 500) any[0] = 1;)                    /*!*/
    REPAIR(if (a[GID] > 500) atomicExch(any, 1);)
}
__global__ void plain_reads_counter(u32 *count, int *out) {
    atomicAdd(count, 1u);                                   /*!*/
    if (TID == 0) {
        u32 seen = FAULT(*count) REPAIR(atomicAdd(count, 0u)); /*!*/
        out[blockIdx.x] = seen > 0;
    }
}
__global__ void half_of_a_word(u32 *w) {
    if (TID) return;
    if (blockIdx.x == 0) atomicCAS((u16 *)w + 1, (u16)0, (u16)9); /*!*/
    else w[FAULT(0) REPAIR(1)] = 5;                         /*!*/
}
__global__ void overlapping_blocks(const int *a, int *b, int n) {
    int i = blockIdx.x * (blockDim.x - FAULT(2) REPAIR(0)) + threadIdx.x;
    if (i < n) b[i] = a[i] + FAULT((int)blockIdx.x) REPAIR(0); /*!*/
}
__global__ void within_block(const int *a, int *tmp, int *b) {
    tmp[GID] = a[GID];                                      /*!*/
    REPAIR(__syncthreads();)
    b[GID] = tmp[GID ^ 32];                                 /*!*/
}
__global__ void within_warp(const int *a, int *tmp, int *b) {
    tmp[GID] = a[GID];                                      /*!*/
    FAULT(__shfl_sync(~0u, TID, 0); __any_sync(~0u, TID > 3);)
    REPAIR(__syncwarp();)
    b[GID] = tmp[GID ^ 1];                                  /*!*/
}
// block 0 tells 1, 1 tells 2; 2 reads what 0 wrote
__global__ void handed_on(int *data, u32 *flag, int *out) {
    if (TID) return;
    if (blockIdx.x == 0) {
        data[0] = 7;                                        /*!*/
        __threadfence();
        atomicExch(&flag[0], 1u);
    } else if (blockIdx.x == 1) {
        while (atomicAdd(&flag[0], 0u) == 0) { }
        REPAIR(__threadfence();)
        atomicExch(&flag[1], 1u);
    } else {
        while (atomicAdd(&flag[1], 0u) == 0) { }
        __threadfence();
        out[0] = data[0];                                   /*!*/
    }
}
// a word that many threads of a block read, then another block writes it
__global__ void readers_then_writer(int *data, u32 *count, int *out) {
    if (blockIdx.x < 2) {
        out[GID] = data[0];                                 /*!*/
        __syncthreads();
        if (TID == 0) {
            REPAIR(__threadfence();)
            atomicAdd(count, 1u);
        }
    } else if (TID == 0) {
        while (atomicAdd(count, 0u) < 2) { }
        __threadfence();
        data[0] = 9;                                        /*!*/
    }
}
__global__ void neighbour_bytes(const int *a, u8 *b) {
    if (threadIdx.x < 4) b[FAULT((threadIdx.x + blockIdx.x * 3)) REPAIR((threadIdx.x + blockIdx.x * 4))] = (u8)a[GID]; /*!*/
}
__global__ void release_before_the_write(int *data, u32 *flag, int *out) {
    if (TID) return;
    if (blockIdx.x == 0) {
        FAULT(__threadfence(); ((volatile u32 *)flag)[0] = 1;)
        data[0] = 42;                                       /*!*/
        REPAIR(__threadfence(); ((volatile u32 *)flag)[0] = 1;)
    } else {
        while (((volatile u32 *)flag)[0] == 0) { }
        __threadfence();
        out[0] = data[0];                                   /*!*/
    }
}
__global__ void another_flag(int *data, u32 *flag, int *out) {
    if (TID) return;
    if (blockIdx.x == 0) {
        atomicExch(&flag[1], 1u);
        data[0] = 42;                                       /*!*/
        __threadfence();
        atomicExch(&flag[0], 1u);
    } else {
        while (atomicAdd(&flag[FAULT(1) REPAIR(0)], 0u) == 0) { }
        __threadfence();
        out[0] = data[0];                                   /*!*/
    }
}
// blocks 0 to 7 read, then tell block 8, which writes; in the faulty build block 5 tells without a fence
__global__ void eight_readers(int *data, u32 *count, int *out) {
    if (TID) return;
    if (blockIdx.x < 8) {
        out[blockIdx.x] = data[0];                          /*!*/
        FAULT(if (blockIdx.x != 5)) __threadfence();
        atomicAdd(count, 1u);
    } else {
        while (atomicAdd(count, 0u) < 8) { }
        __threadfence();
        data[0] = 9;                                        /*!*/
    }
}
// two blocks read what a third writes, and nobody fences
__global__ void two_blocks_read(int *data, int *out) {
    if (TID) return;
    if (blockIdx.x < 2) out[blockIdx.x] = data[0];          /*!*/
    else data[FAULT(0) REPAIR(1)] = 9;                      /*!*/
}
// the block that read first writes, after a barrier of its own threads; another block has read too
__global__ void the_first_reader_writes(int *data, int *out) {
    out[GID] = data[0];                                     /*!*/
    __syncthreads();
    if (GID == 0) data[FAULT(0) REPAIR(1)] = 9;             /*!*/
}
// readers of one block and a writer with a barrier between
__global__ void readers_of_the_block(int *data, int *out) {
    if (blockIdx.x) return;
    out[TID] = data[0];                                     /*!*/
    REPAIR(__syncthreads();)
    if (TID == 40) data[0] = 9;                             /*!*/
}
// bytes of one word are of three blocks; one of them is read elsewhere
__global__ void three_writers_of_a_word(u8 *bytes, int *out) {
    if (TID) return;
    if (blockIdx.x < 3) bytes[blockIdx.x] = 5;              /*!*/
    else out[0] = bytes[FAULT(0) REPAIR(3)];                /*!*/
}
// pixels of three bytes: a word has bytes of two threads
__global__ void pixels(u8 *p, const int *a) {
    for (int c = 0; c < 3; ++c) p[3 * GID + c] += (u8)a[GID]; /*!*/
    FAULT(p[3 * GID + 3] = 1;)                              /*!*/
}
// each thread has a byte, in rows that begin anywhere in a word
__global__ void odd_rows(u8 *p, int width) {
    int i = blockIdx.x * width + TID;
    if (TID < width FAULT(+ 1)) p[i] = (u8)(p[i] + 1 + TID); /*!*/
}
__global__ void pairs_of_bytes(u16 *p, const int *a) {
    p[GID + 1] = (u16)a[GID] + FAULT(p[GID]) REPAIR(p[GID + 1]); /*!*/
}
// the last block of the grid takes the total when its own threads are done; its own atomics come last
__global__ void total_for_the_last_block(const int *a, int *sum, int *out) {
    atomicAdd(sum, a[GID]);                                 /*!*/
    __syncthreads();
    FAULT(if (GID == gridDim.x * blockDim.x - 1) *out = *sum;) /*!*/
    REPAIR(atomicAdd(out, a[GID]);)
}
}
