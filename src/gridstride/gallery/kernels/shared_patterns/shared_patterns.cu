// What shared memory costs: passes over its 32 banks of 4 bytes. Word w lies in bank w % 32; lanes that read the same word share a pass.
// Every kernel loads a table of each block, waits, and reads it in its own pattern.

// == row: along a row
// One warp a block; PITCH is the words of a row of the table. Lane l reads word l of row `at`, or word `at` of row l.
template <int PITCH, bool COLUMN> __device__ void read_table(const float *x, float *y, int n) {
    __shared__ float table[32 * PITCH];
#pragma unroll 1
    for (int k = threadIdx.x; k < 32 * PITCH; k += 32)
        table[k] = x[k];                                // neighbours in neighbouring banks: one pass
    __syncthreads();
    int i = blockIdx.x * 32 + threadIdx.x, at = blockIdx.x % 31;
    if (i < n)
        y[i] = table[COLUMN ? threadIdx.x * PITCH + at : at * PITCH + threadIdx.x];
}

extern "C" __global__ void row_32(const float *x, float *y, int n) { read_table<32, false>(x, y, n); }

// == column-32: down a column, 32 words a row
extern "C" __global__ void column_32(const float *x, float *y, int n) { read_table<32, true>(x, y, n); }   // one bank: 32 passes

// == column-33: down a column, 33 words a row
extern "C" __global__ void column_33(const float *x, float *y, int n) { read_table<33, true>(x, y, n); }   // banks 0, 1, 2, …

// == column-64: down a column, 64 words a row
extern "C" __global__ void column_64(const float *x, float *y, int n) { read_table<64, true>(x, y, n); }   // 64 is a multiple of 32 as well

// == column-31: down a column, 31 words a row
extern "C" __global__ void column_31(const float *x, float *y, int n) { read_table<31, true>(x, y, n); }   // banks 0, 31, 30, …: odd pitches have no conflict

// == one-word: all lanes at one word
extern "C" __global__ void one_word(const float *x, float *y, int n) {
    __shared__ float table[32];
    table[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n)
        y[i] = table[blockIdx.x % 32];                  // a broadcast: one pass
}

// == double: eight bytes a lane
extern "C" __global__ void wide_double(const double *x, double *y, int n) {
    __shared__ double table[32];
    table[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n)
        y[i] = table[(threadIdx.x + blockIdx.x) % 32];  // 256 bytes are two passes whatever the order, half a warp each: no conflict
}

// == float4: sixteen bytes a lane
extern "C" __global__ void wide_float4(const float4 *x, float4 *y, int n) {
    __shared__ float4 table[32];
    table[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n)
        y[i] = table[(threadIdx.x + blockIdx.x) % 32];  // 512 bytes are four passes, a quarter of the warp each
}

// == float4-strided: sixteen bytes a lane, every other one
extern "C" __global__ void strided_float4(const float4 *x, float4 *y, int n) {
    __shared__ float4 table[64];
    table[threadIdx.x] = x[threadIdx.x];
    table[threadIdx.x + 32] = x[threadIdx.x + 32];
    __syncthreads();
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n)
        y[i] = table[2 * threadIdx.x];                  // the eight lanes of a quarter meet in half the banks: two passes each, eight in all
}

// == bytes: one byte a lane
extern "C" __global__ void narrow_bytes(const unsigned char *x, unsigned char *y, int n) {
    __shared__ unsigned char table[32];
    table[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n)
        y[i] = table[(threadIdx.x + blockIdx.x) % 32];  // four lanes in each word, eight words: one pass
}
