// Linear recurrences y[k] = factor[k] * y[k - 1] + x[k] along one axis; if BACKWARDS,
// y[k] = factor[k + 1] * y[k + 1] + x[k]. scan.py puts before this file: memory.cuh, typedefs of
// Stored, Real (computed) and Index, the number of axes KEPT, and BACKWARDS.
//
// A group of `lanes` adjacent threads of one warp reads `lanes` elements of a row, or of a chunk of
// it, at a time. Each thread then performs all these steps in order, with the elements that it gets
// from the other threads by shuffles. A tree, as in scan.cu, would multiply factors before they
// act on y: an infinite factor, or a product that overflows, would give NaN where single steps do
// not. A step waits only for one multiplication and addition, because the shuffles do not depend on
// y.
//
// If there are few rows, they are cut into chunks. `pieces` computes, for each chunk, the line that
// maps the value before the chunk to the value at its end; `begins` follows these lines;
// `recurrence` processes each chunk from its begin value. If a line is not finite, `begins`
// performs the chunk's steps instead.

constexpr int THREADS = 256;

struct Task {
    long long rows, length, lanes, chunk, chunks, step_factor, step_in, step_out;
    long long kept_shape[KEPT], kept_out[KEPT], kept_factor[KEPT], kept_in[KEPT];
};

// A chunk maps the value `before` it to slope * before + y at its end.
struct Line {
    Real slope, y, before;
};

__device__ inline double shuffled(double value, int lane, int lanes) {
    return __shfl_sync(0xffffffffu, value, lane, lanes);
}
// A template, because only complex numbers have two parts.
template <typename Z> __device__ Z shuffled(Z value, int lane, int lanes) {
    return Z(shuffled(value.re, lane, lanes), shuffled(value.im, lane, lanes));
}

// A thread of a group, and its row.
struct Walker {
    const Task& task;
    const Stored *factor, *in;
    int lanes, lane;
    bool has_row;
    long long row;

    __device__ Walker(const Stored* factor, const Stored* in, const Task& task)
        : task(task), lanes(int(task.lanes)), lane(threadIdx.x % int(task.lanes)) {
        row = (long long)(blockIdx.x) * (THREADS / lanes) + threadIdx.x / lanes;
        has_row = row < task.rows;
        if (!has_row) row = 0;
        this->factor = factor + offset_of<Index, KEPT>(Index(row), task.kept_shape, task.kept_factor);
        this->in = in + offset_of<Index, KEPT>(Index(row), task.kept_shape, task.kept_in);
    }
    // Returns the index in the row of step k.
    __device__ long long at(long long k) const { return BACKWARDS ? task.length - 1 - k : k; }
    __device__ Real from_lane(Real value, int lane) const {
        // Threads in groups of one may be at different steps.
        return lanes == 1 ? value : shuffled(value, lane, lanes);
    }

    // Performs the steps of a chunk from y on, and calls give(k, y); returns the line of the chunk,
    // with y at its end.
    template <typename Give> __device__ Line through(long long chunk, Real y, Give give) const {
        const long long begin = chunk * task.chunk;
        const long long end = begin + task.chunk < task.length ? begin + task.chunk : task.length;
        Real slope = Real(1);
        for (long long start = begin; start < end; start += lanes) {
            // Threads without an element must take part in the shuffles.
            const long long k = start + lane;
            const bool mine = has_row && k < end;
            Real factor_here = Real(0), value = Real(0), result = Real(0);
            if (mine) {
                value = cast<Real>(in[at(k) * task.step_in]);
                const long long its = at(BACKWARDS ? k - 1 : k);
                if (k) factor_here = cast<Real>(factor[its * task.step_factor]);
            }
            const int steps = end - start < lanes ? int(end - start) : lanes;
            for (int step = 0; step < steps; ++step) {
                const Real by = from_lane(factor_here, step);
                const Real more = from_lane(value, step);
                y = start + step ? by * y + more : more;
                slope = slope * by;
                if (lane == step) result = y;
            }
            if (mine) give(k, result);
        }
        return {slope, y, Real(0)};
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
pieces(const Stored* factor, const Stored* in, Line* lines, Task task) {
    const Walker walker(factor, in, task);
    const Line line = walker.through(blockIdx.y, Real(0), [](long long, Real) {});
    if (walker.has_row && walker.lane == 0) lines[blockIdx.y * task.rows + walker.row] = line;
}

extern "C" __global__ void __launch_bounds__(THREADS)
begins(const Stored* factor, const Stored* in, Line* lines, Task task) {
    const Walker walker(factor, in, task);
    // Groups of one use no shuffles, and a group of 32 is a whole warp, which returns together.
    if (!walker.has_row) return;
    Real y = Real(0);
    constexpr int AT_ONCE = 4;
    for (long long first = 0; first < task.chunks; first += AT_ONCE) {
        Real slope[AT_ONCE], rest[AT_ONCE];
#pragma unroll
        for (int c = 0; c < AT_ONCE; ++c)
            if (first + c < task.chunks) {
                const Line& line = lines[(first + c) * task.rows + walker.row];
                slope[c] = line.slope, rest[c] = line.y;
            }
#pragma unroll
        for (int c = 0; c < AT_ONCE; ++c) {
            if (first + c >= task.chunks) break;
            if (walker.lane == 0) lines[(first + c) * task.rows + walker.row].before = y;
            const Real after = slope[c] * y + rest[c];
            // NaN stays NaN.
            if (after - after == Real(0)) y = after;
            else if (y == y) y = walker.through(first + c, y, [](long long, Real) {}).y;
        }
    }
}

// lines: written by `begins`; not read if a row is one chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
recurrence(const Stored* factor, const Stored* in, Stored* out, const Line* lines, Task task) {
    const Walker walker(factor, in, task);
    out += offset_of<Index, KEPT>(Index(walker.row), task.kept_shape, task.kept_out);
    const Real y = blockIdx.y ? lines[blockIdx.y * task.rows + walker.row].before : Real(0);
    walker.through(blockIdx.y, y, [&](long long k, Real result) {
        out[walker.at(k) * task.step_out] = cast<Stored>(result);
    });
}
