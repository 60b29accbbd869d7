// Bessel functions of orders 0 and 1, and Airy's function, computed in double and rounded once; by
// the methods of kernels/cpu/pointwise/bessel.py. Not inlined: see special.cuh.

namespace scalar {

// The power series; the terms of the second kind have the weights 1 + 1/2 + ... + 1/k.
__device__ __noinline__ double bessel_near(double order, double x, bool second) {
    const double y = 0.25 * x * x;
    double term = 1, harmonic = -2 * 0.5772156649015329 + order, total = 1, weighed = harmonic;
    for (double k = 1; ::fabs(term) > 1e-18; k += 1) {
        term *= -y / (k * (k + order));
        harmonic += 1 / k + 1 / (k + order);
        total += term;
        weighed += term * harmonic;
    }
    const double power = order == 0 ? 1.0 : 0.5 * x, first = power * total;
    if (!second) return first;
    const double rest = order == 0 ? 0.0 : 2 / x;
    return (2 * (::log(x) - 0.6931471805599453) * first - rest - power * weighed) / 3.14159265358979323846;
}

// The recurrence from high orders down, in which errors decay.
__device__ __noinline__ double bessel_between(double order, double x, bool second) {
    double above = 0, here = 1e-200, whole = 0, even = 0, odd = 0, one = 0;
    for (double k = 2 * ::floor(0.5 * x) + 50; k > 0; k -= 2) {
        // `here` has an even order k; the next value has an odd order.
        const double half = 0.5 * k, sign = ::fmod(half, 2.0) == 0 ? 1 : -1;
        whole += 2 * here;
        even += sign * here / half;
        odd += sign * above * (k + 1) / (half * (half + 1));
        one = 2 * k / x * here - above;
        here = 2 * (k - 1) / x * one - here;
        above = one;
    }
    whole += here;
    const double first = (order == 0 ? here : one) / whole;
    if (!second) return first;
    const double logarithm = (::log(x) - 0.6931471805599453) + 0.5772156649015329;
    if (order == 0) return (2 * logarithm * first - 4 * even / whole) / 3.14159265358979323846;
    return 2 * ((logarithm - 1) * first - (here / x + odd) / whole) / 3.14159265358979323846;
}

// The asymptotic series in 1 / x, cut off where the terms begin to grow. Angle formulas give the
// sine and cosine of x - pi / 4, or x - 3 pi / 4, without rounding it.
__device__ __noinline__ double bessel_far(double order, double x, bool second) {
    double p = 1, q = 0, term = 1;
    for (int k = 1; ::fabs(term) > 1e-17 && k < 40; ++k) {
        const double step = 2 * k - 1;
        term *= (4 * order * order - step * step) / (8 * x * k);
        (k % 2 ? q : p) += k % 4 == 1 || k % 4 == 0 ? term : -term;
    }
    const double sine = ::sin(x), cosine = ::cos(x);
    double along = cosine + sine, across = sine - cosine;
    if (order != 0) {
        const double before = along;
        along = across;
        across = -before;
    }
    return (second ? p * across + q * along : p * along - q * across) /
           ::sqrt(3.14159265358979323846 * x);
}

__device__ __noinline__ double bessel(double order, double x, bool second) {
    if (!(x >= 0)) return not_a_number<double>();
    if (x == 0 && second) return -infinity<double>();
    if (x <= 5) return bessel_near(order, x, second);
    if (x <= 25) return bessel_between(order, x, second);
    return x == infinity<double>() ? 0 : bessel_far(order, x, second);
}

// The integral of exp(-x (cosh t - 1)) cosh(order t) over t > 0 by the trapezoidal rule; near 0 the
// power series.
__device__ __noinline__ double bessel_ke(double order, double x) {
    if (!(x >= 0)) return not_a_number<double>();
    if (x == 0) return infinity<double>();
    if (x == infinity<double>()) return 0;
    if (x <= 1) {
        const double y = 0.25 * x * x, logarithm = (::log(x) - 0.6931471805599453);
        double term = 1, harmonic = -2 * 0.5772156649015329 + order, total = 1, weighed = harmonic;
        for (double k = 1; term > 1e-18; k += 1) {
            term *= y / (k * (k + order));
            harmonic += 1 / k + 1 / (k + order);
            total += term;
            weighed += term * harmonic;
        }
        return ::exp(x) * (order == 0 ? 0.5 * weighed - logarithm * total
                                      : 1 / x + 0.5 * x * (logarithm * total - 0.5 * weighed));
    }
    const double step = ::fmin(0.2, 0.6 / ::sqrt(x));
    double total = 0.5;
    for (double t = step;; t += step) {
        const double half = ::sinh(0.5 * t), fall = 2 * x * half * half;
        if (fall > 42) return step * total;
        total += ::exp(-fall) * (order == 0 ? 1.0 : ::cosh(t));
    }
}

// Airy's function and its derivative at -9, -8 ... 9.
__device__ const double airy_values[] = {
    -0.022133721547341403, -0.0527050503563862, 0.18428083525050565, -0.3291451736298231,
    0.35076100902411433, -0.07026553294928951, -0.37881429367765806, 0.22740742820168558,
    0.5355608832923521, 0.3550280538878172, 0.13529241631288141, 0.03492413042327438,
    0.006591139357460719, 0.0009515638512048018, 0.00010834442813607442, 9.947694360252889e-06,
    7.492128863997167e-07, 4.6922076160992316e-08, 2.47116843087249e-09,
};
__device__ const double airy_slopes[] = {
    -0.9756639809263316, 0.9355609381983065, -0.7710081684101265, 0.3459354872813429,
    0.32719281855444315, -0.7906285753685813, 0.3145837692165988, 0.618259020741691,
    -0.01016056711664521, -0.2588194037928068, -0.1591474412967932, -0.05309038443365363,
    -0.011912976705951319, -0.001958640950204179, -0.0002474138908684625, -2.4765200397034955e-05,
    -2.008150894738792e-06, -1.3414392979067865e-07, -7.480641389658946e-09,
};

// The Taylor series about the nearest integer.
__device__ __noinline__ double airy_near(double x) {
    const double place = ::floor(x + 0.5), h = x - place;
    // Three successive Taylor coefficients, from the differential equation.
    double before = 0, last = airy_values[int(place) + 9],
           here = airy_slopes[int(place) + 9];
    double total = last + h * here, power = h;
    for (double k = 2; k < 40; k += 1) {
        const double next = (place * last + before) / (k * (k - 1));
        before = last;
        last = here;
        here = next;
        power *= h;
        total += power * here;
    }
    return total;
}

// The asymptotic series in 1 / zeta, cut off where the terms begin to grow.
__device__ __noinline__ double airy_far(double x) {
    const double root = ::sqrt(::fabs(x)), zeta = ::fabs(x) * root * 2 / 3;
    double p = 1, q = 0, term = 1;
    for (int k = 1; ::fabs(term) > 1e-17 && k < 30; ++k) {
        term *= (6.0 * k - 5) * (6.0 * k - 3) * (6.0 * k - 1);
        term /= 216.0 * k * (2.0 * k - 1) * zeta;
        if (x > 0)
            p += k % 2 ? -term : term;
        else
            (k % 2 ? q : p) += k % 4 < 2 ? term : -term;
    }
    if (x > 0) return 0.5 * ::exp(-zeta) * p / ::sqrt(3.14159265358979323846 * root);
    // Angle formulas give the sine and cosine of zeta - pi / 4 without rounding it.
    const double sine = ::sin(zeta), cosine = ::cos(zeta);
    return ((cosine + sine) * p + (sine - cosine) * q) / ::sqrt(2 * 3.14159265358979323846 * root);
}

template <typename T> __device__ T airy_ai(T x) {
    const double at = double(x);
    if (at != at) return x;
    if (::fabs(at) == infinity<double>()) return T(0);
    return T(::fabs(at) < 9.5 ? airy_near(at) : airy_far(at));
}

template <typename T> __device__ T bessel_j0(T x) {
    return T(bessel(0, ::fabs(double(x)), false));
}
template <typename T> __device__ T bessel_j1(T x) {
    return T(::copysign(1.0, double(x)) * bessel(1, ::fabs(double(x)), false));
}
template <typename T> __device__ T bessel_y0(T x) { return T(bessel(0, double(x), true)); }
template <typename T> __device__ T bessel_y1(T x) { return T(bessel(1, double(x), true)); }
template <typename T> __device__ T scaled_modified_bessel_k0(T x) {
    return T(bessel_ke(0, double(x)));
}
template <typename T> __device__ T scaled_modified_bessel_k1(T x) {
    return T(bessel_ke(1, double(x)));
}

}  // namespace scalar
