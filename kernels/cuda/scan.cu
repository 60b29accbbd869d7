// Running sums, products and log-sums along one axis. scan.py puts before this text: memory.cuh,
// typedefs of Stored, Real (computed), Carry (goes from step to step) and Index, how many axes are
// KEPT, and what is JOINED: SUM, PRODUCT or LOG_SUM.
//
// A group of `lanes` neighbouring threads of one warp makes one row, `lanes` elements at a time.
// Bound by memory: each element is read and written once. The order of joining is that of a fixed
// tree for each length, so that two runs agree to the last bit.

constexpr int THREADS = 256;

struct Task {
    long long rows, length, lanes, step_in, step_out;
    long long kept_shape[KEPT], kept_out[KEPT], kept_in[KEPT];
};

template <typename T> __device__ T joined(T a, T b) {
    if constexpr (JOINED == LOG_SUM) {
        // Equals first: infinities have no difference.
        if (a == b) return a + ::log(T(2));
        const T rest = a > b ? b - a : a - b;
        return (a > b ? a : b) + ::log1p(::exp(rest));
    } else {
        return JOINED == PRODUCT ? a * b : a + b;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
scan(const Stored* in, Stored* out, Task task) {
    const int lanes = int(task.lanes), lane = threadIdx.x % lanes;
    const long long row = (long long)(blockIdx.x) * (THREADS / lanes) + threadIdx.x / lanes;
    const bool has_row = row < task.rows;
    if (has_row) {
        in += offset_of<Index, KEPT>(Index(row), task.kept_shape, task.kept_in);
        out += offset_of<Index, KEPT>(Index(row), task.kept_shape, task.kept_out);
    }
    Real nothing = Real(JOINED == PRODUCT ? 1 : 0);
    if constexpr (JOINED == LOG_SUM) nothing = Real(__longlong_as_double(0xfff0000000000000LL));
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
        if (mine) out[i * task.step_out] = cast<Stored>(joined(before, Carry(upto)));
        before = joined(before, Carry(whole));
    }
}
