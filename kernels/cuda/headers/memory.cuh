// How elements are loaded from memory and stored.

// Values are computed in other types than they are stored in: half as float, for example.
template <typename To, typename From> struct Cast {
    static __device__ To of(From value) { return static_cast<To>(value); }
};
template <typename To, typename From> __device__ To cast(From value) {
    return Cast<To, From>::of(value);
}

// Adjacent elements that one instruction moves.
template <typename T, int count> struct alignas(sizeof(T) * count) Pack {
    T lane[count];
};

// The offset of element i of an array that is iterated in C order over `shape`.
template <typename Index, int dims>
__device__ long long offset_of(Index i, const long long* shape, const long long* stride) {
    if constexpr (dims == 1) {
        return (long long)(i) * stride[0];
    } else {
        long long offset = 0;
#pragma unroll
        for (int d = dims - 1; d > 0; --d) {
            const Index size = Index(shape[d]), rest = i / size;
            offset += (long long)(i - rest * size) * stride[d];
            i = rest;
        }
        return offset + (long long)(i) * stride[0];
    }
}
