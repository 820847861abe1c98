// The benchmark's yardstick: every kernel of kernels.ptx (the spinning lock aside) as plain C++ loops.
//
// The rule of translation, the same for all of them:
//   * a launch is loops over the blocks, then over the threads of a block, threadIdx.x innermost; the body is the kernel's own;
//   * shared memory is a local array of the block; every barrier ends one loop over the block's threads and begins the next,
//     and what a thread keeps across a barrier lives in an array indexed by the thread;
//   * a loop that strides by the number of threads (grid-stride, block-stride) is turned inside out, so that the thread loop is
//     innermost: thread by thread it would walk the whole array once per thread, which nobody would write on a CPU;
//   * a guard that depends on nothing but the thread's index (`if (t < k)`) is the bound of the thread loop;
//   * warp shuffles and ballots are loops over 32 lanes; atomics are plain updates, since one core runs this;
//   * arithmetic is what the PTX does: std::fma stands where the CUDA compiler fused (one instruction with -march=native).
// Compiled with `g++ -O3 -march=native`, nothing else. No intrinsics, no pragmas for vectorising: what the compiler makes of it.
// Pointers are __restrict, which gives the compiler more than the kernels' signatures do.
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {
using u8 = unsigned char;
using u32 = unsigned int;
using u64 = unsigned long long;
struct Dim {
    int x, y, z;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct float3 {
    float x, y, z;
};
struct uchar3 {
    u8 x, y, z;
};
struct Bond {
    float f0, f1, rate, spread, f4, f5, f6, f7;
};

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }

// A warp's sum by shuffles down: lane 0 holds it afterwards. A lane without a partner adds its own value, as the shuffle gives it.
template <typename T> inline void warp_sum(T *lane) {
    for (int o = 16; o > 0; o >>= 1)
        for (int l = 0; l < 32; ++l)
            lane[l] += l + o < 32 ? lane[l + o] : lane[l];
}

inline u32 reverse_bits(u32 v) {
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(v);
}

const float coef[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                        16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
const float gauss[5] = {0.06136f, 0.24477f, 0.38774f, 0.24477f, 0.06136f};
} // namespace

#define IN(T) const T *__restrict
#define OUT(T) T *__restrict
#define BLOCKS_X for (int bx = 0; bx < grid.x; ++bx)
#define BLOCKS_XY \
    for (int by = 0; by < grid.y; ++by) \
        BLOCKS_X
#define BLOCKS_XYZ \
    for (int bz = 0; bz < grid.z; ++bz) \
        BLOCKS_XY
#define THREADS_X for (int tx = 0; tx < block.x; ++tx)
#define THREADS_XY \
    for (int ty = 0; ty < block.y; ++ty) \
        THREADS_X
#define THREADS_XYZ \
    for (int tz = 0; tz < block.z; ++tz) \
        THREADS_XY
// For kernels whose block has a fixed size.
#define THREADS(N) for (int t = 0; t < (N); ++t)
#define KERNEL(NAME, ...) void NAME(Dim grid, [[maybe_unused]] Dim block, __VA_ARGS__)

extern "C" {
KERNEL(saxpy, float al, IN(float) x, OUT(float) y, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n)
            y[i] = std::fma(al, x[i], y[i]);
    }
}

KERNEL(vec_add, IN(float) a, IN(float) b, OUT(float) c, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n)
            c[i] = a[i] + b[i];
    }
}

KERNEL(saxpy_gridstride, float al, IN(float) x, OUT(float) y, int n) {
    BLOCKS_X for (int i0 = bx * block.x; i0 < n; i0 += grid.x * block.x) THREADS_X {
        int i = i0 + tx;
        if (i < n)
            y[i] = std::fma(al, x[i], y[i]);
    }
}

KERNEL(saxpy_vec4, float al, IN(float4) x, OUT(float4) y, int n4) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n4) {
            float4 a = x[i], b = y[i];
            b.x = std::fma(al, a.x, b.x);
            b.y = std::fma(al, a.y, b.y);
            b.z = std::fma(al, a.z, b.z);
            b.w = std::fma(al, a.w, b.w);
            y[i] = b;
        }
    }
}

KERNEL(strided_read, IN(float) x, OUT(float) y, int n, int stride, int offset) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n)
            y[i] = x[i * stride + offset];
    }
}

KERNEL(broadcast_read, IN(float) x, OUT(float) y, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n)
            y[i] = x[bx] + 1.0f;
    }
}

KERNEL(aos_field, IN(Bond) b, OUT(float) o, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n)
            o[i] = b[i].rate + b[i].spread;
    }
}

KERNEL(soa_field, IN(float) r, IN(float) s, OUT(float) o, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n)
            o[i] = r[i] + s[i];
    }
}

KERNEL(transpose_naive, IN(float) in, OUT(float) out, int w, int h) {
    BLOCKS_XY THREADS_XY {
        int x = bx * 32 + tx, y = by * 32 + ty;
        for (int j = 0; j < 32; j += 8)
            if (x < w && y + j < h)
                out[x * h + y + j] = in[(y + j) * w + x];
    }
}

KERNEL(transpose_tile, IN(float) in, OUT(float) out, int w, int h) {
    BLOCKS_XY {
        float tile[32][32];
        THREADS_XY {
            int x = bx * 32 + tx, y = by * 32 + ty;
            for (int j = 0; j < 32; j += 8)
                if (x < w && y + j < h)
                    tile[ty + j][tx] = in[(y + j) * w + x];
        }
        THREADS_XY {
            int x = by * 32 + tx, y = bx * 32 + ty;
            for (int j = 0; j < 32; j += 8)
                if (x < h && y + j < w)
                    out[(y + j) * h + x] = tile[tx][ty + j];
        }
    }
}

KERNEL(transpose_pad, IN(float) in, OUT(float) out, int w, int h) {
    BLOCKS_XY {
        float tile[32][33];
        THREADS_XY {
            int x = bx * 32 + tx, y = by * 32 + ty;
            for (int j = 0; j < 32; j += 8)
                if (x < w && y + j < h)
                    tile[ty + j][tx] = in[(y + j) * w + x];
        }
        THREADS_XY {
            int x = by * 32 + tx, y = bx * 32 + ty;
            for (int j = 0; j < 32; j += 8)
                if (x < h && y + j < w)
                    out[(y + j) * h + x] = tile[tx][ty + j];
        }
    }
}

KERNEL(reduce_tree, IN(float) in, OUT(float) out, int n) {
    BLOCKS_X {
        float s[256];
        THREADS(256) {
            int i = bx * 256 + t;
            s[t] = i < n ? in[i] : 0.f;
        }
        for (int k = 128; k > 0; k >>= 1)
            THREADS(k)
                s[t] += s[t + k];
        out[bx] = s[0];
    }
}

KERNEL(reduce_interleaved, IN(float) in, OUT(float) out, int n) {
    BLOCKS_X {
        float s[256];
        THREADS(256) {
            int i = bx * 256 + t;
            s[t] = i < n ? in[i] : 0.f;
        }
        for (int k = 1; k < 256; k *= 2)
            for (int t = 0; t < 256; t += 2 * k)
                s[t] += s[t + k];
        out[bx] = s[0];
    }
}

KERNEL(reduce_strided, IN(float) in, OUT(float) out, int n) {
    BLOCKS_X {
        float s[256];
        THREADS(256) {
            int i = bx * 256 + t;
            s[t] = i < n ? in[i] : 0.f;
        }
        for (int k = 1; k < 256; k *= 2)
            THREADS(128 / k) {
                int j = 2 * k * t;
                s[j] += s[j + k];
            }
        out[bx] = s[0];
    }
}

KERNEL(reduce_full, IN(float) in, OUT(float) out, int n) {
    BLOCKS_X {
        float v[256], s[8], last[32];
        THREADS(256)
            v[t] = 0.f;
        for (int i0 = bx * 256; i0 < n; i0 += grid.x * 256)
            THREADS(256) {
                int i = i0 + t;
                if (i < n)
                    v[t] += in[i];
            }
        for (int w = 0; w < 8; ++w) {
            warp_sum(v + 32 * w);
            s[w] = v[32 * w];
        }
        for (int l = 0; l < 32; ++l)
            last[l] = l < 8 ? s[l] : 0.f;
        warp_sum(last);
        out[bx] = last[0];
    }
}

KERNEL(reduce_atomic, IN(int) in, OUT(int) out, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n)
            *out += in[i];
    }
}

KERNEL(scan_blelloch, IN(int) in, OUT(int) out) {
    BLOCKS_X {
        int s[512];
        const int n = 512, b = bx * 512;
        THREADS(256) {
            s[2 * t] = in[b + 2 * t];
            s[2 * t + 1] = in[b + 2 * t + 1];
        }
        for (int k = 1; k < n; k <<= 1)
            THREADS(n / (2 * k)) {
                int j = (t + 1) * 2 * k - 1;
                s[j] += s[j - k];
            }
        s[n - 1] = 0;
        for (int k = n / 2; k > 0; k >>= 1)
            THREADS(n / (2 * k)) {
                int j = (t + 1) * 2 * k - 1;
                int c = s[j];
                s[j] = c + s[j - k];
                s[j - k] = c;
            }
        THREADS(256) {
            out[b + 2 * t] = s[2 * t];
            out[b + 2 * t + 1] = s[2 * t + 1];
        }
    }
}

KERNEL(hist_global, IN(u8) d, OUT(int) h, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n)
            h[d[i]] += 1;
    }
}

KERNEL(hist_private, IN(u8) d, OUT(int) h, int n) {
    BLOCKS_X {
        int s[256];
        THREADS(256)
            s[t] = 0;
        for (int i0 = bx * 256; i0 < n; i0 += grid.x * 256)
            THREADS(256) {
                int i = i0 + t;
                if (i < n)
                    s[d[i]] += 1;
            }
        THREADS(256) {
            if (s[t])
                h[t] += s[t];
        }
    }
}

KERNEL(sgemm_naive, IN(float) A, IN(float) B, OUT(float) C, int N) {
    BLOCKS_XY THREADS_XY {
        int i = by * block.y + ty, j = bx * block.x + tx;
        float s = 0;
        for (int k = 0; k < N; ++k)
            s = std::fma(A[i * N + k], B[k * N + j], s);
        C[i * N + j] = s;
    }
}

KERNEL(sgemm_swapped, IN(float) A, IN(float) B, OUT(float) C, int N) {
    BLOCKS_XY THREADS_XY {
        int j = by * block.y + ty, i = bx * block.x + tx;
        float s = 0;
        for (int k = 0; k < N; ++k)
            s = std::fma(A[i * N + k], B[k * N + j], s);
        C[i * N + j] = s;
    }
}

KERNEL(sgemm_tiled, IN(float) A, IN(float) B, OUT(float) C, int N) {
    BLOCKS_XY {
        float a[16][17], b[16][17], s[16][16] = {};
        for (int k0 = 0; k0 < N; k0 += 16) {
            for (int ty = 0; ty < 16; ++ty)
                for (int tx = 0; tx < 16; ++tx) {
                    int r = by * 16 + ty, c = bx * 16 + tx;
                    a[ty][tx] = A[r * N + k0 + tx];
                    b[ty][tx] = B[(k0 + ty) * N + c];
                }
            for (int ty = 0; ty < 16; ++ty)
                for (int tx = 0; tx < 16; ++tx)
                    for (int k = 0; k < 16; ++k)
                        s[ty][tx] = std::fma(a[ty][k], b[k][tx], s[ty][tx]);
        }
        for (int ty = 0; ty < 16; ++ty)
            for (int tx = 0; tx < 16; ++tx)
                C[(by * 16 + ty) * N + bx * 16 + tx] = s[ty][tx];
    }
}

KERNEL(sgemm_regtile, IN(float) A, IN(float) B, OUT(float) C, int N) {
    BLOCKS_XY {
        float a[16][17], b[16][17], acc[8][8][2][2] = {};
        for (int k0 = 0; k0 < N; k0 += 16) {
            for (int ty = 0; ty < 8; ++ty)
                for (int tx = 0; tx < 8; ++tx)
                    for (int r = 0; r < 2; ++r)
                        for (int c = 0; c < 2; ++c) {
                            int r0 = by * 16 + ty * 2, c0 = bx * 16 + tx * 2;
                            a[ty * 2 + r][tx * 2 + c] = A[(r0 + r) * N + k0 + tx * 2 + c];
                            b[ty * 2 + r][tx * 2 + c] = B[(k0 + ty * 2 + r) * N + c0 + c];
                        }
            for (int ty = 0; ty < 8; ++ty)
                for (int tx = 0; tx < 8; ++tx)
                    for (int k = 0; k < 16; ++k) {
                        float x0 = a[ty * 2][k], x1 = a[ty * 2 + 1][k], y0 = b[k][tx * 2], y1 = b[k][tx * 2 + 1];
                        float(&own)[2][2] = acc[ty][tx];
                        own[0][0] = std::fma(x0, y0, own[0][0]);
                        own[0][1] = std::fma(x0, y1, own[0][1]);
                        own[1][0] = std::fma(x1, y0, own[1][0]);
                        own[1][1] = std::fma(x1, y1, own[1][1]);
                    }
        }
        for (int ty = 0; ty < 8; ++ty)
            for (int tx = 0; tx < 8; ++tx)
                for (int r = 0; r < 2; ++r)
                    for (int c = 0; c < 2; ++c)
                        C[(by * 16 + ty * 2 + r) * N + bx * 16 + tx * 2 + c] = acc[ty][tx][r][c];
    }
}

KERNEL(conv2d_naive, IN(float) in, int, int iw, IN(float) k, int kh, int kw, OUT(float) o, int oh, int ow) {
    BLOCKS_XY THREADS_XY {
        int r = by * block.y + ty, c = bx * block.x + tx;
        if (r >= oh || c >= ow)
            continue;
        float s = 0;
        for (int a = 0; a < kh; a++)
            for (int b = 0; b < kw; b++)
                s = std::fma(in[(r + a) * iw + c + b], k[a * kw + b], s);
        o[r * ow + c] = s;
    }
}

KERNEL(conv2d_tiled, IN(float) in, int ih, int iw, IN(float) k, OUT(float) o, int oh, int ow) {
    BLOCKS_XY {
        float t[18 * 18];
        THREADS_XY {
            int ir = by * 16 + ty, ic = bx * 16 + tx;
            t[ty * 18 + tx] = (ir < ih && ic < iw) ? in[ir * iw + ic] : 0.f;
        }
        for (int ty = 0; ty < 16; ++ty)
            for (int tx = 0; tx < 16; ++tx) {
                int ir = by * 16 + ty, ic = bx * 16 + tx;
                if (ir >= oh || ic >= ow)
                    continue;
                float s = 0;
                for (int a = 0; a < 3; a++)
                    for (int b = 0; b < 3; b++)
                        s = std::fma(t[(ty + a) * 18 + tx + b], k[a * 3 + b], s);
                o[ir * ow + ic] = s;
            }
    }
}

KERNEL(rgb_to_gray, IN(uchar3) p, OUT(float) g, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n) {
            uchar3 q = p[i];
            g[i] = std::fma((float)q.z, 0.114f, std::fma((float)q.x, 0.299f, 0.587f * q.y));
        }
    }
}

KERNEL(blur_h, IN(float) in, OUT(float) o, int w, int h) {
    BLOCKS_XY THREADS_XY {
        int x = bx * block.x + tx, y = by * block.y + ty;
        if (x < w && y < h) {
            float s = 0;
            for (int t = -2; t <= 2; t++) {
                int c = min(max(x + t, 0), w - 1);
                s = std::fma(gauss[t + 2], in[y * w + c], s);
            }
            o[y * w + x] = s;
        }
    }
}

KERNEL(blur_v, IN(float) in, OUT(float) o, int w, int h) {
    BLOCKS_XY THREADS_XY {
        int x = bx * block.x + tx, y = by * block.y + ty;
        if (x < w && y < h) {
            float s = 0;
            for (int t = -2; t <= 2; t++) {
                int c = min(max(y + t, 0), h - 1);
                s = std::fma(gauss[t + 2], in[c * w + x], s);
            }
            o[y * w + x] = s;
        }
    }
}

KERNEL(sobel, IN(float) in, OUT(float) o, int w, int h) {
    BLOCKS_XY THREADS_XY {
        int x = bx * block.x + tx, y = by * block.y + ty;
        if (x < w && y < h) {
            int xm = max(x - 1, 0), xp = min(x + 1, w - 1), ym = max(y - 1, 0), yp = min(y + 1, h - 1);
            const float *a = in + ym * w, *b = in + y * w, *c = in + yp * w;
            float gx = (a[xp] + std::fma(2.f, b[xp], c[xp])) - (a[xm] + std::fma(2.f, b[xm], c[xm])),
                  gy = (c[xp] + std::fma(2.f, c[x], c[xm])) - (a[xp] + std::fma(2.f, a[x], a[xm]));
            o[y * w + x] = std::sqrt(std::fma(gx, gx, gy * gy));
        }
    }
}

KERNEL(branch_parity, IN(float) x, OUT(float) y, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n) {
            float v = x[i];
            if (tx & 1) {
                for (int k = 0; k < 40; k++)
                    v = std::fma(v, 1.0001f, 0.5f);
            } else {
                for (int k = 0; k < 40; k++)
                    v = std::fma(v, 0.9999f, -0.25f);
            }
            y[i] = v;
        }
    }
}

KERNEL(branch_block, IN(float) x, OUT(float) y, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n) {
            float v = x[i];
            if (bx & 1) {
                for (int k = 0; k < 40; k++)
                    v = std::fma(v, 1.0001f, 0.5f);
            } else {
                for (int k = 0; k < 40; k++)
                    v = std::fma(v, 0.9999f, -0.25f);
            }
            y[i] = v;
        }
    }
}

KERNEL(loop_triangle, IN(float) x, OUT(float) y, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n) {
            float s = 0;
            for (int k = 0; k <= (i & 31); k++)
                s += x[(i & ~31) + k];
            y[i] = s;
        }
    }
}

KERNEL(collatz, OUT(int) y, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n) {
            u32 v = i + 1;
            int c = 0;
            while (v != 1) {
                v = (v & 1) ? 3 * v + 1 : v >> 1;
                c++;
            }
            y[i] = c;
        }
    }
}

KERNEL(const_broadcast, IN(float) x, OUT(float) y, int n, int c) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n)
            y[i] = x[i] * coef[c];
    }
}

KERNEL(const_divergent, IN(float) x, OUT(float) y, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n)
            y[i] = x[i] * coef[tx & 31];
    }
}

KERNEL(local_array, IN(int) idx, OUT(int) y, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n) {
            int a[16];
            for (int k = 0; k < 16; k++)
                a[k] = i * k;
            int s = 0;
            for (int k = 0; k < 8; k++)
                s += a[idx[(i * 8 + k)] & 15];
            y[i] = s;
        }
    }
}

KERNEL(shared_f64, IN(double) x, OUT(double) y) {
    BLOCKS_X {
        double s[256];
        THREADS(256)
            s[t] = x[bx * 256 + t];
        THREADS(256)
            y[bx * 256 + t] = s[255 - t] + s[(t * 2) & 255];
    }
}

KERNEL(shared_f128, IN(float4) x, OUT(float4) y) {
    BLOCKS_X {
        float4 s[256];
        THREADS(256)
            s[t] = x[bx * 256 + t];
        THREADS(256)
            y[bx * 256 + t] = s[(t * 3) & 255];
    }
}

KERNEL(shared_bytes, IN(u8) x, OUT(u8) y) {
    BLOCKS_X {
        u8 s[256];
        THREADS(256)
            s[t] = x[bx * 256 + t];
        THREADS(256)
            y[bx * 256 + t] = s[255 - t] ^ s[(t * 4) & 255];
    }
}

KERNEL(shared_stride, IN(float) x, OUT(float) y, int st) {
    BLOCKS_X {
        float s[2048];
        for (int k0 = 0; k0 < 2048; k0 += 256)
            THREADS(256)
                s[k0 + t] = x[k0 + t];
        THREADS(256)
            y[bx * 256 + t] = s[(t * st) & 2047];
    }
}

KERNEL(shared_atomic, IN(int) x, OUT(int) y, int n) {
    BLOCKS_X {
        int s[32];
        THREADS(32)
            s[t] = 0;
        THREADS_X {
            int i = bx * block.x + tx;
            if (i < n)
                s[x[i] & 31] += 1;
        }
        THREADS(32)
            y[t] += s[t];
    }
}

KERNEL(ballot_compact, IN(int) x, OUT(int) y, OUT(int) cnt, int n) {
    BLOCKS_X for (int w = 0; w < block.x; w += 32) {
        bool p[32];
        u32 m = 0;
        for (int l = 0; l < 32; ++l) {
            int i = bx * block.x + w + l;
            p[l] = i < n && x[i] > 0;
            m |= (u32)p[l] << l;
        }
        int base = *cnt;
        if (m)
            *cnt += __builtin_popcount(m);
        for (int l = 0; l < 32; ++l)
            if (p[l])
                y[base + __builtin_popcount(m & ((1u << l) - 1))] = 1;
    }
}

KERNEL(partial_block, IN(float) x, OUT(float) y, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n)
            y[i] = x[i] * 2.0f;
    }
}

KERNEL(volume3d, IN(float) x, OUT(float) y, int d, int h, int w) {
    BLOCKS_XYZ THREADS_XYZ {
        int c = bx * block.x + tx, b = by * block.y + ty, a = bz * block.z + tz;
        if (a < d && b < h && c < w)
            y[(a * h + b) * w + c] = x[(a * h + b) * w + c] + a + 10 * b + 100 * c;
    }
}

KERNEL(bitonic_block, OUT(int) x) {
    BLOCKS_X {
        int s[512], b = bx * 512;
        THREADS(256) {
            s[t] = x[b + t];
            s[t + 256] = x[b + t + 256];
        }
        for (int k = 2; k <= 512; k <<= 1)
            for (int j = k >> 1; j > 0; j >>= 1)
                THREADS(256) {
                    int i = 2 * t - (t & (j - 1));
                    int up = ((i & k) == 0);
                    int p = s[i], q = s[i + j];
                    if ((p > q) == up) {
                        s[i] = q;
                        s[i + j] = p;
                    }
                }
        THREADS(256) {
            x[b + t] = s[t];
            x[b + t + 256] = s[t + 256];
        }
    }
}

KERNEL(nbody_tile, IN(float4) p, OUT(float3) a, int n) {
    BLOCKS_X {
        float4 s[128];
        float ax[128] = {}, ay[128] = {}, az[128] = {};
        for (int t0 = 0; t0 < n; t0 += 128) {
            THREADS(128)
                s[t] = p[t0 + t];
            THREADS(128) {
                float4 q = p[bx * 128 + t];
                float x = ax[t], y = ay[t], z = az[t];
                for (int k = 0; k < 128; k++) {
                    float dx = s[k].x - q.x, dy = s[k].y - q.y, dz = s[k].z - q.z;
                    float r = 1.0f / std::sqrt(std::fma(dz, dz, std::fma(dx, dx, dy * dy)) + 0.01f);
                    float f = s[k].w * r * r * r;
                    x = std::fma(f, dx, x);
                    y = std::fma(f, dy, y);
                    z = std::fma(f, dz, z);
                }
                ax[t] = x;
                ay[t] = y;
                az[t] = z;
            }
        }
        THREADS(128)
            a[bx * 128 + t] = float3{ax[t], ay[t], az[t]};
    }
}

// The CUDA compiler keeps zx² and zy² and fuses neither into the sums; g++ would, and then some pixels near the set differ.
__attribute__((optimize("fp-contract=off"))) KERNEL(mandelbrot, OUT(u8) o, int w, int h, int it) {
    BLOCKS_XY THREADS_XY {
        int x = bx * block.x + tx, y = by * block.y + ty;
        if (x < w && y < h) {
            float cx = -2.f + 3.f * x / w, cy = -1.f + 2.f * y / h, zx = 0, zy = 0;
            int k = 0;
            while (k < it && zx * zx + zy * zy < 4.f) {
                float t = zx * zx - zy * zy + cx;
                zy = __builtin_fmaf(2 * zx, zy, cy);
                zx = t;
                k++;
            }
            o[y * w + x] = k;
        }
    }
}

KERNEL(dyn_shared, IN(float) x, OUT(float) y) {
    BLOCKS_X {
        float d[1024]; // a block has 1,024 threads at most
        THREADS_X
            d[tx] = x[bx * block.x + tx];
        THREADS_X
            y[bx * block.x + tx] = d[block.x - 1 - tx];
    }
}

KERNEL(daxpy, double al, IN(double) x, OUT(double) y, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n)
            y[i] = std::fma(al, x[i], y[i]);
    }
}

KERNEL(hash64, IN(u64) x, OUT(u64) y, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n) {
            u64 v = x[i];
            v ^= v >> 33;
            v *= 0xff51afd7ed558ccdULL;
            v ^= v >> 33;
            v *= 0xc4ceb9fe1a85ec53ULL;
            v ^= v >> 33;
            y[i] = v;
        }
    }
}

KERNEL(math_mix, IN(float) x, OUT(float) y, int n) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n) {
            float v = x[i];
            y[i] = std::sin(v) + std::exp(-v) + std::log(v + 1.f) + std::pow(v, 1.5f) + std::tanh(v) + std::exp(v) +
                   1.0f / std::sqrt(v + 1.f) + v / 3.f;
        }
    }
}

KERNEL(int_divmod, IN(int) x, OUT(int) y, int n, int d) {
    BLOCKS_X THREADS_X {
        int i = bx * block.x + tx;
        if (i < n) {
            int v = x[i];
            u32 u = v; // sums wrap, as on the device
            y[i] = (int)((u32)(v / d) + (u32)(v % 7) + (u32)(v >> 3) + (u ? __builtin_clz(u) : 32) + reverse_bits(u) + __builtin_popcount(u) + __builtin_ffs(v));
        }
    }
}

KERNEL(dot_double_atomic, IN(float) x, IN(float) y, OUT(double) o, int n) {
    BLOCKS_X {
        double s[1024];
        THREADS_X
            s[tx] = 0;
        for (int i0 = bx * block.x; i0 < n; i0 += grid.x * block.x)
            THREADS_X {
                int i = i0 + tx;
                if (i < n)
                    s[tx] = std::fma((double)x[i], (double)y[i], s[tx]);
            }
        for (int w = 0; w < block.x; w += 32) {
            warp_sum(s + w);
            *o += s[w];
        }
    }
}
}
