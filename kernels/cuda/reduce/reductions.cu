// Reductions over axes. reductions.py puts before this file: memory.cuh, the typedefs of folds.cuh,
// that file, Fold, Out (written), Index (counts elements), the numbers of axes KEPT and REDUCED,
// PACK (how many adjacent elements a thread reads at a time), whether States of chunks are JOINED
// and whether results are FINISHED, and whether PLACES (indices) are wanted.
//
// A group of `lanes` threads computes one result: for one index of the kept axes, over one chunk of
// the reduced elements. The assignment of elements to threads, and the order in which States are
// combined, follow from the shapes alone, so a result has the same bits on every GPU and in every
// run.
//
// Bound by memory. Adjacent threads read adjacent elements: of one result if the reduced elements
// are contiguous (lanes_lie_together), and then 16 bytes at a time if they begin at multiples of 16
// bytes; otherwise of adjacent results.

constexpr int THREADS = 256;

typedef Fold::State State;
template <bool yes, typename A, typename B> struct Choice { typedef A type; };
template <typename A, typename B> struct Choice<false, A, B> { typedef B type; };
typedef Choice<JOINED, Joined<Fold>, Fold::Lane>::type Lane;
typedef Choice<JOINED, State, In>::type Read;
typedef Choice<FINISHED, Out, State>::type Written;

struct Task {
    long long results, length, chunk;  // length: of the reduced axes; chunk: elements per group
    long long lanes, lanes_lie_together, count, argument;  // count: of all elements of a result
    long long kept_shape[KEPT], kept_out[KEPT], kept_places[KEPT], kept_in[KEPT];
    long long reduced_shape[REDUCED], reduced_in[REDUCED];
};

__device__ long long offset_of_reduced(long long i, const Task& task) {
    return offset_of<Index, REDUCED>(Index(i), task.reduced_shape, task.reduced_in);
}

__device__ State state_of_lane(const Read* in, const Task& task, long long begin, long long end,
                               double argument) {
    Lane lane;
    lane.begin();
    const long long step = task.lanes;
    long long i = begin;
    for (; i + 3 * step < end; i += 4 * step) {
        Read element[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) element[k] = in[offset_of_reduced(i + k * step, task)];
#pragma unroll
        for (int k = 0; k < 4; ++k) lane.take(k, element[k], i + k * step, argument);
    }
    for (; i < end; i += step) lane.take(0, in[offset_of_reduced(i, task)], i, argument);
    return lane.whole();
}

// The same for contiguous elements: several packs are in flight at a time. Elements after the last
// whole pack go to the lane that is next in turn.
template <int pack>
__device__ State state_of_packs(const Read* in, const Task& task, long long begin, long long end,
                                int first, double argument) {
    typedef Pack<Read, pack> Some;
    constexpr int TIMES = pack < 8 ? 4 : 16 / pack;
    Lane lane;
    lane.begin();
    const long long step = task.lanes * pack;
    long long i = begin + first * pack;
    for (; i + (TIMES - 1) * step + pack <= end; i += TIMES * step) {
        Some some[TIMES];
#pragma unroll
        for (int t = 0; t < TIMES; ++t) some[t] = *reinterpret_cast<const Some*>(in + i + t * step);
#pragma unroll
        for (int t = 0; t < TIMES; ++t)
#pragma unroll
            for (int k = 0; k < pack; ++k)
                lane.take((t * pack + k) % 4, some[t].lane[k], i + t * step + k, argument);
    }
    for (; i + pack <= end; i += step) {
        const Some some = *reinterpret_cast<const Some*>(in + i);
#pragma unroll
        for (int k = 0; k < pack; ++k) lane.take(k % 4, some.lane[k], i + k, argument);
    }
    for (; i < end; ++i) lane.take(0, in[i], i, argument);
    return lane.whole();
}

// A template, so that packs of States of chunks are not compiled.
template <int pack>
__device__ State state_of(const Read* in, const Task& task, long long begin, long long end, int lane,
                          double argument) {
    if constexpr (pack > 1) return state_of_packs<pack>(in, task, begin, end, lane, argument);
    else return state_of_lane(in, task, begin + lane, end, argument);
}

// A shuffle moves 32 bits, so a State is moved word by word.
__device__ State from_below(State state, int by, int width) {
    constexpr int words = sizeof(State) / 4;
    static_assert(words * 4 == sizeof(State), "a State is made of 32-bit words");
    unsigned int word[words];
    memcpy(word, &state, sizeof state);
#pragma unroll
    for (int w = 0; w < words; ++w) word[w] = __shfl_down_sync(0xffffffffu, word[w], by, width);
    memcpy(&state, word, sizeof state);
    return state;
}

// Combines the States of adjacent threads; the first thread of the group gets the result.
__device__ State join_neighbours(State state, int lanes) {
    __shared__ State of_warp[THREADS / 32];
    const int width = lanes < 32 ? lanes : 32;
    for (int by = width / 2; by > 0; by /= 2)
        state = Fold::join(state, from_below(state, by, width));
    if (lanes <= 32) return state;
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = state;
    __syncthreads();
    if (threadIdx.x % lanes == 0)
        for (int warp = 1; warp < lanes / 32; ++warp)
            state = Fold::join(state, of_warp[threadIdx.x / 32 + warp]);
    return state;
}

// Combines the States of threads that are `groups` apart.
__device__ State join_apart(State state, int lanes, int groups) {
    __shared__ State of_thread[THREADS];
    of_thread[threadIdx.x] = state;
    for (int half = lanes / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half * groups)
            of_thread[threadIdx.x] =
                Fold::join(of_thread[threadIdx.x], of_thread[threadIdx.x + half * groups]);
    }
    return of_thread[threadIdx.x];
}

// A template, so that parts that a fold or a launch does not have are not compiled.
template <typename F, typename To>
__device__ void give(State state, To* out, long long* place, const Task& task, double argument) {
    if constexpr (FINISHED) *out = cast<To>(F::value(state, task.count, argument));
    else *out = state;
    if constexpr (PLACES) *place = F::place(state);
}

// blockIdx.x counts blocks of results, blockIdx.y chunks, whose States are adjacent in out.
extern "C" __global__ void __launch_bounds__(THREADS)
reduce(const Read* in, Written* out, long long* places, Task task) {
    const int lanes = int(task.lanes), groups = THREADS / lanes;
    const double argument = __longlong_as_double(task.argument);
    const bool together = task.lanes_lie_together;
    const int lane = together ? threadIdx.x % lanes : threadIdx.x / groups;
    const int group = together ? threadIdx.x / lanes : threadIdx.x % groups;
    const long long which = (long long)(blockIdx.x) * groups + group;
    const long long begin = blockIdx.y * task.chunk;
    const long long end = begin + task.chunk < task.length ? begin + task.chunk : task.length;
    State state = Fold::nothing();
    if (which < task.results) {
        const long long first = offset_of<Index, KEPT>(Index(which), task.kept_shape, task.kept_in);
        state = state_of<PACK>(in + first, task, begin, end, lane, argument);
    }
    state = together ? join_neighbours(state, lanes) : join_apart(state, lanes, groups);
    if (lane != 0 || which >= task.results) return;
    const long long at = offset_of<Index, KEPT>(Index(which), task.kept_shape, task.kept_out);
    const long long place =
        offset_of<Index, KEPT>(Index(which), task.kept_shape, task.kept_places);
    give<Fold>(state, out + blockIdx.y * task.results + at, places + place, task, argument);
}
