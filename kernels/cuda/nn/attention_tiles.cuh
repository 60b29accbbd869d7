// Tiles of attention in shared memory, their products in registers, and the struct of a task, for
// attention_tiles.cu, attention_by_query.cu and attention_by_key.cu.
//
// attention_tiles.py puts before this file: memory.cuh; the types Real and Mask; PACK, how many
// numbers 16 bytes hold; whether there is a mask, whether weights are DROPped, and whether all rows
// are PACKED, so that 16 bytes are read at a time. The shape of tiles: THREADS of a block, of which
// LANES adjacent ones share rows; ROWS of queries; KEYS; WIDTH, the numbers in a row. Then how many
// BLOCKS a multiprocessor holds, how many STEPS of a product are unrolled; philox.cuh,
// attention.cuh.
//
// Bound by arithmetic: a step over PACK numbers of two rows reads height + span packs of shared
// memory, for PACK * height * span multiply-adds; height and span are a thread's rows and columns.

typedef Pack<Real, PACK> Some;

// Adjacent keys of a thread: dropout draws the words of four together.
constexpr int NEAR = 4;
constexpr int GROUPS = THREADS / LANES;  // groups of threads; a group has a row at a time
constexpr int CHUNKS = WIDTH / PACK;     // packs of a row
constexpr int PARTS = CHUNKS / LANES;    // packs of a result's row per thread
// The packs of a row are permuted by three bits of the row's index (swizzling): then threads that
// read the same pack of eight rows use eight different banks.
constexpr int MIXED = 8;
static_assert(LANES % MIXED == 0 && 32 % LANES == 0 && GROUPS % MIXED == 0, "eight rows at a time");
static_assert(CHUNKS % LANES == 0 && NEAR % PACK == 0, "whole packs");

// Rows of a head in memory, of `width` numbers each.
template <typename Number> struct Matrix {
    Number* at;
    int rows, width;
    long long step, apart;
    __device__ Matrix(Number* given, int sample, int head, const long long (&steps)[4], int rows,
                      int width)
        : at(given + sample * steps[0] + head * steps[1]), rows(rows), width(width),
          step(steps[2]), apart(steps[3]) {}
    __device__ Number* row(int i) const { return at + (long long)(i) * step; }
};
typedef Matrix<const Real> Given;

struct Task {
    int queries, keys, width, depth;      // counts, and the numbers of a key's and a value's row
    int heads, sharing, tiles, causal;    // heads of a sample; heads per head of key
    long long factor, all, below, scale;  // the bits of the queries' factor; see Thinner
    // Strides of samples, heads, rows and columns.
    long long query[4], key[4], value[4], out[4], mask[4];

    __device__ Real by() const { return Real(__longlong_as_double(factor)); }
    // The number of keys that a query sees.
    __device__ int seen(int i) const { return causal && i + 1 < keys ? i + 1 : keys; }
    __device__ long long place(int head, int i) const { return (long long)(head) * queries + i; }
};

// The further arguments of a gradient.
struct Slopes : Task {
    long long g[4], result[4], by_key[4], by_value[4];
};

// The tile and head of a block. With a causal mask, later tiles of queries see more keys, and
// earlier tiles of keys are seen by more queries: blocks with the most work start first.
struct Piece {
    int head, sample, of_sample, tile;
    __device__ Piece(const Task& task, int heads_of_sample, bool last_first) {
        const int block = blockIdx.x, heads = gridDim.x / task.tiles;
        tile = task.causal ? block / heads : block % task.tiles;
        if (task.causal && last_first) tile = task.tiles - 1 - tile;
        head = task.causal ? block % heads : block / task.tiles;
        sample = head / heads_of_sample, of_sample = head % heads_of_sample;
    }
};

// The rows of a tile that a thread has, in runs of RUN adjacent rows. `who` is the index of the
// thread among COUNT threads.
template <int RUN, int COUNT> struct Side {
    int who;
    __device__ int at(int k) const { return (k / RUN * COUNT + who) * RUN + k % RUN; }
};
__device__ inline int mixed(int c, int who) { return c ^ who % MIXED; }

// Copies rows of a matrix into a tile, times factor, with zeros for missing rows. The packs are
// permuted for runs of RUN rows, or not if it is 0.
template <int HIGH, int RUN, bool packed>
__device__ void lay(Some* tile, const Given& from, int first, Real factor = Real(1)) {
    static_assert(HIGH * CHUNKS % THREADS == 0, "each thread as many packs");
#pragma unroll 4
    for (int k = 0; k < HIGH * CHUNKS / THREADS; ++k) {
        const unsigned int at = k * THREADS + threadIdx.x;
        const int i = at / CHUNKS, c = at % CHUNKS;
        const Real* row = from.row(first + i);
        Some some;
#pragma unroll
        for (int e = 0; e < PACK; ++e) some.lane[e] = Real(0);
        if (first + i < from.rows) {
            if constexpr (packed) {
                if (c * PACK < from.width) some = *reinterpret_cast<const Some*>(row + c * PACK);
            } else {
#pragma unroll
                for (int e = 0; e < PACK; ++e)
                    if (c * PACK + e < from.width) some.lane[e] = row[(c * PACK + e) * from.apart];
            }
        }
#pragma unroll
        for (int e = 0; e < PACK; ++e) some.lane[e] *= factor;
        tile[i * CHUNKS + (RUN ? mixed(c, i / (RUN ? RUN : 1)) : c)] = some;
    }
}

// Computes the dot products of a thread's rows of two tiles.
template <int HEIGHT, int SPAN, typename Left, typename Right>
__device__ void multiply(const Some* left, Left l, const Some* right, Right r,
                         Real (&made)[HEIGHT][SPAN]) {
#pragma unroll
    for (int i = 0; i < HEIGHT; ++i)
#pragma unroll
        for (int j = 0; j < SPAN; ++j) made[i][j] = Real(0);
#pragma unroll STEPS
    for (int c = 0; c < CHUNKS; ++c) {
        Some a[HEIGHT];
#pragma unroll
        for (int i = 0; i < HEIGHT; ++i) a[i] = left[l.at(i) * CHUNKS + mixed(c, l.who)];
#pragma unroll
        for (int j = 0; j < SPAN; ++j) {
            const Some b = right[r.at(j) * CHUNKS + mixed(c, r.who)];
#pragma unroll
            for (int e = 0; e < PACK; ++e)
#pragma unroll
                for (int i = 0; i < HEIGHT; ++i) made[i][j] += a[i].lane[e] * b.lane[e];
        }
    }
}

// Writes a thread's part of a matrix with the shape of the scores to a tile, from which the threads
// of its group read it. The tile has rows of LONG numbers.
template <int LONG, int HEIGHT, int SPAN, int RUN, int COUNT, typename Left>
__device__ void share(const Real (&from)[HEIGHT][SPAN], Left l, Side<RUN, COUNT> r, Some* tile) {
    constexpr int SOME = RUN < PACK ? RUN : PACK, WIDE = LONG / PACK;
    typedef Pack<Real, SOME> Few;
#pragma unroll
    for (int i = 0; i < HEIGHT; ++i)
#pragma unroll
        for (int j = 0; j < SPAN; j += SOME) {
            const int column = r.at(j), c = mixed(column / PACK, l.who % WIDE);
            Few few;
#pragma unroll
            for (int e = 0; e < SOME; ++e) few.lane[e] = from[i][j + e];
            Real* at = tile[l.at(i) * WIDE + c].lane + column % PACK;
            *reinterpret_cast<Few*>(at) = few;
        }
}

// Adds the product of rows written by `share` and of a tile copied by `lay` to a thread's part of
// the result.
template <int LONG, int RUN, int HEIGHT, typename Left>
__device__ void add(const Some* shared, Left l, const Some* tile, int lane,
                    Some (&made)[HEIGHT][PARTS]) {
    constexpr int WIDE = LONG / PACK;
#pragma unroll 2 * STEPS
    for (int c = 0; c < WIDE; ++c) {
        Some w[HEIGHT];
#pragma unroll
        for (int i = 0; i < HEIGHT; ++i) w[i] = shared[l.at(i) * WIDE + mixed(c, l.who % WIDE)];
#pragma unroll
        for (int e = 0; e < PACK; ++e) {
            const int row = c * PACK + e;
            const Some* at = tile + row * CHUNKS + (RUN ? mixed(lane, row / (RUN ? RUN : 1)) : lane);
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                const Some v = at[part * LANES];
#pragma unroll
                for (int i = 0; i < HEIGHT; ++i)
#pragma unroll
                    for (int f = 0; f < PACK; ++f)
                        made[i][part].lane[f] += w[i].lane[e] * v.lane[f];
            }
        }
    }
}

template <int HEIGHT> __device__ void clear(Some (&made)[HEIGHT][PARTS]) {
#pragma unroll
    for (int i = 0; i < HEIGHT; ++i)
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
#pragma unroll
            for (int e = 0; e < PACK; ++e) made[i][part].lane[e] = Real(0);
}

// Writes a thread's part of a row; act computes each number.
template <typename Act>
__device__ void put(const Matrix<Real>& to, int i, const Some (&made)[PARTS], int lane, Act act) {
    Real* row = to.row(i);
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        const int c = (part * LANES + lane) * PACK;
        Some some;
#pragma unroll
        for (int e = 0; e < PACK; ++e) some.lane[e] = act(made[part].lane[e]);
        if constexpr (PACKED) {
            if (c < to.width) *reinterpret_cast<Some*>(row + c) = some;
        } else {
#pragma unroll
            for (int e = 0; e < PACK; ++e)
                if (c + e < to.width) row[(c + e) * to.apart] = some.lane[e];
        }
    }
}

__device__ inline Real larger(Real a, Real b) { return a > b || a != a ? a : b; }
__device__ inline Real plus(Real a, Real b) { return a + b; }

// Sums the parts of a row over its threads, in a fixed tree order, and returns the sum to all of
// them.
template <typename Join> __device__ Real join(Real value, Join joined) {
#pragma unroll
    for (int by = LANES / 2; by > 0; by /= 2)
        value = joined(value, __shfl_xor_sync(0xffffffffu, value, by, LANES));
    return value;
}

// The mask of a head's scores.
struct Biases {
    const Mask* at;
    long long row, key;
    __device__ Biases(const Mask* mask, int sample, int head, const Task& task)
        : at(mask), row(task.mask[2]), key(task.mask[3]) {
        if (MASKED) at += sample * task.mask[0] + head * task.mask[1];
    }
    __device__ Real of(int i, int j) const {
        return added(at[(long long)(i) * row + (long long)(j) * key]);
    }
};

// Replaces a score by its weight, and the gradient of the weight by the gradient of the score.
// log_sum is the logarithm of the row's sum of exp(score); even, the term that all gradients of the
// row share.
__device__ inline void weigh(Real& score, Real& slope, bool seen, Real bias, Real stays,
                             Real log_sum, Real even) {
    const Real weight = seen ? ::exp(score + bias - log_sum) : Real(0);
    slope = seen ? weight * (slope * stays - even) : Real(0);
    score = weight * stays;
}

// The dropout factors of four adjacent weights of a row.
__device__ inline void draw(const long long* seed, long long row, int key, const Task& task,
                            Real (&stays)[NEAR]) {
    if constexpr (DROPS) {
        Thinner(seed, row, task).four(key / NEAR, stays);
    } else {
#pragma unroll
        for (int e = 0; e < NEAR; ++e) stays[e] = Real(1);
    }
}
