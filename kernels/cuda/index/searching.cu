// searchsorted and nonzero. searching.py puts before this file: memory.cuh, and typedefs of Stored
// (in memory) and Real (compared). All arrays are in C order.

constexpr int THREADS = 256;

struct Task {
    long long size, length, each;  // of a row, or of out; look-ups per row, 0: one row for all
};

// A thread finds the position of one number by bisection of its row, before or (right) after equal
// numbers; if a comparison involves NaN, after the compared element.
template <bool right>
__device__ void look_up(const Stored* x, const Stored* rows, long long* out, const Task& task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    if (task.each) rows += number / task.each * task.length;
    const Real wanted = cast<Real>(x[number]);
    long long low = 0;
    for (long long high = task.length; low < high;) {
        const long long middle = low + (high - low) / 2;
        const Real met = cast<Real>(rows[middle]);
        if (right ? !(met > wanted) : !(met >= wanted)) low = middle + 1;
        else high = middle;
    }
    out[number] = low;
}

extern "C" __global__ void __launch_bounds__(THREADS)
place_left(const Stored* x, const Stored* rows, long long* out, Task task) {
    look_up<false>(x, rows, out, task);
}

extern "C" __global__ void __launch_bounds__(THREADS)
place_right(const Stored* x, const Stored* rows, long long* out, Task task) {
    look_up<true>(x, rows, out, task);
}

// Writes the positions at which x is true, in order. upto: the running count of true elements.
extern "C" __global__ void __launch_bounds__(THREADS)
hits(const Stored* x, const long long* upto, long long* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size || cast<Real>(x[number]) == Real(0)) return;
    const long long place = upto[number] - 1;
    if (place >= 0 && place < task.length) out[place] = number;
}
