// Patches of images under a sliding kernel, as columns (im2col), and their sums (col2im).
// patches.py puts before this file: memory.cuh, typedefs of Stored, Real (computed), Index, and
// Place, which is signed.
//
// Bound by memory: each number of the columns is read or written once. Adjacent threads have
// adjacent positions of the grid, or of the image. A thread of unfold writes several numbers of its
// position, one for each kernel element, which share the divisions that locate it. A thread of fold
// sums the contributions to one number of the image, in the order of the kernel elements: without
// atomics, so two runs agree bit by bit.

constexpr int THREADS = 256;

struct Task {
    // The number of threads, and how many numbers of a column each writes, which divides the
    // numbers of a channel.
    long long size, taps, images, channels;
    long long image[3], kernel[3], grid[3], stride[3], padding[3], dilation[3];
    // Strides of the images: image, channel and the three axes; of the columns: image, row, column.
    long long step[5], column_step[3];
};

extern "C" __global__ void __launch_bounds__(THREADS)
unfold(const Stored* __restrict__ images, Stored* __restrict__ columns, Task t) {
    const Index i = Index(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= Index(t.size)) return;
    Index rest = i;
    Place first[3], tap[3] = {0, 0, 0}, at[3];
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
        first[axis] = Place(rest % Index(t.grid[axis])) * Place(t.stride[axis])
            - Place(t.padding[axis]);
        rest /= Index(t.grid[axis]);
    }
    const Index column = i - rest * Index(t.grid[0] * t.grid[1] * t.grid[2]);
    const Index image = rest % Index(t.images);
    const Index row = rest / Index(t.images) * Index(t.taps);
    const Index volume = Index(t.kernel[0] * t.kernel[1] * t.kernel[2]);
    const Index channel = row / volume;
    Index begun = row - channel * volume;
    if (begun > 0) {
#pragma unroll
        for (int axis = 2; axis >= 0; --axis) {
            tap[axis] = begun % Index(t.kernel[axis]);
            begun /= Index(t.kernel[axis]);
        }
    }
#pragma unroll
    for (int axis = 0; axis < 3; ++axis)
        at[axis] = first[axis] + tap[axis] * Place(t.dilation[axis]);
    images += (long long)(image) * t.step[0] + (long long)(channel) * t.step[1];
    columns += (long long)(image) * t.column_step[0] + (long long)(row) * t.column_step[1]
        + (long long)(column) * t.column_step[2];
    for (Index left = Index(t.taps); left > 0; --left) {
        bool inside = true;
        Place from = 0;
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            inside = inside && Index(at[axis]) < Index(t.image[axis]);
            from += at[axis] * Place(t.step[2 + axis]);
        }
        *columns = inside ? images[from] : cast<Stored>(Real(0));
        columns += t.column_step[1];
#pragma unroll
        for (int axis = 2; axis >= 0; --axis) {
            at[axis] += Place(t.dilation[axis]);
            if (++tap[axis] < Place(t.kernel[axis])) break;
            tap[axis] = 0;
            at[axis] = first[axis];
        }
    }
}

// Returns the grid position at which a kernel element covers an image position, or -1. `from` is
// the distance of the image position from the position that the element covers at grid position 0.
__device__ inline Place place_of(Place from, const Task& t, int axis) {
    if (from < 0) return -1;
    const Index stride = Index(t.stride[axis]);
    const Index place = stride == 1 ? Index(from) : Index(from) / stride;
    return place * stride == Index(from) && place < Index(t.grid[axis]) ? Place(place) : -1;
}

extern "C" __global__ void __launch_bounds__(THREADS)
fold(const Stored* __restrict__ columns, Stored* __restrict__ images, Task t) {
    Index i = Index(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= Index(t.size)) return;
    Place at[3];
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
        at[axis] = i % Index(t.image[axis]);
        i /= Index(t.image[axis]);
    }
    const Index channel = i % Index(t.channels), image = i / Index(t.channels);
    images += (long long)(image) * t.step[0] + (long long)(channel) * t.step[1]
        + at[0] * t.step[2] + at[1] * t.step[3] + at[2] * t.step[4];
    columns += (long long)(image) * t.column_step[0]
        + (long long)(channel) * (t.kernel[0] * t.kernel[1] * t.kernel[2]) * t.column_step[1];
    for (int axis = 0; axis < 3; ++axis) at[axis] += Place(t.padding[axis]);
    Real total = Real(0);
    for (Place a = 0; a < Place(t.kernel[0]); ++a) {
        const Place p = place_of(at[0] - a * Place(t.dilation[0]), t, 0);
        if (p < 0) continue;
        for (Place b = 0; b < Place(t.kernel[1]); ++b) {
            const Place q = place_of(at[1] - b * Place(t.dilation[1]), t, 1);
            if (q < 0) continue;
            const Place row = (a * Place(t.kernel[1]) + b) * Place(t.kernel[2]);
            const Place column = (p * Place(t.grid[1]) + q) * Place(t.grid[2]);
            for (Place c = 0; c < Place(t.kernel[2]); ++c) {
                const Place r = place_of(at[2] - c * Place(t.dilation[2]), t, 2);
                if (r < 0) continue;
                total += cast<Real>(columns[(long long)(row + c) * t.column_step[1]
                                            + (long long)(column + r) * t.column_step[2]]);
            }
        }
    }
    *images = cast<Stored>(total);
}
