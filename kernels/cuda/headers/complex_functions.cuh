// Functions of complex numbers. Included after complex_primitives.cuh.
//
// They are computed in double and rounded once, so that complex64 needs no separate formulas
// against overflow. inf, NaN and signed zeros have the results of C99 (annex G) and NumPy. Not
// inlined: unrolled packs of them take NVRTC ten seconds.

namespace scalar {

namespace complex {

typedef Complex<double> Z;
constexpr double PI = 3.14159265358979323846, LOG_2 = 0.69314718055994530942;

__device__ inline double nan() { return not_a_number<double>(); }
__device__ inline Z turned(Z z) { return Z(-z.im, z.re); }  // times i
__device__ inline Z back(Z z) { return Z(z.im, -z.re); }    // times -i

__device__ __noinline__ Z exp(Z z) {
    if (z.im == 0) return Z(::exp(z.re), z.im);
    if (isinf(z.re) && !isfinite(z.im))
        return z.re < 0 ? Z(0, ::copysign(0.0, z.im)) : Z(z.re, nan());
    // exp may overflow where its product with a small sine is finite.
    const bool is_large = z.re > 700 && z.re < 1500;
    const double size = ::exp(is_large ? z.re / 2 : z.re), more = is_large ? size : 1;
    return Z(size * ::cos(z.im) * more, size * ::sin(z.im) * more);
}

__device__ __noinline__ Z log(Z z) {
    const double x = ::fabs(z.re), y = ::fabs(z.im), large = x > y ? x : y, small = x > y ? y : x;
    const double angle = ::atan2(z.im, z.re);
    // Near |z| = 1 the logarithm is computed from the distance to 1.
    if (large > 0.5 && large < 2 && small < 2)
        return Z(0.5 * ::log1p((large - 1) * (large + 1) + small * small), angle);
    if (large > 1e300 && isfinite(large)) return Z(::log(::hypot(x / 4, y / 4)) + 2 * LOG_2, angle);
    return Z(::log(::hypot(x, y)), angle);
}

__device__ __noinline__ Z log1p(Z z) {
    const double x = z.re, y = z.im, angle = ::atan2(y, 1 + x);
    if (x > -0.5 && x < 0.5 && y > -0.5 && y < 0.5)
        return Z(0.5 * ::log1p(x * (2 + x) + y * y), angle);
    return Z(::log(::hypot(1 + x, y)), angle);
}

__device__ __noinline__ Z sqrt(Z z) {
    if (z.re == 0 && z.im == 0) return Z(0, z.im);
    if (isinf(z.im)) return Z(infinity<double>(), z.im);
    if (isinf(z.re)) {
        const double rest = z.im - z.im;  // 0 or NaN
        if (z.re > 0) return Z(z.re, ::copysign(rest, z.im));
        return Z(::fabs(rest), ::copysign(z.re, z.im));
    }
    const double x = ::fabs(z.re), y = ::fabs(z.im), large = x > y ? x : y;
    // Scale by powers of 4, whose square roots are exact.
    const double by = large > 1e300 ? 0.0625 : large < 1e-290 ? 0x1p108 : 1;
    const double root_of_by = large > 1e300 ? 4 : large < 1e-290 ? 0x1p-54 : 1;
    const double size = ::sqrt((x * by + ::hypot(x * by, y * by)) * 0.5);
    const double other = y * by / (2 * size) * root_of_by, one = size * root_of_by;
    return z.re >= 0 ? Z(one, ::copysign(other, z.im)) : Z(other, ::copysign(one, z.im));
}

__device__ __noinline__ Z sinh(Z z) {
    const double x = z.re, y = z.im;
    if (y == 0) return Z(::sinh(x), y);
    if (!isfinite(y) && (x == 0 || isinf(x))) return Z(x, nan());
    if (::fabs(x) > 700) {
        const Z half = exp(Z(::fabs(x), y));
        return Z(::copysign(1.0, x) * half.re * 0.5, half.im * 0.5);
    }
    return Z(::sinh(x) * ::cos(y), ::cosh(x) * ::sin(y));
}

__device__ __noinline__ Z cosh(Z z) {
    const double x = z.re, y = z.im;
    if (y == 0) return Z(::cosh(x), x != x ? y : ::copysign(1.0, x) * y);
    if (x == 0) return Z(::cos(y), isfinite(y) ? x * ::sin(y) : 0);
    if (!isfinite(y) && isinf(x)) return Z(infinity<double>(), nan());
    if (::fabs(x) > 700) {
        const Z half = exp(Z(::fabs(x), y));
        return Z(half.re * 0.5, ::copysign(1.0, x) * half.im * 0.5);
    }
    return Z(::cosh(x) * ::cos(y), ::sinh(x) * ::sin(y));
}

// Kahan (1987).
__device__ __noinline__ Z tanh(Z z) {
    const double x = z.re, y = z.im;
    if (y == 0) return Z(::tanh(x), y);
    if (!isfinite(y) && !isinf(x)) return Z(x == 0 ? x : nan(), nan());
    if (::fabs(x) > 22) {
        const double turn = isfinite(y) ? ::sin(y) * ::cos(y) : ::copysign(0.0, y);
        return Z(::copysign(1.0, x), 4 * turn * ::exp(-2 * ::fabs(x)));
    }
    const double tangent = ::tan(y), slope = 1 + tangent * tangent;
    const double s = ::sinh(x), c = ::sqrt(1 + s * s), size = 1 + slope * s * s;
    return Z(slope * c * s / size, tangent / size);
}

__device__ inline Z sin(Z z) { return back(sinh(turned(z))); }
__device__ inline Z cos(Z z) { return cosh(turned(z)); }
__device__ inline Z tan(Z z) { return back(tanh(turned(z))); }

__device__ inline Z plus_one(Z z) { return Z(1 + z.re, z.im); }
__device__ inline Z from_one(Z z) { return Z(1 - z.re, -z.im); }
__device__ inline double im_of_product(Z a, Z b) { return a.re * b.im + a.im * b.re; }

// Kahan (1987), like the next two functions.
__device__ __noinline__ Z asin(Z z) {
    if (isinf(z.re) || isinf(z.im))
        return Z(::copysign(::atan2(::fabs(z.re), ::fabs(z.im)), z.re),
                 ::copysign(infinity<double>(), z.im));
    if (z.re == 0 && z.im != z.im) return z;
    const Z below = sqrt(from_one(z)), above = sqrt(plus_one(z));
    const double part = im_of_product(Z(below.re, -below.im), above);
    return Z(::atan2(z.re, below.re * above.re - below.im * above.im),
             ::copysign(::asinh(part), z.im));
}

__device__ __noinline__ Z acos(Z z) {
    if (isinf(z.re) || isinf(z.im))
        return Z(::atan2(::fabs(z.im), z.re), ::copysign(infinity<double>(), -z.im));
    if (z.re == 0 && z.im != z.im) return Z(PI / 2, z.im);
    const Z below = sqrt(from_one(z)), above = sqrt(plus_one(z));
    const double part = im_of_product(Z(above.re, -above.im), below);
    return Z(2 * ::atan2(below.re, above.re), ::copysign(::asinh(part), -z.im));
}

__device__ __noinline__ Z atanh(Z z) {
    const double x = ::fabs(z.re), y = ::fabs(z.im);
    if (x != x || y != y) {
        if (x == 0) return Z(z.re, z.im);
        if (isinf(x)) return Z(::copysign(0.0, z.re), z.im);
        return isinf(y) ? Z(::copysign(0.0, z.re), ::copysign(PI / 2, z.im)) : Z(nan(), nan());
    }
    if (x > 1e150 || y > 1e150) {
        // atanh(z) is about 1 / z; several divisions avoid overflow.
        const double large = x > y ? x : y, small = x > y ? y : x, ratio = small / large;
        const double size = isinf(large) ? 0 : x / large / large / (1 + ratio * ratio);
        return Z(::copysign(size, z.re), ::copysign(PI / 2, z.im));
    }
    const double away = 1 - x, squares = away * away + y * y;
    const double re = x == 1 && y < 1e-8 ? 0.5 * (LOG_2 - ::log(y)) : 0.25 * ::log1p(4 * x / squares);
    const double im = 0.5 * ::atan2(2 * y, away * (1 + x) - y * y);
    return Z(::copysign(re, z.re), ::copysign(im, z.im));
}

__device__ inline Z asinh(Z z) { return back(asin(turned(z))); }
__device__ inline Z atan(Z z) { return back(atanh(turned(z))); }
__device__ inline Z acosh(Z z) {
    const Z found = acos(z);
    // Of i acos(z) and -i acos(z), the one whose real part is not negative.
    const bool is_below = found.im > 0 || (found.im == 0 && ::copysign(1.0, z.im) < 0);
    return is_below ? back(found) : turned(found);
}

__device__ inline Z exp2(Z z) { return exp(Z(z.re * LOG_2, z.im * LOG_2)); }
__device__ inline Z expm1(Z z) {
    const double half = ::sin(z.im / 2);
    return Z(::expm1(z.re) * ::cos(z.im) - 2 * half * half, ::exp(z.re) * ::sin(z.im));
}
__device__ inline Z scaled(Z z, double by) { return Z(z.re * by, z.im * by); }
__device__ inline Z log2(Z z) { return scaled(log(z), 1.4426950408889634074); }
__device__ inline Z log10(Z z) { return scaled(log(z), 0.43429448190325182765); }
__device__ inline Z rsqrt(Z z) { return scalar::reciprocal(sqrt(z)); }
__device__ inline Z sigmoid(Z z) { return scalar::reciprocal(exp(-z) + Z(1)); }

// Integer exponents below 100 by products, as in NumPy.
__device__ __noinline__ Z pow(Z base, Z exponent) {
    if (exponent.re == 0 && exponent.im == 0) return Z(1);
    if (exponent.re == 1 && exponent.im == 0) return base;
    if (base.re == 0 && base.im == 0) return exponent.re > 0 ? Z(0) : Z(nan(), nan());
    if (exponent.im == 0 && ::fabs(exponent.re) < 100 && ::rint(exponent.re) == exponent.re) {
        Z result(1), factor = base;
        for (int n = int(::fabs(exponent.re)); n; n /= 2, factor = factor * factor)
            if (n % 2) result = result * factor;
        return exponent.re < 0 ? Z(1) / result : result;
    }
    if (exponent.im == 0 && ::fabs(exponent.re) == 0.5)
        return exponent.re > 0 ? sqrt(base) : rsqrt(base);
    return exp(exponent * log(base));
}

}  // namespace complex

#define FUNCTION(name)                                                     \
    template <typename R> __device__ Complex<R> name(Complex<R> z) {       \
        return Complex<R>(complex::name(complex::Z(z)));                   \
    }
FUNCTION(exp)
FUNCTION(exp2)
FUNCTION(expm1)
FUNCTION(log)
FUNCTION(log2)
FUNCTION(log10)
FUNCTION(log1p)
FUNCTION(sqrt)
FUNCTION(rsqrt)
FUNCTION(sin)
FUNCTION(cos)
FUNCTION(tan)
FUNCTION(asin)
FUNCTION(acos)
FUNCTION(atan)
FUNCTION(sinh)
FUNCTION(cosh)
FUNCTION(tanh)
FUNCTION(asinh)
FUNCTION(acosh)
FUNCTION(atanh)
FUNCTION(sigmoid)
template <typename R> __device__ Complex<R> pow(Complex<R> a, Complex<R> b) {
    return Complex<R>(complex::pow(complex::Z(a), complex::Z(b)));
}
#undef FUNCTION

}  // namespace scalar
