// Half precision: stored in two bytes, computed as float. Included after memory.cuh.
#include <cuda_fp16.h>

template <typename To> struct Cast<To, __half> {
    static __device__ To of(__half value) { return static_cast<To>(__half2float(value)); }
};
template <typename From> struct Cast<__half, From> {
    static __device__ __half of(From value) { return __float2half_rn(static_cast<float>(value)); }
};
template <> struct Cast<__half, double> {
    static __device__ __half of(double value) { return __double2half(value); }
};
template <> struct Cast<__half, __half> {
    static __device__ __half of(__half value) { return value; }
};
