// Reduction of elements that share a place. scattering.py puts before this file: memory.cuh,
// primitives.cuh, typedefs of Stored (in memory), Real (computed) and Index (counts elements), the
// number of axes DIMS, CHUNK, the entries of one thread, and the reduction MET: SUM, MEAN, PROD,
// AMAX or AMIN.
//
// Entries are sorted by place, and the entries of one place are reduced in their order in memory,
// as in the CPU kernel. A thread processes the entries of one place in one chunk, so no thread has
// to process all entries of a place. So results are repeatable, and each entry is read once.

constexpr int THREADS = 256;

struct Task {
    long long entries, places, includes_self;
    long long place_shape[DIMS], place_out[DIMS], entry_shape[DIMS], entry_src[DIMS];

    __device__ Stored* at(long long place, Stored* out) const {
        return out + offset_of<Index, DIMS>(Index(place), place_shape, place_out);
    }
    __device__ bool is_place(long long place) const { return place >= 0 && place < places; }
};

__device__ Real met(Real old, Real fresh) {
    if constexpr (MET == PROD) return scalar::mul(old, fresh);
    else if constexpr (MET == AMAX) return scalar::maximum(old, fresh);
    else if constexpr (MET == AMIN) return scalar::minimum(old, fresh);
    else return scalar::add(old, fresh);
}

// Writes the reduction of a place's `count` entries.
__device__ void give(Real value, long long entries, Stored* out, const Task& task) {
    const long long count = entries + task.includes_self;
    if constexpr (MET == MEAN) {
        if constexpr (scalar::Is<Real>::real) value /= Real(count);
        else value = Real(scalar::floor_divide((long long)(value), count));
    }
    *out = cast<Stored>(value);
}

// sorted: the flat numbers of places, ascending; order: the entry that each belongs to, stably
// sorted. If a place continues in the next chunk, its result is written to tails; if it began in an
// earlier chunk, to heads.
extern "C" __global__ void __launch_bounds__(THREADS)
meet(const Stored* src, const long long* sorted, const long long* order, Stored* out, Real* tails,
     Real* heads, Task task) {
    const long long first = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (first >= task.entries) return;
    const long long place = sorted[first], chunk = first / CHUNK;
    const bool begins = first == 0 || sorted[first - 1] != place;
    if (!task.is_place(place) || (!begins && first % CHUNK)) return;
    Stored* here = task.at(place, out);
    bool is_one = begins && task.includes_self;
    Real value = is_one ? cast<Real>(*here) : Real(0);
    const long long next = (chunk + 1) * CHUNK, stop = next < task.entries ? next : task.entries;
    long long k = first;
    for (; k < stop && sorted[k] == place; ++k) {
        const long long at = order[k];
        const Real fresh = cast<Real>(
            src[offset_of<Index, DIMS>(Index(at), task.entry_shape, task.entry_src)]);
        value = is_one ? met(value, fresh) : fresh;
        is_one = true;
    }
    if (!begins) heads[chunk] = value;
    else if (k < task.entries && sorted[k] == place) tails[chunk] = value;
    else give(value, k - first, here, task);
}

// Finds the end (or the begin) of a place's entries between `low` and `high`, by bisection.
template <bool end>
__device__ long long edge(const long long* sorted, long long place, long long low, long long high) {
    while (low < high) {
        const long long middle = low + (high - low) / 2;
        if ((sorted[middle] == place) == end) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Combines the results of places whose entries are in several chunks, in order.
extern "C" __global__ void __launch_bounds__(THREADS)
meet_chunks(const long long* sorted, const Real* tails, const Real* heads, Stored* out, Task task) {
    const long long chunk = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    const long long first = chunk * CHUNK, next = first + CHUNK;
    if (next >= task.entries) return;
    const long long place = sorted[next - 1];
    const bool begins = first == 0 || sorted[first - 1] != place;
    if (!task.is_place(place) || !begins || sorted[next] != place) return;
    const long long begin = edge<false>(sorted, place, first, next - 1);
    const long long end = edge<true>(sorted, place, next + 1, task.entries);
    Real value = tails[chunk];
    for (long long c = chunk + 1; c * CHUNK < end; ++c) value = met(value, heads[c]);
    give(value, end - begin, task.at(place, out), task);
}
