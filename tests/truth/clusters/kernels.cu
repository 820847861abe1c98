// Clusters, distributed shared memory and mbarriers. Every kernel leaves what NumPy can foretell (tests/engine/test_clusters.py), in whatever order
// blocks run; all of them carry their cluster's dimensions, so that a plain launch makes the clusters. Blocks have 64 threads unless said otherwise.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/ptx>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

__device__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

#define SPECIAL(name) ([] { unsigned v; asm volatile("mov.u32 %0, %%" name ";" : "=r"(v)); return v; }())
// 15 words a block: where it is in its cluster, and its cluster in the grid
extern "C" __global__ void __cluster_dims__(2, 3, 1) places(int *out) {
    if (threadIdx.x) return;
    out += 15 * (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
    out[0] = SPECIAL("clusterid.x"); out[1] = SPECIAL("clusterid.y"); out[2] = SPECIAL("clusterid.z");
    out[3] = SPECIAL("nclusterid.x"); out[4] = SPECIAL("nclusterid.y"); out[5] = SPECIAL("nclusterid.z");
    out[6] = SPECIAL("cluster_ctaid.x"); out[7] = SPECIAL("cluster_ctaid.y"); out[8] = SPECIAL("cluster_ctaid.z");
    out[9] = SPECIAL("cluster_nctaid.x"); out[10] = SPECIAL("cluster_nctaid.y"); out[11] = SPECIAL("cluster_nctaid.z");
    out[12] = SPECIAL("cluster_ctarank"); out[13] = SPECIAL("cluster_nctarank");
    unsigned is; asm volatile("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(is)); out[14] = is;
}

// each block hands its numbers on to the block before it, `rounds` times
extern "C" __global__ void __cluster_dims__(4, 1, 1) ring(const int *in, int *out, int rounds) {
    __shared__ int s[64];
    cg::cluster_group c = cg::this_cluster();
    int t = threadIdx.x, i = blockIdx.x * 64 + t, v = in[i];
    for (int k = 0; k < rounds; k++) {
        s[t] = v;
        c.sync();
        v = c.map_shared_rank(s, (c.block_rank() + 1) % c.num_blocks())[63 - t] + k;
        c.sync();
    }
    out[i] = v;
}

// a histogram whose bins are spread over the blocks of the cluster
extern "C" __global__ void __cluster_dims__(8, 1, 1) histogram(const int *in, int n, int *bins) {
    __shared__ int part[16];
    cg::cluster_group c = cg::this_cluster();
    int t = threadIdx.x;
    if (t < 16) part[t] = 0;
    c.sync();
    for (int i = blockIdx.x * 64 + t; i < n; i += gridDim.x * 64) atomicAdd(c.map_shared_rank(part, in[i] / 16) + in[i] % 16, 1);
    c.sync();
    if (t < 16) atomicAdd(&bins[c.block_rank() * 16 + t], part[t]);
}

// sums of the blocks, gathered by the block of rank 0 while the others stay
extern "C" __global__ void __cluster_dims__(2, 2, 2) sums(const int *in, int *out) {
    __shared__ int s;
    cg::cluster_group c = cg::this_cluster();
    int t = threadIdx.x, b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    if (t == 0) s = 0;
    __syncthreads();
    atomicAdd(&s, in[b * 64 + t]);
    c.sync();
    if (c.block_rank() == 0 && t < c.num_blocks()) {
        dim3 place = c.dim_blocks();
        int x = t % place.x, y = t / place.x % place.y, z = t / (place.x * place.y);
        int other = blockIdx.x + x + gridDim.x * (blockIdx.y + y + gridDim.y * (blockIdx.z + z));
        out[other] = *c.map_shared_rank(&s, t);
    }
    c.sync();
}

// the mean of neighbours, those over the edge of a block being in its neighbour's shared memory; arriving and waiting apart
extern "C" __global__ void __cluster_dims__(4, 1, 1) smooth(const int *in, int *out) {
    __shared__ int s[64];
    cg::cluster_group c = cg::this_cluster();
    int t = threadIdx.x, i = blockIdx.x * 64 + t, r = c.block_rank(), last = c.num_blocks() - 1;
    s[t] = in[i];
    auto token = c.barrier_arrive();
    int own = 2 * in[i];  // work that needs nobody
    c.barrier_wait(static_cast<decltype(token) &&>(token));
    int left = t ? s[t - 1] : r ? c.map_shared_rank(s, r - 1)[63] : 0;
    int right = t < 63 ? s[t + 1] : r < last ? c.map_shared_rank(s, r + 1)[0] : 0;
    out[i] = own + left + right;
    c.sync();
}

// blocks of odd rank, and every other warp of the rest, end at once: the barrier does not wait for them
extern "C" __global__ void __cluster_dims__(4, 1, 1) some_end(int *out) {
    __shared__ int s;
    int r = SPECIAL("cluster_ctarank"), t = threadIdx.x;
    if (r & 1 || t >= 32) return;
    if (t == 0) s = blockIdx.x + 1;
    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
    unsigned a = shared_address(&s), other; int v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(a), "r"(r ^ 2));
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(other) : "memory");
    out[blockIdx.x * 32 + t] = v;
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// words, vectors, bytes and atomics through generic and through .shared::cluster addresses of the other block
extern "C" __global__ void __cluster_dims__(2, 1, 1) reach(const int *in, int *out) {
    __shared__ __align__(16) int s[4 * 64];
    __shared__ int counts[64];
    __shared__ unsigned char bytes[64];
    __shared__ double wide[64];
    __shared__ float sum;
    cg::cluster_group c = cg::this_cluster();
    int t = threadIdx.x, i = blockIdx.x * 64 + t, r = c.block_rank(), o = r ^ 1;
    counts[t] = 0;
    if (t == 0) sum = 0;
    c.sync();
    int4 *v = reinterpret_cast<int4 *>(c.map_shared_rank(s, o));
    v[t] = make_int4(in[i], t, r, blockIdx.x);
    c.map_shared_rank(bytes, o)[63 - t] = (unsigned char)in[i];
    c.map_shared_rank(wide, o)[t] = in[i] * 0.5;
    int *far = c.map_shared_rank(counts, o);
    atomicAdd(&far[t / 2], 1); atomicMax(&far[32 + t % 16], t); atomicExch(&far[48 + t % 8], 7);
    int old = atomicCAS(&far[63], 0, 1);
    atomicAdd(c.map_shared_rank(&sum, o), 0.25f);
    unsigned mapped; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(shared_address(counts)), "r"(o));
    asm volatile("red.release.cluster.shared::cluster.add.s32 [%0], 10;" :: "r"(mapped + 4 * (t / 2)) : "memory");
    c.sync();
    int4 got = reinterpret_cast<int4 *>(s)[t];
    int *p = out + 10 * i;
    p[0] = got.x; p[1] = got.y; p[2] = got.z; p[3] = got.w; p[4] = bytes[t]; p[5] = (int)(wide[t] * 2); p[6] = counts[t]; p[7] = (int)(sum * 4);
    p[8] = c.map_shared_rank(s, o)[4 * t];
    p[9] = old == 0 || old == 1;
    c.sync();
}

// what mapa, getctarank and isspacep say of addresses of this block and of another
extern "C" __global__ void __cluster_dims__(4, 1, 1) addresses(int *out) {
    __shared__ int s[2];
    unsigned r = SPECIAL("cluster_ctarank"), o = (r + 1) % 4, a = shared_address(&s[1]), mapped, own, rank[4], is[8];
    unsigned long long generic = (unsigned long long)&s[1], far, near;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(a), "r"(o));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(own) : "r"(a), "r"(r));
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(far) : "l"(generic), "r"(o));
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(near) : "l"(far), "r"(r));
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(rank[0]) : "r"(a));
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(rank[1]) : "r"(mapped));
    asm volatile("getctarank.u64 %0, %1;" : "=r"(rank[2]) : "l"(generic));
    asm volatile("getctarank.u64 %0, %1;" : "=r"(rank[3]) : "l"(far));
#define IS(k, space, address) asm volatile("{ .reg .pred p; isspacep." space " p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(is[k]) : "l"(address))
    IS(0, "shared::cta", generic); IS(1, "shared::cta", far); IS(2, "shared::cluster", generic); IS(3, "shared::cluster", far);
    IS(4, "global", far); IS(5, "shared", far); IS(6, "local", far); IS(7, "shared::cluster", (unsigned long long)out);
    if (threadIdx.x == 0) { s[0] = 0; s[1] = 100 + r; }
    cg::this_cluster().sync();
    out += 16 * blockIdx.x;
    if (threadIdx.x == 0) {
        for (int k = 0; k < 4; k++) out[k] = rank[k];
        for (int k = 0; k < 8; k++) out[4 + k] = is[k];
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(out[12]) : "r"(mapped) : "memory");
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(out[13]) : "r"(own) : "memory");
        out[14] = *(int *)far; out[15] = *(int *)near;
    }
    cg::this_cluster().sync();
}

// one warp fills two buffers in turn, the other one empties them; mbarriers tell full from empty (by parity)
extern "C" __global__ void pipeline(const int *in, int *out, int rounds) {
    __shared__ int s[2][32];
    __shared__ uint64_t full[2], empty[2];
    int t = threadIdx.x % 32;
    if (threadIdx.x == 0)
        for (int k = 0; k < 2; k++) { ptx::mbarrier_init(&full[k], 32); ptx::mbarrier_init(&empty[k], 32); }
    __syncthreads();
    for (int k = 0; k < rounds; k++) {
        int b = k & 1, turn = k >> 1 & 1;
        if (threadIdx.x < 32) {
            while (!ptx::mbarrier_try_wait_parity(&empty[b], turn ^ 1)) {}
            s[b][t] = in[(blockIdx.x * rounds + k) * 32 + t] * 3;
            ptx::mbarrier_arrive(&full[b]);
        } else {
            while (!ptx::mbarrier_test_wait_parity(&full[b], turn)) {}
            out[(blockIdx.x * rounds + k) * 32 + t] = s[b][31 - t] + k;
            ptx::mbarrier_arrive(&empty[b]);
        }
    }
}

// numbers go round the cluster; whoever has written into the next block's memory arrives at its mbarrier
extern "C" __global__ void __cluster_dims__(4, 1, 1) relay(const int *in, int *out, int rounds) {
    __shared__ int s[2][64];
    __shared__ uint64_t bar;
    cg::cluster_group c = cg::this_cluster();
    int t = threadIdx.x, i = blockIdx.x * 64 + t, next = (c.block_rank() + 1) % c.num_blocks(), v = in[i];
    if (t == 0) { ptx::mbarrier_init(&bar, 64); ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster); }
    c.sync();
    uint64_t *far = c.map_shared_rank(&bar, next);
    for (int k = 0; k < rounds; k++) {
        c.map_shared_rank(s[k & 1], next)[t] = v;
        ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, far);
        while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, k & 1)) {}
        v = s[k & 1][(t + 1) % 64] + 1;
        c.sync();  // nobody writes into a buffer that is still read
    }
    out[i] = v;
}

// counts of arrivals: many at once, dropped ones, those that must not complete a phase, and bytes that are awaited beside them
extern "C" __global__ void counts(int *out) {
    __shared__ uint64_t bar;
    if (threadIdx.x) return;
    unsigned a = shared_address(&bar), n; uint64_t state, first; int k = 0;
    auto waited = [&](uint64_t s) { unsigned p; asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(p) : "r"(a), "l"(s) : "memory"); return p; };
    auto parity = [&](unsigned s) { unsigned p; asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, 0; selp.u32 %0, 1, 0, p; }" : "=r"(p) : "r"(a), "r"(s) : "memory"); return p; };
#define PENDING(state) asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(n) : "l"(state)); out[k++] = n
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 8;" :: "r"(a) : "memory");
    out[k++] = parity(0); out[k++] = parity(1);
    asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 3;" : "=l"(state) : "r"(a) : "memory"); first = state;
    PENDING(state);
    asm volatile("mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %0, [%1], 4;" : "=l"(state) : "r"(a) : "memory");
    PENDING(state);
    out[k++] = waited(first);
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(a) : "memory");  // the eighth
    out[k++] = waited(first); out[k++] = waited(state); out[k++] = parity(0); out[k++] = parity(1);
    asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1], 5;" : "=l"(state) : "r"(a) : "memory");  // 3 are left in this phase and in all later ones
    out[k++] = waited(state);
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 %0, [%1], 3;" : "=l"(state) : "r"(a) : "memory");
    out[k++] = waited(state);
    asm volatile("mbarrier.arrive_drop.noComplete.shared.b64 %0, [%1], 1;" : "=l"(state) : "r"(a) : "memory");
    PENDING(state);
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %0, [%1], 96;" : "=l"(first) : "r"(a) : "memory");
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(a) : "memory");  // all arrivals are there, 96 bytes are not
    out[k++] = waited(first);
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 4;" :: "r"(a) : "memory");
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 60;" :: "r"(a) : "memory");
    out[k++] = waited(first);
    asm volatile("mbarrier.complete_tx.shared::cta.b64 [%0], 40;" :: "r"(a) : "memory");
    out[k++] = waited(first); out[k++] = parity(0); out[k++] = parity(1);
    asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1;" : "=l"(state) : "r"(a) : "memory");
    PENDING(state);  // 2: one more was dropped
    asm volatile("mbarrier.inval.shared::cta.b64 [%0]; mbarrier.init.shared::cta.b64 [%0], 1048575;" :: "r"(a) : "memory");
    asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1048574;" : "=l"(state) : "r"(a) : "memory");
    PENDING(state);
}

// cuda::barrier: all arrive and wait; then half of the threads drop out
extern "C" __global__ void barrier_objects(const int *in, int *out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int s[64];
    int t = threadIdx.x, v = in[blockIdx.x * 64 + t];
    if (t == 0) init(&bar, 64);
    __syncthreads();
    for (int k = 0; k < 5; k++) {
        s[t] = v;
        bar.arrive_and_wait();
        int w = s[(t + 7) % 64];
        auto token = bar.arrive();
        w += k;
        bar.wait(static_cast<decltype(token) &&>(token));
        v = w;
    }
    if (t >= 32) { out[blockIdx.x * 64 + t] = v; bar.arrive_and_drop(); return; }
    for (int k = 0; k < 3; k++) { s[t] = v; bar.arrive_and_wait(); v = s[31 - t] + 1; bar.arrive_and_wait(); }
    out[blockIdx.x * 64 + t] = v;
}

// every block waits for a flag in its own memory that the block before it sets, one after the other around the cluster
extern "C" __global__ void __cluster_dims__(8, 1, 1) flags(int *out) {
    __shared__ int flag, value;
    cg::cluster_group c = cg::this_cluster();
    int r = c.block_rank(), last = c.num_blocks() - 1;
    if (threadIdx.x == 0) flag = 0, value = 1;
    c.sync();
    if (threadIdx.x == 0) {
        int seen = r == 0;
        unsigned a = shared_address(&flag), next;
        while (!seen) asm volatile("ld.acquire.cluster.shared::cta.s32 %0, [%1];" : "=r"(seen) : "r"(a) : "memory");
        if (r < last) {
            *c.map_shared_rank(&value, r + 1) = value * 2 + r;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(next) : "r"(a), "r"(r + 1));
            asm volatile("st.release.cluster.shared::cluster.s32 [%0], 1;" :: "r"(next) : "memory");
        }
        out[blockIdx.x] = value;
    }
    c.sync();
}

// lanes of a warp part, arrive in two branches and meet again
extern "C" __global__ void __cluster_dims__(2, 1, 1) parted(const int *in, int *out) {
    __shared__ int s[64];
    cg::cluster_group c = cg::this_cluster();
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (in[i] & 1) {
        s[t] = in[i] * 5;
        asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    } else {
        s[t] = -in[i];
        asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    }
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
    out[i] = c.map_shared_rank(s, c.block_rank() ^ 1)[t];
    c.sync();
}
