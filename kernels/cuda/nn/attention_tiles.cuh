// Tiles of attention in shared memory, their products in registers, and the struct of a task, for
// attention_tiles.cu, attention_by_query.cu and attention_by_key.cu.
//
// attention_tiles.py puts before this text: memory.cuh; the types Real and Mask; PACK, how many
// numbers 16 bytes hold; whether there is a mask, whether weights are DROPped, and whether all rows
// are PACKED, so that 16 bytes are read at once; the shape of tiles: THREADS of a block, of which
// LANES neighbours share rows, ROWS of queries, KEYS, and WIDTH, the numbers of a row; how many
// BLOCKS a multiprocessor holds; how many STEPS of a product are unrolled; philox.cuh, attention.cuh.
//
// Bound by arithmetic: a step over PACK numbers of two rows reads height + span packs of shared
// memory for PACK * height * span multiply-adds, which are of a thread's own rows and columns.

typedef Pack<Real, PACK> Some;

// Neighbouring keys of a thread: dropout draws words of four together.
constexpr int NEAR = 4;
constexpr int GROUPS = THREADS / LANES;  // of threads, each with a row at a time
constexpr int CHUNKS = WIDTH / PACK;     // packs of a row
constexpr int PARTS = CHUNKS / LANES;    // packs of a thread, of a row of what is made
// Packs lie mixed within a row, by three bits of where the row is: then threads that read the same
// pack of eight rows find them in eight different banks.
constexpr int MIXED = 8;
static_assert(LANES % MIXED == 0 && 32 % LANES == 0 && GROUPS % MIXED == 0, "eight rows at a time");
static_assert(CHUNKS % LANES == 0 && NEAR % PACK == 0, "whole packs");

// Rows of a head in memory, of so many numbers.
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
    int queries, keys, width, depth;      // lengths, and the numbers of a row
    int heads, sharing, tiles, causal;    // heads of a sample, and that share one of key
    long long factor, all, below, scale;  // bits of what queries are multiplied by; see Thinner
    // Strides of samples, heads, rows and columns.
    long long query[4], key[4], value[4], out[4], mask[4];

    __device__ Real by() const { return Real(__longlong_as_double(factor)); }
    // How many keys a query sees.
    __device__ int seen(int i) const { return causal && i + 1 < keys ? i + 1 : keys; }
    __device__ long long place(int head, int i) const { return (long long)(head) * queries + i; }
};

// The further arguments of a gradient.
struct Slopes : Task {
    long long g[4], result[4], by_key[4], by_value[4];
};

// The tile and head of a block. In causal attention tiles see more keys the later they are, and are
// seen by more queries the earlier: the longest work starts first.
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

// Which rows of a tile a thread has, each being `who` of so many: RUN neighbours at a time.
template <int RUN, int COUNT> struct Side {
    int who;
    __device__ int at(int k) const { return (k / RUN * COUNT + who) * RUN + k % RUN; }
};
__device__ inline int mixed(int c, int who) { return c ^ who % MIXED; }

// Lays rows of a matrix into a tile, times factor; zeros where there are none. They are mixed for
// runs of so many, if any.
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

// Makes products of a thread's rows of two tiles.
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

// Writes what a thread has of the scores' shape into a tile with rows of so many numbers, where the
// threads of its group read it.
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

// Adds rows of what was shared, times rows of a tile that was laid for runs, to a thread's part of
// what is made.
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

// Joins the parts of a row's threads, and gives all of them the result; the order is that of a
// fixed tree.
template <typename Join> __device__ Real join(Real value, Join joined) {
#pragma unroll
    for (int by = LANES / 2; by > 0; by /= 2)
        value = joined(value, __shfl_xor_sync(0xffffffffu, value, by, LANES));
    return value;
}

// A mask over the scores of a head.
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

// Replaces a score by its weight, and the gradient of the weight by that of the score. log_sum is
// the logarithm of the row's sum of exp(score); even, the term that all gradients of the row share.
__device__ inline void weigh(Real& score, Real& slope, bool seen, Real bias, Real stays,
                             Real log_sum, Real even) {
    const Real weight = seen ? ::exp(score + bias - log_sum) : Real(0);
    slope = seen ? weight * (slope * stays - even) : Real(0);
    score = weight * stays;
}

// The dropout factors of four neighbouring weights of a row.
__device__ inline void draw(const long long* seed, long long row, int key, const Task& task,
                            Real (&stays)[NEAR]) {
    if constexpr (DROPS) {
        Thinner(seed, row, task).four(key / NEAR, stays);
    } else {
#pragma unroll
        for (int e = 0; e < NEAR; ++e) stays[e] = Real(1);
    }
}
