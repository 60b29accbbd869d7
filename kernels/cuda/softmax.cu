// Softmax and its logarithm along one axis. softmax.py puts before this text: memory.cuh, rows.cuh
// with its typedefs, that of Stored and of Index, how many axes are KEPT, and LOGARITHM.
//
// A group of threads makes one row: its maximum, the sum of exp(x - maximum), then the results.
// Bound by memory. A row with NaN or +inf gives NaN throughout, for inf - inf is NaN.

struct Task {
    long long rows, length, lanes, step_in, step_out;
    long long kept_shape[KEPT], kept_out[KEPT], kept_in[KEPT];
};

extern "C" __global__ void __launch_bounds__(THREADS)
softmax(const Stored* in, Stored* out, Task task) {
    const Place at(task.rows, task.length, task.lanes);
    in += offset_of<Index, KEPT>(Index(at.row), task.kept_shape, task.kept_in);
    out += offset_of<Index, KEPT>(Index(at.row), task.kept_shape, task.kept_out);
    const Row<Stored> row(in, at.length, task.step_in, at.lane, at.lanes);
    Real top = Real(-__longlong_as_double(0x7ff0000000000000LL));
    row.each([&](long long, Real x, int) { top = Larger()(top, x); });
    top = join(top, at.lanes, Larger());
    Real sum = Real(0);
    row.each([&](long long, Real x, int) { sum += ::exp(x - top); });
    sum = join(sum, at.lanes, Plus());
    const Real logarithm = ::log(sum);
    row.each([&](long long i, Real x, int) {
        x -= top;
        out[i * task.step_out] = cast<Stored>(LOGARITHM ? x - logarithm : ::exp(x) / sum);
    });
}
