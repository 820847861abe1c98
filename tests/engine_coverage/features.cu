// What device code of CUDA C++ is made of: classes, templates, bit tricks, intrinsics, calls. One output array a kernel.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define THREAD int t = threadIdx.x + blockIdx.x * blockDim.x, n = gridDim.x * blockDim.x

struct Vector3 {
  float x, y, z;
  __device__ Vector3 operator+(const Vector3 &o) const { return {x + o.x, y + o.y, z + o.z}; }
  __device__ float dot(const Vector3 &o) const { return x * o.x + y * o.y + z * o.z; }
};
template <typename T, int N> struct Polynomial {
  T c[N];
  __device__ T operator()(T x) const {
    T r = 0;
#pragma unroll
    for (int i = N - 1; i >= 0; --i) r = r * x + c[i];
    return r;
  }
};
template <typename F> __device__ int folded(F f, int n, int start) {
  for (int i = 0; i < n; ++i) start = f(start, i);
  return start;
}
union Word {
  float f;
  unsigned u;
  unsigned char b[4];
};
struct Fields {
  unsigned a : 5;
  int b : 7;
  unsigned c : 20;
};

extern "C" __global__ void lambdas(const int *in, int *out) {
  THREAD;
  int bias = in[n - 1 - t];
  auto mix = [bias, t](int a, int i) { return a * 31 + (i ^ bias) - t; };
  out[t] = folded(mix, 1 + (t & 7), in[t]);
}

extern "C" __global__ void classes(const float *in, float *out) {
  THREAD;
  Polynomial<float, 4> p = {{1.5f, -2.f, 0.25f, in[n - 1 - t]}};
  Vector3 v = {in[t], p(in[t]), 3.f}, w = v + Vector3{1.f, 2.f, in[t]};
  out[t] = v.dot(w);
}

extern "C" __global__ void unions(const float *in, unsigned *out) {
  THREAD;
  Word w;
  w.f = in[t];
  w.b[t & 3] ^= 0x5a;
  out[t] = w.u + w.b[(t + 1) & 3];
}

extern "C" __global__ void bitfields(const int *in, int *out) {
  THREAD;
  Fields f;
  f.a = in[t];
  f.b = in[t] >> 3;
  f.c = in[t] * 7;
  f.b += f.a;
  out[t] = f.a + f.b * 3 + f.c;
}

extern "C" __global__ void wide_integers(const long long *in, unsigned long long *out) {
  THREAD;
  __int128 a = in[t], b = in[t] ^ 0x123456789abcdefLL, p = a * b + 12345;
  unsigned __int128 q = (unsigned __int128)p;
  q ^= q << (t & 127);
  out[t] = (unsigned long long)q, out[n + t] = (unsigned long long)(q >> 64);
}

extern "C" __global__ void wide_division(const long long *in, long long *out) {
  THREAD;
  __int128 a = (__int128)in[t] * 1000003, d = in[t] / 3 + 7;
  unsigned __int128 u = (unsigned __int128)a, v = 77777777777ull + t;
  out[t] = (long long)(a / d), out[n + t] = (long long)(a % d), out[2 * n + t] = (long long)(u / v), out[3 * n + t] = (long long)(u % v);
}

// Products and sums that must not become one fma are written as _rn intrinsics.
extern "C" __global__ void halves(const float *in, float *out) {
  THREAD;
  __half h = __float2half(in[t]), k = __float2half(in[n - 1 - t]);
  __half2 p = __halves2half2(h, k), q = __hfma2(p, p, __lowhigh2highlow(p));
  out[t] = __low2float(q) - __high2float(q);
  out[n + t] = __half2float(__hadd_rn(hsin(h), __hmul_rn(hexp(__hmin(h, __float2half(1.f))), hlog2(__habs(k)))));
  out[2 * n + t] = __half2float(__hsub_rn(__hdiv(hsqrt(__habs(h)), __hadd_rn(k, h)), hrcp(k))) + (__hgt(h, k) ? 1.f : 0.f);
  out[3 * n + t] = __half2float(__hmax_nan(h, __hsub_sat(k, h))) + __half2int_rz(__hmul_rn(h, __int2half_rn(t))) + float(__half_as_ushort(htanh_approx(k)) >> 8);
}

extern "C" __global__ void bfloats(const float *in, float *out) {
  THREAD;
  __nv_bfloat16 h = __float2bfloat16(in[t]), k = __float2bfloat16_rz(in[n - 1 - t]);
  __nv_bfloat162 p = __halves2bfloat162(h, k), q = __hfma2(p, p, __lowhigh2highlow(p));
  out[t] = __low2float(q) - __high2float(q);
  out[n + t] = __bfloat162float(__hsub_rn(__hmul_rn(h, k), h));
  out[2 * n + t] = __bfloat162float(hexp2(h)) + __bfloat162float(__hmin(h, k));
  out[3 * n + t] = __bfloat162float(__hdiv(h, k)) + (__hle(h, k) ? 2.f : 0.f);
}

#define PUT(expression) out[k++ * n + t] = (unsigned)(expression)
extern "C" __global__ void integer_intrinsics(const int *in, unsigned *out) {
  THREAD;
  int k = 0, s = in[t], r = in[n - 1 - t];
  unsigned a = s, b = r, c = a * 2654435761u + t;
  unsigned long long l = (unsigned long long)a << 32 | b;
  PUT(__byte_perm(a, b, c)); PUT(__funnelshift_l(a, b, t)); PUT(__funnelshift_r(a, b, t)); PUT(__funnelshift_lc(a, b, t)); PUT(__funnelshift_rc(a, b, t));
  PUT(__sad(s, r, c)); PUT(__usad(a, b, c)); PUT(__brev(a)); PUT(__brevll(l) >> 16); PUT(__clz(a >> (t & 31))); PUT(__clzll(l >> (t & 63)));
  PUT(__popc(a)); PUT(__popcll(l)); PUT(__ffs(a << (t & 31))); PUT(__ffsll(l << (t & 63))); PUT(__mulhi(s, r)); PUT(__umulhi(a, b));
  PUT(__mul64hi((long long)l, (long long)c) >> 32); PUT(__umul64hi(l, l) >> 7); PUT(__mul24(s, r)); PUT(__umul24(a, b)); PUT(__hadd(s, r)); PUT(__rhadd(s, r));
  PUT(__uhadd(a, b)); PUT(__urhadd(a, b)); PUT(__dp4a(s, r, (int)c)); PUT(__dp4a(a, b, c)); PUT(__dp2a_lo(s, r, (int)c)); PUT(__dp2a_hi(a, b, c));
  PUT(s / (r | 1)); PUT(s % (r | 1)); PUT(a / (b | 1)); PUT(a % (b | 1)); PUT(a << (t & 31)); PUT(s >> (t & 31)); PUT(abs(s)); PUT(min(s, r)); PUT(max(a, b));
  PUT(l / (c | 1)); PUT((long long)l % (long long)(b | 1));
}

extern "C" __global__ void video_intrinsics(const int *in, unsigned *out) {
  THREAD;
  int k = 0;
  unsigned a = in[t], b = in[n - 1 - t], c = a ^ (b << 3);
  PUT(__vadd2(a, b)); PUT(__vadd4(a, b)); PUT(__vaddss2(a, b)); PUT(__vaddss4(a, b)); PUT(__vaddus2(a, b)); PUT(__vaddus4(a, b)); PUT(__vsub2(a, b)); PUT(__vsub4(a, b));
  PUT(__vsubss4(a, b)); PUT(__vsubus4(a, b)); PUT(__vabs2(a)); PUT(__vabs4(a)); PUT(__vabsss4(a)); PUT(__vneg4(a)); PUT(__vnegss2(a)); PUT(__vabsdiffs2(a, b));
  PUT(__vabsdiffs4(a, b)); PUT(__vabsdiffu2(a, b)); PUT(__vabsdiffu4(a, b)); PUT(__vavgs2(a, b)); PUT(__vavgs4(a, b)); PUT(__vavgu2(a, b)); PUT(__vavgu4(a, b)); PUT(__vhaddu4(a, b));
  PUT(__vmaxs2(a, b)); PUT(__vmaxs4(a, b)); PUT(__vmaxu2(a, b)); PUT(__vmaxu4(a, b)); PUT(__vmins2(a, b)); PUT(__vmins4(a, b)); PUT(__vminu2(a, b)); PUT(__vminu4(a, b));
  PUT(__vseteq2(a, b)); PUT(__vseteq4(a, b)); PUT(__vsetgts2(a, b)); PUT(__vsetgtu4(a, b)); PUT(__vsetles4(a, b)); PUT(__vsetltu2(a, b)); PUT(__vcmpeq4(a, c)); PUT(__vcmpges2(a, b));
  PUT(__vcmpgeu4(a, b)); PUT(__vcmpgts4(a, b)); PUT(__vcmpleu2(a, b)); PUT(__vcmplts4(a, b)); PUT(__vcmpne4(a, c)); PUT(__vsads2(a, b)); PUT(__vsads4(a, b)); PUT(__vsadu2(a, b));
  PUT(__vsadu4(a, b)); PUT(__viaddmax_s32(a, b, c)); PUT(__viaddmin_u32(a, b, c)); PUT(__vimax3_s32(a, b, c)); PUT(__vimin3_u32(a, b, c)); PUT(__vimax_s32_relu(a, b));
  PUT(__viaddmax_s16x2(a, b, c)); PUT(__viaddmin_u16x2(a, b, c)); PUT(__vimax3_s16x2(a, b, c)); PUT(__vimin_s16x2_relu(a, b));
  PUT(__vaddss2(c, a)); PUT(__vsubss2(a, c)); PUT(__vnegss4(a)); PUT(__vsubus2(a, b)); PUT(__vcmpltu2(c, b));
}

#define CARRY(text) asm volatile("{ .reg .u32 x; .reg .u64 p, q; " text " }" : "=r"(d) : "r"(a), "r"(c)); PUT(d)
extern "C" __global__ void carries(const int *in, unsigned *out) {
  THREAD;
  int k = 0;
  unsigned a = in[t], b = in[n - 1 - t], c = t & 1 ? a : b, d;
  CARRY("add.cc.u32 x, %1, %2; addc.u32 %0, 0, 0;");
  CARRY("add.cc.u32 x, %1, %2; subc.u32 %0, 0, 0;");
  CARRY("sub.cc.u32 x, %1, %2; addc.u32 %0, 0, 0;");
  CARRY("sub.cc.u32 x, %1, %2; subc.u32 %0, 0, 0;");
  CARRY("sub.cc.u32 x, %1, %2; madc.lo.u32 %0, %1, %2, 0;");
  CARRY("mad.lo.cc.u32 x, %1, %2, %2; subc.u32 %0, 7, 0;");
  CARRY("sub.cc.u32 x, %1, %2; subc.cc.u32 x, 0, 0; addc.u32 %0, 0, 0;");
  CARRY("sub.cc.u32 x, %1, %2; addc.cc.u32 x, -1, 0; subc.u32 %0, 0, 0;");
  CARRY("add.cc.u32 x, %1, %2; subc.cc.u32 x, 0, 0; subc.u32 %0, 0, 0;");
  CARRY("cvt.u64.u32 p, %1; cvt.u64.u32 q, %2; sub.cc.u64 p, p, q; addc.u64 q, 0, 0; cvt.u32.u64 %0, q;");
  CARRY("mov.b64 p, {%1, %1}; mov.b64 q, {%2, %2}; add.cc.u64 p, p, q; subc.u64 q, 0, 0; cvt.u32.u64 %0, q;");
  CARRY("sub.cc.u32 x, %1, %2; madc.hi.cc.u32 x, %1, %2, 0; addc.u32 %0, 0, 0;");
}

struct Mixed {
  char tag;
  short pair[3];
  int number;
  double real;
  unsigned char bytes[13];
};
struct Results {
  int a;
  short b;
  long long c;
};
__device__ __noinline__ Results summed(Mixed m, int i) {
  Results r;
  r.a = m.tag + m.pair[i % 3] + m.bytes[i % 13], r.b = (short)(m.number >> 4), r.c = (long long)(m.real * 8) + m.bytes[12];
  return r;
}
__device__ __noinline__ int indexed(Mixed m, int i) { return ((unsigned char *)&m)[24 + i % 13] * 3 + i; }
__device__ __noinline__ void swapped(Mixed *m, int &n) {
  short s = m->pair[0];
  m->pair[0] = m->pair[2], m->pair[2] = s, n += s;
}
__device__ __noinline__ char narrow(char c, short s, bool flag, unsigned char u) { return flag ? c + u : s >> 3; }
extern "C" __global__ void passed_by_value(const int *in, int *out) {
  THREAD;
  Mixed m;
  memset(&m, 0, sizeof m);
  int v = in[t];
  m.tag = (char)v, m.pair[0] = (short)(v >> 5), m.pair[1] = (short)(v >> 9), m.pair[2] = (short)t, m.number = v ^ 77, m.real = v / 16.0;
  for (int i = 0; i < 13; ++i) m.bytes[i] = (unsigned char)(v >> i);
  Results r = summed(m, t);
  out[t] = r.a, out[n + t] = r.b, out[2 * n + t] = (int)(r.c ^ r.c >> 32);
  out[3 * n + t] = indexed(m, t * 5);
  swapped(&m, v);
  out[4 * n + t] = v + m.pair[0];
  out[5 * n + t] = narrow((char)v, (short)v, v & 1, (unsigned char)(v >> 8));
}

__constant__ int primes[16] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};
__device__ const short squares[8] = {0, 1, 4, 9, 16, 25, 36, 49};
__device__ int counter;
extern "C" __global__ void tables(const int *in, int *out) {
  THREAD;
  __shared__ int shared[32];
  int local[20];
  for (int i = 0; i < 20; ++i) local[i] = in[(t + i) % n] + i;
  shared[threadIdx.x] = in[t];
  __syncthreads();
  out[t] = primes[in[t] & 15] * squares[in[t] >> 4 & 7];
  out[n + t] = local[(unsigned)in[t] % 20] - local[t % 20];
  int *either = in[t] & 1 ? &shared[(t * 7) & 31] : &local[t % 20];
  out[2 * n + t] = *either;
  __syncthreads();
  *either += 3;
  out[3 * n + t] = local[t % 20] - (atomicAdd(&counter, 0) & 0);
}

__device__ const char *names[] = {"zero", "one", "two", "three"};
extern "C" __global__ void strings(const int *in, int *out) {
  THREAD;
  const char *s = names[in[t] & 3];
  char buffer[24];
  int length = 0, h = 5381;
  for (; s[length]; ++length) h = h * 33 ^ s[length];
  memcpy(buffer, s, length + 1);
  memset(buffer + length, '!', 3);
  memcpy(buffer + 12, buffer, 10);
  for (int i = 0; i < length; ++i) h += buffer[12 + i] << i;
  out[t] = length, out[n + t] = h, out[2 * n + t] = buffer[length + 1];
}

extern "C" __global__ void converts(const double *in, long long *out) {
  THREAD;
  double d = in[t] * (1ll << (t & 63));
  float f = (float)d;
  out[t] = (int)d, out[n + t] = (unsigned)d, out[2 * n + t] = (long long)d, out[3 * n + t] = (long long)(unsigned long long)f;
  out[4 * n + t] = (signed char)f, out[5 * n + t] = (unsigned short)d, out[6 * n + t] = __double_as_longlong((double)(long long)d + (float)(unsigned)f);
  out[7 * n + t] = __double2hiint(d) ^ (long long)__double2loint(d) << 8 ^ __float_as_int(__int2float_rz((int)f));
}

extern "C" __global__ void inline_assembly(const int *in, unsigned *out) {
  THREAD;
  int k = 0;
  unsigned a = in[t], b = in[n - 1 - t], d;
  asm("{\n .reg .u32 t1; .reg .pred p; setp.lt.u32 p, %1, %2; @p add.u32 t1, %1, 1; @!p sub.u32 t1, %2, 1; mov.u32 %0, t1; }" : "=r"(d) : "r"(a), "r"(b)); PUT(d);
  asm("{ .reg .u32 t1; mul.lo.u32 t1, %1, %1; { .reg .u32 t1; mov.u32 t1, 5; add.u32 %0, t1, %2; } add.u32 %0, %0, t1; }" : "=&r"(d) : "r"(a), "r"(b)); PUT(d);
  asm("{ .reg .pred p; setp.gt.s32 p, %1, 0; mov.u32 %0, 1; @p bra DONE; mov.u32 %0, 2; DONE: }" : "=&r"(d) : "r"(a)); PUT(d);
  asm("{ .reg .pred p; setp.gt.s32 p, %1, 9; mov.u32 %0, 3; @p bra DONE; mov.u32 %0, 4; DONE: }" : "=&r"(d) : "r"(b)); PUT(d);
  asm("vadd.s32.u32.s32.sat %0, %1.b3, %2.h0, %1;" : "=r"(d) : "r"(a), "r"(b)); PUT(d);
  asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %1;" : "=r"(d) : "r"(a), "r"(b)); PUT(d);
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(d) : "r"(a), "r"(b), "r"(t)); PUT(d);
  asm("bfe.u32 %0, %1, %2, 40;" : "=r"(d) : "r"(a), "r"(t)); PUT(d);
  asm("mov.u32 %0, %%laneid;" : "=r"(d)); PUT(d);
  asm("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %1; mov.b32 %0, {hi, lo}; }" : "=r"(d) : "r"(a)); PUT(d);
}

extern "C" __global__ void warps(const int *in, int *out) {
  THREAD;
  int k = 0, v = in[t];
  PUT(__shfl_xor_sync(~0u, v, 5)); PUT(__shfl_up_sync(~0u, v, 3, 8)); PUT(__shfl_sync(~0u, v, v & 31, 16)); PUT(__ballot_sync(~0u, v > 0));
  PUT(__match_any_sync(~0u, v & 3)); PUT(__reduce_add_sync(~0u, v)); PUT(__reduce_max_sync(~0u, (unsigned)v)); PUT(__any_sync(~0u, v % 97 == 0) + 2 * __all_sync(~0u, v != 0));
}
