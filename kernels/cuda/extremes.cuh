// Running extremes and where they stand: what scan.cu joins. JOINED is LARGEST or SMALLEST.

struct Found {
    Real value;
    long long place;  // -1 of nothing
};
typedef Found Part;
typedef Found State;

template <typename T> __device__ T nothing() { return {Real(0), -1}; }
// Of what stands before and behind: the later of equals, and nothing reaches NaN but NaN.
__device__ inline Found joined(Found before, Found behind) {
    if (behind.place < 0) return before;
    const bool reaches =
        JOINED == LARGEST ? behind.value >= before.value : behind.value <= before.value;
    return before.place < 0 || behind.value != behind.value || reaches ? behind : before;
}
__device__ inline Part taken(Stored element, long long i) { return {cast<Real>(element), i}; }
__device__ inline void give(State state, Stored* out, long long* place) {
    *out = cast<Stored>(state.value), *place = state.place;
}
