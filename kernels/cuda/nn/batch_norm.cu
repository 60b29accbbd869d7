// Batch norm over samples and positions of each channel, and its gradients. batch_norm.py puts
// before this file: memory.cuh, typedefs of Stored (x, g and out), Real (computed; also mean and
// variance), Scale and Shift (weight and bias) and Index, the number of axes KEPT, and which
// parameters exist.
//
// A block processes one channel and reads it three times; for a small channel, mostly from the
// cache after the first time. Sums are added in double, in an order that depends on the shape
// alone.

constexpr int THREADS = 256;

struct Task {
    long long count, step_g, step_x, step_out, is_whole;
    long long kept_shape[KEPT], kept_out[KEPT], kept_g[KEPT], kept_x[KEPT];
};

// Returns the sum to every thread of the block.
__device__ double total(double value) {
    __shared__ double of_warp[THREADS / 32];
    for (int by = 16; by > 0; by /= 2) value += __shfl_xor_sync(0xffffffffu, value, by, 32);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (int warp = 0; warp < THREADS / 32; ++warp) value += of_warp[warp];
    // A barrier, because the next call writes where slower threads may still read.
    __syncthreads();
    return value;
}

#define EACH(i) for (long long i = threadIdx.x; i < task.count; i += THREADS)
#define AT(array, i) array[offset_of<Index, KEPT>(Index(i), task.kept_shape, task.kept_##array)]

extern "C" __global__ void __launch_bounds__(THREADS)
channels(const Stored* x, const Scale* weight, const Shift* bias, Stored* out, Real* mean,
         Real* variance, double eps, Task task) {
    const long long c = blockIdx.x;
    x += c * task.step_x, out += c * task.step_out;
    double sum = 0;
    EACH(i) sum += cast<Real>(AT(x, i));
    const Real centre = Real(total(sum) / task.count);
    double squares = 0, rests = 0;
    EACH(i) {
        const Real away = cast<Real>(AT(x, i)) - centre;
        squares += double(away) * away, rests += away;
    }
    // Correct for the rounding error of the mean.
    const double rest = total(rests) / task.count;
    const Real spread = Real(total(squares) / task.count - rest * rest);
    const Real inverse = Real(1 / ::sqrt(double(spread) + eps));
    const Real scale = HAS_WEIGHT ? cast<Real>(weight[c]) * inverse : inverse;
    const Real shift = HAS_BIAS ? cast<Real>(bias[c]) : Real(0);
    EACH(i) AT(out, i) = cast<Stored>((cast<Real>(AT(x, i)) - centre) * scale + shift);
    if (threadIdx.x == 0) mean[c] = centre, variance[c] = spread;
}

extern "C" __global__ void __launch_bounds__(THREADS)
channels_gradients(const Stored* g, const Stored* x, const Scale* weight, const Real* mean,
                   const Real* variance, Stored* out, Real* by_weight, Real* by_bias, double eps,
                   Task task) {
    const long long c = blockIdx.x;
    g += c * task.step_g, x += c * task.step_x, out += c * task.step_out;
    const Real centre = mean[c], inverse = Real(1 / ::sqrt(double(variance[c]) + eps));
    double evens = 0, alongs = 0;
    EACH(i) {
        const Real slope = cast<Real>(AT(g, i));
        evens += slope, alongs += double(slope) * (cast<Real>(AT(x, i)) - centre);
    }
    evens = total(evens), alongs = total(alongs) * inverse;
    if (threadIdx.x == 0) by_weight[c] = Real(alongs), by_bias[c] = Real(evens);
    if (!task.is_whole) return;
    const Real even = Real(evens / task.count), along = Real(alongs * inverse / task.count);
    const Real scale = HAS_WEIGHT ? cast<Real>(weight[c]) * inverse : inverse;
    EACH(i) {
        const Real away = cast<Real>(AT(x, i)) - centre;
        AT(out, i) = cast<Stored>((cast<Real>(AT(g, i)) - even - away * along) * scale);
    }
}
