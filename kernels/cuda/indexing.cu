// Reading and writing at places that an index along an axis names. indexing.py puts before this
// text: memory.cuh, typedefs of Stored (in memory), Real (added) and Place (of an index), the number
// of axes DIMS, whether Stored IS_REAL, and whether what meets is ADDED; else the last stays.
//
// Writes of several values to one place come sorted by it: one thread makes a place of a column,
// and takes what is for it in the order in which it lies. So results repeat, without atomics.

constexpr int THREADS = 256;

// NaN, or the integer that is farthest out; true of bool.
template <typename T> __device__ T poison() {
    if constexpr (T(0.5) != T(0)) return T(__longlong_as_double(0x7ff8000000000000LL));
    else if constexpr (T(-1) > T(0)) return T(-1);
    else return T(1ULL << (8 * sizeof(T) - 1));
}

// A template: only what fits Stored is compiled.
template <typename T> __device__ T poisoned() {
    if constexpr (IS_REAL) return cast<T>(poison<Real>());
    else return poison<T>();
}

struct Task {
    long long size, axis, length, step;  // length and step: of x along the axis
    long long shape[DIMS], step_x[DIMS], step_index[DIMS], step_out[DIMS];
};

// A thread makes one element of out. What the axis has not is NaN, or an integer far out.
extern "C" __global__ void __launch_bounds__(THREADS)
gather(const Stored* x, const Place* index, Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    const long long place =
        index[offset_of<unsigned long long, DIMS>(number, task.shape, task.step_index)];
    out += offset_of<unsigned long long, DIMS>(number, task.shape, task.step_out);
    x += offset_of<unsigned long long, DIMS>(number, task.shape, task.step_x);
    const bool inside = place >= 0 && place < task.length;
    *out = inside ? x[place * task.step] : poisoned<Stored>();
}

// Writes for each element of index the number of the element of out, in C order, that it names; -1
// for what the axis has not. step_x are those numbers' steps.
extern "C" __global__ void __launch_bounds__(THREADS)
number(const Place* index, long long* numbers, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    const long long place =
        index[offset_of<unsigned long long, DIMS>(number, task.shape, task.step_index)];
    const long long rest = offset_of<unsigned long long, DIMS>(number, task.shape, task.step_x);
    const bool inside = place >= 0 && place < task.length;
    numbers[number] = inside ? rest + place * task.step : -1;
}

// Takes the next axis of several in: `numbers` of places in C order over the axes so far, -1 for what
// an axis has not. step_index and shape are those of the places, axis says whether it is the first.
extern "C" __global__ void __launch_bounds__(THREADS)
locate(const Place* index, long long* numbers, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    long long place =
        index[offset_of<unsigned long long, DIMS>(number, task.shape, task.step_index)];
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
};

// Adds to out, or writes there, what of src is for each place. sorted: the numbers of places, rising;
// order: which entry each of them belongs to, equals in their order.
extern "C" __global__ void __launch_bounds__(THREADS)
put(const Stored* src, const long long* sorted, const long long* order, Real by, Stored* out,
    Runs task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.entries * task.columns) return;
    // Neighbouring threads write neighbouring columns.
    const long long column = number % task.columns;
    long long k = number / task.columns;
    const long long place = sorted[k];
    if (place < 0 || place >= task.places || (k > 0 && sorted[k - 1] == place)) return;
    src += offset_of<unsigned long long, DIMS>(column, task.column_shape, task.column_src);
    out += offset_of<unsigned long long, DIMS>(column, task.column_shape, task.column_out);
    out += offset_of<unsigned long long, DIMS>(place, task.place_shape, task.place_out);
    Real value = cast<Real>(*out);
    Stored last = *out;
    for (; k < task.entries && sorted[k] == place; ++k) {
        last = src[offset_of<unsigned long long, DIMS>(order[k], task.entry_shape, task.entry_src)];
        if constexpr (ADDED) value += by * cast<Real>(last);
    }
    if constexpr (ADDED) last = cast<Stored>(value);
    *out = last;
}

// Reads at places in the order of the entries: `src` is what is written.
extern "C" __global__ void __launch_bounds__(THREADS)
take(const Stored* out, const long long* numbers, Stored* src, Runs task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.entries * task.columns) return;
    const long long column = number % task.columns, entry = number / task.columns;
    const long long place = numbers[entry];
    src += offset_of<unsigned long long, DIMS>(column, task.column_shape, task.column_src);
    src += offset_of<unsigned long long, DIMS>(entry, task.entry_shape, task.entry_src);
    out += offset_of<unsigned long long, DIMS>(column, task.column_shape, task.column_out);
    const bool inside = place >= 0 && place < task.places;
    if (inside) out += offset_of<unsigned long long, DIMS>(place, task.place_shape, task.place_out);
    *src = inside ? *out : poisoned<Stored>();
}
