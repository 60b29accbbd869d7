// Running sums, products, log-sums and extremes along one axis. scan.py puts before this text:
// memory.cuh, typedefs of Stored, Real (computed), Carry (goes from tile to tile) and Index, how many
// axes are KEPT, JOINED, and sums.cuh or extremes.cuh, which say what a Part of neighbours and a
// State of many are, how two are joined, and what becomes of one.
//
// A group of `lanes` neighbouring threads goes along one row, or one chunk of it, ITEMS * lanes
// elements at a time: of a warp or fewer, or of a whole block where rows are long. A row of few
// others is cut into chunks: `totals` joins each, and `scan` begins a chunk with what the totals
// before it make. Bound by memory: each element is written once and read once, or twice if there
// are chunks. The order of joining is that of a fixed tree for each length and number of rows, so
// that two runs agree to the last bit; blocks that wait for each other would not have one.

constexpr int THREADS = 256, WARPS = THREADS / 32, ITEMS = 4;
static_assert(ITEMS * WARPS == 32, "a warp joins what the warps of a block found in a tile");

struct Task {
    long long rows, length, lanes, chunk, chunks, step_places, step_in, step_out;
    long long state_row, state_chunk;
    long long kept_shape[KEPT], kept_out[KEPT], kept_places[KEPT], kept_in[KEPT];
};

// A shuffle moves 32 bits: a State goes word by word.
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

// Makes of each thread's value what it and those of the threads before it join to; gives the whole.
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

// Goes from begin to end, with what stands before it; calls give(i, what is joined up to i), and
// gives the whole. All threads of a block go together: those without a row read nothing.
template <typename P, typename Take, typename Give>
__device__ State along(State before, bool has_row, int lanes, long long begin, long long end,
                       Take take, Give give) {
    __shared__ State of_warp[2][32];
    const int lane = threadIdx.x % lanes, width = lanes < 32 ? lanes : 32;
    int turn = 0;
    for (long long start = begin + lane; start - lane < end; start += (long long)(ITEMS)*lanes) {
        P upto[ITEMS], whole[ITEMS];
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const long long i = start + k * lanes;
            upto[k] = has_row && i < end ? take(i) : nothing<P>();
        }
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) whole[k] = join_across(upto[k], width);
        State ahead[ITEMS];  // of each item
        if (lanes <= 32) {
#pragma unroll
            for (int k = 0; k < ITEMS; ++k) {
                ahead[k] = before;
                before = joined(before, State(whole[k]));
            }
        } else {
            const int warp = threadIdx.x / 32;
            if (threadIdx.x % 32 == 0)
#pragma unroll
                for (int k = 0; k < ITEMS; ++k) of_warp[turn][k * WARPS + warp] = State(whole[k]);
            // One barrier a tile is enough: what is read behind it is written again two tiles on.
            __syncthreads();
            State some = of_warp[turn][threadIdx.x % 32];
            const State all = join_across(some, 32);
#pragma unroll
            for (int k = 0; k < ITEMS; ++k) {
                const int slot = k * WARPS + warp;
                const State prior = of_lane(some, slot ? slot - 1 : 0, 32, false);
                ahead[k] = slot ? joined(before, prior) : before;
            }
            before = joined(before, all);
            turn = 1 - turn;
        }
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const long long i = start + k * lanes;
            if (has_row && i < end) give(i, joined(ahead[k], State(upto[k])));
        }
    }
    return before;
}

// Which row a thread goes along, and from where to where.
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

// Writes into states what each chunk of each row joins to.
extern "C" __global__ void __launch_bounds__(THREADS)
totals(const Stored* in, State* states, Task task) {
    const Chunk at(task);
    in += offset_of<Index, KEPT>(Index(at.row), task.kept_shape, task.kept_in);
    const State whole = along<Part>(
        nothing<State>(), at.has_row, at.lanes, at.begin, at.end,
        [&](long long i) { return taken(in[i * task.step_in], i); }, [](long long, State) {});
    if (at.has_row && threadIdx.x % at.lanes == 0)
        states[at.row * task.state_row + blockIdx.y * task.state_chunk] = whole;
}

// states: what `totals` wrote; not read where a row is one chunk. places: of extremes alone.
extern "C" __global__ void __launch_bounds__(THREADS)
scan(const Stored* in, long long* places, Stored* out, const State* states, Task task) {
    const Chunk at(task);
    in += offset_of<Index, KEPT>(Index(at.row), task.kept_shape, task.kept_in);
    out += offset_of<Index, KEPT>(Index(at.row), task.kept_shape, task.kept_out);
    places += offset_of<Index, KEPT>(Index(at.row), task.kept_shape, task.kept_places);
    State before = nothing<State>();
    if (blockIdx.y) {
        states += at.row * task.state_row;
        before = along<State>(
            before, at.has_row, at.lanes, 0, blockIdx.y,
            [&](long long c) { return states[c * task.state_chunk]; }, [](long long, State) {});
        // The next walk writes where slower threads may still read.
        __syncthreads();
    }
    along<Part>(
        before, at.has_row, at.lanes, at.begin, at.end,
        [&](long long i) { return taken(in[i * task.step_in], i); },
        [&](long long i, State upto) {
            give(upto, out + i * task.step_out, places + i * task.step_places);
        });
}
