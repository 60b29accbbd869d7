// bfloat16 as kernels use it: the upper half of a float in memory, converted on the way in and out.
#pragma once
#include "c_library.hpp"

struct __nv_bfloat16 {
    unsigned short bits;
};

static inline float __bfloat162float(__nv_bfloat16 value) {
    const unsigned int bits = (unsigned int)(value.bits) << 16;
    float wide;
    memcpy(&wide, &bits, sizeof(wide));
    return wide;
}

// Rounds to the nearest, ties to even; a carry goes into the exponent, as it should.
static inline __nv_bfloat16 __float2bfloat16_rn(float value) {
    unsigned int bits;
    memcpy(&bits, &value, sizeof(bits));
    if (isnan(value)) return {(unsigned short)(bits >> 16 | 0x40)};
    return {(unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
