// Cross entropy of rows of logits with class indices, alone or with the data for its gradient, and
// the gradient. cross_entropy.py puts before this file: memory.cuh, rows.cuh with its typedefs, and
// typedefs of Stored (in memory) and Loss (the loss of one row, before it is reduced).
//
// A group of threads processes one row: its maximum, exp of the shifted logits, their sum. Bound by
// memory. The loss of a row whose class is out of range is NaN.

struct Task {
    long long rows, length, lanes, step_target, step_g;
    long long row_x, step_x, row_weights, step_weights, step_totals, row_out, step_out;
};

template <bool KEEPS>
__device__ void make(const Stored* x, const long long* target, Loss* out, Stored* weights,
                     Stored* totals, const Task& task) {
    const Place at(task.rows, task.length, task.lanes);
    x += at.row * task.row_x;
    const Row<Stored> row(x, at.length, task.step_x, at);
    // Loaded early: two dependent loads, whose latency the sums below hide.
    bool is_there = false;
    Real wanted = Real(0);
    if (at.tells()) {
        const long long chosen = target[at.row * task.step_target];
        is_there = chosen >= 0 && chosen < task.length;
        if (is_there) wanted = cast<Real>(x[chosen * task.step_x]);
    }
    Real top = Real(-__longlong_as_double(0x7ff0000000000000LL));
    row.fold([&](Real value) { top = Larger()(top, value); });
    top = join(top, at.lanes, Larger());
    if (KEEPS) weights += at.row * task.row_weights;
    Real others = Real(0), ties = Real(0);
    row.each([&](long long i, const Real* value) {
        Real weight[PACK];
#pragma unroll
        for (int j = 0; j < PACK; ++j) {
            // inf - inf is NaN.
            const Real away = value[j] - top;
            const bool is_top = away == Real(0);
            weight[j] = ::exp(away);
            ties += is_top ? Real(1) : Real(0);
            others += is_top ? Real(0) : weight[j];
        }
        if (KEEPS) store(weight, weights + i * task.step_weights);
    });
    others = join(others, at.lanes, Plus());
    ties = join(ties, at.lanes, Plus());
    if (!at.tells()) return;
    if (KEEPS) totals[at.row * task.step_totals] = cast<Stored>(others + ties);
    // If one value is far above the others, the sum of the others keeps the digits of the
    // logarithm.
    const Real loss = is_there ? ::log1p(others + (ties - Real(1))) - (wanted - top)
                               : Real(__longlong_as_double(0x7ff8000000000000LL));
    out[at.row * task.row_out] = cast<Loss>(loss);
}

extern "C" __global__ void __launch_bounds__(THREADS)
rows(const Stored* x, const long long* target, Loss* out, Stored* weights, Stored* totals,
     Task task) {
    make<true>(x, target, out, weights, totals, task);
}

extern "C" __global__ void __launch_bounds__(THREADS)
losses(const Stored* x, const long long* target, Loss* out, Task task) {
    make<false>(x, target, out, 0, 0, task);
}

extern "C" __global__ void __launch_bounds__(THREADS)
rows_gradient(const Stored* g, const long long* target, const Stored* weights, const Stored* totals,
              Stored* out, double share, Task task) {
    const Place at(task.rows, task.length, task.lanes);
    const Row<Stored> row(weights + at.row * task.row_weights, at.length, task.step_weights, at);
    const Real slope = cast<Real>(g[at.row * task.step_g]) * Real(share);
    const Real by = slope / cast<Real>(totals[at.row * task.step_totals]);
    const long long chosen = target[at.row * task.step_target];
    out += at.row * task.row_out;
    row.each([&](long long i, const Real* weight) {
        Real y[PACK];
#pragma unroll
        for (int j = 0; j < PACK; ++j) {
            const Real likely = weight[j] * by;
            y[j] = i + j == chosen ? likely - slope : likely;
        }
        store(y, out + i * task.step_out);
    });
}
