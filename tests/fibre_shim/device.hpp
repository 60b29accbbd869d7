// A CUDA block on one CPU thread, as the source of a kernel sees it.
#pragma once
#include "c_library.hpp"
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "fibres.hpp"

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __noinline__
// One section holds every shared variable of the source; the linker names its two ends.
#define __shared__ static __attribute__((section("shared_memory"), used))
#define END_OF_SECTION __attribute__((weak, visibility("hidden")))
extern unsigned char __start_shared_memory[] END_OF_SECTION;
extern unsigned char __stop_shared_memory[] END_OF_SECTION;

namespace fibres {

// Pointers to the arguments of a launch, as for cuLaunchKernel.
static void** given;

// The argument of this number; the conversion takes the type of the kernel's parameter.
struct Argument {
    int number;
    template <typename T> operator T() const { return *static_cast<T*>(given[number]); }
};

template <typename T>
T shuffle(unsigned int mask, T value, int source, int line) {
    static_assert(sizeof(T) <= 16, "a shuffle moves at most 16 bytes");
    exchange(mask, &value, sizeof(T), source, line);
    return value;
}

}  // namespace fibres

#define threadIdx (fibres::thread())

// Line numbers stand for places: threads that wait at different ones wait for different barriers.
static inline void __syncthreads(int line = __builtin_LINE()) { fibres::wait(line, 0); }
static inline void __syncwarp(unsigned int mask = 0xffffffffu, int line = __builtin_LINE()) {
    fibres::wait(line, mask);
}
template <typename T>
T __shfl_sync(unsigned int mask, T value, int from, int width = 32, int line = __builtin_LINE()) {
    const int lane = fibres::lane();
    return fibres::shuffle(mask, value, lane / width * width + (from & (width - 1)), line);
}
template <typename T>
T __shfl_down_sync(unsigned int mask, T value, int by, int width = 32,
                   int line = __builtin_LINE()) {
    const int lane = fibres::lane();
    return fibres::shuffle(mask, value, lane % width + by < width ? lane + by : lane, line);
}
template <typename T>
T __shfl_up_sync(unsigned int mask, T value, int by, int width = 32, int line = __builtin_LINE()) {
    const int lane = fibres::lane();
    return fibres::shuffle(mask, value, lane % width >= by ? lane - by : lane, line);
}
template <typename T>
T __shfl_xor_sync(unsigned int mask, T value, int by, int width = 32, int line = __builtin_LINE()) {
    const int lane = fibres::lane(), other = lane ^ by;
    return fibres::shuffle(mask, value, other / width <= lane / width ? other : lane, line);
}
template <typename T>
unsigned int __match_any_sync(unsigned int mask, T value, int line = __builtin_LINE()) {
    unsigned long long bits = 0;
    memcpy(&bits, &value, sizeof value);
    return fibres::same(mask, bits, line);
}
static inline unsigned int __ballot_sync(unsigned int mask, int told, int line = __builtin_LINE()) {
    const unsigned int same = fibres::same(mask, told != 0, line);
    return told ? same : mask & ~same;
}

// Device functions that the C library lacks.
static inline int __popc(unsigned int bits) { return __builtin_popcount(bits); }
// Fibres do not switch in the midst of one.
template <typename T> T atomicAdd(T* at, T value) {
    const T old = *at;
    *at = old + value;
    return old;
}
static inline float __uint_as_float(unsigned int bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline unsigned int __float_as_uint(float value) {
    unsigned int bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline double __longlong_as_double(long long bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
template <typename T> T rsqrt(T x) { return T(1 / sqrt(double(x))); }
template <typename T> T cospi(T x) { return T(cos(x * M_PI)); }
static inline void sincospi(double x, double* sine, double* cosine) {
    *sine = sin(x * M_PI), *cosine = cos(x * M_PI);
}
static inline double erfinv(double y) {
    if (!(fabs(y) < 1)) return y == 1 ? INFINITY : y == -1 ? -INFINITY : NAN;
    // Winitzki's approximation, then Newton on erfc, which keeps its digits in the tails.
    const double a = 0.147, l = log1p(-y * y), b = 2 / (M_PI * a) + l / 2;
    double x = sqrt(sqrt(b * b - l / a) - b);
    const double rest = 1 - fabs(y);
    for (int i = 0; i < 4; ++i) x += (erfc(x) - rest) / (M_2_SQRTPI * exp(-x * x));
    return copysign(x, y);
}
static inline float erfinv(float y) { return float(erfinv(double(y))); }

// Defines the function that the driver calls to launch a kernel; it returns an error or "".
#define LAUNCHED_WITH(kernel, ...)                                                         \
    static void each_thread_of_##kernel() { kernel(__VA_ARGS__); }                         \
    extern "C" __attribute__((visibility("default"))) const char* launch_##kernel(         \
        void** arguments, const unsigned int* geometry, size_t shared_bytes,               \
        unsigned long long seed) {                                                         \
        fibres::given = arguments;                                                         \
        const fibres::Shared shared = {__start_shared_memory, __stop_shared_memory,        \
                                       shared_bytes};                                      \
        return fibres::run(each_thread_of_##kernel, geometry, shared, seed);               \
    }
