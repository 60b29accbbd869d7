// Layer norm, its gradient, and RMS norm, of rows. normalization.py puts before this text:
// memory.cuh, rows.cuh with its typedefs, those of Stored (x and out), Sum (added), Weight and Bias
// (parameters), and whether there are any: HAS_WEIGHT, HAS_BIAS.
//
// A group of threads makes one row: its sums, then the results. Bound by memory.

struct Task {
    long long rows, length, lanes;
    long long row_out, step_out;
    long long row_x, step_x, row_g, step_g;
    long long step_weight, step_bias, row_mean, row_scale;
};

__device__ Real weighed(Real value, const Weight* weight, long long i, const Task& task) {
    if constexpr (HAS_WEIGHT) return value * cast<Real>(weight[i * task.step_weight]);
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
layer_norm(const Stored* x, const Weight* weight, const Bias* bias, Stored* out, Real* mean,
           Real* deviation, double eps, Task task) {
    const Place at(task.rows, task.length, task.lanes);
    const Row<Stored> row(x + at.row * task.row_x, at.length, task.step_x, at.lane, at.lanes);
    Sum sum = Sum(0);
    row.each([&](long long, Real value, int) { sum += Sum(value); });
    const Sum centre = join(sum, at.lanes, Plus()) / Sum(task.length);
    Sum squares = Sum(0);
    row.each([&](long long, Real value, int) {
        const Sum away = Sum(value) - centre;
        squares += away * away;
    });
    squares = join(squares, at.lanes, Plus()) / Sum(task.length);
    const Real scale = Real(::sqrt(squares + Sum(eps)));
    if (at.tells()) {
        mean[at.row * task.row_mean] = Real(centre);
        deviation[at.row * task.row_scale] = scale;
    }
    out += at.row * task.row_out;
    row.each([&](long long i, Real value, int) {
        Real normal = weighed(Real(Sum(value) - centre) / scale, weight, i, task);
        if constexpr (HAS_BIAS) normal += cast<Real>(bias[i * task.step_bias]);
        out[i * task.step_out] = cast<Stored>(normal);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
layer_norm_gradient(const Stored* g, const Stored* x, const Weight* weight, const Real* mean,
                    const Real* deviation, Stored* out, Task task) {
    const Place at(task.rows, task.length, task.lanes);
    const Row<Stored> row(x + at.row * task.row_x, at.length, task.step_x, at.lane, at.lanes);
    const Row<Stored> slopes(g + at.row * task.row_g, at.length, task.step_g, at.lane, at.lanes);
    const Real centre = mean[at.row * task.row_mean], scale = deviation[at.row * task.row_scale];
    Sum along = Sum(0), even = Sum(0);
    row.each([&](long long i, Real value, int k) {
        const Real slope = weighed(slopes.along(i, k), weight, i, task);
        along += Sum(slope * ((value - centre) / scale));
        even += Sum(slope);
    });
    const Real by_normal = Real(join(along, at.lanes, Plus()) / Sum(task.length));
    const Real by_all = Real(join(even, at.lanes, Plus()) / Sum(task.length));
    out += at.row * task.row_out;
    row.each([&](long long i, Real value, int k) {
        const Real slope = weighed(slopes.along(i, k), weight, i, task);
        const Real normal = (value - centre) / scale;
        out[i * task.step_out] = cast<Stored>((slope - by_all - normal * by_normal) / scale);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
rms_norm(const Stored* x, const Weight* weight, Stored* out, Real* scale, double eps, Task task) {
    const Place at(task.rows, task.length, task.lanes);
    const Row<Stored> row(x + at.row * task.row_x, at.length, task.step_x, at.lane, at.lanes);
    Sum squares = Sum(0);
    row.each([&](long long, Real value, int) { squares += Sum(value) * Sum(value); });
    squares = join(squares, at.lanes, Plus()) / Sum(task.length);
    const Real by = Real(Sum(1) / ::sqrt(squares + Sum(eps)));
    if (at.tells()) scale[at.row * task.row_scale] = by;
    out += at.row * task.row_out;
    row.each([&](long long i, Real value, int) {
        out[i * task.step_out] = cast<Stored>(weighed(value * by, weight, i, task));
    });
}
