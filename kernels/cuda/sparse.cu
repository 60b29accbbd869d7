// Entries of sparse tensors added up. sparse.py puts before this text: memory.cuh, typedefs of Stored
// (in memory) and Real (added).
//
// A thread makes one element of the result, and adds in the order in which places come, as the CPU's
// kernel does. Bound by memory: neighbours of a row are read together.

constexpr int THREADS = 256;

struct Task {
    long long size, width, step_row, step_column, weighed;
};

extern "C" __global__ void __launch_bounds__(THREADS)
gather_add(const Stored* x, const long long* starts, const long long* places, const Stored* weights,
           Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    const long long row = number / task.width, column = number - row * task.width;
    Real total = Real(0);
    for (long long k = starts[row]; k < starts[row + 1]; ++k) {
        const Real value =
            cast<Real>(x[places[k] * task.step_row + column * task.step_column]);
        total += task.weighed ? cast<Real>(weights[k]) * value : value;
    }
    out[number] = cast<Stored>(total);
}

struct Entries {
    long long size, width, count, axes, lengths[AXES];
};

// No two entries are of one place.
extern "C" __global__ void __launch_bounds__(THREADS)
add_entries(const Stored* values, const long long* indices, Stored* out, Entries task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    const long long entry = number / task.width, column = number - entry * task.width;
    long long row = 0;
    // Unrolled: an array that is read at a place unknown to the compiler lies in memory.
#pragma unroll
    for (int axis = 0; axis < AXES; ++axis)
        if (axis < task.axes) row = row * task.lengths[axis] + indices[axis * task.count + entry];
    Stored& place = out[row * task.width + column];
    place = cast<Stored>(cast<Real>(place) + cast<Real>(values[number]));
}
