// out[x][y] = in[y][x] of a matrix of height x width floats. No arithmetic: how near can it come to a copy?

// == naive: read along rows, write down columns
extern "C" __global__ void transpose_naive(const float *in, float *out, int height, int width) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x < width && y < height)
        out[(long long)x * height + y] = in[(long long)y * width + x];   // reads: 4 sectors; writes: lanes are a row apart, 32 sectors
}

// == tile: through shared memory
extern "C" __global__ void transpose_tile(const float *in, float *out, int height, int width) {
    __shared__ float tile[32][32];                                // 32 words a row: the whole of a column lies in one bank
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    if (x < width && y < height)
        tile[threadIdx.y][threadIdx.x] = in[(long long)y * width + x];
    __syncthreads();                                              // what a thread writes out was loaded by another
    x = blockIdx.y * 32 + threadIdx.x;                            // the place in the transposed matrix: blocks change sides,
    y = blockIdx.x * 32 + threadIdx.y;                            // and lanes run along the output's row
    if (x < height && y < width)
        out[(long long)y * height + x] = tile[threadIdx.x][threadIdx.y];   // down a column of the tile: 32 passes over one bank
}

// == padded: a column of padding
extern "C" __global__ void transpose_padded(const float *in, float *out, int height, int width) {
    __shared__ float tile[32][33];                                // one word more a row: the words of a column lie in 32 banks
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    if (x < width && y < height)
        tile[threadIdx.y][threadIdx.x] = in[(long long)y * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    if (x < height && y < width)
        out[(long long)y * height + x] = tile[threadIdx.x][threadIdx.y];   // one pass
}

// == swizzled: no padding, another order
extern "C" __global__ void transpose_swizzled(const float *in, float *out, int height, int width) {
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    if (x < width && y < height)
        tile[threadIdx.y][threadIdx.x ^ threadIdx.y] = in[(long long)y * width + x];   // row r keeps its column c at place c ^ r
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    if (x < height && y < width)
        out[(long long)y * height + x] = tile[threadIdx.x][threadIdx.y ^ threadIdx.x];   // 32 rows, 32 different places: one pass, no word wasted
}

// == rows: rectangular blocks, four elements a thread
extern "C" __global__ void transpose_rows(const float *in, float *out, int height, int width) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;   // a block of 32 x 8 threads for a tile of 32 x 32
#pragma unroll
    for (int j = 0; j < 32; j += 8)                               // four loads that do not wait for each other
        if (x < width && y + j < height)
            tile[threadIdx.y + j][threadIdx.x] = in[(long long)(y + j) * width + x];
    __syncthreads();                                              // eight warps wait here, not 32
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
#pragma unroll
    for (int j = 0; j < 32; j += 8)
        if (x < height && y + j < width)
            out[(long long)(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

// == vector: sixteen bytes an access, 4 x 4 squares turned in registers
extern "C" __global__ void transpose_vector(const float *in, float *out, int height, int width) {
    // A tile of 64 x 64 for 16 x 16 threads. Its transpose is kept as 64 rows of 16 vectors; the vectors of row r stand at place v ^ (r / 4).
    __shared__ float4 tile[64][16];
    int x0 = blockIdx.x * 64, y0 = blockIdx.y * 64, tx = threadIdx.x, ty = threadIdx.y;
    if (x0 + 64 <= width && y0 + 64 <= height && width % 4 == 0 && height % 4 == 0) {   // a whole tile whose rows are aligned
        float square[4][4];
#pragma unroll
        for (int r = 0; r < 4; r++) {                             // rows 4 ty to 4 ty + 3, columns 4 tx to 4 tx + 3
            float4 v = *reinterpret_cast<const float4 *>(in + (long long)(y0 + 4 * ty + r) * width + x0 + 4 * tx);
            square[r][0] = v.x, square[r][1] = v.y, square[r][2] = v.z, square[r][3] = v.w;
        }
#pragma unroll
        for (int c = 0; c < 4; c++)                               // column c of the square is a vector of the transpose's row 4 tx + c
            tile[4 * tx + c][ty ^ tx] = make_float4(square[0][c], square[1][c], square[2][c], square[3][c]);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < 4; r++)                               // half a warp writes 256 bytes of a row of the output
            *reinterpret_cast<float4 *>(out + (long long)(x0 + ty + 16 * r) * height + y0 + 4 * tx) = tile[ty + 16 * r][tx ^ (ty + 16 * r) / 4];
        return;
    }
    // At the right and lower border, and for rows that are no whole number of vectors: element by element in the same tile.
    float *words = reinterpret_cast<float *>(tile);
    for (int k = ty * 16 + tx; k < 64 * 64; k += 256) {
        int r = k / 64, c = k % 64;                               // the lanes of a warp read along a row
        if (y0 + r < height && x0 + c < width)
            words[c * 64 + (r ^ c & 31)] = in[(long long)(y0 + r) * width + x0 + c];
    }
    __syncthreads();
    for (int k = ty * 16 + tx; k < 64 * 64; k += 256) {
        int c = k / 64, r = k % 64;                               // and write along a row of the output
        if (y0 + r < height && x0 + c < width)
            out[(long long)(x0 + c) * height + y0 + r] = words[c * 64 + (r ^ c & 31)];
    }
}
