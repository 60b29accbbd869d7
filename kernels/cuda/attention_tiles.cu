// Attention of float32 and float64 in one launch: a block of threads keeps a tile of queries, goes
// over the tiles of keys and values that these see, and makes weights of scores in registers, so
// that no score reaches memory. Scores of later tiles may be larger: what was summed before them is
// made smaller then. attention_tiles.py puts before this text: memory.cuh; Real and Mask; PACK, the
// numbers that 16 bytes hold; whether there is a mask, weights are DROPped, and rows lie in memory
// as PACKED as that; the shape of tiles: THREADS of a block, of which LANES neighbours share rows,
// ROWS of queries, KEYS, and WIDTH, the numbers of a row; how many BLOCKS a multiprocessor holds,
// and STEPS of a product that are written out; philox.cuh and attention.cuh.
//
// Bound by arithmetic: a step over PACK numbers of a row reads HEIGHT + SPAN packs of shared memory
// for PACK * HEIGHT * SPAN multiply-adds.
//
// Source  Dao 2023, "FlashAttention-2: Faster Attention with Better Parallelism and Work
//         Partitioning"; Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"

typedef Pack<Real, PACK> Some;

// Neighbouring keys of a thread: dropout draws words of four together.
constexpr int NEAR = 4;
constexpr int GROUPS = THREADS / LANES;  // of threads, each with a row at a time
constexpr int HEIGHT = ROWS / GROUPS;    // rows of a thread
constexpr int SPAN = KEYS / LANES;       // keys of a thread
constexpr int CHUNKS = WIDTH / PACK;     // packs of a row
constexpr int PARTS = CHUNKS / LANES;    // packs of a thread, of a row of the result
constexpr int OF_KEYS = KEYS / PACK;     // packs of a row of weights
// Packs lie mixed within a row, by three bits of where the row is: then threads that read the same
// pack of eight rows find them in eight different banks.
constexpr int MIXED = 8;
static_assert(LANES % MIXED == 0 && 32 % LANES == 0 && GROUPS % MIXED == 0, "eight rows at a time");
static_assert(ROWS % GROUPS == 0 && SPAN % NEAR == 0 && NEAR % PACK == 0, "whole rows and keys");
static_assert(CHUNKS % LANES == 0 && OF_KEYS % MIXED == 0, "whole packs");

// Rows of a head in memory, of so many numbers.
struct Matrix {
    const Real* at;
    int rows, width;
    long long step, apart;
};

struct Task {
    int queries, keys, width, depth;      // lengths, and the numbers of a row
    int heads, sharing, tiles, causal;    // heads of a sample, and that share one of key
    long long factor, all, below, scale;  // bits of what queries are multiplied by; see Thinner
    // Of samples, heads, rows and columns.
    long long query[4], key[4], value[4], out[4], mask[4];
};

// Which queries of which head a block has. Those that see the most keys go first.
struct Piece {
    int head, sample, of_sample, first;
    __device__ explicit Piece(const Task& task) {
        const int block = blockIdx.x, heads = gridDim.x / task.tiles;
        const int tile = task.causal ? task.tiles - 1 - block / heads : block % task.tiles;
        head = task.causal ? block % heads : block / task.tiles;
        sample = head / task.heads, of_sample = head % task.heads;
        first = tile * ROWS;
    }
};

__device__ inline Real larger(Real a, Real b) { return a > b || a != a ? a : b; }

// What the threads of a row make of their parts, given to each; the order is that of a fixed tree.
template <typename Join> __device__ Real join(Real value, Join joined) {
#pragma unroll
    for (int by = LANES / 2; by > 0; by /= 2)
        value = joined(value, __shfl_xor_sync(0xffffffffu, value, by, LANES));
    return value;
}

// Lays rows of a matrix into a tile, times factor; zeros where there are none. Row i is mixed by
// i / apart.
template <int HIGH> __device__ void lay(Some* tile, const Matrix& from, int first, int apart,
                                        Real factor) {
    static_assert(HIGH * CHUNKS % THREADS == 0, "each thread as many packs");
#pragma unroll 4
    for (int k = 0; k < HIGH * CHUNKS / THREADS; ++k) {
        const int at = k * THREADS + threadIdx.x, i = at / CHUNKS, c = at % CHUNKS;
        const Real* row = from.at + (long long)(first + i) * from.step;
        Some some;
#pragma unroll
        for (int e = 0; e < PACK; ++e) some.lane[e] = Real(0);
        if (first + i < from.rows) {
            if constexpr (PACKED) {
                if (c * PACK < from.width) some = *reinterpret_cast<const Some*>(row + c * PACK);
            } else {
#pragma unroll
                for (int e = 0; e < PACK; ++e)
                    if (c * PACK + e < from.width) some.lane[e] = row[(c * PACK + e) * from.apart];
            }
        }
#pragma unroll
        for (int e = 0; e < PACK; ++e) some.lane[e] *= factor;
        tile[i * CHUNKS + (apart ? c ^ i / apart % MIXED : c)] = some;
    }
}

// A thread's place among those of a block.
struct Place {
    int lane, group;
    __device__ Place() : lane(threadIdx.x % LANES), group(threadIdx.x / LANES) {}
    __device__ int row(int r) const { return group + r * GROUPS; }
    __device__ int key(int j) const { return (j / NEAR * LANES + lane) * NEAR + j % NEAR; }
    // Where pack c of a row lies, of the thread's rows and of its keys.
    __device__ int in_row(int c) const { return c ^ group % MIXED; }
    __device__ int in_key(int c) const { return c ^ lane % MIXED; }
};

// Scores of a thread's rows and keys: products of rows of two tiles.
__device__ inline void multiply(const Some* queries, const Some* keys, const Place& place,
                                Real (&score)[HEIGHT][SPAN]) {
#pragma unroll
    for (int r = 0; r < HEIGHT; ++r)
#pragma unroll
        for (int j = 0; j < SPAN; ++j) score[r][j] = Real(0);
#pragma unroll STEPS
    for (int c = 0; c < CHUNKS; ++c) {
        Some q[HEIGHT];
#pragma unroll
        for (int r = 0; r < HEIGHT; ++r) q[r] = queries[place.row(r) * CHUNKS + place.in_row(c)];
#pragma unroll
        for (int j = 0; j < SPAN; ++j) {
            const Some k = keys[place.key(j) * CHUNKS + place.in_key(c)];
#pragma unroll
            for (int e = 0; e < PACK; ++e)
#pragma unroll
                for (int r = 0; r < HEIGHT; ++r) score[r][j] += q[r].lane[e] * k.lane[e];
        }
    }
}

// Writes what a thread has of rows of weights where the group reads it.
__device__ inline void share(const Real (&weight)[HEIGHT][SPAN], const Place& place, Some* tile) {
#pragma unroll
    for (int r = 0; r < HEIGHT; ++r)
#pragma unroll
        for (int j = 0; j < SPAN; j += PACK) {
            Some some;
#pragma unroll
            for (int e = 0; e < PACK; ++e) some.lane[e] = weight[r][j + e];
            tile[place.row(r) * OF_KEYS + place.in_row(place.key(j) / PACK)] = some;
        }
}

// Adds weights times values to the thread's part of the result.
__device__ inline void add(const Some* weights, const Some* values, const Place& place,
                           Some (&made)[HEIGHT][PARTS]) {
#pragma unroll 2 * STEPS
    for (int c = 0; c < OF_KEYS; ++c) {
        Some w[HEIGHT];
#pragma unroll
        for (int r = 0; r < HEIGHT; ++r) w[r] = weights[place.row(r) * OF_KEYS + place.in_row(c)];
#pragma unroll
        for (int e = 0; e < PACK; ++e)
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                const Some v = values[(c * PACK + e) * CHUNKS + part * LANES + place.lane];
#pragma unroll
                for (int r = 0; r < HEIGHT; ++r)
#pragma unroll
                    for (int f = 0; f < PACK; ++f)
                        made[r][part].lane[f] += w[r].lane[e] * v.lane[f];
            }
    }
}

// A mask over the scores of a head.
struct Biases {
    const Mask* at;
    long long row, key;
    __device__ Biases(const Mask* mask, const Piece& piece, const Task& task)
        : at(mask), row(task.mask[2]), key(task.mask[3]) {
        if (MASKED) at += piece.sample * task.mask[0] + piece.of_sample * task.mask[1];
    }
    __device__ Real of(int i, int j) const {
        return added(at[(long long)(i) * row + (long long)(j) * key]);
    }
};

// Of a thread's rows: the largest score so far, the thread's part of the sum of exp(score less
// that), and whether a mask let it see a key.
struct Sums {
    Real top[HEIGHT], total[HEIGHT];
    bool sees[HEIGHT];
    __device__ Sums() {
#pragma unroll
        for (int r = 0; r < HEIGHT; ++r)
            top[r] = -infinity(), total[r] = Real(0), sees[r] = !MASKED;
    }
    // What exponents are less: nothing of -inf, where all scores are that: their weights are NaN.
    static __device__ Real shift(Real top) { return top == -infinity() ? Real(0) : top; }

    // Puts exp(score) in the place of scores, and returns by what earlier sums of the row shrink.
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

// Adds the mask to scores, and leaves none of keys that a query does not see.
__device__ inline void hide(Real (&score)[HEIGHT][SPAN], const Place& place, const Piece& piece,
                            int first, const Biases& biases, const Task& task, Sums& sums) {
    const bool all = first + KEYS <= task.keys && (!task.causal || first + KEYS <= piece.first + 1);
    if (all && !MASKED) return;
#pragma unroll
    for (int r = 0; r < HEIGHT; ++r) {
        const int i = piece.first + place.row(r);
        const int seen = task.causal && i + 1 < task.keys ? i + 1 : task.keys;
#pragma unroll
        for (int j = 0; j < SPAN; ++j) {
            const int key = first + place.key(j);
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

__device__ inline void thin_out(Real (&weight)[HEIGHT][SPAN], const Place& place, const Piece& piece,
                                int first, const long long* seed, const Task& task) {
#pragma unroll
    for (int r = 0; r < HEIGHT; ++r) {
        const long long row = (long long)(piece.head) * task.queries + piece.first + place.row(r);
        const Thinner thinner(seed, row, task);
#pragma unroll
        for (int j = 0; j < SPAN; j += NEAR) {
            Real stays[NEAR];
            thinner.four((first + place.key(j)) / NEAR, stays);
#pragma unroll
            for (int e = 0; e < NEAR; ++e) weight[r][j + e] *= stays[e];
        }
    }
}

// Writes a thread's part of a row.
__device__ inline void put(Real* row, const Some (&made)[PARTS], const Place& place,
                           int width, long long apart) {
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        const int c = (part * LANES + place.lane) * PACK;
        if constexpr (PACKED) {
            if (c < width) *reinterpret_cast<Some*>(row + c) = made[part];
        } else {
#pragma unroll
            for (int e = 0; e < PACK; ++e)
                if (c + e < width) row[(c + e) * apart] = made[part].lane[e];
        }
    }
}

__device__ inline Matrix matrix_of(const Real* at, int sample, int head,
                                   const long long (&steps)[4], int rows, int width) {
    return {at + sample * steps[0] + head * steps[1], rows, width, steps[2], steps[3]};
}

// Writes attention, and the logarithm of the sum of exp(score) of each query.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
attend(const Real* query, const Real* key, const Real* value, const Mask* mask,
       const long long* seed, Real* out, Real* log_sum, Task task) {
    // Weights lie where the keys were of which they are made.
    constexpr int OF_BOTH = KEYS * CHUNKS > ROWS * OF_KEYS ? KEYS * CHUNKS : ROWS * OF_KEYS;
    __shared__ Some queries[ROWS * CHUNKS], keys[OF_BOTH], values[KEYS * CHUNKS];
    const Piece piece(task);
    const Place place;
    const Biases biases(mask, piece, task);
    const int kept = piece.of_sample / task.sharing;
    const Matrix of_key = matrix_of(key, piece.sample, kept, task.key, task.keys, task.width);
    const Matrix of_value = matrix_of(value, piece.sample, kept, task.value, task.keys, task.depth);
    lay<ROWS>(queries,
              matrix_of(query, piece.sample, piece.of_sample, task.query, task.queries, task.width),
              piece.first, 1, Real(__longlong_as_double(task.factor)));
    Sums sums;
    Some made[HEIGHT][PARTS];
#pragma unroll
    for (int r = 0; r < HEIGHT; ++r)
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
#pragma unroll
            for (int e = 0; e < PACK; ++e) made[r][part].lane[e] = Real(0);
    const int seen =
        task.causal && piece.first + ROWS < task.keys ? piece.first + ROWS : task.keys;
    for (int first = 0; first < seen; first += KEYS) {
        // What the tiles before hold has been read.
        __syncthreads();
        lay<KEYS>(keys, of_key, first, NEAR, Real(1));
        lay<KEYS>(values, of_value, first, 0, Real(1));
        __syncthreads();
        Real weight[HEIGHT][SPAN];
        multiply(queries, keys, place, weight);
        hide(weight, place, piece, first, biases, task, sums);
#pragma unroll
        for (int r = 0; r < HEIGHT; ++r) {
            const Real fade = sums.take(r, weight[r]);
#pragma unroll
            for (int part = 0; part < PARTS; ++part)
#pragma unroll
                for (int e = 0; e < PACK; ++e) made[r][part].lane[e] *= fade;
        }
        if constexpr (DROPS) thin_out(weight, place, piece, first, seed, task);
        __syncthreads();
        share(weight, place, keys);
        // The threads of a row are of one warp.
        __syncwarp();
        add(keys, values, place, made);
    }
    out += piece.sample * task.out[0] + piece.of_sample * task.out[1];
#pragma unroll
    for (int r = 0; r < HEIGHT; ++r) {
        const int i = piece.first + place.row(r);
        const Real total = join(sums.total[r], [](Real a, Real b) { return a + b; });
        // Where nothing is looked at there are no weights.
        const bool blind = MASKED && join(Real(sums.sees[r]), larger) == Real(0);
        if (i >= task.queries) continue;
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
#pragma unroll
            for (int e = 0; e < PACK; ++e)
                made[r][part].lane[e] = blind ? Real(0) : made[r][part].lane[e] / total;
        put(out + (long long)(i) * task.out[2], made[r], place, task.depth, task.out[3]);
        if (place.lane == 0)
            log_sum[(long long)(piece.head) * task.queries + i] =
                blind ? infinity() : Sums::shift(sums.top[r]) + ::log(total);
    }
}
