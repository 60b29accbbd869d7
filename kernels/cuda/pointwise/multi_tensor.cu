// One program over rows of arrays. The source before this file defines T and Out; ARRAYS and
// NUMBERS, the numbers of variables; bit masks of the arrays that are READ and WRITTEN, and of the
// numbers that are addresses of columns: GIVEN; whether the first array is WATCHED; MOST, the rows
// of a table; CHUNK, the elements of a block; PACK; and
//
//     void update(T (&x)[ARRAYS], const T (&n)[NUMBERS])

__device__ double number_of(long long bits) {
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

struct Table {
    long long rows, end[MOST], size[MOST], at[ARRAYS][MOST];
    long long numbers[NUMBERS];  // bits of a double, or the address of a column of them
    long long skip, flag;  // addresses of floats, or 0
};

template <int count>
__device__ void step(Out* const (&at)[ARRAYS], int i, const T (&n)[NUMBERS], bool& odd) {
    typedef Pack<Out, count> Some;
    Some some[ARRAYS];
#pragma unroll
    for (int a = 0; a < ARRAYS; ++a)
        if (READ >> a & 1) some[a] = *reinterpret_cast<const Some*>(at[a] + i);
#pragma unroll
    for (int k = 0; k < count; ++k) {
        T x[ARRAYS];
#pragma unroll
        for (int a = 0; a < ARRAYS; ++a) x[a] = READ >> a & 1 ? cast<T>(some[a].lane[k]) : T(0);
        if (WATCHED) odd |= !scalar::isfinite(x[0]);
        update(x, n);
#pragma unroll
        for (int a = 0; a < ARRAYS; ++a)
            if (WRITTEN >> a & 1) some[a].lane[k] = cast<Out>(x[a]);
    }
#pragma unroll
    for (int a = 0; a < ARRAYS; ++a)
        if (WRITTEN >> a & 1) *reinterpret_cast<Some*>(at[a] + i) = some[a];
}

extern "C" __global__ void __launch_bounds__(THREADS) multi_tensor(Table table) {
    if (table.skip && *reinterpret_cast<const float*>(table.skip) != 0.0f) return;
    // The first row that ends after this block.
    int row = 0;
    for (int last = int(table.rows) - 1; row < last;) {
        const int middle = (row + last) / 2;
        if ((long long)(blockIdx.x) < table.end[middle])
            last = middle;
        else
            row = middle + 1;
    }
    const long long before = row ? table.end[row - 1] : 0;
    const long long begin = ((long long)(blockIdx.x) - before) * CHUNK;
    const long long left = table.size[row] - begin;
    const int size = int(left < CHUNK ? left : CHUNK);
    Out* at[ARRAYS];
    T n[NUMBERS];
#pragma unroll
    for (int a = 0; a < ARRAYS; ++a) at[a] = reinterpret_cast<Out*>(table.at[a][row]) + begin;
#pragma unroll
    for (int i = 0; i < NUMBERS; ++i) {
        const double* column = reinterpret_cast<const double*>(table.numbers[i]);
        // Rounded, as if it were stored and loaded.
        n[i] = cast<T>(cast<Out>(GIVEN >> i & 1 ? column[row] : number_of(table.numbers[i])));
    }
    bool odd = false;
    for (int i = threadIdx.x * PACK; i + PACK <= size; i += THREADS * PACK)
        step<PACK>(at, i, n, odd);
    for (int i = size / PACK * PACK + threadIdx.x; i < size; i += THREADS)
        step<1>(at, i, n, odd);
    // All threads that write it write the same value.
    if (WATCHED && odd) *reinterpret_cast<float*>(table.flag) = 1.0f;
}
