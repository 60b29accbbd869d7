// Elements that change their places along axes, and zeros beside a band. copying.py puts
// before this text: memory.cuh, the typedefs of Stored and Index (counts elements), and the number of
// axes DIMS.
//
// A thread makes one element of out. Along each axis the place that it reads is begin + sign * its
// own, round the end of the axis once; what lies outside of the band least <= column - row <= most
// of two axes is 0 and reads nothing. Numbers turned (by `turn`) go round the end of all elements.

constexpr int THREADS = 256;

struct Task {
    long long size, turn, first;  // first: where the element of out's first place is read
    long long row_axis, column_axis, least, most;
    long long shape[DIMS], begin[DIMS], sign[DIMS], step_x[DIMS], step_out[DIMS];
};

extern "C" __global__ void __launch_bounds__(THREADS)
move(const Stored* x, Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    Index rest = Index(number + task.turn), written = Index(number);
    if (number + task.turn >= task.size) rest = Index(number + task.turn - task.size);
    const bool is_turned = task.turn != 0;
    long long row = 0, column = 0, read = task.first, write = 0;
#pragma unroll
    for (int d = DIMS - 1; d >= 0; --d) {
        const Index length = Index(task.shape[d]), before = d ? rest / length : 0;
        const long long own = rest - before * length;
        rest = before;
        if (d == task.row_axis) row = own;
        if (d == task.column_axis) column = own;
        const long long place = task.begin[d] + task.sign[d] * own;
        read += (place < task.shape[d] ? place : place - task.shape[d]) * task.step_x[d];
        if (is_turned) {
            const Index outer = d ? written / length : 0;
            write += (long long)(written - outer * length) * task.step_out[d];
            written = outer;
        } else {
            write += own * task.step_out[d];
        }
    }
    const bool inside = column - row >= task.least && column - row <= task.most;
    out[write] = inside ? x[read] : Stored();
}
