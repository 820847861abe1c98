// Which element a thread has, with the guard in it: indices of one, two and three dimensions, and grid-stride loops over them.
//
//     if (auto i = gridstride::index(n)) y[*i] = a * x[*i];                  // one element a thread, none beyond n
//     if (auto p = gridstride::index(width, height)) out[*p] = f(p.x, p.y);  // *p is p.y * width + p.x
//     for (auto i : gridstride::elements(n)) y[i] = a * x[i];                // all elements, whatever the grid
//
// Plain CUDA C++ (C++11 and later): Gridstride finds it by #include <gridstride/index.cuh>, nvcc by -I of `gridstride.include_folder()`.
//
// An index has the type of its extent: int, unsigned, long long, size_t. With an extent of 32 bits it is made in 32 bits, as
// `blockIdx.x * blockDim.x + threadIdx.x` is, and costs what that and `i < n` cost. As with these, the threads of the grid along an axis must not
// be more than the type can count; launch contracts (`gridstride: contract extent=n`) look after that.

#pragma once

namespace gridstride {

namespace detail {

template <typename T> struct Unsigned {
    typedef unsigned type;
};
template <> struct Unsigned<long> {
    typedef unsigned long type;
};
template <> struct Unsigned<unsigned long> {
    typedef unsigned long type;
};
template <> struct Unsigned<long long> {
    typedef unsigned long long type;
};
template <> struct Unsigned<unsigned long long> {
    typedef unsigned long long type;
};

// The number of this thread in the grid along an axis, and the threads of the grid there, in the width of T.
template <typename T> __device__ __forceinline__ T thread_x() { return T(typename Unsigned<T>::type(blockIdx.x) * blockDim.x + threadIdx.x); }
template <typename T> __device__ __forceinline__ T thread_y() { return T(typename Unsigned<T>::type(blockIdx.y) * blockDim.y + threadIdx.y); }
template <typename T> __device__ __forceinline__ T thread_z() { return T(typename Unsigned<T>::type(blockIdx.z) * blockDim.z + threadIdx.z); }
template <typename T> __device__ __forceinline__ T threads_x() { return T(typename Unsigned<T>::type(gridDim.x) * blockDim.x); }
template <typename T> __device__ __forceinline__ T threads_y() { return T(typename Unsigned<T>::type(gridDim.y) * blockDim.y); }
template <typename T> __device__ __forceinline__ T threads_z() { return T(typename Unsigned<T>::type(gridDim.z) * blockDim.z); }

} // namespace detail

// ---- one element a thread --------------------------------------------------------------------------------------------

// True where the thread has an element; *i is its number.
template <typename T> struct Index1 {
    T x, width;
    __device__ __forceinline__ explicit operator bool() const { return x < width; }
    __device__ __forceinline__ T operator*() const { return x; }
};

// *p is the number of the element where rows of `width` follow each other.
template <typename T> struct Index2 {
    T x, y, width, height;
    __device__ __forceinline__ explicit operator bool() const { return x < width && y < height; }
    __device__ __forceinline__ T operator*() const { return y * width + x; }
};

// *p is the number of the element where slices of `height` rows of `width` follow each other.
template <typename T> struct Index3 {
    T x, y, z, width, height, depth;
    __device__ __forceinline__ explicit operator bool() const { return x < width && y < height && z < depth; }
    __device__ __forceinline__ T operator*() const { return (z * height + y) * width + x; }
};

template <typename T> __device__ __forceinline__ Index1<T> index(T width) { return {detail::thread_x<T>(), width}; }
template <typename T> __device__ __forceinline__ Index2<T> index(T width, T height) {
    return {detail::thread_x<T>(), detail::thread_y<T>(), width, height};
}
template <typename T> __device__ __forceinline__ Index3<T> index(T width, T height, T depth) {
    return {detail::thread_x<T>(), detail::thread_y<T>(), detail::thread_z<T>(), width, height, depth};
}

// ---- grid-stride loops -----------------------------------------------------------------------------------------------

// The numbers from this thread's own up to the extent, in steps of the whole grid. They are counted in unsigned arithmetic, in which no signed extent is so
// near the end of its type that a step wraps (up to 2^31 threads of a grid); a negative extent has no elements.
template <typename T> class Elements1 {
    typedef typename detail::Unsigned<T>::type U;

  public:
    struct Iterator {
        U at, end, step;
        __device__ __forceinline__ T operator*() const { return T(at); }
        __device__ __forceinline__ void operator++() { at += step; }
        __device__ __forceinline__ bool operator!=(const Iterator &) const { return at < end; }
    };
    __device__ __forceinline__ explicit Elements1(T extent) : extent_(extent > T(0) ? U(extent) : U(0)) {}
    __device__ __forceinline__ Iterator begin() const { return {detail::thread_x<U>(), extent_, detail::threads_x<U>()}; }
    __device__ __forceinline__ Iterator end() const { return {extent_, extent_, 1}; }

  private:
    U extent_;
};

// Row after row: first along x, then on along y.
template <typename T> class Elements2 {
    typedef typename detail::Unsigned<T>::type U;

  public:
    struct Iterator {
        U x, y, first, width, height;
        __device__ __forceinline__ Index2<T> operator*() const { return {T(x), T(y), T(width), T(height)}; }
        __device__ __forceinline__ void operator++() {
            x += detail::threads_x<U>();
            if (x >= width)
                x = first, y += detail::threads_y<U>();
        }
        __device__ __forceinline__ bool operator!=(const Iterator &) const { return x < width && y < height; }
    };
    __device__ __forceinline__ Elements2(T width, T height) : width_(width > T(0) ? U(width) : U(0)), height_(height > T(0) ? U(height) : U(0)) {}
    __device__ __forceinline__ Iterator begin() const {
        return {detail::thread_x<U>(), detail::thread_y<U>(), detail::thread_x<U>(), width_, height_};
    }
    __device__ __forceinline__ Iterator end() const { return {width_, height_, 0, width_, height_}; }

  private:
    U width_, height_;
};

// Row after row and slice after slice.
template <typename T> class Elements3 {
    typedef typename detail::Unsigned<T>::type U;

  public:
    struct Iterator {
        U x, y, z, first_x, first_y, width, height, depth;
        __device__ __forceinline__ Index3<T> operator*() const { return {T(x), T(y), T(z), T(width), T(height), T(depth)}; }
        __device__ __forceinline__ void operator++() {
            x += detail::threads_x<U>();
            if (x < width)
                return;
            x = first_x, y += detail::threads_y<U>();
            if (y >= height)
                y = first_y, z += detail::threads_z<U>();
        }
        __device__ __forceinline__ bool operator!=(const Iterator &) const { return x < width && y < height && z < depth; }
    };
    __device__ __forceinline__ Elements3(T width, T height, T depth)
        : width_(width > T(0) ? U(width) : U(0)), height_(height > T(0) ? U(height) : U(0)), depth_(depth > T(0) ? U(depth) : U(0)) {}
    __device__ __forceinline__ Iterator begin() const {
        U x = detail::thread_x<U>(), y = detail::thread_y<U>();
        return {x, y, detail::thread_z<U>(), x, y, width_, height_, depth_};
    }
    __device__ __forceinline__ Iterator end() const { return {width_, height_, depth_, 0, 0, width_, height_, depth_}; }

  private:
    U width_, height_, depth_;
};

template <typename T> __device__ __forceinline__ Elements1<T> elements(T extent) { return Elements1<T>(extent); }
template <typename T> __device__ __forceinline__ Elements2<T> elements(T width, T height) { return Elements2<T>(width, height); }
template <typename T> __device__ __forceinline__ Elements3<T> elements(T width, T height, T depth) { return Elements3<T>(width, height, depth); }

} // namespace gridstride
