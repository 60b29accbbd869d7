// Patches of images under a sliding kernel, laid out as columns and added back. patches.py puts
// before this text: memory.cuh, typedefs of Stored, Real (computed) and Index.
//
// Bound by memory: each number of the columns is read or written once. One thread makes one number.
// What is added back is gathered by the image's number, in the order of the kernel's places: no
// atomics, so two runs agree to the last bit.

constexpr int THREADS = 256;

struct Task {
    long long size, channels;
    long long image[3], kernel[3], grid[3], stride[3], padding[3], dilation[3];
    // Of the images: image, channel and the three axes; of the columns: image, row, column.
    long long step[5], column_step[3];
};

extern "C" __global__ void __launch_bounds__(THREADS)
unfold(const Stored* images, Stored* columns, Task t) {
    Index i = Index(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= Index(t.size)) return;
    Index place[3], tap[3];
    long long column = 0, row = 0;
    for (int axis = 2; axis >= 0; --axis) {
        place[axis] = i % Index(t.grid[axis]);
        i /= Index(t.grid[axis]);
    }
    for (int axis = 2; axis >= 0; --axis) {
        tap[axis] = i % Index(t.kernel[axis]);
        i /= Index(t.kernel[axis]);
    }
    const Index channel = i % Index(t.channels), image = i / Index(t.channels);
    long long from = (long long)(image) * t.step[0] + (long long)(channel) * t.step[1];
    bool inside = true;
    row = channel;
    for (int axis = 0; axis < 3; ++axis) {
        const long long at = (long long)(place[axis]) * t.stride[axis]
            + (long long)(tap[axis]) * t.dilation[axis] - t.padding[axis];
        inside = inside && at >= 0 && at < t.image[axis];
        from += at * t.step[2 + axis];
        column = column * t.grid[axis] + place[axis];
        row = row * t.kernel[axis] + tap[axis];
    }
    columns[(long long)(image) * t.column_step[0] + row * t.column_step[1]
            + column * t.column_step[2]] = inside ? images[from] : cast<Stored>(Real(0));
}

// The place of the grid that the kernel's place `tap` brings to `at`, or -1.
__device__ inline long long place_of(long long at, long long tap, const Task& t, int axis) {
    const long long from = at + t.padding[axis] - tap * t.dilation[axis];
    const long long place = from / t.stride[axis];
    return from >= 0 && place * t.stride[axis] == from && place < t.grid[axis] ? place : -1;
}

extern "C" __global__ void __launch_bounds__(THREADS)
fold(const Stored* columns, Stored* images, Task t) {
    Index i = Index(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= Index(t.size)) return;
    long long at[3];
    for (int axis = 2; axis >= 0; --axis) {
        at[axis] = i % Index(t.image[axis]);
        i /= Index(t.image[axis]);
    }
    const long long channel = i % Index(t.channels), image = i / Index(t.channels);
    const Stored* ours = columns + image * t.column_step[0];
    Real total = Real(0);
    for (long long a = 0; a < t.kernel[0]; ++a) {
        const long long p = place_of(at[0], a, t, 0);
        if (p < 0) continue;
        for (long long b = 0; b < t.kernel[1]; ++b) {
            const long long q = place_of(at[1], b, t, 1);
            if (q < 0) continue;
            for (long long c = 0; c < t.kernel[2]; ++c) {
                const long long r = place_of(at[2], c, t, 2);
                if (r < 0) continue;
                const long long row =
                    ((channel * t.kernel[0] + a) * t.kernel[1] + b) * t.kernel[2] + c;
                const long long column = (p * t.grid[1] + q) * t.grid[2] + r;
                total += cast<Real>(ours[row * t.column_step[1] + column * t.column_step[2]]);
            }
        }
    }
    images[image * t.step[0] + channel * t.step[1] + at[0] * t.step[2] + at[1] * t.step[3]
           + at[2] * t.step[4]] = cast<Stored>(total);
}
