// Cumulative extremes and their indices, for scan.cu. JOINED is LARGEST or SMALLEST.

struct Found {
    Real value;
    long long place;  // the index; -1 if there is no element
};
typedef Found Part;
typedef Found State;

template <typename T> __device__ T nothing() { return {Real(0), -1}; }
// Combines two adjacent results: the later of equals wins, and only NaN replaces NaN.
__device__ inline Found joined(Found before, Found behind) {
    if (behind.place < 0) return before;
    const bool reaches =
        JOINED == LARGEST ? behind.value >= before.value : behind.value <= before.value;
    return before.place < 0 || behind.value != behind.value || reaches ? behind : before;
}
__device__ inline Part taken(Stored element, long long i) { return {cast<Real>(element), i}; }
// Indices are contiguous if elements are: 16 bytes are moved at a time.
__device__ inline void give(const State* of, Stored* out, long long* place) {
    constexpr int TWO = PACK > 1 ? 2 : 1;
    Pack<Stored, PACK> made;
#pragma unroll
    for (int j = 0; j < PACK; ++j) made.lane[j] = cast<Stored>(of[j].value);
    *reinterpret_cast<Pack<Stored, PACK>*>(out) = made;
#pragma unroll
    for (int j = 0; j < PACK; j += TWO) {
        Pack<long long, TWO> stand;
#pragma unroll
        for (int l = 0; l < TWO; ++l) stand.lane[l] = of[j + l].place;
        *reinterpret_cast<Pack<long long, TWO>*>(place + j) = stand;
    }
}
