// Connectionist temporal classification. ctc.py puts before this file: memory.cuh and the typedef
// of Stored (in memory). All sums use logarithms, in double.
//
// A block advances one sample through time; a thread processes every 256th letter of its text.
// Bound by latency: each step depends on the one before.

constexpr int THREADS = 256;

struct Task {
    long long samples, time, classes, most, blot, step_t, step_n, step_c, step_g;
};

// Memory that another stream may write to is loaded once, and the loaded value is checked.
__device__ long long between(long long value, long long low, long long high) {
    return value < low ? low : value < high ? value : high;
}

struct Sizes {
    long long steps, width;
    __device__ Sizes(const long long* sizes, long long n, const Task& task)
        : steps(between(sizes[2 * n], 0, task.time)),
          width(between(sizes[2 * n + 1], 1, task.most)) {}
};

// Returns the log-probability of a class at a step; NaN for a class that is out of range.
__device__ double chance_of(const Stored* row, long long letter, const Task& task) {
    if (letter < 0 || letter >= task.classes) return __longlong_as_double(0x7ff8000000000000LL);
    return cast<double>(row[letter * task.step_c]);
}

__device__ double never() { return __longlong_as_double(0xfff0000000000000LL); }

__device__ double log_sum(double a, double b, double c) {
    double top = a > b ? a : b;
    top = top > c ? top : c;
    if (top == never()) top = 0;
    return top + ::log(::exp(a - top) + ::exp(b - top) + ::exp(c - top));
}

// The log-sum of the alignments that reach letter s: from s itself, from the letter before it, or
// from two before, unless s is a blank or repeats that letter. If backwards, counted from the end.
__device__ double moved(const double* row, const long long* text, long long s, long long width,
                        bool first, bool backwards) {
    const long long by = backwards ? -1 : 1, from = backwards ? width - 1 - s : s;
    if (first) return from <= 1 ? 0.0 : never();
    const bool skips = from >= 2 && s % 2 && text[s] != text[s - 2 * by];
    return log_sum(row[s], from >= 1 ? row[s - by] : never(), skips ? row[s - 2 * by] : never());
}

__device__ double loss_of(const double* alpha, long long steps, long long width, long long most) {
    if (!steps) return width == 1 ? 0.0 : -never();
    const double* end = alpha + (steps - 1) * most + width;
    return -log_sum(end[-1], width > 1 ? end[-2] : never(), never());
}

extern "C" __global__ void __launch_bounds__(THREADS)
losses(const Stored* log_probs, const long long* letters, const long long* sizes, Stored* out,
       double* alpha, Task task) {
    const long long n = blockIdx.x;
    const Sizes own(sizes, n, task);
    const long long steps = own.steps, width = own.width;
    const long long* text = letters + n * task.most;
    log_probs += n * task.step_n;
    alpha += n * task.time * task.most;
    for (long long t = 0; t < steps; ++t) {
        double* row = alpha + t * task.most;
        for (long long s = threadIdx.x; s < width; s += THREADS)
            row[s] = moved(row - task.most, text, s, width, t == 0, false) +
                     chance_of(log_probs + t * task.step_t, text[s], task);
        __syncthreads();
    }
    if (threadIdx.x) return;
    const double loss = loss_of(alpha, steps, width, task.most);
    out[n] = cast<Stored>(task.blot && loss == -never() ? 0.0 : loss);
}

// Writes for each letter the position of the next equal letter, or 0 if there is none; for a letter
// that occurred before, -1 minus this number. So one thread, the thread of a class's first letter,
// adds the probabilities of the class in the order of the text.
extern "C" __global__ void __launch_bounds__(THREADS)
links(const long long* letters, const long long* sizes, long long* next, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.samples * task.most) return;
    const long long n = number / task.most, s = number - n * task.most;
    const long long width = Sizes(sizes, n, task).width;
    if (s >= width) return;
    const long long* text = letters + n * task.most;
    long long after = s + 1, before = s - 1;
    while (after < width && text[after] != text[s]) ++after;
    while (before >= 0 && text[before] != text[s]) --before;
    if (after == width) after = 0;
    next[number] = before < 0 ? after : -1 - after;
}

// Computes the backward variables, and from them the probabilities of each letter at each step.
extern "C" __global__ void __launch_bounds__(THREADS)
posterior(const Stored* log_probs, const long long* letters, const long long* sizes,
          const double* alpha, double* chances, double* rows, Task task) {
    const long long n = blockIdx.x;
    const Sizes own(sizes, n, task);
    const long long steps = own.steps, width = own.width;
    const long long* text = letters + n * task.most;
    log_probs += n * task.step_n;
    alpha += n * task.time * task.most;
    chances += n * task.time * task.most;
    rows += n * 2 * task.most;
    const double loss = loss_of(alpha, steps, width, task.most);
    for (long long t = steps - 1; t >= 0; --t) {
        double* row = rows + t % 2 * task.most;
        const double* before = rows + (t + 1) % 2 * task.most;
        for (long long s = threadIdx.x; s < width; s += THREADS) {
            const double ways = moved(before, text, s, width, t == steps - 1, true);
            chances[t * task.most + s] = ::exp(alpha[t * task.most + s] + ways + loss);
            row[s] = ways + chance_of(log_probs + t * task.step_t, text[s], task);
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
gradient(const Stored* g, const Stored* log_probs, const long long* sizes, const double* alpha,
         Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.time * task.samples * task.classes) return;
    const long long c = number % task.classes, n = number / task.classes % task.samples;
    const long long t = number / task.classes / task.samples;
    const Sizes own(sizes, n, task);
    if (t >= own.steps) {
        out[number] = cast<Stored>(0.0);
        return;
    }
    alpha += n * task.time * task.most;
    const double loss = loss_of(alpha, own.steps, own.width, task.most);
    double found = ::exp(cast<double>(
        log_probs[t * task.step_t + n * task.step_n + c * task.step_c]));
    found *= cast<double>(g[n * task.step_g]);
    if (!(::fabs(loss) < -never()))
        found = task.blot && loss == -never() ? 0.0 : __longlong_as_double(0x7ff8000000000000LL);
    out[number] = cast<Stored>(found);
}

extern "C" __global__ void __launch_bounds__(THREADS)
less_posterior(const Stored* g, const Stored* log_probs, const long long* letters,
               const long long* sizes, const double* alpha, const double* chances,
               const long long* next, Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.time * task.samples * task.most) return;
    const long long s = number % task.most, n = number / task.most % task.samples;
    const long long t = number / task.most / task.samples;
    const Sizes own(sizes, n, task);
    next += n * task.most;
    if (t >= own.steps || s >= own.width || next[s] < 0) return;
    alpha += n * task.time * task.most;
    chances += (n * task.time + t) * task.most;
    if (!(::fabs(loss_of(alpha, own.steps, own.width, task.most)) < -never())) return;
    const long long c = letters[n * task.most + s];
    if (c < 0 || c >= task.classes) return;
    double found = ::exp(cast<double>(
        log_probs[t * task.step_t + n * task.step_n + c * task.step_c]));
    for (long long k = s;;) {
        found -= chances[k];
        const long long link = next[k], after = link < 0 ? -1 - link : link;
        if (after <= k || after >= task.most) break;
        k = after;
    }
    out[(t * task.samples + n) * task.classes + c] =
        cast<Stored>(found * cast<double>(g[n * task.step_g]));
}
