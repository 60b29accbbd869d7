// Attention of float32 and float64 in one launch. A block of threads keeps a tile of queries, and
// loops over the tiles of keys and values that these see. It computes weights from scores in
// registers, so that no score is written to memory. If scores of later tiles are larger, the
// earlier sums are scaled down. Included after attention_tiles.cuh.
//
// Source  Dao 2023, "FlashAttention-2: Faster Attention with Better Parallelism and Work
//         Partitioning"; Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"

constexpr int HEIGHT = ROWS / GROUPS;  // rows of a thread
constexpr int SPAN = KEYS / LANES;     // keys of a thread
static_assert(ROWS % GROUPS == 0 && SPAN % NEAR == 0, "whole rows and keys");
typedef Side<1, GROUPS> Queries;
typedef Side<NEAR, LANES> Keys;

// For each of a thread's rows: the largest score so far, the thread's part of the sum of exp(score
// - largest), and whether the mask let it see a key.
struct Sums {
    Real top[HEIGHT], total[HEIGHT];
    bool sees[HEIGHT];
    __device__ Sums() {
#pragma unroll
        for (int r = 0; r < HEIGHT; ++r)
            top[r] = -infinity(), total[r] = Real(0), sees[r] = !MASKED;
    }
    // The shift of exponents; 0 if all scores are -inf, so that their weights are NaN.
    static __device__ Real shift(Real top) { return top == -infinity() ? Real(0) : top; }

    // Replaces scores by exp(score), and returns the factor by which the row's earlier sums are
    // scaled.
    __device__ Real take(int r, Real (&score)[SPAN]) {
        Real most = top[r];
#pragma unroll
        for (int j = 0; j < SPAN; ++j) most = larger(most, score[j]);
        most = join(most, larger);
        const Real less = shift(most), fade = ::exp(top[r] - less);
        top[r] = most, total[r] *= fade;
#pragma unroll
        for (int j = 0; j < SPAN; ++j) score[j] = ::exp(score[j] - less), total[r] += score[j];
        return fade;
    }
};

// Adds the mask to scores, and sets the scores of keys that a query does not see to -inf.
__device__ inline void hide(Real (&score)[HEIGHT][SPAN], Queries queries, Keys keys, int top,
                            int first, const Biases& biases, const Task& task, Sums& sums) {
    if (first + KEYS <= task.seen(top) && !MASKED) return;
#pragma unroll
    for (int r = 0; r < HEIGHT; ++r) {
        const int i = top + queries.at(r), seen = task.seen(i);
#pragma unroll
        for (int j = 0; j < SPAN; ++j) {
            const int key = first + keys.at(j);
            if (key >= seen) {
                score[r][j] = -infinity();
            } else if (MASKED && i < task.queries) {
                const Real bias = biases.of(i, key);
                sums.sees[r] |= bias != -infinity();
                score[r][j] += bias;
            }
        }
    }
}

__device__ inline void thin_out(Real (&weight)[HEIGHT][SPAN], Queries queries, Keys keys,
                                long long row, int first, const long long* seed,
                                const Task& task) {
#pragma unroll
    for (int r = 0; r < HEIGHT; ++r) {
        const Thinner thinner(seed, row + queries.at(r), task);
#pragma unroll
        for (int j = 0; j < SPAN; j += NEAR) {
            Real stays[NEAR];
            thinner.four((first + keys.at(j)) / NEAR, stays);
#pragma unroll
            for (int e = 0; e < NEAR; ++e) weight[r][j + e] *= stays[e];
        }
    }
}

// Writes attention, and the logarithm of each query's sum of exp(score).
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
attend(const Real* query, const Real* key, const Real* value, const Mask* mask,
       const long long* seed, Real* out, Real* log_sum, Task task) {
    // In memory, weights overwrite the keys from which they were computed.
    constexpr int OF_KEYS = KEYS * CHUNKS, OF_WEIGHTS = ROWS * (KEYS / PACK);
    __shared__ Some of_queries[ROWS * CHUNKS], of_values[OF_KEYS];
    __shared__ Some of_keys[OF_KEYS > OF_WEIGHTS ? OF_KEYS : OF_WEIGHTS];
    const Piece piece(task, task.heads, true);
    const int top = piece.tile * ROWS, kept = piece.of_sample / task.sharing;
    const Queries queries{int(threadIdx.x) / LANES};
    const Keys keys{int(threadIdx.x) % LANES};
    const Biases biases(mask, piece.sample, piece.of_sample, task);
    const Given keys_from(key, piece.sample, kept, task.key, task.keys, task.width);
    const Given values_from(value, piece.sample, kept, task.value, task.keys, task.depth);
    const Given queries_from(query, piece.sample, piece.of_sample, task.query, task.queries,
                             task.width);
    lay<ROWS, 1, PACKED>(of_queries, queries_from, top, task.by());
    Sums sums;
    Some made[HEIGHT][PARTS];
    clear(made);
    const int seen = task.seen(top + ROWS - 1);
    for (int first = 0; first < seen; first += KEYS) {
        // Wait until all threads have finished reading the previous tiles.
        __syncthreads();
        lay<KEYS, NEAR, PACKED>(of_keys, keys_from, first);
        lay<KEYS, 0, PACKED>(of_values, values_from, first);
        __syncthreads();
        Real weight[HEIGHT][SPAN];
        multiply(of_queries, queries, of_keys, keys, weight);
        hide(weight, queries, keys, top, first, biases, task, sums);
#pragma unroll
        for (int r = 0; r < HEIGHT; ++r) {
            const Real fade = sums.take(r, weight[r]);
#pragma unroll
            for (int part = 0; part < PARTS; ++part)
#pragma unroll
                for (int e = 0; e < PACK; ++e) made[r][part].lane[e] *= fade;
        }
        if constexpr (DROPS)
            thin_out(weight, queries, keys, task.place(piece.head, top), first, seed, task);
        __syncthreads();
        share<KEYS>(weight, queries, keys, of_keys);
        // The threads of a row are in one warp.
        __syncwarp();
        add<KEYS, 0>(of_keys, queries, of_values, keys.who, made);
    }
    const Matrix<Real> to(out, piece.sample, piece.of_sample, task.out, task.queries, task.depth);
#pragma unroll
    for (int r = 0; r < HEIGHT; ++r) {
        const int i = top + queries.at(r);
        const Real total = join(sums.total[r], plus);
        // If no key is seen, there are no weights.
        const bool blind = MASKED && join(Real(sums.sees[r]), larger) == Real(0);
        if (i >= task.queries) continue;
        put(to, i, made[r], keys.who, [&](Real sum) { return blind ? Real(0) : sum / total; });
        if (keys.who == 0)
            log_sum[task.place(piece.head, i)] =
                blind ? infinity() : Sums::shift(sums.top[r]) + ::log(total);
    }
}
