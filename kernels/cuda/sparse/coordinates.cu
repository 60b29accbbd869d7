// Sums of entries of sparse tensors. coordinates.py puts before this file: memory.cuh, poison.cuh,
// typedefs of Stored (in memory) and Real (for additions), and whether Stored IS_WHOLE.
//
// An index is loaded once, and checked where it is used, because another stream may write to it.
//
// A thread computes one element of the result, and adds in the order of places, as in the CPU
// kernel. Bound by memory: adjacent elements of a row are read together.

constexpr int THREADS = 256;

struct Task {
    long long size, width, step_row, step_column, weighed, rows, count;
};

extern "C" __global__ void __launch_bounds__(THREADS)
gather_add(const Stored* x, const long long* starts, const long long* places, const Stored* weights,
           Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    const long long row = number / task.width, column = number - row * task.width;
    Real total = Real(0);
    const long long begin = starts[row], stop = starts[row + 1];
    const long long count = task.rows ? task.count : 0, end = stop < count ? stop : count;
    x += column * task.step_column;
    for (long long k = begin < 0 ? 0 : begin; k < end; ++k) {
        // No branch, so that several rows are loaded at a time.
        const long long place = places[k];
        const bool inside = place >= 0 && place < task.rows;
        const Stored found = x[(inside ? place : 0) * task.step_row];
        const Real value = cast<Real>(inside ? found : poisoned<Stored>());
        total += task.weighed ? cast<Real>(weights[k]) * value : value;
    }
    out[number] = cast<Stored>(total);
}

struct Entries {
    long long size, width, count, axes, lengths[AXES];

    // The flat number of an entry's place, in C order; -1 if one of its indices is out of bounds.
    __device__ long long row_of(const long long* indices, long long entry) const {
        long long row = 0;
        // Unrolled, because an array with an index unknown at compile time would be in local
        // memory.
#pragma unroll
        for (int axis = 0; axis < AXES; ++axis) {
            if (axis >= axes) continue;
            const long long index = indices[axis * count + entry];
            if (index < 0 || index >= lengths[axis]) return -1;
            row = row * lengths[axis] + index;
        }
        return row;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
flat_places(const long long* indices, long long* out, Entries task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number < task.size) out[number] = task.row_of(indices, number);
}

// No two entries have the same place.
extern "C" __global__ void __launch_bounds__(THREADS)
add_entries(const Stored* values, const long long* indices, Stored* out, Entries task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    const long long entry = number / task.width, column = number - entry * task.width;
    const long long row = task.row_of(indices, entry);
    if (row < 0) return;
    Stored& place = out[row * task.width + column];
    place = cast<Stored>(cast<Real>(place) + cast<Real>(values[number]));
}
