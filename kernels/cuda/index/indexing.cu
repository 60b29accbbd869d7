// Reading and writing at places that an index along an axis names. indexing.py puts before this
// text: memory.cuh, poison.cuh, typedefs of Stored (in memory), Real (added), Place (of an index) and Index
// (counts elements), the number of axes DIMS, whether Stored IS_WHOLE or IS_COMPLEX, and how many
// entries one thread adds, CHUNK.
//
// Writes of several values to one place come sorted by it, and what is for it is taken in the order
// in which it lies: the last stays, or sums of chunks are added up. So results repeat, without
// atomics, and many values for one place do not wait for one thread.

constexpr int THREADS = 256;

struct Task {
    long long size, axis, length, step;  // length and step: of x along the axis
    long long shape[DIMS], step_x[DIMS], step_index[DIMS], step_out[DIMS];
};

// A thread computes one element of out. An index outside of the axis gives NaN, or the integer
// farthest from 0.
extern "C" __global__ void __launch_bounds__(THREADS)
gather(const Stored* x, const Place* index, Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    const long long place =
        index[offset_of<Index, DIMS>(Index(number), task.shape, task.step_index)];
    out += offset_of<Index, DIMS>(Index(number), task.shape, task.step_out);
    x += offset_of<Index, DIMS>(Index(number), task.shape, task.step_x);
    const bool inside = place >= 0 && place < task.length;
    *out = inside ? x[place * task.step] : poisoned<Stored>();
}

// Writes for each element of index the number of the element of out, in C order, that it names; -1
// for a place that the axis does not have. step_x are the steps of these numbers.
extern "C" __global__ void __launch_bounds__(THREADS)
number(const Place* index, long long* numbers, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    const long long place =
        index[offset_of<Index, DIMS>(Index(number), task.shape, task.step_index)];
    const long long rest = offset_of<Index, DIMS>(Index(number), task.shape, task.step_x);
    const bool inside = place >= 0 && place < task.length;
    numbers[number] = inside ? rest + place * task.step : -1;
}

// Adds the next of several axes: `numbers` are places in C order over the axes so far, -1 for a
// place that an axis does not have. step_index and shape are those of the places, axis says whether
// it is the first.
extern "C" __global__ void __launch_bounds__(THREADS)
locate(const Place* index, long long* numbers, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    long long place =
        index[offset_of<Index, DIMS>(Index(number), task.shape, task.step_index)];
    if (place < 0) place += task.length;
    const long long before = task.axis ? numbers[number] : 0;
    const bool inside = place >= 0 && place < task.length && before >= 0;
    numbers[number] = inside ? before * task.length + place : -1;
}

struct Runs {
    long long entries, columns, places;
    long long place_shape[DIMS], place_out[DIMS];
    long long column_shape[DIMS], column_out[DIMS], column_src[DIMS];
    long long entry_shape[DIMS], entry_src[DIMS];

    __device__ bool is_place(long long place) const { return place >= 0 && place < places; }

    template <typename T> __device__ T* at(long long place, long long column, T* out) const {
        out += offset_of<Index, DIMS>(Index(column), column_shape, column_out);
        return out + offset_of<Index, DIMS>(Index(place), place_shape, place_out);
    }

    template <typename T> __device__ T* given(long long entry, long long column, T* src) const {
        src += offset_of<Index, DIMS>(Index(column), column_shape, column_src);
        return src + offset_of<Index, DIMS>(Index(entry), entry_shape, entry_src);
    }
};

// Writes at each place the last of what of src is for it. sorted: the numbers of places, rising;
// order: which entry each of them belongs to, equals in their order.
extern "C" __global__ void __launch_bounds__(THREADS)
put(const Stored* src, const long long* sorted, const long long* order, Stored* out, Runs task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.entries * task.columns) return;
    // Neighbouring threads write neighbouring columns.
    const long long column = Index(number) % Index(task.columns);
    const long long k = Index(number) / Index(task.columns);
    const long long place = sorted[k];
    if (!task.is_place(place) || (k + 1 < task.entries && sorted[k + 1] == place)) return;
    *task.at(place, column, out) = *task.given(order[k], column, src);
}

// Adds to out the elements of src for each place, times by: each thread those in one chunk. A sum
// that continues in the next chunk, with out's old value, is written into tails; one that began
// before, into heads.
extern "C" __global__ void __launch_bounds__(THREADS)
add(const Stored* src, const long long* sorted, const long long* order, Real by, Stored* out,
    Real* tails, Real* heads, Runs task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.entries * task.columns) return;
    const long long column = Index(number) % Index(task.columns);
    long long k = Index(number) / Index(task.columns);
    const long long place = sorted[k], chunk = k / CHUNK;
    const bool begins = k == 0 || sorted[k - 1] != place;
    if (!task.is_place(place) || (!begins && k % CHUNK)) return;
    Stored* last = task.at(place, column, out);
    Real value = begins ? cast<Real>(*last) : Real(0);
    const long long next = (chunk + 1) * CHUNK, stop = next < task.entries ? next : task.entries;
    for (; k < stop && sorted[k] == place; ++k)
        value += by * cast<Real>(*task.given(order[k], column, src));
    if (!begins) heads[chunk * task.columns + column] = value;
    else if (k < task.entries && sorted[k] == place) tails[chunk * task.columns + column] = value;
    else *last = cast<Stored>(value);
}

// Joins what of one place lay in several chunks, in their order.
extern "C" __global__ void __launch_bounds__(THREADS)
join_chunks(const long long* sorted, const Real* tails, const Real* heads, Stored* out, Runs task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    const long long column = Index(number) % Index(task.columns);
    const long long chunk = Index(number) / Index(task.columns);
    const long long first = chunk * CHUNK, next = first + CHUNK;
    if (next >= task.entries) return;
    const long long place = sorted[next - 1];
    const bool begins = first == 0 || sorted[first - 1] != place;
    if (!task.is_place(place) || !begins || sorted[next] != place) return;
    // The place's entries end before `end`: how many chunks there are is known before they are read.
    long long end = task.entries;
    for (long long low = next + 1; low < end;) {
        const long long middle = low + (end - low) / 2;
        if (sorted[middle] == place) low = middle + 1;
        else end = middle;
    }
    Real value = tails[number];
    for (long long c = chunk + 1; c * CHUNK < end; ++c) value += heads[c * task.columns + column];
    *task.at(place, column, out) = cast<Stored>(value);
}

// Reads at places in the order of the entries: `src` is what is written.
extern "C" __global__ void __launch_bounds__(THREADS)
take(const Stored* out, const long long* numbers, Stored* src, Runs task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.entries * task.columns) return;
    const long long column = Index(number) % Index(task.columns);
    const long long entry = Index(number) / Index(task.columns);
    const long long place = numbers[entry];
    *task.given(entry, column, src) =
        task.is_place(place) ? *task.at(place, column, out) : poisoned<Stored>();
}
