// Softmax and its logarithm along one axis. softmax.py puts before this text: memory.cuh, typedefs
// of Stored, Real (computed) and Index, how many axes are KEPT, and LOGARITHM.
//
// A group of `lanes` neighbouring threads makes one row: its maximum, the sum of exp(x - maximum),
// then the results. Bound by memory: x is read three times, the second and third time mostly from
// the cache. A row with NaN or +inf gives NaN throughout, for inf - inf is NaN.

constexpr int THREADS = 256;

struct Task {
    long long rows, length, lanes, step_in, step_out;
    long long kept_shape[KEPT], kept_out[KEPT], kept_in[KEPT];
};

struct Larger {
    // NaN wins, so that it reaches every result of its row.
    __device__ Real operator()(Real a, Real b) const { return a > b || a != a ? a : b; }
};
struct Plus {
    __device__ Real operator()(Real a, Real b) const { return a + b; }
};

// Gives the whole to every thread of the group. Each order of joining is that of a fixed tree.
template <typename Join> __device__ Real join(Real value, int lanes, Join joined) {
    __shared__ Real of_warp[THREADS / 32];
    const int width = lanes < 32 ? lanes : 32;
    for (int by = width / 2; by > 0; by /= 2)
        value = joined(value, __shfl_xor_sync(0xffffffffu, value, by, width));
    if (lanes <= 32) return value;
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    const int first = threadIdx.x / lanes * (lanes / 32);
    value = of_warp[first];
    for (int warp = 1; warp < lanes / 32; ++warp) value = joined(value, of_warp[first + warp]);
    // The next call writes where slower threads may still read.
    __syncthreads();
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
softmax(const Stored* in, Stored* out, Task task) {
    const int lanes = int(task.lanes), lane = threadIdx.x % lanes;
    const long long row = (long long)(blockIdx.x) * (THREADS / lanes) + threadIdx.x / lanes;
    // Threads without a row go through the barriers with the others.
    const long long length = row < task.rows ? task.length : 0;
    if (length) {
        in += offset_of<Index, KEPT>(Index(row), task.kept_shape, task.kept_in);
        out += offset_of<Index, KEPT>(Index(row), task.kept_shape, task.kept_out);
    }
    Real top = Real(-__longlong_as_double(0x7ff0000000000000LL));
    for (long long i = lane; i < length; i += lanes)
        top = Larger()(top, cast<Real>(in[i * task.step_in]));
    top = join(top, lanes, Larger());
    Real sum = Real(0);
    for (long long i = lane; i < length; i += lanes)
        sum += ::exp(cast<Real>(in[i * task.step_in]) - top);
    sum = join(sum, lanes, Plus());
    const Real logarithm = ::log(sum);
    for (long long i = lane; i < length; i += lanes) {
        const Real x = cast<Real>(in[i * task.step_in]) - top;
        out[i * task.step_out] = cast<Stored>(LOGARITHM ? x - logarithm : ::exp(x) / sum);
    }
}
