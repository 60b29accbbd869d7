// Primitives that the CUDA library does not have, or defines differently. Computed in double and
// rounded once; by the methods of kernels/cpu/pointwise/special.py. Not inlined: unrolled packs of
// them take NVRTC ten seconds.

namespace scalar {

// The sum over k >= 0 of 1 / (q + k)^s for q > 0 and s > 1, by the Euler-Maclaurin formula
// (Abramowitz and Stegun 23.1.30): terms are added until q exceeds s, then the integral and six
// corrections.
__device__ __noinline__ double hurwitz_zeta(double s, double q) {
    const double corrections[] = {1.0 / 12,       -1.0 / 720,     1.0 / 30240,
                                  -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0};
    if (q == infinity<double>()) return 0;
    double total = 0;
    for (double term = 1; q < 20 + s && term > 1e-18 * total; q += 1)
        total += term = ::pow(q, -s);
    double power = ::pow(q, -s), factor = s;
    if (power == 0 || total == infinity<double>()) return total;
    total += power * (q / (s - 1) + 0.5);
    for (int j = 0; j < 6; ++j) {
        power /= q;
        total += corrections[j] * factor * power;
        power /= q;
        factor *= (s + 2 * j + 1) * (s + 2 * j + 2);
    }
    return total;
}

// Recurrence up to 10, Stirling's series above, reflection below 0 (Abramowitz and Stegun 6.3).
__device__ __noinline__ double digamma_of(double x) {
    if (x == 0) return ::copysign(infinity<double>(), -x);
    double total = 0;
    if (x < 0) {
        if (x == ::floor(x)) return not_a_number<double>();
        // The angle is computed from the distance to the nearest integer, which is exact. pi * x
        // would lose the relevant digits, and x - floor(x) would lose the digits of an x just below
        // an integer.
        const double beside = x - ::floor(x + 0.5);
        total = -3.14159265358979323846 / ::tan(3.14159265358979323846 * beside);
        x = 1 - x;
    }
    for (; x < 10; x += 1) total -= 1 / x;
    const double z = 1 / (x * x);
    const double tail =
        z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 -
        z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
    return total + ::log(x) - 0.5 / x - tail;
}

// (-1)^(n+1) n! zeta(n + 1, x). For negative x, use the sum over all integers, which depends only
// on the fraction of x, and subtract the terms on the other side of x: then the number of
// iterations does not depend on x.
__device__ __noinline__ double polygamma_of(double n, double x) {
    if (n == 0) return digamma_of(x);
    const double fraction = x - ::floor(x);
    if (!(n > 0 && n < 170) || n != ::floor(n) || x == -infinity<double>() || x != x)
        return not_a_number<double>();
    const double s = n + 1, even = ::fmod(s, 2.0) == 0 ? 1 : -1, scale = even * ::tgamma(s);
    if (x > 0) return scale * hurwitz_zeta(s, x);
    if (fraction == 0) return scale * infinity<double>();
    const double missing = hurwitz_zeta(s, ::ceil(x) - x) - hurwitz_zeta(s, 1 - x);
    return scale * (hurwitz_zeta(s, fraction) + even * missing);
}

__device__ __noinline__ double zeta_of(double s, double q) {
    if (s == 1) return infinity<double>();
    if (!(s > 1) || q != q || q == -infinity<double>()) return not_a_number<double>();
    if (s == infinity<double>())
        return q > 1 ? 0 : q == 1 ? 1 : q >= 0 ? infinity<double>() : not_a_number<double>();
    if (q > 0) return hurwitz_zeta(s, q);
    const double fraction = q - ::floor(q);
    if (fraction == 0) return infinity<double>();
    if (s != ::floor(s)) return not_a_number<double>();
    const double sign = ::fmod(s, 2.0) == 0 ? 1 : -1;
    const double missing = hurwitz_zeta(s, ::ceil(q) - q) - hurwitz_zeta(s, 1 - q);
    return hurwitz_zeta(s, fraction) + sign * missing;
}

__device__ __noinline__ double erfcx_positive(double x) {
    if (x < 10) {
        const double high = ::floor(x * 1024) / 1024;
        return ::exp(high * high) * ::exp((x - high) * (x + high)) * ::erfc(x);
    }
    const double y = 0.5 / x / x;
    double term = 1, total = 1;
    for (int k = 1; k < 13; ++k) {
        term *= -(2.0 * k - 1) * y;
        total += term;
    }
    return 0.5641895835477563 / x * total;
}

__device__ __noinline__ double erfcx_of(double x) {
    if (x < -26.62873571375149) return infinity<double>();
    return x < 0 ? 2 * ::exp(x * x) - erfcx_positive(-x) : erfcx_positive(x);
}

__device__ __noinline__ double ndtri_of(double p) {
    if (p == 0) return -infinity<double>();
    if (p == 1) return infinity<double>();
    if (!(p > 0 && p < 1)) return not_a_number<double>();
    if (p >= 0.02 && p <= 0.98) return 1.4142135623730951 * ::erfinv(2 * p - 1);
    const double target = ::log(p < 0.5 ? p : 1 - p);
    double t = ::sqrt(-target);
    for (int step = 0; step < 8; ++step) {
        const double scaled = erfcx_positive(t);
        t += (::log(0.5 * scaled) - t * t - target) * scaled * 0.886226925452758;
    }
    return ::copysign(1.4142135623730951 * t, p - 0.5);
}

__device__ __noinline__ double bessel_ie(double order, double x) {
    if (x != x) return x;
    if (x == infinity<double>()) return 0;
    double term = 1, total = 1, k = 1;
    if (x <= 20) {
        for (const double y = 0.25 * x * x; term > 1e-17 * total; k += 1) {
            term *= y / (k * (k + order));
            total += term;
        }
        return ::exp(-x) * total * (order > 0 ? 0.5 * x : 1.0);
    }
    for (; ::fabs(term) > 1e-17 && k < 40; k += 1) {
        const double odd = 2 * k - 1;
        term *= (odd * odd - 4 * order * order) / (8 * x * k);
        total += term;
    }
    return total * 0.3989422804014327 / ::sqrt(x);
}

__device__ __noinline__ double gamma_density(double a, double x) {
    if (a < 20) return ::exp(a * ::log(x) - x - ::lgamma(a + 1));
    const double d = (x - a) / a, y = 1 / (a * a);
    const double tail = (1.0 / 12 - y * (1.0 / 360 - y / 1260)) / a;
    if (d == -1) return 0;
    return ::exp(a * (::log1p(d) - d) - tail) / ::sqrt(6.283185307179586 * a);
}

__device__ __noinline__ double lower_series(double a, double x) {
    double term = 1, total = 1;
    for (double k = 1; term > 1e-17 * total && k < 100000; k += 1) {
        term *= x / (a + k);
        total += term;
    }
    return total;
}

__device__ __noinline__ double upper_fraction(double a, double x) {
    double b = x - a + 1, c = 1e300, d = 1 / b, h = d, step = 0;
    for (double k = 1; ::fabs(step - 1) > 1e-16 && k < 100000; k += 1) {
        const double part = k * (a - k);
        b += 2;
        d = 1 / (part * d + b);
        c = b + part / c;
        step = d * c;
        h *= step;
    }
    return h * x;
}

// Q(a, x) for side 1, or P(a, x) for side -1, by the first terms of Temme's expansion.
__device__ __noinline__ double large_gamma(double a, double x, double side) {
    const double d = (x - a) / a;
    if (d == -1) return 0.5 + 0.5 * side;
    const double eta = ::copysign(::sqrt(2 * ::fabs(d - ::log1p(d))), d);
    const double slope = ::fabs(d) > 1e-3 ? 1 / d - 1 / eta : -1.0 / 3 + d / 12;
    const double rest = ::exp(-0.5 * a * eta * eta) / ::sqrt(6.283185307179586 * a) * slope;
    return 0.5 * ::erfc(side * eta * ::sqrt(0.5 * a)) + side * rest;
}

// P(a, x), or Q(a, x) = 1 - P(a, x).
__device__ __noinline__ double incomplete_gamma(double a, double x, bool upper) {
    if (!(a >= 0 && x >= 0) || (a == 0 && x == 0)) return not_a_number<double>();
    const bool far = x == infinity<double>();
    if (a == infinity<double>()) return far ? not_a_number<double>() : double(upper);
    if (a == 0 || far) return double(!upper);
    if (x == 0) return double(upper);
    if (a > 1e7) return large_gamma(a, x, upper ? 1 : -1);
    if (x < a + 1) {
        const double lower = gamma_density(a, x) * lower_series(a, x);
        return upper ? 1 - lower : lower;
    }
    const double rest = gamma_density(a, x) * a / x * upper_fraction(a, x);
    return upper ? rest : 1 - rest;
}

__device__ __noinline__ double gamma_slope_of(double a, double x) {
    if (!(a > 0 && x >= 0) || x == infinity<double>()) return not_a_number<double>();
    if (x == 0) return 0;
    if (a > 10000) {
        const double t = ::cbrt(x / a), n = t - 1 + 1 / (9 * a);
        return t * t * t + t * t * (1 / (3 * a) - 1.5 * n);
    }
    if (x > 1.5 * a + 10) {
        const double h = 1e-5 * (1 + a);
        const double change = (upper_fraction(a + h, x) - upper_fraction(a - h, x)) / (2 * h);
        return (::log(x) - digamma_of(a)) * upper_fraction(a, x) + change;
    }
    const double logarithm = ::log(x);
    double slope = digamma_of(a + 1), factor = 1, weight = 1, total = logarithm - slope;
    for (double k = 1; factor > 1e-17 * weight && k < 100000; k += 1) {
        factor *= x / (a + k);
        slope += 1 / (a + k);
        weight += factor;
        total += factor * (logarithm - slope);
    }
    return -x / a * total;
}

template <typename T> __device__ T digamma(T x) { return T(digamma_of(double(x))); }
template <typename T> __device__ T polygamma(T n, T x) {
    return T(polygamma_of(double(n), double(x)));
}
template <typename T> __device__ T zeta(T s, T q) { return T(zeta_of(double(s), double(q))); }
template <typename T> __device__ T erfcx(T x) { return T(erfcx_of(double(x))); }
template <typename T> __device__ T ndtri(T x) { return T(ndtri_of(double(x))); }
template <typename T> __device__ T i0e(T x) { return T(bessel_ie(0, ::fabs(double(x)))); }
template <typename T> __device__ T i1e(T x) {
    return T(::copysign(bessel_ie(1, ::fabs(double(x))), double(x)));
}
template <typename T> __device__ T igamma(T a, T x) {
    return T(incomplete_gamma(double(a), double(x), false));
}
template <typename T> __device__ T igammac(T a, T x) {
    return T(incomplete_gamma(double(a), double(x), true));
}
template <typename T> __device__ T gamma_slope(T a, T x) {
    return T(gamma_slope_of(double(a), double(x)));
}

}  // namespace scalar
