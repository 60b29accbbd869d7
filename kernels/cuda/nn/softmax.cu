// Softmax and its logarithm along one axis. softmax.py puts before this file: memory.cuh, rows.cuh
// with its typedefs, typedefs of Stored and Index, the number of axes KEPT, and LOGARITHM.
//
// A group of threads processes one row: its maximum, the sum of exp(x - maximum), then the results.
// Bound by memory: a row in registers is read once. A longer row is read twice, because each thread
// finds maximum and sum in one pass. A row with NaN or +inf gives NaN, because inf - inf is NaN.

struct Task {
    long long rows, length, lanes, step_in, step_out;
    long long kept_shape[KEPT], kept_out[KEPT], kept_in[KEPT];
};

struct Exponentials {
    // rest: the sum of exp(x - top) minus 1. If one x is far above the others, the sum rounds to 1,
    // and rest keeps the digits of its logarithm.
    Real top, rest;
};

// Replaces the elements by their exponentials, unless the logarithms are wanted.
__device__ Exponentials in_registers(Row<Stored>& row) {
    Real top = Real(-__longlong_as_double(0x7ff0000000000000LL)), sum = Real(0), ties = Real(0);
    row.fold([&](Real x) { top = Larger()(top, x); });
    top = join(top, row.lanes, Larger());
    if constexpr (LOGARITHM) {
        row.fold([&](Real x) {
            // inf - inf is NaN.
            const Real away = x - top, power = ::exp(away);
            const bool is_top = away == Real(0);
            ties += is_top ? Real(1) : Real(0);
            sum += is_top ? Real(0) : power;
        });
        ties = join(ties, row.lanes, Plus());
        return {top, join(sum, row.lanes, Plus()) + (ties - Real(1))};
    }
    row.put([&](Real x) {
        const Real power = ::exp(x - top);
        sum += power;
        return power;
    });
    return {top, join(sum, row.lanes, Plus()) - Real(1)};
}

// exp(x - top), also if both are infinite.
__device__ inline Real share(Real x, Real top) { return x == top ? Real(1) : ::exp(x - top); }

__device__ Exponentials in_one_pass(const Row<Stored>& row) {
    const Real infinity = Real(__longlong_as_double(0x7ff0000000000000LL));
    Real top = -infinity, rest = Real(-1);
    row.each([&](long long, const Real* x) {
        Real most = x[0];
#pragma unroll
        for (int j = 1; j < PACK; ++j) most = Larger()(most, x[j]);
        // Also true for NaN, because comparisons with NaN are false.
        bool is_new = !(most <= top);
        if (is_new) rest = (rest + Real(1)) * share(top, most), top = most;
#pragma unroll
        for (int j = 0; j < PACK; ++j) {
            // The first occurrence of the new maximum is the 1 that rest leaves out.
            const bool is_left_out = is_new && x[j] == top;
            rest += is_left_out ? Real(0) : share(x[j], top);
            is_new = is_new && !is_left_out;
        }
    });
    const Real whole = join(top, row.lanes, Larger());
    const bool has_top = top == whole;
    const Real tops = join(has_top ? Real(1) : Real(0), row.lanes, Plus());
    const Real part = has_top ? rest : (rest + Real(1)) * share(top, whole);
    rest = join(part, row.lanes, Plus()) + (tops - Real(1));
    return {whole, whole == infinity ? whole - whole : rest};
}

extern "C" __global__ void __launch_bounds__(THREADS)
softmax(const Stored* in, Stored* out, Task task) {
    const Place at(task.rows, task.length, task.lanes);
    in += offset_of<Index, KEPT>(Index(at.row), task.kept_shape, task.kept_in);
    out += offset_of<Index, KEPT>(Index(at.row), task.kept_shape, task.kept_out);
    Row<Stored> row(in, at.length, task.step_in, at);
    const Exponentials found = HELD > 0 ? in_registers(row) : in_one_pass(row);
    const Real logarithm = LOGARITHM ? ::log1p(found.rest) : Real(0), sum = found.rest + Real(1);
    row.each([&](long long i, const Real* x) {
        Real y[PACK];
#pragma unroll
        for (int j = 0; j < PACK; ++j) {
            if constexpr (LOGARITHM) y[j] = x[j] - found.top - logarithm;
            else y[j] = (HELD > 0 ? x[j] : ::exp(x[j] - found.top)) / sum;
        }
        store(y, out + i * task.step_out);
    });
}
