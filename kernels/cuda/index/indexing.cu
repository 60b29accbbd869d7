// Reads and writes at places given by an index along an axis. indexing.py puts before this file:
// memory.cuh, poison.cuh, typedefs of Stored (in memory), Real (for additions), Place (of an index)
// and Index (counts elements), the number of axes DIMS, whether Stored IS_WHOLE or IS_COMPLEX, and
// CHUNK, how many entries one thread adds.
//
// If several values go to one place, the entries are sorted by place, and the entries of one place
// are processed in their order in memory: the last value wins, or the sums of chunks are added. So
// results are repeatable without atomics, and no thread has to process all values of a place.

constexpr int THREADS = 256;

struct Task {
    long long size, axis, length, step;  // length and step: of x along the axis
    long long shape[DIMS], step_x[DIMS], step_index[DIMS], step_out[DIMS];
};

// A thread computes one element of out. An index that is out of bounds gives NaN, or the largest or
// smallest integer.
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

// Writes, for each element of index, the flat number (in C order) of out's element that it selects;
// -1 if it is out of bounds. step_x are the strides of these numbers.
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

// Adds the next of several indexed axes: `numbers` are flat numbers over the axes so far, -1 if an
// index is out of bounds. step_index and shape are the strides and shape of the index; axis is 0
// for the first indexed axis.
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

// Writes the last element of src for each place. sorted: the flat numbers of places, ascending;
// order: the entry that each of them belongs to, stably sorted.
extern "C" __global__ void __launch_bounds__(THREADS)
put(const Stored* src, const long long* sorted, const long long* order, Stored* out, Runs task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.entries * task.columns) return;
    // Adjacent threads write adjacent columns.
    const long long column = Index(number) % Index(task.columns);
    const long long k = Index(number) / Index(task.columns);
    const long long place = sorted[k];
    if (!task.is_place(place) || (k + 1 < task.entries && sorted[k + 1] == place)) return;
    *task.at(place, column, out) = *task.given(order[k], column, src);
}

// Adds `by` times the elements of src to out; each thread adds the entries of one place in one
// chunk. If a sum continues in the next chunk, it is written to tails, with out's old value; if it
// began in an earlier chunk, to heads.
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

// Adds the sums of places whose entries are in several chunks, in order.
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
    // Find the end of the place's entries first, so that the number of chunks is known before the
    // loop.
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

// Reads elements at places in the order of the entries; `src` is the output.
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
