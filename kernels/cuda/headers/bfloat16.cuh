// bfloat16: stored in two bytes, computed as float. Included after memory.cuh and half.cuh.
#include <cuda_bf16.h>

template <typename To> struct Cast<To, __nv_bfloat16> {
    static __device__ To of(__nv_bfloat16 value) {
        return static_cast<To>(__bfloat162float(value));
    }
};
template <typename From> struct Cast<__nv_bfloat16, From> {
    static __device__ __nv_bfloat16 of(From value) {
        return __float2bfloat16_rn(static_cast<float>(value));
    }
};
template <> struct Cast<__nv_bfloat16, __nv_bfloat16> {
    static __device__ __nv_bfloat16 of(__nv_bfloat16 value) { return value; }
};
template <> struct Cast<__nv_bfloat16, __half> {
    static __device__ __nv_bfloat16 of(__half value) {
        return __float2bfloat16_rn(__half2float(value));
    }
};
template <> struct Cast<__half, __nv_bfloat16> {
    static __device__ __half of(__nv_bfloat16 value) {
        return __float2half_rn(__bfloat162float(value));
    }
};
