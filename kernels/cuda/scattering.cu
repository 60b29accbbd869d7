// What meets at a place reduced. scattering.py puts before this text: memory.cuh, primitives.cuh,
// typedefs of Stored (in memory) and Real (computed), the number of axes DIMS, and what is met:
// SUM, MEAN, PROD, AMAX or AMIN.
//
// A thread makes one element: it goes along the index and takes what is for it, in the order in which
// it lies, as the CPU's kernel does. So results repeat, and need no memory; the work is that of
// comparing each place of an axis with each entry of the index along it. Neighbours read the same
// entries, or neighbours.

constexpr int THREADS = 256;

struct Task {
    long long size, axis, includes_self;
    long long shape[DIMS], part[DIMS], step_x[DIMS], step_index[DIMS], step_src[DIMS];
};

__device__ Real met(Real old, Real fresh) {
    if constexpr (MET == PROD) return scalar::mul(old, fresh);
    else if constexpr (MET == AMAX) return scalar::maximum(old, fresh);
    else if constexpr (MET == AMIN) return scalar::minimum(old, fresh);
    else return scalar::add(old, fresh);
}

extern "C" __global__ void __launch_bounds__(THREADS)
reduce(const Stored* x, const long long* index, const Stored* src, Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    long long rest = number, place = 0;
    bool is_reached = true;
    for (int d = DIMS - 1; d >= 0; --d) {
        const long long before = rest / task.shape[d], at = rest - before * task.shape[d];
        rest = before;
        x += at * task.step_x[d];
        if (d == task.axis) {
            place = at;
        } else {
            is_reached = is_reached && at < task.part[d];
            index += at * task.step_index[d];
            src += at * task.step_src[d];
        }
    }
    Real value = cast<Real>(*x);
    long long count = task.includes_self;
    const long long length = is_reached ? task.part[task.axis] : 0;
    for (long long k = 0; k < length; ++k) {
        if (index[k * task.step_index[task.axis]] != place) continue;
        const Real fresh = cast<Real>(src[k * task.step_src[task.axis]]);
        value = count++ ? met(value, fresh) : fresh;
    }
    if constexpr (MET == MEAN) {
        if constexpr (scalar::Is<Real>::real) value /= Real(count ? count : 1);
        else value = Real(scalar::floor_divide((long long)(value), count ? count : 1));
    }
    out[number] = cast<Stored>(value);
}
