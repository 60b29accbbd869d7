// The gradient of attention by queries, in one launch. A block of threads keeps a tile of queries
// and of the gradients by their results, and loops over the tiles of keys and values that they see.
// It computes weights again from the logarithms of sums. Included after attention_tiles.cuh.

constexpr int HEIGHT = ROWS / GROUPS;  // rows of a thread
constexpr int SPAN = KEYS / LANES;     // keys of a thread
static_assert(ROWS % GROUPS == 0 && SPAN % NEAR == 0, "whole rows and keys");
typedef Side<1, GROUPS> Queries;
typedef Side<NEAR, LANES> Keys;

// Returns a thread's part of the sum of gradient times result over a row: the term that all
// gradients by the row's scores share.
__device__ inline Real part_of_even(const Some* slopes, const Given& results, int r, int i,
                                    Queries queries, int lane) {
    Real sum = 0;
    if (i >= results.rows) return sum;
    const Real* row = results.row(i);
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        const int c = part * LANES + lane;
        const Some slope = slopes[queries.at(r) * CHUNKS + mixed(c, queries.who)];
#pragma unroll
        for (int e = 0; e < PACK; ++e)
            if (c * PACK + e < results.width)
                sum += slope.lane[e] * row[(c * PACK + e) * results.apart];
    }
    return sum;
}

// Writes the gradient by queries, and for each row the term that its gradients by scores share.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
by_query(const Real* g, const Real* query, const Real* key, const Real* value, const Mask* mask,
         const long long* seed, const Real* result, const Real* log_sum, Real* evens, Real* out,
         Slopes task) {
    // The gradients by scores overwrite the values.
    constexpr int OF_KEYS = KEYS * CHUNKS, OF_SCORES = ROWS * (KEYS / PACK);
    __shared__ Some of_queries[ROWS * CHUNKS], of_slopes[ROWS * CHUNKS], of_keys[OF_KEYS];
    __shared__ Some of_values[OF_KEYS > OF_SCORES ? OF_KEYS : OF_SCORES];
    const Piece piece(task, task.heads, true);
    const int top = piece.tile * ROWS, kept = piece.of_sample / task.sharing;
    const Queries queries{int(threadIdx.x) / LANES};
    const Keys keys{int(threadIdx.x) % LANES};
    const Biases biases(mask, piece.sample, piece.of_sample, task);
    const Given keys_from(key, piece.sample, kept, task.key, task.keys, task.width);
    const Given values_from(value, piece.sample, kept, task.value, task.keys, task.depth);
    lay<ROWS, 1, PACKED>(of_queries,
                         Given(query, piece.sample, piece.of_sample, task.query, task.queries,
                               task.width),
                         top, task.by());
    lay<ROWS, 1, PACKED_SLOPES>(
        of_slopes,
        Given(g, piece.sample, piece.of_sample, task.g, task.queries, task.depth), top);
    __syncthreads();
    Real even[HEIGHT], logs[HEIGHT];
    int sees[HEIGHT];
    const Given results(result, piece.sample, piece.of_sample, task.result, task.queries,
                        task.depth);
#pragma unroll
    for (int r = 0; r < HEIGHT; ++r) {
        const int i = top + queries.at(r);
        even[r] = join(part_of_even(of_slopes, results, r, i, queries, keys.who), plus);
        logs[r] = i < task.queries ? log_sum[task.place(piece.head, i)] : infinity();
        sees[r] = logs[r] == infinity() ? 0 : task.seen(i);
        if (i < task.queries && keys.who == 0) evens[task.place(piece.head, i)] = even[r];
    }
    Some made[HEIGHT][PARTS];
    clear(made);
    const int seen = task.seen(top + ROWS - 1);
    for (int first = 0; first < seen; first += KEYS) {
        // All threads have finished reading the previous tiles.
        __syncthreads();
        lay<KEYS, NEAR, PACKED>(of_keys, keys_from, first);
        lay<KEYS, NEAR, PACKED>(of_values, values_from, first);
        __syncthreads();
        Real score[HEIGHT][SPAN], slope[HEIGHT][SPAN];
        multiply(of_queries, queries, of_keys, keys, score);
        multiply(of_slopes, queries, of_values, keys, slope);
#pragma unroll
        for (int r = 0; r < HEIGHT; ++r) {
            const int i = top + queries.at(r);
#pragma unroll
            for (int j = 0; j < SPAN; j += NEAR) {
                Real stays[NEAR];
                draw(seed, task.place(piece.head, i), first + keys.at(j), task, stays);
#pragma unroll
                for (int e = 0; e < NEAR; ++e) {
                    const int at = first + keys.at(j + e);
                    const Real bias = MASKED && at < sees[r] ? biases.of(i, at) : Real(0);
                    weigh(score[r][j + e], slope[r][j + e], at < sees[r], bias, stays[e], logs[r],
                          even[r]);
                }
            }
        }
        __syncthreads();
        share<KEYS>(slope, queries, keys, of_values);
        // The threads of a row are in one warp.
        __syncwarp();
        add<KEYS, NEAR>(of_values, queries, of_keys, keys.who, made);
    }
    const Matrix<Real> to(out, piece.sample, piece.of_sample, task.out, task.queries, task.width);
    const Real factor = task.by();
#pragma unroll
    for (int r = 0; r < HEIGHT; ++r)
        if (top + queries.at(r) < task.queries)
            put(to, top + queries.at(r), made[r], keys.who, [&](Real sum) { return sum * factor; });
}
