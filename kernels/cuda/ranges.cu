// Numbers in a row, made where they stand. ranges.py puts before this text: memory.cuh, and the
// typedef of Stored. Bound by memory: each is written once, and nothing is read.

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
    // The product is rounded by itself, as NumPy does it: no compiler joins a fma with a sum.
    if (i < task.size) out[i] = cast<Stored>(start + fma(double(i), step, 0.0));
}
