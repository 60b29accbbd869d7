// A recurrent cell between two products, and its gradient. recurrent.py puts before this file:
// memory.cuh, typedefs of Stored (the steps' dtype) and Real (computed), CELL, and BIAS: whether
// the product's bias must still be added.
//
// A thread computes one number of the new state from its gates; adjacent threads read adjacent
// numbers of each gate. Bound by memory: each number is read and written once.

constexpr int THREADS = 256;
constexpr int LSTM = 0, GRU = 1, TANH = 2, RELU = 3;

struct Task {
    long long size, hidden;
};

// exp of -|x| never overflows, and keeps the small results of negative x.
__device__ Real sigmoid(Real x) {
    const Real e = ::exp(x < Real(0) ? x : -x);
    return (x < Real(0) ? e : Real(1)) / (Real(1) + e);
}

extern "C" __global__ void __launch_bounds__(THREADS)
forward(const Real* gates, const Real* product, const Real* bias, Real* saved, Real* before,
        Real* h, Real* c, Stored* out, Task task) {
    const long long at = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (at >= task.size) return;
    const long long n = task.hidden, row = at / n, k = at % n;
    constexpr int count = CELL == LSTM ? 4 : CELL == GRU ? 3 : 1;
    constexpr int kept = CELL == LSTM ? 6 : CELL == GRU ? 4 : 1;
    Real x[count], y[count];
    for (int i = 0; i < count; ++i) {
        x[i] = gates[row * count * n + i * n + k];
        y[i] = product[row * count * n + i * n + k] + (BIAS ? bias[i * n + k] : Real(0));
    }
    Real* mine = saved + row * kept * n + k;
    Real result;
    before[at] = h[at];
    if constexpr (CELL == LSTM) {
        const Real i = sigmoid(x[0] + y[0]), f = sigmoid(x[1] + y[1]);
        const Real g = ::tanh(x[2] + y[2]), o = sigmoid(x[3] + y[3]);
        const Real state = f * c[at] + i * g, bent = ::tanh(state);
        mine[0] = i, mine[n] = f, mine[2 * n] = g, mine[3 * n] = o;
        mine[4 * n] = c[at], mine[5 * n] = bent;
        c[at] = state;
        result = o * bent;
    } else if constexpr (CELL == GRU) {
        const Real r = sigmoid(x[0] + y[0]), z = sigmoid(x[1] + y[1]);
        const Real fresh = ::tanh(x[2] + r * y[2]);
        mine[0] = r, mine[n] = z, mine[2 * n] = fresh, mine[3 * n] = y[2];
        result = fresh + z * (h[at] - fresh);
    } else {
        const Real sum = x[0] + y[0];
        // Written so that NaN stays NaN.
        result = CELL == TANH ? ::tanh(sum) : sum < Real(0) ? Real(0) : sum;
        mine[0] = result;
    }
    h[at] = result;
    out[at] = cast<Stored>(result);
}

extern "C" __global__ void __launch_bounds__(THREADS)
backward(const Real* g, const Real* saved, const Real* before, Real* dh, Real* dc, Real* d_gates,
         Real* d_product, Task task) {
    const long long at = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (at >= task.size) return;
    const long long n = task.hidden, row = at / n, k = at % n;
    constexpr int count = CELL == LSTM ? 4 : CELL == GRU ? 3 : 1;
    constexpr int kept = CELL == LSTM ? 6 : CELL == GRU ? 4 : 1;
    const Real* mine = saved + row * kept * n + k;
    Real* to = d_gates + row * count * n + k;
    const Real d = dh[at] + g[at], one = Real(1);
    if constexpr (CELL == LSTM) {
        const Real i = mine[0], f = mine[n], u = mine[2 * n], o = mine[3 * n];
        const Real state = mine[4 * n], bent = mine[5 * n];
        const Real d_state = dc[at] + d * o * (one - bent * bent);
        to[0] = d_state * u * i * (one - i);
        to[n] = d_state * state * f * (one - f);
        to[2 * n] = d_state * i * (one - u * u);
        to[3 * n] = d * bent * o * (one - o);
        dc[at] = d_state * f;
    } else if constexpr (CELL == GRU) {
        const Real r = mine[0], z = mine[n], fresh = mine[2 * n], by = mine[3 * n];
        const Real by_fresh = d * (one - z) * (one - fresh * fresh);
        Real* over = d_product + row * count * n + k;
        to[0] = over[0] = by_fresh * by * r * (one - r);
        to[n] = over[n] = d * (before[at] - fresh) * z * (one - z);
        to[2 * n] = by_fresh;
        over[2 * n] = by_fresh * r;
        dh[at] = d * z;
    } else if constexpr (CELL == TANH) {
        to[0] = d * (one - mine[0] * mine[0]);
    } else {
        to[0] = mine[0] > Real(0) ? d : Real(0);
    }
}
