// The primitives of the scalar language whose complex formulas use the parts of the numbers. The
// primitives that primitives.cuh defines by operators also work for complex numbers. Included after
// complex.cuh and primitives.cuh.

namespace scalar {

template <typename R> struct Kind<Complex<R>> {
    typedef Complex<R> Wrapping;
    typedef Complex<R> Real;
};

#define OF_COMPLEX template <typename R> __device__
OF_COMPLEX Complex<R> neg(Complex<R> z) { return -z; }
OF_COMPLEX Complex<R> conj(Complex<R> z) { return Complex<R>(z.re, -z.im); }
OF_COMPLEX Complex<R> square(Complex<R> z) {
    return Complex<R>(z.re * z.re - z.im * z.im, z.re * z.im + z.im * z.re);
}
OF_COMPLEX Complex<R> reciprocal(Complex<R> z) {
    if (::fabs(z.im) <= ::fabs(z.re)) {
        const R ratio = z.im / z.re, size = z.re + z.im * ratio;
        return Complex<R>(R(1) / size, -ratio / size);
    }
    const R ratio = z.re / z.im, size = z.re * ratio + z.im;
    return Complex<R>(ratio / size, R(-1) / size);
}
OF_COMPLEX bool isnan(Complex<R> z) { return z.re != z.re || z.im != z.im; }
OF_COMPLEX bool isfinite(Complex<R> z) { return isfinite(z.re) && isfinite(z.im); }
OF_COMPLEX bool isinf(Complex<R> z) { return isinf(z.re) || isinf(z.im); }
OF_COMPLEX Complex<R> abs(Complex<R> z) { return Complex<R>(::hypot(z.re, z.im)); }
#undef OF_COMPLEX

}  // namespace scalar
