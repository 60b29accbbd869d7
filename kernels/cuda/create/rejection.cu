// Gamma, Poisson and binomial numbers by rejection sampling. random_numbers/rejection.py has the
// same methods, step by step, and defines which random words each attempt uses. rejection.py puts
// before this file: memory.cuh, philox.cuh, the typedef of Stored and LOG_FACTORIALS.
//
// A thread makes one number. Bound by arithmetic in float64, and in each warp by the number that is
// rejected most often.

constexpr int THREADS = 256;
constexpr double MANY = 10.0, HALF_LOG_2_PI = 0.91893853320467267;
constexpr double LARGEST = 0x1.fffffffffffffp+1023;
struct Task {
    long long size, first, seed, place;  // see Start
};

__device__ bool is_nan(double x) { return x != x; }

// A number in (0, 1) with 52 random bits.
__device__ double fraction(const Block& block, int half) {
    return (double(block.wide(half) >> 12) + 0.5) * 0x1p-52;
}

__device__ double log_factorial(double k) {
    if (k < 16.0) return LOG_FACTORIALS[int(k)];
    const double x = k + 1.0, y = 1.0 / (x * x);
    const double series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y / 1680.0))) / x;
    return (x - 0.5) * ::log(x) - x + HALF_LOG_2_PI + series;
}

// Return the count up to which the cumulative probability stays below a uniform number. `chance` is
// the probability of 0; each next probability is factor(count) times the one before.
template <typename Factor>
__device__ double counted(const Block& block, double chance, Factor factor) {
    double left = fraction(block, 0) - chance, k = 0.0;
    while (k < 200.0 && left > 0.0) {
        k += 1.0;
        chance *= factor(k);
        left -= chance;
    }
    return k;
}

// The attempts of one number; each attempt uses one block of words.
struct Attempts {
    Long place, seed;
    __device__ Block of(Word number) const { return Block(place, seed, number); }
};

template <typename Draw>
__device__ void draw_each(Stored* out, const Task& task, Draw draw) {
    const long long i = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= task.size) return;
    const Start start(task);
    out[i] = cast<Stored>(draw(i, Attempts{start.first + i, start.seed}));
}

// Returns a gamma number for a finite concentration above 0. If the concentration is below 1,
// returns a gamma number for the concentration + 1.
__device__ double unscaled_gamma(double concentration, const Attempts& attempts) {
    const double d = (concentration < 1.0 ? concentration + 1.0 : concentration) - 1.0 / 3.0;
    for (Word attempt = 0;; ++attempt) {
        const Block block = attempts.of(attempt);
        // cospi, because cos keeps an array in local memory for huge angles.
        const double radius = ::sqrt(-2.0 * ::log((double(block.word[0]) + 0.5) * 0x1p-32));
        const double x = radius * ::cospi(0x1p-31 * double(block.word[1]));
        const double root = 1.0 + x / ::sqrt(9.0 * d), v = root * root * root;
        if (v > 0.0) {
            const double bound = 0.5 * x * x + d * (1.0 - v + ::log(v));
            if (::log(fraction(block, 1)) < bound) return d * v;
        }
    }
}

// The uniform number whose power scales gamma numbers for concentrations below 1.
__device__ double scaling(const Attempts& attempts) {
    return fraction(attempts.of(1u << 31), 0);
}

extern "C" __global__ void __launch_bounds__(THREADS)
draw_gamma(const Stored* concentration, Stored* out, Task task) {
    draw_each(out, task, [&](long long i, const Attempts& attempts) {
        const double given = cast<double>(concentration[i]);
        if (!(given > 0.0)) return is_nan(given) ? given : 0.0;
        if (given > LARGEST) return given;
        const double found = unscaled_gamma(given, attempts);
        return given < 1.0 ? found * ::pow(scaling(attempts), 1.0 / given) : found;
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
draw_log_gamma(const Stored* concentration, Stored* out, Task task) {
    draw_each(out, task, [&](long long i, const Attempts& attempts) {
        const double given = cast<double>(concentration[i]);
        if (!(given > 0.0)) return is_nan(given) ? given : ::log(0.0);
        if (given > LARGEST) return given;
        const double found = ::log(unscaled_gamma(given, attempts));
        return given < 1.0 ? found + ::log(scaling(attempts)) / given : found;
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
draw_poisson(const Stored* rates, Stored* out, Task task) {
    draw_each(out, task, [&](long long i, const Attempts& attempts) {
        const double rate = cast<double>(rates[i]);
        if (!(rate >= 0.0)) return __longlong_as_double(0x7ff8000000000000LL);
        if (rate > LARGEST) return rate;
        if (rate < MANY)
            return counted(attempts.of(0), ::exp(-rate), [&](double k) { return rate / k; });
        const double b = 0.931 + 2.53 * ::sqrt(rate), a = -0.059 + 0.02483 * b;
        const double inverse = 1.1239 + 1.1328 / (b - 3.4);
        for (Word attempt = 0;; ++attempt) {
            const Block block = attempts.of(attempt);
            const double u = fraction(block, 0) - 0.5, v = fraction(block, 1);
            const double room = 0.5 - ::fabs(u);
            const double k = ::floor((2.0 * a / room + b) * u + rate + 0.43);
            if (room >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2.0)) return k;
            if (k >= 0.0 && (room >= 0.013 || v <= room)) {
                const double left = ::log(v * inverse / (a / (room * room) + b));
                if (left <= k * ::log(rate) - rate - log_factorial(k)) return k;
            }
        }
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
draw_binomial(const Stored* counts, const Stored* chances, Stored* out, Task task) {
    draw_each(out, task, [&](long long i, const Attempts& attempts) {
        const double count = cast<double>(counts[i]), prob = cast<double>(chances[i]);
        if (is_nan(count)) return count;
        if (is_nan(prob)) return prob;
        const double n = ::floor(::fmin(::fmax(count, 0.0), LARGEST));
        const bool is_mirrored = prob > 0.5;
        const double p = ::fmin(::fmax(is_mirrored ? 1.0 - prob : prob, 0.0), 0.5);
        const double mean = n * p, ratio = p / (1.0 - p);
        const auto mirror = [&](double found) { return is_mirrored ? n - found : found; };
        if (mean < MANY) {
            const double none = ::exp(n * ::log1p(-p));
            const double found = counted(attempts.of(0), none, [&](double k) {
                return ratio * ::fmax(n + 1.0 - k, 0.0) / k;
            });
            return mirror(::fmin(found, n));
        }
        const double spread = ::sqrt(mean * (1.0 - p)), b = 1.15 + 2.53 * spread;
        const double a = -0.0873 + 0.0248 * b + 0.01 * p, mode = ::floor((n + 1.0) * p);
        const double alpha = (2.83 + 5.1 / b) * spread;
        for (Word attempt = 0;; ++attempt) {
            const Block block = attempts.of(attempt);
            const double u = fraction(block, 0) - 0.5, v = fraction(block, 1);
            const double room = 0.5 - ::fabs(u);
            const double k = ::floor((2.0 * a / room + b) * u + mean + 0.5);
            if (room >= 0.07 && v <= 0.92 - 4.2 / b) return mirror(k);
            if (k >= 0.0 && k <= n) {
                const double left = ::log(v * alpha / (a / (room * room) + b));
                double right = log_factorial(mode) + log_factorial(n - mode);
                right -= log_factorial(k) + log_factorial(n - k);
                if (left <= right + (k - mode) * ::log(ratio)) return mirror(k);
            }
        }
    });
}
