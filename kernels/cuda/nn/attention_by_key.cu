// The gradient of attention by keys and values, in one launch. A block of threads keeps a tile of
// both, and loops over the tiles of queries that see them, of all heads that share these keys. It
// computes weights again from the logarithms of sums. Included after attention_tiles.cuh.

constexpr int HEIGHT = KEYS / GROUPS;  // keys of a thread
constexpr int SPAN = ROWS / LANES;     // queries of a thread
static_assert(HEIGHT == NEAR && ROWS % LANES == 0, "whole keys and rows");
typedef Side<NEAR, GROUPS> Keys;
typedef Side<SPAN, LANES> Queries;

// Writes the gradients by keys and by values; `evens` are row terms that by_query has written.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
by_key(const Real* g, const Real* query, const Real* key, const Real* value, const Mask* mask,
       const long long* seed, const Real* log_sum, const Real* evens, Real* by_key,
       Real* by_value, Slopes task) {
    __shared__ Some of_keys[KEYS * CHUNKS], of_values[KEYS * CHUNKS];
    __shared__ Some of_queries[ROWS * CHUNKS], of_slopes[ROWS * CHUNKS];
    // Holds weights, and then gradients by scores; a row belongs to a key.
    __shared__ Some of_scores[KEYS * (ROWS / PACK)];
    const Piece piece(task, task.heads / task.sharing, false);
    const int top = piece.tile * KEYS;
    const Keys keys{int(threadIdx.x) / LANES};
    const Queries queries{int(threadIdx.x) % LANES};
    lay<KEYS, NEAR, PACKED>(
        of_keys, Given(key, piece.sample, piece.of_sample, task.key, task.keys, task.width), top);
    lay<KEYS, NEAR, PACKED>(
        of_values, Given(value, piece.sample, piece.of_sample, task.value, task.keys, task.depth),
        top);
    Some by_keys[HEIGHT][PARTS], by_values[HEIGHT][PARTS];
    clear(by_keys), clear(by_values);
    // The first query that sees a key.
    const int begin = task.causal ? top / ROWS * ROWS : 0;
    for (int sharer = 0; sharer < task.sharing; ++sharer) {
        const int of_sample = piece.of_sample * task.sharing + sharer;
        const int head = piece.sample * task.heads + of_sample;
        const Biases biases(mask, piece.sample, of_sample, task);
        const Given queries_from(query, piece.sample, of_sample, task.query, task.queries,
                                 task.width);
        const Given slopes_from(g, piece.sample, of_sample, task.g, task.queries, task.depth);
        for (int first = begin; first < task.queries; first += ROWS) {
            // All threads have finished reading the previous tiles.
            __syncthreads();
            lay<ROWS, SPAN, PACKED>(of_queries, queries_from, first, task.by());
            lay<ROWS, SPAN, PACKED_SLOPES>(of_slopes, slopes_from, first);
            __syncthreads();
            Real score[HEIGHT][SPAN], slope[HEIGHT][SPAN];
            multiply(of_keys, keys, of_queries, queries, score);
            multiply(of_values, keys, of_slopes, queries, slope);
#pragma unroll
            for (int j = 0; j < SPAN; ++j) {
                const int i = first + queries.at(j);
                const bool is_there = i < task.queries;
                const long long place = task.place(head, i);
                const Real logs = is_there ? log_sum[place] : infinity();
                const Real even = is_there ? evens[place] : Real(0);
                const int sees = logs == infinity() ? 0 : task.seen(i);
                Real stays[NEAR];
                draw(seed, place, top + keys.at(0), task, stays);
#pragma unroll
                for (int r = 0; r < NEAR; ++r) {
                    const int at = top + keys.at(r);
                    const Real bias = MASKED && at < sees ? biases.of(i, at) : Real(0);
                    weigh(score[r][j], slope[r][j], at < sees, bias, stays[r], logs, even);
                }
            }
            // The threads of a key are in one warp.
            share<ROWS>(score, keys, queries, of_scores);
            __syncwarp();
            add<ROWS, SPAN>(of_scores, keys, of_slopes, queries.who, by_values);
            __syncwarp();
            share<ROWS>(slope, keys, queries, of_scores);
            __syncwarp();
            add<ROWS, SPAN>(of_scores, keys, of_queries, queries.who, by_keys);
        }
    }
    const Matrix<Real> keys_to(by_key, piece.sample, piece.of_sample, task.by_key, task.keys,
                               task.width);
    const Matrix<Real> values_to(by_value, piece.sample, piece.of_sample, task.by_value,
                                 task.keys, task.depth);
    const auto same = [](Real sum) { return sum; };
#pragma unroll
    for (int r = 0; r < HEIGHT; ++r) {
        const int j = top + keys.at(r);
        if (j >= task.keys) continue;
        put(keys_to, j, by_keys[r], queries.who, same);
        put(values_to, j, by_values[r], queries.who, same);
    }
}
