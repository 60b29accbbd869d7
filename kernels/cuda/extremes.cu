// Running extremes along one axis, and where they stand. scan.py puts before this text: memory.cuh,
// typedefs of Stored, Real (compared) and Index, how many axes are KEPT, and LARGEST.
//
// Threads share a row as in scan.cu. Bound by memory: each element is read once, and two numbers are
// written. Comparing rounds nothing, so the order of joining does not matter.

constexpr int THREADS = 256;

struct Task {
    long long rows, length, lanes, step_in, step_places, step_out;
    long long kept_shape[KEPT], kept_out[KEPT], kept_in[KEPT], kept_places[KEPT];
};

struct Found {
    Real value;
    long long place;  // -1 for nothing
};

// Of what stands before and behind: the later of equals, and nothing reaches NaN but NaN.
__device__ inline Found joined(Found before, Found behind) {
    if (behind.place < 0) return before;
    const bool reaches = LARGEST ? behind.value >= before.value : behind.value <= before.value;
    return before.place < 0 || behind.value != behind.value || reaches ? behind : before;
}

extern "C" __global__ void __launch_bounds__(THREADS)
extremes(const Stored* in, long long* places, Stored* out, Task task) {
    const int lanes = int(task.lanes), lane = threadIdx.x % lanes;
    const long long row = (long long)(blockIdx.x) * (THREADS / lanes) + threadIdx.x / lanes;
    const bool has_row = row < task.rows;
    if (has_row) {
        in += offset_of<Index, KEPT>(Index(row), task.kept_shape, task.kept_in);
        places += offset_of<Index, KEPT>(Index(row), task.kept_shape, task.kept_places);
        out += offset_of<Index, KEPT>(Index(row), task.kept_shape, task.kept_out);
    }
    Found before = {Real(0), -1};
    for (long long start = 0; start < task.length; start += lanes) {
        // Threads without an element go through the exchanges with the others.
        const long long i = start + lane;
        const bool mine = has_row && i < task.length;
        Found upto = {mine ? cast<Real>(in[i * task.step_in]) : Real(0), mine ? i : -1};
        Found whole = upto;
        for (int by = 1; by < lanes; by *= 2) {
            Found other;
            other.value = __shfl_xor_sync(0xffffffffu, whole.value, by, lanes);
            other.place = __shfl_xor_sync(0xffffffffu, whole.place, by, lanes);
            if (lane & by) upto = joined(other, upto);
            whole = lane & by ? joined(other, whole) : joined(whole, other);
        }
        if (mine) {
            const Found found = joined(before, upto);
            places[i * task.step_places] = found.place;
            out[i * task.step_out] = cast<Stored>(found.value);
        }
        before = joined(before, whole);
    }
}
