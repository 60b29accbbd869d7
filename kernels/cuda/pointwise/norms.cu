// Norms of many contiguous vectors, one per block. multi_tensor.py puts before this file:
// memory.cuh, T (computed, stored), ROWS of a table, THREADS, and the ORDER: 1, 2, or 0 for the
// infinity norm.

struct Table {
    long long in[ROWS], out[ROWS], size[ROWS];
};

__device__ T joined(T a, T b) {
    // NaN wins, so that it reaches the result.
    if (ORDER == 0) return a > b || a != a ? a : b;
    return a + b;
}

__device__ T taken(T x) { return ORDER == 2 ? x * x : x < T(0) ? -x : x; }

extern "C" __global__ void __launch_bounds__(THREADS) norms(Table table) {
    __shared__ T of_warp[THREADS / 32];
    const T* in = reinterpret_cast<const T*>(table.in[blockIdx.x]);
    const int size = int(table.size[blockIdx.x]);
    T some[4] = {T(0), T(0), T(0), T(0)};
    int i = threadIdx.x;
    for (; i + 3 * THREADS < size; i += 4 * THREADS) {
#pragma unroll
        for (int k = 0; k < 4; ++k) some[k] = joined(some[k], taken(in[i + k * THREADS]));
    }
    for (; i < size; i += THREADS) some[0] = joined(some[0], taken(in[i]));
    T whole = joined(joined(some[0], some[1]), joined(some[2], some[3]));
    for (int by = 16; by > 0; by /= 2)
        whole = joined(whole, __shfl_xor_sync(0xffffffffu, whole, by, 32));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = whole;
    __syncthreads();
    if (threadIdx.x) return;
    for (int warp = 1; warp < THREADS / 32; ++warp) whole = joined(whole, of_warp[warp]);
    *reinterpret_cast<T*>(table.out[blockIdx.x]) = ORDER == 2 ? sqrt(whole) : whole;
}
