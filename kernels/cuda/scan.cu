// Running sums and products along one axis. scan.py puts before this text: memory.cuh, typedefs of
// Stored, Real (computed), Carry (goes from step to step) and Index, how many axes are KEPT, and
// PRODUCT.
//
// A group of `lanes` neighbouring threads of one warp makes one row, `lanes` elements at a time.
// Bound by memory: each element is read and written once. The order of joining is that of a fixed
// tree for each length, so that two runs agree to the last bit.

constexpr int THREADS = 256;

struct Task {
    long long rows, length, lanes, step_in, step_out;
    long long kept_shape[KEPT], kept_out[KEPT], kept_in[KEPT];
};

__device__ inline Real joined(Real a, Real b) { return PRODUCT ? a * b : a + b; }

extern "C" __global__ void __launch_bounds__(THREADS)
scan(const Stored* in, Stored* out, Task task) {
    const int lanes = int(task.lanes), lane = threadIdx.x % lanes;
    const long long row = (long long)(blockIdx.x) * (THREADS / lanes) + threadIdx.x / lanes;
    const bool has_row = row < task.rows;
    if (has_row) {
        in += offset_of<Index, KEPT>(Index(row), task.kept_shape, task.kept_in);
        out += offset_of<Index, KEPT>(Index(row), task.kept_shape, task.kept_out);
    }
    const Real nothing = Real(PRODUCT ? 1 : 0);
    Carry before = nothing;
    for (long long start = 0; start < task.length; start += lanes) {
        // Threads without an element go through the exchanges with the others.
        const long long i = start + lane;
        const bool mine = has_row && i < task.length;
        Real upto = mine ? cast<Real>(in[i * task.step_in]) : nothing;
        Real whole = upto;
        for (int by = 1; by < lanes; by *= 2) {
            const Real other = __shfl_xor_sync(0xffffffffu, whole, by, lanes);
            if (lane & by) upto = joined(other, upto);
            whole = lane & by ? joined(other, whole) : joined(whole, other);
        }
        if (mine) out[i * task.step_out] = cast<Stored>(PRODUCT ? before * upto : before + upto);
        before = PRODUCT ? before * whole : before + whole;
    }
}
