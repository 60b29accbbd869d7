// The folds of reductions of floating numbers only. Included after folds.cuh.

struct Spread {
    long long count;
    Sum mean, squares;  // squares: the sum of squared deviations from the mean
};
// Each thread sums deviations from its first element. That needs no division per element. The
// squares of n deviations from any element are at most n + 1 times the squares of deviations from
// the mean, so the error is about n roundings. Threads are combined as in Chan, Golub and LeVeque
// (1979).
template <bool root> struct Deviating {
    typedef Spread State;
    struct Lane {
        long long count;
        Sum first, sum[4], squares[4];
        __device__ void begin() {
            count = 0, first = Sum(0);
#pragma unroll
            for (int k = 0; k < 4; ++k) sum[k] = squares[k] = Sum(0);
        }
        __device__ void take(int k, In element, long long, double) {
            const Sum x = cast<Sum>(element);
            if (count++ == 0) first = x;
            const Sum away = x - first;
            sum[k] += away, squares[k] += away * away;
        }
        __device__ State whole() const {
            if (count == 0) return nothing();
            const Sum total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
            const Sum all = (squares[0] + squares[1]) + (squares[2] + squares[3]);
            const Sum away = total / Sum(count), left = all - total * away;
            return {count, first + away, left < Sum(0) ? Sum(0) : left};
        }
    };
    static __device__ State nothing() { return {0, Sum(0), Sum(0)}; }
    // This Four only combines States; it is never given elements.
    static __device__ State take(State state, In, long long, double) { return state; }
    static __device__ State join(State a, State b) {
        if (a.count == 0 || b.count == 0) return a.count == 0 ? b : a;
        const long long count = a.count + b.count;
        const Sum apart = b.mean - a.mean, share = Sum(b.count) / Sum(count);
        const Sum between = apart * apart * Sum(a.count) * share;
        return {count, a.mean + apart * share, a.squares + b.squares + between};
    }
    static __device__ Sum value(State state, long long, double correction) {
        const double left = double(state.count) - correction;
        const Sum variance = state.squares / Sum(left > 0 ? left : 0);
        return root ? ::sqrt(variance) : variance;
    }
};

struct Exponentials {
    Real top;
    Sum rest;  // the sum of exp(x - top) minus 1: without one of the largest
};
struct LogSumming {
    typedef Exponentials State;
    typedef Four<LogSumming> Lane;
    static __device__ State nothing() { return {least<Real>(), Sum(-1)}; }
    static __device__ State take(State state, In element, long long, double) {
        // Without branches, in which half of a warp would wait for the other half.
        const Real x = cast<Real>(element);
        const bool more = x > state.top;
        const Real power = ::exp(more ? state.top - x : x - state.top);
        // If both are infinite, their difference is NaN.
        const Sum share = x == state.top ? Sum(1) : Sum(power);
        return {more ? x : state.top, more ? (state.rest + Sum(1)) * share : state.rest + share};
    }
    static __device__ State join(State a, State b) {
        if (a.top == b.top) return {a.top, a.rest + b.rest + Sum(1)};
        if (a.top > b.top) return {a.top, a.rest + (b.rest + Sum(1)) * Sum(::exp(b.top - a.top))};
        return {b.top, b.rest + (a.rest + Sum(1)) * Sum(::exp(a.top - b.top))};
    }
    static __device__ Sum value(State state, long long, double) {
        if (state.rest != state.rest) return state.rest;
        return state.top == least<Real>() || state.top == most<Real>()
                   ? Sum(state.top)
                   : Sum(state.top) + ::log1p(state.rest);
    }
};

enum Order { NONZERO, ABSOLUTE, EUCLIDEAN, POWER, LARGEST, SMALLEST };
template <Order order> struct Norming {
    typedef ::Sum State;
    typedef Four<Norming> Lane;
    static __device__ State nothing() { return order == SMALLEST ? most<Sum>() : Sum(0); }
    static __device__ State take(State state, In element, long long, double argument) {
        const Sum size = ::fabs(cast<Sum>(element));
        if constexpr (order == NONZERO) return state + Sum(size != Sum(0));
        else if constexpr (order == EUCLIDEAN) return state + size * size;
        else if constexpr (order == POWER) return state + ::pow(size, Sum(argument));
        else return join(state, size);
    }
    static __device__ State join(State a, State b) {
        if constexpr (order == LARGEST) return farther<true>(a, b);
        else if constexpr (order == SMALLEST) return farther<false>(a, b);
        else return a + b;
    }
    static __device__ Sum value(State state, long long, double argument) {
        if constexpr (order == EUCLIDEAN) return ::sqrt(state);
        else if constexpr (order == POWER) return ::pow(state, Sum(1 / argument));
        else return state;
    }
};
