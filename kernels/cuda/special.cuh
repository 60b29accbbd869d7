// digamma and polygamma: primitives that the CUDA library lacks. Computed in double, rounded once.
// Not inlined: unrolled packs of them take NVRTC ten seconds.

namespace scalar {

// Sum over k >= 0 of 1 / (q + k)^s for q > 0 and s > 1, by Euler and Maclaurin (Abramowitz and
// Stegun 23.1.30): terms as they are until q outgrows s, then the integral and six corrections.
__device__ __noinline__ double hurwitz_zeta(double s, double q) {
    const double corrections[] = {1.0 / 12,       -1.0 / 720,     1.0 / 30240,
                                  -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0};
    if (q == infinity<double>()) return 0;
    double total = 0;
    for (; q < 20 + s; q += 1) total += ::pow(q, -s);
    double power = ::pow(q, -s), factor = s;
    total += power * (q / (s - 1) + 0.5);
    for (int j = 0; j < 6; ++j) {
        power /= q;
        total += corrections[j] * factor * power;
        power /= q;
        factor *= (s + 2 * j + 1) * (s + 2 * j + 2);
    }
    return total;
}

// Recurrence up to 10, Stirling's series beyond it, reflection below 0 (Abramowitz and Stegun 6.3).
__device__ __noinline__ double digamma_of(double x) {
    if (x == 0) return ::copysign(infinity<double>(), -x);
    double total = 0;
    if (x < 0) {
        const double fraction = x - ::floor(x);
        if (!(fraction > 0)) return not_a_number<double>();
        // The angle is taken from the fraction: pi * x loses the digits that decide it.
        total = -3.14159265358979323846 / ::tan(3.14159265358979323846 * fraction);
        x = 1 - x;
    }
    for (; x < 10; x += 1) total -= 1 / x;
    const double z = 1 / (x * x);
    const double tail =
        z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 -
        z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
    return total + ::log(x) - 0.5 / x - tail;
}

// (-1)^(n+1) n! zeta(n + 1, x). Below 0 the sum over all integers is told from the fraction of x,
// and what stands on the other side of x is taken off, so that no loop is as long as x.
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

template <typename T> __device__ T digamma(T x) { return T(digamma_of(double(x))); }
template <typename T> __device__ T polygamma(T n, T x) {
    return T(polygamma_of(double(n), double(x)));
}

}  // namespace scalar
