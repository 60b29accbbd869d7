// Orthogonal polynomials of degree n, whose fraction is dropped, computed in double and rounded
// once; by the methods of kernels/cpu/pointwise/orthogonal_polynomials.py. Not inlined: see
// special.cuh.

namespace scalar {

// Chebyshev's polynomials for x >= 0: by trigonometric functions up to 1, hyperbolic above.
__device__ __noinline__ double chebyshev_of_angle(int kind, double x, double n) {
    double turns = n, scale = 1;
    const bool odd = kind == 2 || kind == 4;
    if (kind == 2) {
        turns = n + 1;
        scale = ::sqrt(::fabs(1 - x)) * ::sqrt(1 + x);
    } else if (kind > 2) {
        turns = n + 0.5;
        scale = ::sqrt(0.5 * (kind == 3 ? 1 + x : ::fabs(1 - x)));
    }
    if (x < 1) {
        const double angle = turns * ::acos(x);
        return (odd ? ::sin(angle) : ::cos(angle)) / scale;
    }
    if (x == 1) return kind == 2 ? turns : kind == 4 ? 2 * turns : 1;
    if (x != x || x == infinity<double>()) return x;
    const double angle = turns * ::acosh(x);
    if (angle < 20) return (odd ? ::sinh(angle) : ::cosh(angle)) / scale;
    return ::exp(angle - ::log(2 * scale));
}

__device__ __noinline__ double chebyshev(int kind, double x, double n) {
    if (n != n || n == infinity<double>()) return not_a_number<double>();
    n = ::trunc(n);
    if (n <= 0) return n == 0;
    double sign = 1;
    if (x < 0) {
        // Even and odd degrees alternate; the third kind is the fourth one mirrored at x = 0.
        x = -x;
        sign = ::fmod(n, 2.0) == 0 ? 1 : -1;
        kind = kind < 3 ? kind : 7 - kind;
    }
    if (n > 128) return sign * chebyshev_of_angle(kind, x, n);
    double below = 1, here = kind == 1 ? x : kind == 2 ? 2 * x : kind == 3 ? 2 * x - 1 : 2 * x + 1;
    for (double k = 1; k < n && here < infinity<double>(); k += 1) {
        const double above = 2 * x * here - below;
        below = here;
        here = above;
    }
    return sign * here;
}

// The result if it overflows: infinity with the sign of the leading term for x outside all zeros,
// else NaN.
__device__ __noinline__ double polynomial_far_out(int kind, double x, double n) {
    double last = kind == 4 ? 1 : ::sqrt(4 * n + 2);
    if (kind == 3) {
        last = x < 0 ? 0 : 4 * n + 2;
        x = -x;
    }
    if (::fabs(x) < last) return not_a_number<double>();
    return x < 0 && ::fmod(n, 2.0) == 1 ? -infinity<double>() : infinity<double>();
}

__device__ __noinline__ double polynomial_by_steps(int kind, double x, double n) {
    if (n != n || n == infinity<double>()) return not_a_number<double>();
    n = ::trunc(n);
    if (n <= 0) return n == 0;
    double below = 1, here = kind == 1 ? 2 * x : kind == 3 ? 1 - x : x, k = 1;
    for (; k < n && k < 1e6 && ::fabs(here) < infinity<double>(); k += 1) {
        double above;
        if (kind == 1)
            above = 2 * (x * here - k * below);
        else if (kind == 2)
            above = x * here - k * below;
        else if (kind == 3)
            above = here + (k * (here - below) - x * here) / (k + 1);
        else
            above = x * here + k * (x * here - below) / (k + 1);
        below = here;
        here = above;
    }
    if (k == n && here == here) return here;
    return x != x || ::fabs(here) < infinity<double>() ? not_a_number<double>()
                                                       : polynomial_far_out(kind, x, n);
}

template <typename T> __device__ T chebyshev_polynomial_t(T x, T n) {
    return T(chebyshev(1, double(x), double(n)));
}
template <typename T> __device__ T chebyshev_polynomial_u(T x, T n) {
    return T(chebyshev(2, double(x), double(n)));
}
template <typename T> __device__ T chebyshev_polynomial_v(T x, T n) {
    return T(chebyshev(3, double(x), double(n)));
}
template <typename T> __device__ T chebyshev_polynomial_w(T x, T n) {
    return T(chebyshev(4, double(x), double(n)));
}
template <typename T> __device__ T hermite_polynomial_h(T x, T n) {
    return T(polynomial_by_steps(1, double(x), double(n)));
}
template <typename T> __device__ T hermite_polynomial_he(T x, T n) {
    return T(polynomial_by_steps(2, double(x), double(n)));
}
template <typename T> __device__ T laguerre_polynomial_l(T x, T n) {
    return T(polynomial_by_steps(3, double(x), double(n)));
}
template <typename T> __device__ T legendre_polynomial_p(T x, T n) {
    return T(polynomial_by_steps(4, double(x), double(n)));
}

}  // namespace scalar
