// Cumulative sums, products, log-sums and extremes along one axis. scan.py puts before this file:
// memory.cuh, typedefs of Stored, Real (computed), Carry (passed from tile to tile) and Index, the
// number of axes KEPT, ITEMS and PACK, JOINED, and sums.cuh or extremes.cuh. These define a Part
// (of adjacent elements) and a State (of many), how two are combined, and how a result is stored.
//
// A group of `lanes` adjacent threads processes one row, or one chunk of it, ITEMS * lanes elements
// at a time: a warp or less, or a whole block for long rows. A thread has ITEMS adjacent elements.
// It reads PACK of them at a time, or the group reads them one by one if the layout does not allow
// packs. The elements of the next tile are loaded while the elements of this tile are combined. If
// there are few rows, they are cut into chunks: `totals` combines each, and `scan` begins a chunk
// with the totals before it. Bound by memory: each element is written once and read once, or twice
// if there are chunks. The order of combining is a fixed tree for each length, layout and number of
// rows, so that two runs agree bit by bit; it would not be fixed if blocks waited for each other.

constexpr int THREADS = 256, WARPS = THREADS / 32;
static_assert(ITEMS % PACK == 0, "a thread reads whole packs");

struct Task {
    long long rows, length, lanes, chunk, chunks, step_places, step_in, step_out;
    long long state_row, state_chunk;
    long long kept_shape[KEPT], kept_out[KEPT], kept_places[KEPT], kept_in[KEPT];
};

// A shuffle moves 32 bits, so a State is moved word by word.
template <typename T> __device__ T of_lane(T value, int by, int width, bool is_relative) {
    constexpr int words = (sizeof(T) + 3) / 4;
    unsigned int word[words] = {};
    memcpy(word, &value, sizeof value);
#pragma unroll
    for (int w = 0; w < words; ++w)
        word[w] = is_relative ? __shfl_xor_sync(0xffffffffu, word[w], by, width)
                              : __shfl_sync(0xffffffffu, word[w], by, width);
    memcpy(&value, word, sizeof value);
    return value;
}

// Replaces each thread's value by the combination of the values up to its own; returns the whole.
template <typename T> __device__ T join_across(T& upto, int lanes) {
    T whole = upto;
    for (int by = 1; by < lanes; by *= 2) {
        const T other = of_lane(whole, by, lanes, true);
        const bool is_behind = threadIdx.x & by;
        if (is_behind) upto = joined(other, upto);
        whole = is_behind ? joined(other, whole) : joined(whole, other);
    }
    return whole;
}

// Transposes elements that a group read one by one, so that each thread has adjacent ones, or back.
template <bool back, typename T> __device__ void turn_round(T* item, int lanes) {
    __shared__ T through[THREADS * ITEMS];
    T* const group = through + threadIdx.x / lanes * lanes * ITEMS;
    const int lane = threadIdx.x % lanes;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) group[back ? lane * ITEMS + k : k * lanes + lane] = item[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) item[k] = group[back ? k * lanes + lane : lane * ITEMS + k];
    // A barrier, because the next iteration writes where slower threads may still read.
    __syncthreads();
}

// Scans from begin to end, starting with the State `before`. take(i, by, to) loads ITEMS elements
// from i on, `by` apart; give(i, by, upto) gets the results for them; the total is returned. All
// threads of a block take part; threads without a row read nothing.
template <typename P, typename Take, typename Give>
__device__ State along(State before, bool has_row, int lanes, long long begin, long long end,
                       Take take, Give give) {
    __shared__ State of_warp[2][WARPS];
    const int lane = threadIdx.x % lanes, width = lanes < 32 ? lanes : 32;
    const int warp = threadIdx.x / 32, in_warp = threadIdx.x % width;
    const int own = PACK > 1 ? ITEMS : 1, by = PACK > 1 ? 1 : lanes;
    const long long tile = (long long)(ITEMS)*lanes;
    int turn = 0;
    P next[ITEMS];
    if (has_row) take(begin + lane * own, by, next);
    for (long long start = begin; start < end; start += tile) {
        const long long first = start + lane * own;
        P upto[ITEMS];
#pragma unroll
        for (int k = 0; k < ITEMS; ++k)
            upto[k] = has_row && first + k * by < end ? next[k] : nothing<P>();
        if (has_row && start + tile < end) take(first + tile, by, next);
        if (PACK == 1 && lanes > 1) turn_round<false>(upto, lanes);
#pragma unroll
        for (int k = 1; k < ITEMS; ++k) upto[k] = joined(upto[k - 1], upto[k]);
        P last = upto[ITEMS - 1];
        const P whole = join_across(last, width);
        const P prior = of_lane(last, in_warp ? in_warp - 1 : 0, width, false);
        State ahead = before;
        if (lanes <= 32) {
            before = joined(before, State(whole));
        } else {
            if (threadIdx.x % 32 == 0) of_warp[turn][warp] = State(whole);
            // One barrier per tile is enough: memory that is read after it is overwritten only two
            // tiles later.
            __syncthreads();
            State some = of_warp[turn][threadIdx.x % WARPS];
            const State all = join_across(some, WARPS);
            const State warps = of_lane(some, warp ? warp - 1 : 0, WARPS, false);
            if (warp) ahead = joined(before, warps);
            before = joined(before, all);
            turn = 1 - turn;
        }
        if (in_warp) ahead = joined(ahead, State(prior));
        State made[ITEMS];
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) made[k] = joined(ahead, State(upto[k]));
        if constexpr (Give::WANTED) {
            if (PACK == 1 && lanes > 1) turn_round<true>(made, lanes);
            if (has_row) give(first, by, made);
        }
    }
    return before;
}

// Calls act(k, i) for each PACK of a thread's items that begins before end; i is its first element.
template <typename Act>
__device__ void each_pack(long long first, int by, long long end, Act act) {
#pragma unroll
    for (int k = 0; k < ITEMS; k += PACK)
        if (const long long i = first + k * by; i < end) act(k, i);
}

// Loads elements of a row, up to end.
struct Taking {
    const Stored* in;
    long long step, end;
    __device__ void operator()(long long first, int by, Part* to) const {
        each_pack(first, by, end, [&](int k, long long i) {
            const Pack<Stored, PACK> some = *reinterpret_cast<const Pack<Stored, PACK>*>(in + i * step);
#pragma unroll
            for (int j = 0; j < PACK; ++j) to[k + j] = taken(some.lane[j], i + j);
        });
    }
};

// Loads the States of the chunks before `end`.
struct Chunks {
    const State* states;
    long long step, end;
    __device__ void operator()(long long first, int by, State* to) const {
#pragma unroll
        for (int k = 0; k < ITEMS; ++k)
            if (const long long c = first + k * by; c < end) to[k] = states[c * step];
    }
};

struct Giving {
    static constexpr bool WANTED = true;
    Stored* out;
    long long* places;
    long long step_out, step_places, end;
    __device__ void operator()(long long first, int by, const State* upto) const {
        each_pack(first, by, end, [&](int k, long long i) {
            give(upto + k, out + i * step_out, places + i * step_places);
        });
    }
};
struct Nothing {
    static constexpr bool WANTED = false;
    __device__ void operator()(long long, int, const State*) const {}
};

// The row of a thread, and the range that it processes.
struct Chunk {
    int lanes;
    bool has_row;
    long long row, begin, end;
    __device__ Chunk(const Task& task) : lanes(int(task.lanes)) {
        row = (long long)(blockIdx.x) * (THREADS / lanes) + threadIdx.x / lanes;
        has_row = row < task.rows;
        if (!has_row) row = 0;
        begin = blockIdx.y * task.chunk;
        end = begin + task.chunk < task.length ? begin + task.chunk : task.length;
    }
};

// Writes the combination of each chunk of each row into states.
extern "C" __global__ void __launch_bounds__(THREADS)
totals(const Stored* in, State* states, Task task) {
    const Chunk at(task);
    in += offset_of<Index, KEPT>(Index(at.row), task.kept_shape, task.kept_in);
    const State whole = along<Part>(nothing<State>(), at.has_row, at.lanes, at.begin, at.end,
                                    Taking{in, task.step_in, at.end}, Nothing());
    if (at.has_row && threadIdx.x % at.lanes == 0)
        states[at.row * task.state_row + blockIdx.y * task.state_chunk] = whole;
}

// states: written by `totals`; not read if a row is one chunk. places: only for extremes.
extern "C" __global__ void __launch_bounds__(THREADS)
scan(const Stored* in, long long* places, Stored* out, const State* states, Task task) {
    const Chunk at(task);
    in += offset_of<Index, KEPT>(Index(at.row), task.kept_shape, task.kept_in);
    out += offset_of<Index, KEPT>(Index(at.row), task.kept_shape, task.kept_out);
    places += offset_of<Index, KEPT>(Index(at.row), task.kept_shape, task.kept_places);
    State before = nothing<State>();
    if (blockIdx.y) {
        states += at.row * task.state_row;
        before = along<State>(before, at.has_row, at.lanes, 0, blockIdx.y,
                              Chunks{states, task.state_chunk, blockIdx.y}, Nothing());
        // A barrier, because the next scan writes where slower threads may still read.
        __syncthreads();
    }
    along<Part>(before, at.has_row, at.lanes, at.begin, at.end, Taking{in, task.step_in, at.end},
                Giving{out, places, task.step_out, task.step_places, at.end});
}
