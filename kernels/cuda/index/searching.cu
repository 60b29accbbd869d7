// Where numbers go in ordered rows, and where a condition holds. searching.py puts before this text:
// memory.cuh, and typedefs of Stored (in memory) and Real (compared). All arrays are in C order.

constexpr int THREADS = 256;

struct Task {
    long long size, length, each;  // of a row, or of out; how many one row looks up, 0: all the first
};

// A thread halves the row of one number until it has its place, before or (right) behind its equals;
// where one of the two is NaN, behind what it met.
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

// Writes where x holds, in order. upto: how often it holds up to each place.
extern "C" __global__ void __launch_bounds__(THREADS)
hits(const Stored* x, const long long* upto, long long* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size || cast<Real>(x[number]) == Real(0)) return;
    const long long place = upto[number] - 1;
    if (place >= 0 && place < task.length) out[place] = number;
}
