// Linear recurrences y[k] = factor[k] * y[k - 1] + x[k] along one axis; backwards those of
// y[k] = factor[k + 1] * y[k + 1] + x[k]. scan.py puts before this text: memory.cuh, typedefs of
// Stored and Index, how many axes are KEPT, and BACKWARDS.
//
// A group of `lanes` neighbouring threads of one warp reads `lanes` elements of a row at a time, and
// each of them then walks all of these, one step after the other, with what its neighbours hand it.
// A tree, as in scan.cu, would multiply factors before they meet y: an infinite one, or a product
// that overflows, would then make NaN where the steps one by one do not. A step waits for one
// multiplication and addition alone, for what is handed over does not depend on y.

constexpr int THREADS = 256;

struct Task {
    long long rows, length, lanes, step_factor, step_in, step_out;
    long long kept_shape[KEPT], kept_out[KEPT], kept_factor[KEPT], kept_in[KEPT];
};

extern "C" __global__ void __launch_bounds__(THREADS)
recurrence(const Stored* factor, const Stored* in, Stored* out, Task task) {
    const int lanes = int(task.lanes), lane = threadIdx.x % lanes;
    const long long row = (long long)(blockIdx.x) * (THREADS / lanes) + threadIdx.x / lanes;
    const bool has_row = row < task.rows;
    if (has_row) {
        factor += offset_of<Index, KEPT>(Index(row), task.kept_shape, task.kept_factor);
        in += offset_of<Index, KEPT>(Index(row), task.kept_shape, task.kept_in);
        out += offset_of<Index, KEPT>(Index(row), task.kept_shape, task.kept_out);
    }
    double y = 0;
    for (long long start = 0; start < task.length; start += lanes) {
        // Threads without an element go through the exchanges with the others.
        const long long k = start + lane;
        const bool mine = has_row && k < task.length;
        const long long i = BACKWARDS ? task.length - 1 - k : k;
        double factor_here = 0, value = 0, result = 0;
        if (mine) {
            value = cast<double>(in[i * task.step_in]);
            if (k) factor_here = cast<double>(factor[(BACKWARDS ? i + 1 : i) * task.step_factor]);
        }
        for (int step = 0; step < lanes; ++step) {
            const double by = __shfl_sync(0xffffffffu, factor_here, step, lanes);
            const double more = __shfl_sync(0xffffffffu, value, step, lanes);
            y = start + step ? by * y + more : more;
            if (lane == step) result = y;
        }
        if (mine) out[i * task.step_out] = cast<Stored>(result);
    }
}
