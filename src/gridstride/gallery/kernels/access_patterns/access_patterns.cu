// What a warp's 32 addresses cost: the distinct sectors of 32 bytes that they touch.

// == stride-1: neighbours
extern "C" __global__ void strided(const float *x, float *y, int n, int stride, int offset) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[(long long)i * stride + offset];   // lanes are `stride` elements apart; what is stored stays side by side
}

// == stride-2: every other element
// The kernel of stride-1. Half of each sector is carried for nothing.

// == stride-4: every fourth
// The kernel of stride-1.

// == stride-8: every eighth
// The kernel of stride-1: a sector holds eight floats, so now each lane has a sector to itself.

// == stride-32: every thirty-second
// The kernel of stride-1. No request can touch more sectors than it has lanes; but caches and DRAM pages are used ever less.

// == offset-1: beginning one element late
// The kernel of stride-1: 128 bytes that begin 4 bytes behind a sector's start touch five of them.

// == broadcast: one address
extern "C" __global__ void broadcast(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[blockIdx.x];                       // all lanes of a warp read the same word: one sector serves 32 lanes
}

// == vector-row: vectors along the row
extern "C" __global__ void vector_row(const float4 *image, float4 *out, int height, int width4) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;   // x runs along the row
    if (row < height && column < width4)
        out[(long long)row * width4 + column] = image[(long long)row * width4 + column];               // 512 bytes in a piece
}

// == vector-column: vectors down the column
extern "C" __global__ void vector_column(const float4 *image, float4 *out, int height, int width4) {
    int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;   // x runs down the column
    if (row < height && column < width4)
        out[(long long)row * width4 + column] = image[(long long)row * width4 + column];               // 16 bytes of 32 different rows
}

// == aos: a field of an array of structs
struct Record {
    float price, rate, spread, volume, low, high, open, close;   // 32 bytes: a sector
};

extern "C" __global__ void aos(const Record *records, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = records[i].rate + records[i].spread;            // lanes are 32 bytes apart: each field read touches 32 sectors
}

// == soa: a structure of arrays
extern "C" __global__ void soa(const float *rate, const float *spread, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = rate[i] + spread[i];                            // each field lies by itself: every byte carried is used
}

// == pixels: three bytes a pixel, read as bytes
extern "C" __global__ void pixels(const unsigned char *rgb, float *grey, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float r = rgb[3 * i], g = rgb[3 * i + 1], b = rgb[3 * i + 2];   // three requests of one byte a lane, each over the same 96 bytes
        grey[i] = 0.299f * r + 0.587f * g + 0.114f * b;
    }
}

// == pixels-staged: the same bytes as words, through shared memory
extern "C" __global__ void pixels_staged(const unsigned char *rgb, float *grey, int n) {
    __shared__ unsigned int words[192];              // 256 pixels of three bytes
    int first = blockIdx.x * 256, count = min(256, n - first);
    const unsigned char *mine = rgb + 3LL * first;   // 768 bytes a block, so it begins at a word
    int whole = 3 * count / 4;                       // words that lie wholly in the image
    if (threadIdx.x < whole)
        words[threadIdx.x] = reinterpret_cast<const unsigned int *>(mine)[threadIdx.x];   // four bytes a lane, side by side
    unsigned char *bytes = reinterpret_cast<unsigned char *>(words);
    int rest = 4 * whole + threadIdx.x;              // of the last block: bytes behind the last whole word
    if (rest < 3 * count)
        bytes[rest] = mine[rest];
    __syncthreads();                                 // a thread's three bytes were loaded by others
    if (threadIdx.x < count) {
        float r = bytes[3 * threadIdx.x], g = bytes[3 * threadIdx.x + 1], b = bytes[3 * threadIdx.x + 2];
        grey[first + threadIdx.x] = 0.299f * r + 0.587f * g + 0.114f * b;
    }
}
