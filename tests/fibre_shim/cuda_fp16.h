// Half precision as kernels use it: two bytes in memory, converted on the way in and out.
#pragma once
#include "c_library.hpp"

struct __half {
    unsigned short bits;
};

static inline float __half2float(__half half) {
    const int exponent = half.bits >> 10 & 31, fraction = half.bits & 1023;
    const float sign = half.bits >> 15 ? -1.0f : 1.0f;
    if (exponent == 31) return fraction ? copysign(NAN, sign) : sign * INFINITY;
    return sign * (exponent ? ldexp(float(1024 + fraction), exponent - 25)
                            : ldexp(float(fraction), -24));
}

// Rounds to the nearest, ties to even; works for every double, so for every float as well.
static inline __half __double2half(double value) {
    const unsigned short sign = signbit(value) ? 0x8000 : 0;
    const double size = fabs(value);
    if (isnan(value)) return {(unsigned short)(sign | 0x7e00)};
    if (size >= 65520) return {(unsigned short)(sign | 0x7c00)};
    if (size < 0x1p-14) return {(unsigned short)(sign | (int)nearbyint(ldexp(size, 24)))};
    const int exponent = ilogb(size);
    // A fraction that rounds up to 2048 carries into the exponent, as it should.
    const int fraction = (int)nearbyint(ldexp(size, 10 - exponent)) - 1024;
    return {(unsigned short)(sign | (((exponent + 15) << 10) + fraction))};
}
static inline __half __float2half_rn(float value) { return __double2half(value); }
