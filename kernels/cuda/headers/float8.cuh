// Float8 types: stored in a byte, computed as float, and rounded from float as in the CPU kernels
// (kernels/cpu/float8.py). Included after memory.cuh.

// Numbers with EXPONENT and MANTISSA bits, and the exponent bias BIAS. INFINITE: the highest
// exponent is for infinities and NaN. Otherwise, with one ZERO, the code of -0 is the only NaN;
// with two zeros, NaN has all bits set except the sign's.
template <int EXPONENT, int MANTISSA, int BIAS, bool INFINITE, bool ONE_ZERO, bool SATURATES>
struct Float8 {
    static constexpr int LAST = (1 << EXPONENT) - 1;
    // The code of the largest number.
    static constexpr unsigned int MOST = INFINITE   ? ((LAST - 1) << MANTISSA) + (1 << MANTISSA) - 1
                                         : ONE_ZERO ? 0x7f
                                                    : 0x7e;
    unsigned char code;

    static __device__ float power_of_two(int exponent) { return ldexpf(1.0f, exponent); }

    __device__ float number() const {
        const unsigned int size = code & 0x7f, mantissa = size & ((1 << MANTISSA) - 1);
        const int exponent = int(size >> MANTISSA);
        const float sign = code & 0x80 ? -1.0f : 1.0f;
        const bool is_nan = ONE_ZERO ? code == 0x80
                                     : INFINITE ? exponent == LAST && mantissa : size == 0x7f;
        if (is_nan) return __uint_as_float(0x7fc00000u | (unsigned int)(code & 0x80) << 24);
        if (INFINITE && exponent == LAST) return sign * __uint_as_float(0x7f800000);
        const int whole = exponent ? int(mantissa) + (1 << MANTISSA) : int(mantissa);
        return sign * float(whole) * power_of_two((exponent ? exponent : 1) - BIAS - MANTISSA);
    }

    // Round to the nearest number, ties to the even code.
    static __device__ Float8 of(float value) {
        const unsigned int sign = __float_as_uint(value) >> 31 << 7;
        const float size = fabsf(value);
        unsigned int code;
        if (size != size) {
            code = ONE_ZERO ? 0x80 : 0x7f;
            return Float8{(unsigned char)(ONE_ZERO ? code : sign | code)};
        }
        int exponent = int(__float_as_uint(size) >> 23) - 127;
        if (exponent < 1 - BIAS) exponent = 1 - BIAS;
        if (size >= power_of_two(LAST + 1 - BIAS)) {
            code = MOST + 1;
        } else {
            // The size in steps of this exponent. ldexpf is exact, so it is rounded only once.
            const int steps = int(rintf(ldexpf(size, MANTISSA - exponent)));
            // A carry into the next exponent is also a carry in the code.
            code = (unsigned int)(((exponent + BIAS - 1) << MANTISSA) + steps);
        }
        if (code > MOST) {
            if (SATURATES) code = MOST;
            else if (ONE_ZERO) return Float8{0x80};
            else code = MOST + 1;
        }
        if (ONE_ZERO && code == 0) return Float8{0};
        return Float8{(unsigned char)(sign | code)};
    }
};

// Powers of two, stored as the exponent. Ties go up; 0 and negative numbers use their exponents.
struct Exponent8 {
    unsigned char code;
    __device__ float number() const {
        if (code == 255) return __uint_as_float(0x7fc00000);
        return code ? __uint_as_float((unsigned int)(code) << 23) : __uint_as_float(0x400000);
    }
    static __device__ Exponent8 of(float value) {
        const unsigned int bits = __float_as_uint(value);
        const unsigned int exponent = bits >> 23 & 0xff, fraction = bits & 0x7fffff;
        const bool up = fraction > 0x400000 || (fraction == 0x400000 && exponent);
        const unsigned int found = exponent + up;
        return Exponent8{(unsigned char)(found < 255 ? found : 255)};
    }
};

typedef Float8<4, 3, 7, false, false, true> float8_e4m3fn;
typedef Float8<5, 2, 15, true, false, false> float8_e5m2;
typedef Float8<4, 3, 8, false, true, false> float8_e4m3fnuz;
typedef Float8<5, 2, 16, false, true, false> float8_e5m2fnuz;
typedef Exponent8 float8_e8m0fnu;

// All casts go through float: see compute_dtype.
template <int E, int M, int B, bool I, bool Z, bool S> struct Cast<float, Float8<E, M, B, I, Z, S>> {
    static __device__ float of(Float8<E, M, B, I, Z, S> value) { return value.number(); }
};
template <int E, int M, int B, bool I, bool Z, bool S> struct Cast<Float8<E, M, B, I, Z, S>, float> {
    static __device__ Float8<E, M, B, I, Z, S> of(float value) {
        return Float8<E, M, B, I, Z, S>::of(value);
    }
};
// A bool enters a body unchanged.
template <int E, int M, int B, bool I, bool Z, bool S> struct Cast<Float8<E, M, B, I, Z, S>, bool> {
    static __device__ Float8<E, M, B, I, Z, S> of(bool value) {
        return Float8<E, M, B, I, Z, S>::of(value ? 1.0f : 0.0f);
    }
};
template <> struct Cast<Exponent8, bool> {
    static __device__ Exponent8 of(bool value) { return Exponent8::of(value ? 1.0f : 0.0f); }
};
template <> struct Cast<float, Exponent8> {
    static __device__ float of(Exponent8 value) { return value.number(); }
};
template <> struct Cast<Exponent8, float> {
    static __device__ Exponent8 of(float value) { return Exponent8::of(value); }
};
