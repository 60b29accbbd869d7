// Numbers in a row, made where they stand. ranges.py puts before this text: memory.cuh, typedefs of
// Stored, of Held (what numbers evenly apart are rounded to) and Wide (what computes them), and
// whether Stored IS_WHOLE. Bound by memory: each is written once, and nothing is read.

constexpr int THREADS = 256;

struct Task {
    long long size, start, step;
};

extern "C" __global__ void __launch_bounds__(THREADS)
whole(Stored* out, Task task) {
    const long long i = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    // Modulo 2**64, as NumPy counts.
    typedef unsigned long long Long;
    if (i < task.size)
        out[i] = cast<Stored>((long long)(Long(task.start) + Long(i) * Long(task.step)));
}

extern "C" __global__ void __launch_bounds__(THREADS)
real(Stored* out, double start, double step, Task task) {
    const long long i = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    // The product is rounded separately, as NumPy does it: no compiler joins a fma with a sum.
    if (i < task.size) out[i] = cast<Stored>(start + fma(double(i), step, 0.0));
}

// Counted from both ends, each product and each sum rounded to Held, as core/linspace.py does it.
extern "C" __global__ void __launch_bounds__(THREADS)
evenly(Stored* out, Wide start, Wide end, Wide step, Task task) {
    const long long i = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= task.size) return;
    const bool is_first = i < task.size / 2;
    const long long behind = is_first ? i : task.size - 1 - i;
    const Wide count = cast<Wide>(cast<Held>(Wide(behind)));
    // A fma with 0 is rounded separately; with no steps the product is exact, and keeps its sign.
    const Wide along = behind ? Wide(fma(count, step, Wide(0))) : step * Wide(0);
    const Wide moved = cast<Wide>(cast<Held>(along));
    const Held found = cast<Held>(is_first ? start + moved : end - moved);
    // C converts no negative float to an unsigned integer; through a signed integer it does, as
    // NumPy.
    if constexpr (IS_WHOLE) out[i] = cast<Stored>((long long)(cast<double>(found)));
    else out[i] = cast<Stored>(found);
}
