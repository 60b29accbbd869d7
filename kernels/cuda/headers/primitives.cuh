// The primitives of the scalar language (fastdist/language/scalar.py), one device function each,
// with the same names. T is the compute type: bool, an integer, float or double. Integers wrap
// around, as in NumPy and PyTorch. Cases that are undefined in C++ (overflow, division by zero,
// wide shifts) are defined here.

namespace scalar {

template <typename T> struct Kind { typedef unsigned int Wrapping; typedef double Real; };
template <> struct Kind<long long> { typedef unsigned long long Wrapping; typedef double Real; };
template <> struct Kind<float> { typedef float Wrapping; typedef float Real; };
template <> struct Kind<double> { typedef double Wrapping; typedef double Real; };

template <typename T> struct Is { static constexpr bool real = false, boolean = false; };
template <> struct Is<bool> { static constexpr bool real = false, boolean = true; };
template <> struct Is<float> { static constexpr bool real = true, boolean = false; };
template <> struct Is<double> { static constexpr bool real = true, boolean = false; };

template <typename T> __device__ T infinity() {
    return T(__longlong_as_double(0x7ff0000000000000LL));
}
template <typename T> __device__ T not_a_number() {
    return T(__longlong_as_double(0x7ff8000000000000LL));
}

#define UNARY template <typename T> __device__ T
#define BINARY template <typename T> __device__ T
#define PREDICATE template <typename T> __device__ bool
#define WRAPPED(T, x) (typename Kind<T>::Wrapping)(x)

// Arithmetic

BINARY add(T a, T b) { return T(WRAPPED(T, a) + WRAPPED(T, b)); }
BINARY sub(T a, T b) { return T(WRAPPED(T, a) - WRAPPED(T, b)); }
BINARY mul(T a, T b) { return T(WRAPPED(T, a) * WRAPPED(T, b)); }
BINARY div(T a, T b) { return T(typename Kind<T>::Real(a) / typename Kind<T>::Real(b)); }
UNARY neg(T x) {
    if constexpr (Is<T>::real) return -x;
    return T(0 - WRAPPED(T, x));
}
UNARY square(T x) { return mul(x, x); }
UNARY reciprocal(T x) { return div(T(1), x); }
UNARY abs(T x) {
    if constexpr (Is<T>::real) return ::fabs(x);
    return x < T(0) ? neg(x) : x;
}
UNARY conj(T x) { return x; }
UNARY sign(T x) { return T((T(0) < x) - (x < T(0))); }

// The lowest integer divided by -1 overflows, so -1 is never used as a divisor.
PREDICATE is_minus_one(T x) { return T(-1) < T(0) && x == T(-1); }
BINARY fmod(T a, T b) {
    if constexpr (Is<T>::real) return ::fmod(a, b);
    else return b == T(0) || is_minus_one(b) ? T(0) : T(a % b);
}
BINARY remainder(T a, T b) {
    const T rest = fmod(a, b);
    return rest != T(0) && (rest < T(0)) != (b < T(0)) ? T(rest + b) : rest;
}
BINARY floor_divide(T a, T b) {
    if constexpr (Is<T>::real) {
        if (b == T(0)) return a / b;
        // fmod is exact, so the quotient is an integer except for the rounding of the division.
        const T rest = ::fmod(a, b);
        T quotient = (a - rest) / b;
        if (rest != T(0) && (rest < T(0)) != (b < T(0))) quotient -= T(1);
        if (quotient == T(0)) return ::copysign(T(0), a / b);
        const T whole = ::floor(quotient);
        return quotient - whole > T(0.5) ? whole + T(1) : whole;
    } else {
        if (b == T(0)) return T(0);
        if (is_minus_one(b)) return neg(a);
        return T(a / b - (a % b != T(0) && (a < T(0)) != (b < T(0))));
    }
}
BINARY pow(T a, T b) {
    if constexpr (Is<T>::real) return ::pow(a, b);
    else {
        if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b % 2 ? T(-1) : T(1)) : T(0);
        T result = T(1);
        for (; b != T(0); b = T(b / 2), a = mul(a, a))
            if (b % 2) result = mul(result, a);
        return result;
    }
}
BINARY gcd(T a, T b) {
    // Unsigned, because the absolute value of the lowest integer does not fit its type.
    auto x = a < T(0) ? 0 - WRAPPED(T, a) : WRAPPED(T, a);
    auto y = b < T(0) ? 0 - WRAPPED(T, b) : WRAPPED(T, b);
    while (y != 0) {
        const auto rest = x % y;
        x = y, y = rest;
    }
    return T(x);
}

// Comparison and choice

PREDICATE eq(T a, T b) { return a == b; }
PREDICATE ne(T a, T b) { return a != b; }
PREDICATE lt(T a, T b) { return a < b; }
PREDICATE le(T a, T b) { return a <= b; }
PREDICATE gt(T a, T b) { return a > b; }
PREDICATE ge(T a, T b) { return a >= b; }
PREDICATE isnan(T x) { return x != x; }
PREDICATE isfinite(T x) { return !Is<T>::real || x - x == T(0); }
PREDICATE isinf(T x) { return x == x && !isfinite(x); }
PREDICATE signbit(T x) {
    if constexpr (Is<T>::real) return ::copysign(T(1), x) < T(0);
    return x < T(0);
}
__device__ bool logical_and(bool a, bool b) { return a && b; }
__device__ bool logical_or(bool a, bool b) { return a || b; }
__device__ bool logical_xor(bool a, bool b) { return a != b; }
__device__ bool logical_not(bool a) { return !a; }
template <typename T> __device__ T where(bool condition, T a, T b) { return condition ? a : b; }
// NaN wins from either side.
BINARY minimum(T a, T b) { return a < b || a != a ? a : b; }
BINARY maximum(T a, T b) { return a > b || a != a ? a : b; }

// Bits

BINARY bitwise_and(T a, T b) { return T(a & b); }
BINARY bitwise_or(T a, T b) { return T(a | b); }
BINARY bitwise_xor(T a, T b) { return T(a ^ b); }
UNARY bitwise_not(T x) {
    if constexpr (Is<T>::boolean) return !x;
    else return T(~x);
}
BINARY bitwise_left_shift(T a, T by) {
    return by < T(0) || by >= T(8 * sizeof(T)) ? T(0) : T(WRAPPED(T, a) << by);
}
BINARY bitwise_right_shift(T a, T by) {
    // A shift by all bits leaves only the sign.
    return by < T(0) || by >= T(8 * sizeof(T)) ? T(a < T(0) ? -1 : 0) : T(a >> by);
}

// Rounding

#define WHOLE(name, function)                            \
    UNARY name(T x) {                                    \
        if constexpr (Is<T>::real) return ::function(x); \
        return x;                                        \
    }
WHOLE(floor, floor)
WHOLE(ceil, ceil)
WHOLE(trunc, trunc)
WHOLE(round, rint)

// Functions of the CUDA library

#define LIBRARY(name) \
    UNARY name(T x) { return T(::name(typename Kind<T>::Real(x))); }
#define LIBRARY_OF_TWO(name)                       \
    BINARY name(T a, T b) {                        \
        typedef typename Kind<T>::Real Real;       \
        return T(::name(Real(a), Real(b)));        \
    }
LIBRARY(sqrt)
LIBRARY(rsqrt)
LIBRARY(exp)
LIBRARY(exp2)
LIBRARY(expm1)
LIBRARY(log)
LIBRARY(log2)
LIBRARY(log10)
LIBRARY(log1p)
LIBRARY(sin)
LIBRARY(cos)
LIBRARY(tan)
LIBRARY(asin)
LIBRARY(acos)
LIBRARY(atan)
LIBRARY(sinh)
LIBRARY(cosh)
LIBRARY(tanh)
LIBRARY(asinh)
LIBRARY(acosh)
LIBRARY(atanh)
LIBRARY(erf)
LIBRARY(erfc)
LIBRARY(erfinv)
LIBRARY(lgamma)
LIBRARY_OF_TWO(atan2)
LIBRARY_OF_TWO(copysign)
LIBRARY_OF_TWO(hypot)
LIBRARY_OF_TWO(nextafter)

UNARY sigmoid(T x) {
    // exp of -|x| does not overflow; NaN stays NaN.
    const T z = exp(neg(abs(x)));
    return (x < T(0) ? z : T(1)) / (T(1) + z);
}

#undef UNARY
#undef BINARY
#undef PREDICATE
#undef WRAPPED
#undef WHOLE
#undef LIBRARY
#undef LIBRARY_OF_TWO

}  // namespace scalar
