// Averages of windows along rows, and their adjoint. averages.py puts before this file: memory.cuh,
// typedefs of Stored, Real (for additions) and Index, and KEPT, the number of merged axes of rows.
//
// A thread computes one element, and adds in the order of the CPU kernel. Bound by memory for small
// windows: elements that adjacent windows share come from the cache.

constexpr int THREADS = 256;

struct Task {
    long long size, length, outputs, kernel, stride, padding, whole, step_in, step_out;
    long long kept_shape[KEPT], kept_in[KEPT], kept_out[KEPT];
};

__device__ long long smaller(long long a, long long b) { return a < b ? a : b; }

// Returns the divisor of the sum of a window that begins at `first`.
__device__ long long count_of(const Task& task, long long first) {
    long long end = smaller(first + task.kernel, task.length + task.padding);
    if (!task.whole) {
        first = first < 0 ? 0 : first;
        end = smaller(end, task.length);
    }
    return end - first;
}

extern "C" __global__ void __launch_bounds__(THREADS)
average(const Stored* in, Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    const Index row = Index(number) / Index(task.outputs);
    const long long i = number - (long long)(row) * task.outputs;
    in += offset_of<Index, KEPT>(row, task.kept_shape, task.kept_in);
    out += offset_of<Index, KEPT>(row, task.kept_shape, task.kept_out);
    const long long first = i * task.stride - task.padding;
    const long long end = smaller(first + task.kernel, task.length);
    Real total = Real(0);
    for (long long place = first < 0 ? 0 : first; place < end; ++place)
        total += cast<Real>(in[place * task.step_in]);
    out[i * task.step_out] = cast<Stored>(total / Real(count_of(task, first)));
}

extern "C" __global__ void __launch_bounds__(THREADS)
spread(const Stored* in, Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    const Index row = Index(number) / Index(task.length);
    const long long place = number - (long long)(row) * task.length;
    in += offset_of<Index, KEPT>(row, task.kept_shape, task.kept_in);
    out += offset_of<Index, KEPT>(row, task.kept_shape, task.kept_out);
    const long long behind = place + task.padding - task.kernel;
    const long long begin = behind < 0 ? 0 : behind / task.stride + 1;
    Real total = Real(0);
    const long long last = smaller((place + task.padding) / task.stride, task.outputs - 1);
    for (long long i = last; i >= begin; --i)
        total += cast<Real>(in[i * task.step_in]) /
                 Real(count_of(task, i * task.stride - task.padding));
    out[place * task.step_out] = cast<Stored>(total);
}
