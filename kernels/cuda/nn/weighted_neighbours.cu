// Weighted sums of neighboring elements along up to three spatial axes. weighted_neighbours.py puts
// before this file: memory.cuh, typedefs of Stored, Real (for additions), Weight and Index, and
// KEPT, the number of merged axes of planes.
//
// A thread computes one output, and adds in the order of the CPU kernel: first over the outer axes,
// then along the row. Bound by memory for small windows: elements that adjacent outputs share come
// from the cache.

constexpr int THREADS = 256;

struct Task {
    long long size, count[3], starts[3], places[3], weights[3], step_in[3], step_out[3];
    long long kept_shape[KEPT], kept_in[KEPT], kept_out[KEPT];
};

extern "C" __global__ void __launch_bounds__(THREADS)
weigh(const Stored* in, const long long* table, const Weight* weights, Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    Index rest = Index(number);
    long long at[3];
    for (int axis = 2; axis >= 0; --axis) {
        const Index length = Index(task.count[axis]), before = rest / length;
        at[axis] = (long long)(rest - before * length);
        rest = before;
    }
    in += offset_of<Index, KEPT>(rest, task.kept_shape, task.kept_in);
    out += offset_of<Index, KEPT>(rest, task.kept_shape, task.kept_out);
    const long long *starts[3], *places[3];
    const Weight* by[3];
    for (int axis = 0; axis < 3; ++axis) {
        starts[axis] = table + task.starts[axis] + at[axis];
        places[axis] = table + task.places[axis];
        by[axis] = weights + task.weights[axis];
    }
    Real total = Real(0);
    for (long long k = starts[2][0]; k < starts[2][1]; ++k) {
        const Stored* column = in + places[2][k] * task.step_in[2];
        Real above = Real(0);
        for (long long i = starts[0][0]; i < starts[0][1]; ++i)
            for (long long j = starts[1][0]; j < starts[1][1]; ++j)
                above += Real(by[0][i] * by[1][j]) *
                         cast<Real>(column[places[0][i] * task.step_in[0] +
                                           places[1][j] * task.step_in[1]]);
        total += Real(by[2][k]) * above;
    }
    out[at[0] * task.step_out[0] + at[1] * task.step_out[1] + at[2] * task.step_out[2]] =
        cast<Stored>(total);
}
