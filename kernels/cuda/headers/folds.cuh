// The folds of reductions. A fold has a State, the State of no elements, and functions that add
// element i to a State, that combine two States, and that compute the result. A Lane collects the
// elements of one thread in four States, so that four loads are in flight; this also reduces
// rounding errors. reductions.py puts before this file: memory.cuh and the typedefs of In (stored),
// Value (one element), Real (for functions), Sum (for additions) and Total (the type that Sum
// represents). Integers are added as unsigned, because these may wrap around.

template <typename Fold> struct Four {
    typename Fold::State part[4];
    __device__ void begin() {
#pragma unroll
        for (int k = 0; k < 4; ++k) part[k] = Fold::nothing();
    }
    __device__ void take(int k, In element, long long i, double argument) {
        part[k] = Fold::take(part[k], element, i, argument);
    }
    __device__ typename Fold::State whole() const {
        return Fold::join(Fold::join(part[0], part[1]), Fold::join(part[2], part[3]));
    }
};

// The Lane of the second launch, which combines the States of the chunks.
template <typename Fold> struct Joined : Four<Fold> {
    __device__ void take(int k, typename Fold::State state, long long, double) {
        this->part[k] = Fold::join(this->part[k], state);
    }
};

template <typename T> __device__ T least() {
    if constexpr (T(0.5) != T(0)) return T(-__longlong_as_double(0x7ff0000000000000LL));
    else if constexpr (T(-1) > T(0)) return T(0);
    else return T(1ULL << (8 * sizeof(T) - 1));
}
template <typename T> __device__ T most() {
    if constexpr (T(0.5) != T(0)) return T(__longlong_as_double(0x7ff0000000000000LL));
    else if constexpr (T(-1) > T(0)) return T(-1);
    else return T((1ULL << (8 * sizeof(T) - 1)) - 1);
}
// NaN wins from either side.
template <bool largest, typename T> __device__ T farther(T a, T b) {
    return (largest ? a > b : a < b) || a != a ? a : b;
}

struct Adding {
    typedef ::Sum State;
    typedef Four<Adding> Lane;
    static __device__ State nothing() { return State(0); }
    static __device__ State take(State sum, In element, long long, double) {
        return sum + cast<State>(element);
    }
    static __device__ State join(State a, State b) { return a + b; }
    static __device__ Total value(State sum, long long, double) { return Total(sum); }
};

struct Averaging : Adding {
    static __device__ Total value(State sum, long long count, double) {
        return Total(sum) / Total(count);
    }
};

struct Multiplying {
    typedef ::Sum State;
    typedef Four<Multiplying> Lane;
    static __device__ State nothing() { return State(1); }
    static __device__ State take(State product, In element, long long, double) {
        return product * cast<State>(element);
    }
    static __device__ State join(State a, State b) { return a * b; }
    static __device__ Total value(State product, long long, double) { return Total(product); }
};

template <bool largest> struct Extreme {
    typedef Value State;
    typedef Four<Extreme> Lane;
    static __device__ State nothing() { return largest ? least<Value>() : most<Value>(); }
    static __device__ State take(State found, In element, long long, double) {
        return farther<largest>(found, cast<Value>(element));
    }
    static __device__ State join(State a, State b) { return farther<largest>(a, b); }
    static __device__ Value value(State found, long long, double) { return found; }
};

struct Found {
    Value value;
    long long place;  // the index; -1 if there is no element
};
// The first of equal elements wins; NaN is larger than all others.
template <bool largest> struct Placing {
    typedef Found State;
    typedef Four<Placing> Lane;
    static __device__ State nothing() { return {Value(0), -1}; }
    static __device__ State take(State found, In element, long long i, double) {
        return join(found, {cast<Value>(element), i});
    }
    static __device__ State join(State a, State b) {
        if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;
        const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
        if (a.value == b.value || (a_is_nan && b_is_nan)) return a.place < b.place ? a : b;
        if (a_is_nan || b_is_nan) return a_is_nan ? a : b;
        return (largest ? a.value > b.value : a.value < b.value) ? a : b;
    }
    static __device__ Value value(State found, long long, double) { return found.value; }
    static __device__ long long place(State found) { return found.place; }
};
template <bool largest> struct Place : Placing<largest> {
    static __device__ long long value(Found found, long long, double) { return found.place; }
};

template <bool all> struct Holding {
    typedef int State;
    typedef Four<Holding> Lane;
    static __device__ State nothing() { return all; }
    static __device__ State take(State holds, In element, long long, double) {
        return join(holds, cast<Value>(element) != Value(0));
    }
    static __device__ State join(State a, State b) { return all ? a & b : a | b; }
    static __device__ State value(State holds, long long, double) { return holds; }
};

struct Counting {
    typedef long long State;
    typedef Four<Counting> Lane;
    static __device__ State nothing() { return 0; }
    static __device__ State take(State count, In element, long long, double) {
        return count + (cast<Value>(element) != Value(0));
    }
    static __device__ State join(State a, State b) { return a + b; }
    static __device__ State value(State count, long long, double) { return count; }
};
