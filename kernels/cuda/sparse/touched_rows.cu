// Optimizer steps of parameters whose gradients have few rows. touched_rows.py puts before this
// file: memory.cuh, typedefs of Stored (in memory) and Real (computed).
//
// The values of one row are adjacent in `order`. The thread of the row's first value adds them, and
// is the only one that changes its element of the row; the other threads do nothing. Bound by
// memory: adjacent elements of a row are read together.

constexpr int THREADS = 256;

struct Task {
    long long size, width, count, rows;
};

struct Element {
    // its row in the parameter; -1 if another thread processes it, or it is out of bounds
    long long place;
    Real g;
};

__device__ Element element_of(const Stored* values, const long long* places, const long long* order,
                              const Task& task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return {-1, Real(0)};
    const long long first = number / task.width, column = number - first * task.width;
    const long long row = places[first];
    if (row < 0 || row >= task.rows || (first && places[first - 1] == row)) return {-1, Real(0)};
    Real total = Real(0);
    for (long long k = first; k < task.count && places[k] == row; ++k) {
        const long long at = order[k];
        if (at >= 0 && at < task.count) total += cast<Real>(values[at * task.width + column]);
    }
    return {row * task.width + column, total};
}

extern "C" __global__ void __launch_bounds__(THREADS)
adagrad(const Stored* values, const long long* places, const long long* order, Stored* sums,
        Stored* out, double rate, double eps, Task task) {
    const Element at = element_of(values, places, order, task);
    if (at.place < 0) return;
    const Real total = cast<Real>(sums[at.place]) + at.g * at.g;
    sums[at.place] = cast<Stored>(total);
    const Real change = Real(rate) * at.g / (sqrt(total) + Real(eps));
    out[at.place] = cast<Stored>(cast<Real>(out[at.place]) - change);
}

extern "C" __global__ void __launch_bounds__(THREADS)
sparse_adam(const Stored* values, const long long* places, const long long* order, Stored* mean,
            Stored* square, Stored* out, double rate, double keep, double keep_square, double eps,
            Task task) {
    const Element at = element_of(values, places, order, task);
    if (at.place < 0) return;
    Real first = cast<Real>(mean[at.place]), second = cast<Real>(square[at.place]);
    first += (at.g - first) * (Real(1) - Real(keep));
    second += (at.g * at.g - second) * (Real(1) - Real(keep_square));
    mean[at.place] = cast<Stored>(first);
    square[at.place] = cast<Stored>(second);
    const Real change = Real(rate) * first / (sqrt(second) + Real(eps));
    out[at.place] = cast<Stored>(cast<Real>(out[at.place]) - change);
}
