// Complex numbers: two adjacent real numbers, as NumPy, cuBLAS and cuSOLVER store them. Included
// before memory.cuh. Products, quotients and reciprocals use NumPy's formulas, so that inf and NaN
// appear in the same parts as on the CPU. Real numbers and bool convert explicitly in both
// directions; a complex number converts to its real part, and to bool by whether it is not 0.

template <typename R> struct alignas(2 * sizeof(R)) Complex {
    R re, im;

    Complex() = default;
    __device__ explicit Complex(R re, R im = R(0)) : re(re), im(im) {}
    template <typename Q>
    __device__ explicit Complex(Complex<Q> z) : re(R(z.re)), im(R(z.im)) {}

    __device__ explicit operator bool() const { return re != R(0) || im != R(0); }
#define CONVERTS_TO(type) \
    __device__ explicit operator type() const { return (type)(re); }
    CONVERTS_TO(float)
    CONVERTS_TO(double)
    CONVERTS_TO(signed char)
    CONVERTS_TO(unsigned char)
    CONVERTS_TO(short)
    CONVERTS_TO(unsigned short)
    CONVERTS_TO(int)
    CONVERTS_TO(unsigned int)
    CONVERTS_TO(long long)
    CONVERTS_TO(unsigned long long)
#undef CONVERTS_TO

    __device__ Complex operator-() const { return Complex(-re, -im); }
    __device__ Complex operator+(Complex z) const { return Complex(re + z.re, im + z.im); }
    __device__ Complex operator-(Complex z) const { return Complex(re - z.re, im - z.im); }
    __device__ Complex operator*(Complex z) const {
        return Complex(re * z.re - im * z.im, re * z.im + im * z.re);
    }
    // Smith (1962): dividing by the larger part of the divisor avoids overflow in between.
    __device__ Complex operator/(Complex z) const {
        if (::fabs(z.re) >= ::fabs(z.im)) {
            if (z.re == R(0) && z.im == R(0)) return Complex(re / ::fabs(z.re), im / ::fabs(z.re));
            const R ratio = z.im / z.re, scale = R(1) / (z.re + z.im * ratio);
            return Complex((re + im * ratio) * scale, (im - re * ratio) * scale);
        }
        const R ratio = z.re / z.im, scale = R(1) / (z.im + z.re * ratio);
        return Complex((re * ratio + im) * scale, (im * ratio - re) * scale);
    }
    __device__ Complex& operator+=(Complex z) { return *this = *this + z; }
    __device__ Complex& operator*=(Complex z) { return *this = *this * z; }
    __device__ bool operator==(Complex z) const { return re == z.re && im == z.im; }
    __device__ bool operator!=(Complex z) const { return !(*this == z); }
    // NumPy's order: by real parts, and if these are equal, by imaginary parts; false if one is
    // NaN. Bodies that take complex numbers use it to compare real values.
    __device__ bool operator<(Complex z) const {
        return (re < z.re && im == im && z.im == z.im) || (re == z.re && im < z.im);
    }
    __device__ bool operator>(Complex z) const { return z < *this; }
    __device__ bool operator<=(Complex z) const { return *this < z || *this == z; }
    __device__ bool operator>=(Complex z) const { return z <= *this; }
};
