// Convolutions of groups of few channels, and their adjoints, without columns. convolution.py puts
// before this file: memory.cuh, typedefs of Stored, Real (computed) and Index.
//
// Bound by memory: a kernel covers few numbers, which are in the cache when adjacent threads read
// them. One thread computes one number; for a weight's gradient, a warp does, in a fixed order, so
// that two runs agree bit by bit. All arrays are in C order.

constexpr int THREADS = 256;

struct Task {
    long long size, images, groups, inputs, outputs;  // channels of a group
    long long image[3], kernel[3], grid[3], stride[3], padding[3], dilation[3];
    long long has_bias;
};

__device__ inline long long volume(const long long* sizes) {
    return sizes[0] * sizes[1] * sizes[2];
}

__device__ inline void split(long long i, const long long* sizes, long long* at) {
    at[2] = i % sizes[2];
    at[1] = i / sizes[2] % sizes[1];
    at[0] = i / sizes[2] / sizes[1];
}

// Returns the offset in the image of the kernel element `tap` for `place` of the grid, or -1.
__device__ inline long long seen(const Task& t, const long long* place, const long long* tap) {
    long long from = 0;
    for (int axis = 0; axis < 3; ++axis) {
        const long long at =
            place[axis] * t.stride[axis] + tap[axis] * t.dilation[axis] - t.padding[axis];
        if (at < 0 || at >= t.image[axis]) return -1;
        from = from * t.image[axis] + at;
    }
    return from;
}

extern "C" __global__ void __launch_bounds__(THREADS)
forward(const Stored* x, const Stored* weight, const Stored* bias, Stored* out, Task t) {
    const Index i = Index(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= Index(t.size)) return;
    const long long places = volume(t.grid), taps = volume(t.kernel), size = volume(t.image);
    const long long channel = i / places % (t.groups * t.outputs);
    const long long group = channel / t.outputs, n = i / places / (t.groups * t.outputs);
    long long place[3], tap[3];
    split(i % places, t.grid, place);
    Real total = t.has_bias ? cast<Real>(bias[channel]) : Real(0);
    for (long long c = 0; c < t.inputs; ++c) {
        const Stored* ours = x + ((n * t.groups + group) * t.inputs + c) * size;
        const Stored* w = weight + (channel * t.inputs + c) * taps;
        for (long long k = 0; k < taps; ++k) {
            split(k, t.kernel, tap);
            const long long from = seen(t, place, tap);
            if (from >= 0) total += cast<Real>(ours[from]) * cast<Real>(w[k]);
        }
    }
    out[i] = cast<Stored>(total);
}

extern "C" __global__ void __launch_bounds__(THREADS)
by_input(const Stored* y, const Stored* weight, const Stored* bias, Stored* out, Task t) {
    const Index i = Index(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= Index(t.size)) return;
    const long long places = volume(t.grid), taps = volume(t.kernel), size = volume(t.image);
    const long long channel = i / size % (t.groups * t.inputs);
    const long long group = channel / t.inputs, n = i / size / (t.groups * t.inputs);
    long long at[3], tap[3];
    split(i % size, t.image, at);
    Real total = t.has_bias ? cast<Real>(bias[channel]) : Real(0);
    for (long long k = 0; k < taps; ++k) {
        split(k, t.kernel, tap);
        long long place = 0;
        bool meets = true;
        for (int axis = 0; axis < 3; ++axis) {
            const long long from = at[axis] + t.padding[axis] - tap[axis] * t.dilation[axis];
            const long long one = from / t.stride[axis];
            meets = meets && from >= 0 && one * t.stride[axis] == from && one < t.grid[axis];
            place = place * t.grid[axis] + one;
        }
        if (!meets) continue;
        for (long long o = 0; o < t.outputs; ++o) {
            const long long from = group * t.outputs + o;
            const Stored w = weight[(from * t.inputs + channel % t.inputs) * taps + k];
            const Stored g = y[(n * t.groups * t.outputs + from) * places + place];
            total += cast<Real>(g) * cast<Real>(w);
        }
    }
    out[i] = cast<Stored>(total);
}

extern "C" __global__ void __launch_bounds__(THREADS)
by_weight(const Stored* y, const Stored* x, Stored* out, Task t) {
    const Index i = (Index(blockIdx.x) * THREADS + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32;
    const bool mine = i < Index(t.size);
    const long long places = volume(t.grid), taps = volume(t.kernel), size = volume(t.image);
    Real total = Real(0);
    if (mine) {
        const long long channel = i / taps / t.inputs;
        const long long input = channel / t.outputs * t.inputs + i / taps % t.inputs;
        long long place[3], tap[3];
        split(i % taps, t.kernel, tap);
        for (long long j = lane; j < t.images * places; j += 32) {
            const long long n = j / places;
            split(j % places, t.grid, place);
            const long long from = seen(t, place, tap);
            if (from < 0) continue;
            const Stored g = y[(n * t.groups * t.outputs + channel) * places + j % places];
            total += cast<Real>(g) * cast<Real>(x[(n * t.groups * t.inputs + input) * size + from]);
        }
    }
    // Threads without a number must take part in the shuffles.
    for (int by = 16; by > 0; by /= 2) total += __shfl_xor_sync(0xffffffffu, total, by, 32);
    if (mine && lane == 0) out[i] = cast<Stored>(total);
}
