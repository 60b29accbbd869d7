// Cumulative sums, products and log-sums, for scan.cu. JOINED is SUM, PRODUCT or LOG_SUM.

typedef Real Part;
typedef Carry State;

template <typename T> __device__ T nothing() {
    if constexpr (JOINED == LOG_SUM) return T(-__longlong_as_double(0x7ff0000000000000LL));
    else return T(JOINED == PRODUCT ? 1 : 0);
}
template <typename T> __device__ T joined(T a, T b) {
    if constexpr (JOINED == LOG_SUM) {
        // Equal numbers first, because the difference of two infinities is NaN.
        if (a == b) return a + ::log(T(2));
        const T rest = a > b ? b - a : a - b;
        return (a > b ? a : b) + ::log1p(::exp(rest));
    } else {
        return JOINED == PRODUCT ? a * b : a + b;
    }
}
__device__ inline Part taken(Stored element, long long) { return cast<Real>(element); }
__device__ inline void give(const State* of, Stored* out, long long*) {
    Pack<Stored, PACK> made;
#pragma unroll
    for (int j = 0; j < PACK; ++j) made.lane[j] = cast<Stored>(of[j]);
    *reinterpret_cast<Pack<Stored, PACK>*>(out) = made;
}
