// Max pooling: the maximum of each window, and moves to and from its position. windows.py puts
// before this file: memory.cuh, poison.cuh, typedefs of Stored, Real (compared or added) and Index,
// whether Stored IS_WHOLE, LOWEST, and KEPT, the number of merged axes of planes.
//
// A thread computes one element of the output, so no atomics are needed. In `spread` it checks all
// windows that contain its element: at most four for a kernel of 3 x 3 and a stride of 2. Bound by
// memory: adjacent threads read adjacent elements.

constexpr int THREADS = 256;

struct Window { long long kernel, stride, padding, dilation; };
// The lengths of a plane's and of the windows' spatial axes, and the strides along them.
struct Task {
    long long size, length[3], count[3];
    Window window[3];
    long long step_in[3], step_out[3], step_places[3];
    long long kept_shape[KEPT], kept_in[KEPT], kept_out[KEPT], kept_places[KEPT];
};
struct Range { long long first, end, step; };

__device__ inline Range places_of(long long i, long long length, long long count, Window one) {
    if (one.kernel == 0) return {i * length / count, ((i + 1) * length + count - 1) / count, 1};
    long long first = i * one.stride - one.padding;
    long long end = first + (one.kernel - 1) * one.dilation + 1;
    if (first < 0) first += (-first + one.dilation - 1) / one.dilation * one.dilation;
    return {first, end < length ? end : length, one.dilation};
}

// The windows whose range, from first to last position, contains element i.
__device__ inline Range windows_of(long long i, long long length, long long count, Window one) {
    if (one.kernel == 0) return {i * count / length, ((i + 1) * count + length - 1) / length, 1};
    const long long at = i + one.padding, before = at - (one.kernel - 1) * one.dilation;
    const long long end = at / one.stride + 1;
    return {before <= 0 ? 0 : (before + one.stride - 1) / one.stride, end < count ? end : count, 1};
}

// The position of thread `number`: indices along three axes of these lengths, and the plane.
struct Site {
    long long at[3];
    Index plane;
    __device__ Site(long long number, const long long* lengths) {
        Index rest = Index(number);
        for (int axis = 2; axis >= 0; --axis) {
            const Index length = Index(lengths[axis]), before = rest / length;
            at[axis] = (long long)(rest - before * length);
            rest = before;
        }
        plane = rest;
    }
    __device__ long long in(const long long* steps) const {
        return at[0] * steps[0] + at[1] * steps[1] + at[2] * steps[2];
    }
};

__device__ inline long long plane_of(Index plane, const Task& task, const long long* steps) {
    return offset_of<Index, KEPT>(plane, task.kept_shape, steps);
}

extern "C" __global__ void __launch_bounds__(THREADS)
largest(const Stored* in, Stored* out, long long* places, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    const Site site(number, task.count);
    in += plane_of(site.plane, task, task.kept_in);
    Range range[3];
    for (int axis = 0; axis < 3; ++axis)
        range[axis] = places_of(site.at[axis], task.length[axis], task.count[axis], task.window[axis]);
    Real top = Real(LOWEST);
    long long place = 0;
    for (int axis = 0; axis < 3; ++axis) {
        const long long last = task.length[axis] - 1;
        place = place * task.length[axis] + (range[axis].first < last ? range[axis].first : last);
    }
    for (long long d = range[0].first; d < range[0].end; d += range[0].step)
        for (long long h = range[1].first; h < range[1].end; h += range[1].step)
            for (long long w = range[2].first; w < range[2].end; w += range[2].step) {
                const Real value = cast<Real>(
                    in[d * task.step_in[0] + h * task.step_in[1] + w * task.step_in[2]]);
                if (value > top || value != value) {
                    top = value;
                    place = (d * task.length[1] + h) * task.length[2] + w;
                }
            }
    out[plane_of(site.plane, task, task.kept_out) + site.in(task.step_out)] = cast<Stored>(top);
    places[plane_of(site.plane, task, task.kept_places) + site.in(task.step_places)] = place;
}

extern "C" __global__ void __launch_bounds__(THREADS)
pick(const Stored* in, const long long* places, Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    const Site site(number, task.count);
    long long place =
        places[plane_of(site.plane, task, task.kept_places) + site.in(task.step_places)];
    const bool inside =
        place >= 0 && place < task.length[0] * task.length[1] * task.length[2];
    long long offset = plane_of(site.plane, task, task.kept_in);
    for (int axis = 2; axis >= 0; --axis) {
        const long long before = place / task.length[axis];
        offset += (place - before * task.length[axis]) * task.step_in[axis];
        place = before;
    }
    out[plane_of(site.plane, task, task.kept_out) + site.in(task.step_out)] =
        inside ? in[offset] : poisoned<Stored>();
}

// Here `in` has the shape of the windows, and `out` the shape of the planes.
extern "C" __global__ void __launch_bounds__(THREADS)
spread(const Stored* in, const long long* places, Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    const Site site(number, task.length);
    in += plane_of(site.plane, task, task.kept_in);
    places += plane_of(site.plane, task, task.kept_places);
    const long long mine =
        (site.at[0] * task.length[1] + site.at[1]) * task.length[2] + site.at[2];
    Range range[3];
    for (int axis = 0; axis < 3; ++axis)
        range[axis] = windows_of(site.at[axis], task.length[axis], task.count[axis], task.window[axis]);
    Real total = Real(0);
    for (long long d = range[0].first; d < range[0].end; ++d)
        for (long long h = range[1].first; h < range[1].end; ++h)
            for (long long w = range[2].first; w < range[2].end; ++w) {
                const long long at =
                    d * task.step_places[0] + h * task.step_places[1] + w * task.step_places[2];
                if (places[at] == mine)
                    total += cast<Real>(
                        in[d * task.step_in[0] + h * task.step_in[1] + w * task.step_in[2]]);
            }
    out[plane_of(site.plane, task, task.kept_out) + site.in(task.step_out)] = cast<Stored>(total);
}
