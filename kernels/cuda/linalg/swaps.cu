// The order of rows after swaps, which are lu's pivots and count from 1.
//
// A thread traces one position back through the swaps, the last one first, to the row's origin. No
// thread waits for another, and all threads of a warp read the same pivot.

constexpr int THREADS = 256;

struct Task {
    long long size, rows, swaps;
};

extern "C" __global__ void __launch_bounds__(THREADS)
permutation(const int* pivots, long long* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    const long long matrix = number / task.rows;
    const int* own = pivots + matrix * task.swaps;
    int place = int(number - matrix * task.rows);
    for (int i = int(task.swaps) - 1; i >= 0; --i) {
        const int other = own[i] - 1;
        place = place == i ? other : place == other ? i : place;
    }
    out[number] = place;
}
