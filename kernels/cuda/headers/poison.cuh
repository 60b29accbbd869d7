// The value in place of an element that is out of bounds. The source that includes this header
// defines IS_WHOLE for Stored before it.

// NaN; for integers the largest or smallest one; for bool true.
template <typename T> __device__ T poison() {
    if constexpr (T(0.5) != T(0)) return T(__longlong_as_double(0x7ff8000000000000LL));
    else if constexpr (T(-1) > T(0)) return T(-1);
    else return T(1ULL << (8 * sizeof(T) - 1));
}

// A template, so that only the branch for Stored is compiled.
template <typename T> __device__ T poisoned() {
    if constexpr (!IS_WHOLE) return cast<T>(poison<double>());
    else return poison<T>();
}
