// Softmax and its logarithm along one axis. softmax.py puts before this text: memory.cuh, rows.cuh
// with its typedefs, that of Stored and of Index, how many axes are KEPT, and LOGARITHM.
//
// A group of threads makes one row: its maximum, the sum of exp(x - maximum), then the results.
// Bound by memory: a row in registers is read once, a longer one twice, for each thread then finds
// maximum and sum together. A row with NaN or +inf gives NaN throughout, for inf - inf is NaN.

struct Task {
    long long rows, length, lanes, step_in, step_out;
    long long kept_shape[KEPT], kept_out[KEPT], kept_in[KEPT];
};

struct Exponentials {
    Real top, sum;  // sum: of exp(x - top)
};

// Leaves the exponentials in the place of the elements, unless their logarithms are wanted.
__device__ Exponentials in_registers(Row<Stored>& row) {
    Real top = Real(-__longlong_as_double(0x7ff0000000000000LL)), sum = Real(0);
    row.fold([&](Real x) { top = Larger()(top, x); });
    top = join(top, row.lanes, Larger());
    if constexpr (LOGARITHM) row.fold([&](Real x) { sum += ::exp(x - top); });
    else
        row.put([&](Real x) {
            const Real power = ::exp(x - top);
            sum += power;
            return power;
        });
    return {top, join(sum, row.lanes, Plus())};
}

// exp(x - top), also where both are infinite.
__device__ inline Real share(Real x, Real top) { return x == top ? Real(1) : ::exp(x - top); }

__device__ Exponentials in_one_pass(const Row<Stored>& row) {
    const Real infinity = Real(__longlong_as_double(0x7ff0000000000000LL));
    Real top = -infinity, sum = Real(0);
    row.each([&](long long, const Real* x) {
        Real most = x[0];
#pragma unroll
        for (int j = 1; j < PACK; ++j) most = Larger()(most, x[j]);
        // NaN is not below either.
        if (!(most <= top)) sum *= share(top, most), top = most;
#pragma unroll
        for (int j = 0; j < PACK; ++j) sum += share(x[j], top);
    });
    const Real whole = join(top, row.lanes, Larger());
    sum = join(sum * share(top, whole), row.lanes, Plus());
    return {whole, whole == infinity ? whole - whole : sum};
}

extern "C" __global__ void __launch_bounds__(THREADS)
softmax(const Stored* in, Stored* out, Task task) {
    const Place at(task.rows, task.length, task.lanes);
    in += offset_of<Index, KEPT>(Index(at.row), task.kept_shape, task.kept_in);
    out += offset_of<Index, KEPT>(Index(at.row), task.kept_shape, task.kept_out);
    Row<Stored> row(in, at.length, task.step_in, at);
    const Exponentials found = HELD > 0 ? in_registers(row) : in_one_pass(row);
    const Real logarithm = ::log(found.sum);
    row.each([&](long long i, const Real* x) {
        Real y[PACK];
#pragma unroll
        for (int j = 0; j < PACK; ++j) {
            if constexpr (LOGARITHM) y[j] = x[j] - found.top - logarithm;
            else y[j] = (HELD > 0 ? x[j] : ::exp(x[j] - found.top)) / found.sum;
        }
        store(y, out + i * task.step_out);
    });
}
