// Arithmetic sequences. ranges.py puts before this file: memory.cuh, typedefs of Stored, of Held
// (what evenly spaced numbers are rounded to) and Wide (what computes them), and whether Stored
// IS_WHOLE. Bound by memory: each number is written once, and nothing is read.

constexpr int THREADS = 256;

struct Task {
    long long size, start, step;
};

extern "C" __global__ void __launch_bounds__(THREADS)
whole(Stored* out, Task task) {
    const long long i = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    // Modulo 2**64, as in NumPy.
    typedef unsigned long long Long;
    if (i < task.size)
        out[i] = cast<Stored>((long long)(Long(task.start) + Long(i) * Long(task.step)));
}

extern "C" __global__ void __launch_bounds__(THREADS)
real(Stored* out, double start, double step, Task task) {
    const long long i = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    // The product is rounded separately, as in NumPy: the compiler must not contract it to an fma.
    if (i < task.size) out[i] = cast<Stored>(start + fma(double(i), step, 0.0));
}

// Computed from both ends; each product and each sum is rounded to Held, as in core/linspace.py.
extern "C" __global__ void __launch_bounds__(THREADS)
evenly(Stored* out, Wide start, Wide end, Wide step, Task task) {
    const long long i = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= task.size) return;
    const bool is_first = i < task.size / 2;
    const long long behind = is_first ? i : task.size - 1 - i;
    const Wide count = cast<Wide>(cast<Held>(Wide(behind)));
    // An fma that adds 0 rounds the product, and prevents the compiler from contracting it with the
    // sum below. It would turn a product of -0 into +0, so for 0 steps there is no fma.
    const Wide along = behind ? Wide(fma(count, step, Wide(0))) : step * Wide(0);
    const Wide moved = cast<Wide>(cast<Held>(along));
    const Held found = cast<Held>(is_first ? start + moved : end - moved);
    // In C, converting a negative float to an unsigned integer is undefined; through a signed
    // integer it gives NumPy's result.
    if constexpr (IS_WHOLE) out[i] = cast<Stored>((long long)(cast<double>(found)));
    else out[i] = cast<Stored>(found);
}
