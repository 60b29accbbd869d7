// Layer norm, its gradient, and RMS norm, of rows. normalization.py puts before this file:
// memory.cuh, rows.cuh with its typedefs, typedefs of Stored (x and out), Sum (for additions),
// Weight and Bias (parameters), and HAS_WEIGHT and HAS_BIAS.
//
// A group of threads processes one row: its sums, then the results. Bound by memory.

struct Task {
    long long rows, length, lanes;
    long long row_out, step_out;
    long long row_x, step_x, row_g, step_g;
    long long step_weight, step_bias, row_mean, row_scale;
};

// The parameters of the PACK elements from element i on.
__device__ void weights_at(const Weight* weight, long long i, const Task& task, Real* to) {
    if constexpr (HAS_WEIGHT) fetch(weight + i * task.step_weight, to);
    else
        for (int j = 0; j < PACK; ++j) to[j] = Real(1);
}

extern "C" __global__ void __launch_bounds__(THREADS)
layer_norm(const Stored* x, const Weight* weight, const Bias* bias, Stored* out, Real* mean,
           Real* deviation, double eps, Task task) {
    const Place at(task.rows, task.length, task.lanes);
    const Row<Stored> row(x + at.row * task.row_x, at.length, task.step_x, at);
    Sum sum = Sum(0);
    row.fold([&](Real value) { sum += Sum(value); });
    const Sum centre = join(sum, at.lanes, Plus()) / Sum(task.length);
    Sum squares = Sum(0);
    row.fold([&](Real value) {
        const Sum away = Sum(value) - centre;
        squares += away * away;
    });
    squares = join(squares, at.lanes, Plus()) / Sum(task.length);
    const Real scale = Real(::sqrt(squares + Sum(eps)));
    if (at.tells()) {
        mean[at.row * task.row_mean] = Real(centre);
        deviation[at.row * task.row_scale] = scale;
    }
    // The mean as the sum of two numbers of the dtype: subtracting both is more accurate than
    // subtracting the rounded mean.
    const Real high = Real(centre), low = Real(centre - Sum(high)), inverse = Real(1) / scale;
    out += at.row * task.row_out;
    row.each([&](long long i, const Real* value) {
        Real by[PACK], more[PACK], y[PACK];
        weights_at(weight, i, task, by);
        if constexpr (HAS_BIAS) fetch(bias + i * task.step_bias, more);
#pragma unroll
        for (int j = 0; j < PACK; ++j) {
            y[j] = ((value[j] - high) - low) * inverse;
            if constexpr (HAS_WEIGHT) y[j] *= by[j];
            if constexpr (HAS_BIAS) y[j] += more[j];
        }
        store(y, out + i * task.step_out);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
layer_norm_gradient(const Stored* g, const Stored* x, const Weight* weight, const Real* mean,
                    const Real* deviation, Stored* out, Task task) {
    const Place at(task.rows, task.length, task.lanes);
    const Row<Stored> row(x + at.row * task.row_x, at.length, task.step_x, at);
    const Row<Stored> slopes(g + at.row * task.row_g, at.length, task.step_g, at);
    const Real centre = mean[at.row * task.row_mean];
    const Real inverse = Real(1) / deviation[at.row * task.row_scale];
    Sum along = Sum(0), even = Sum(0);
    row.each_with(slopes, [&](long long i, const Real* value, const Real* slope) {
        Real by[PACK];
        weights_at(weight, i, task, by);
#pragma unroll
        for (int j = 0; j < PACK; ++j) {
            const Real weighed = HAS_WEIGHT ? slope[j] * by[j] : slope[j];
            along += Sum(weighed * ((value[j] - centre) * inverse));
            even += Sum(weighed);
        }
    });
    const Real by_normal = Real(join(along, at.lanes, Plus()) / Sum(task.length));
    const Real by_all = Real(join(even, at.lanes, Plus()) / Sum(task.length));
    out += at.row * task.row_out;
    row.each_with(slopes, [&](long long i, const Real* value, const Real* slope) {
        Real by[PACK], y[PACK];
        weights_at(weight, i, task, by);
#pragma unroll
        for (int j = 0; j < PACK; ++j) {
            const Real weighed = HAS_WEIGHT ? slope[j] * by[j] : slope[j];
            const Real normal = (value[j] - centre) * inverse;
            y[j] = (weighed - by_all - normal * by_normal) * inverse;
        }
        store(y, out + i * task.step_out);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
rms_norm(const Stored* x, const Weight* weight, Stored* out, Real* scale, double eps, Task task) {
    const Place at(task.rows, task.length, task.lanes);
    const Row<Stored> row(x + at.row * task.row_x, at.length, task.step_x, at);
    Sum squares = Sum(0);
    row.fold([&](Real value) { squares += Sum(value) * Sum(value); });
    squares = join(squares, at.lanes, Plus()) / Sum(task.length);
    const Real by = Real(Sum(1) / ::sqrt(squares + Sum(eps)));
    if (at.tells()) scale[at.row * task.row_scale] = by;
    out += at.row * task.row_out;
    row.each([&](long long i, const Real* value) {
        Real weights[PACK], y[PACK];
        weights_at(weight, i, task, weights);
#pragma unroll
        for (int j = 0; j < PACK; ++j) {
            y[j] = value[j] * by;
            if constexpr (HAS_WEIGHT) y[j] *= weights[j];
        }
        store(y, out + i * task.step_out);
    });
}
