// Scaled dot product attention and its gradient, without a matrix of all queries by all keys:
// attention.py puts before this text memory.cuh and the typedefs of Real and Mask.
//
// A block makes one row of a result, from tiles of THREADS rows of the other side: a thread makes the
// score of one of them, then a column of the row's sum. Bound by reading keys and values, which
// neighbouring blocks find in the cache.

constexpr int THREADS = 256;

struct Task {
    long long heads, kept, queries, keys, width, depth, causal, masked;
    // Of samples, heads, rows and columns.
    long long query[4], key[4], value[4], mask[4], g[4];
};

__device__ Real infinity() { return Real(__longlong_as_double(0x7ff0000000000000LL)); }

__device__ Real added(bool mask) { return mask ? Real(0) : -infinity(); }
__device__ Real added(Real mask) { return mask; }

template <typename Join> __device__ Real join(Real value, Join joined) {
    __shared__ Real of_thread[THREADS];
    of_thread[threadIdx.x] = value;
    __syncthreads();
    for (int by = THREADS / 2; by > 0; by /= 2) {
        if (threadIdx.x < by)
            of_thread[threadIdx.x] = joined(of_thread[threadIdx.x], of_thread[threadIdx.x + by]);
        __syncthreads();
    }
    value = of_thread[0];
    // The next call writes where slower threads may still read.
    __syncthreads();
    return value;
}

struct Larger {
    __device__ Real operator()(Real a, Real b) const { return a > b || a != a ? a : b; }
};
struct Plus {
    __device__ Real operator()(Real a, Real b) const { return a + b; }
};

__device__ Real dot(const Real* a, long long step_a, const Real* b, long long step_b, long long n) {
    Real sum = 0;
    for (long long i = 0; i < n; ++i) sum += a[i * step_a] * b[i * step_b];
    return sum;
}

__device__ const Real* row_of(const Real* x, const long long* step, long long n, long long h,
                              long long i) {
    return x + n * step[0] + h * step[1] + i * step[2];
}

// What a mask adds to a score.
__device__ Real bias(const Mask* mask, const Task& task, long long n, long long h, long long i,
                     long long j) {
    if (!task.masked) return 0;
    const long long* step = task.mask;
    return added(mask[n * step[0] + h * step[1] + i * step[2] + j * step[3]]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
attention(const Real* query, const Real* key, const Real* value, const Mask* mask, Real* out,
          Real* log_sum, Real factor, Task task) {
    __shared__ Real weight[THREADS];
    const long long row = blockIdx.x, i = row % task.queries, head = row / task.queries;
    const long long h = head % task.heads, n = head / task.heads, k = h * task.kept / task.heads;
    const Real* q = row_of(query, task.query, n, h, i);
    out += row * task.depth;
    for (long long c = threadIdx.x; c < task.depth; c += THREADS) out[c] = 0;
    Real top = -infinity(), seen = -infinity(), total = 0;
    for (long long first = 0; first < task.keys; first += THREADS) {
        const long long j = first + threadIdx.x;
        Real score = -infinity(), allowed = -infinity();
        if (j < task.keys && !(task.causal && j > i)) {
            allowed = bias(mask, task, n, h, i, j);
            score = dot(q, task.query[3], row_of(key, task.key, n, k, j), task.key[3], task.width) *
                    factor + allowed;
        }
        seen = join(Larger()(allowed, seen), Larger());
        const Real before = top;
        top = join(Larger()(top, score), Larger());
        // Nothing yet but -inf: what is to come decides.
        const Real at = top == -infinity() ? Real(0) : top;
        const Real shrink = before == -infinity() ? Real(0) : ::exp(before - at);
        weight[threadIdx.x] = ::exp(score - at);
        total = total * shrink + join(weight[threadIdx.x], Plus());
        const long long count = task.keys - first < THREADS ? task.keys - first : THREADS;
        for (long long c = threadIdx.x; c < task.depth; c += THREADS) {
            Real sum = out[c] * shrink;
            for (long long t = 0; t < count; ++t)
                if (!(task.causal && first + t > i))
                    sum += weight[t] *
                           row_of(value, task.value, n, k, first + t)[c * task.value[3]];
            out[c] = sum;
        }
        __syncthreads();
    }
    const bool blind = seen == -infinity();
    for (long long c = threadIdx.x; c < task.depth; c += THREADS)
        out[c] = blind ? Real(0) : out[c] / total;
    if (threadIdx.x == 0) log_sum[row] = blind ? infinity() : top + ::log(total);
}

// The weight of a key for a query, and the slope of its score.
struct Pair {
    Real weight, slope;
};

__device__ Pair pair_of(const Real* q, const Real* k, const Real* v, const Real* g,
                        const Real* result, Real log_sum, Real added, Real factor,
                        const Task& task) {
    const Real score = dot(q, task.query[3], k, task.key[3], task.width) * factor + added;
    const Real even = dot(g, task.g[3], result, 1, task.depth);
    const Real weight = ::exp(score - log_sum);
    return {weight, weight * (dot(g, task.g[3], v, task.value[3], task.depth) - even)};
}

extern "C" __global__ void __launch_bounds__(THREADS)
by_query(const Real* g, const Real* query, const Real* key, const Real* value, const Mask* mask,
         const Real* result, const Real* log_sum, Real* out, Real factor, Task task) {
    __shared__ Real slope[THREADS];
    const long long row = blockIdx.x, i = row % task.queries, head = row / task.queries;
    const long long h = head % task.heads, n = head / task.heads, k = h * task.kept / task.heads;
    const Real *q = row_of(query, task.query, n, h, i), *towards = row_of(g, task.g, n, h, i);
    out += row * task.width;
    for (long long c = threadIdx.x; c < task.width; c += THREADS) out[c] = 0;
    for (long long first = 0; first < task.keys; first += THREADS) {
        const long long j = first + threadIdx.x;
        if (task.causal && j > i)
            slope[threadIdx.x] = 0;
        else if (j < task.keys)
            slope[threadIdx.x] =
                pair_of(q, row_of(key, task.key, n, k, j), row_of(value, task.value, n, k, j),
                        towards, result + row * task.depth, log_sum[row],
                        bias(mask, task, n, h, i, j), factor, task)
                    .slope;
        __syncthreads();
        const long long count = task.keys - first < THREADS ? task.keys - first : THREADS;
        for (long long c = threadIdx.x; c < task.width; c += THREADS) {
            Real sum = out[c];
            for (long long t = 0; t < count; ++t)
                sum += slope[t] * factor * row_of(key, task.key, n, k, first + t)[c * task.key[3]];
            out[c] = sum;
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
by_key(const Real* g, const Real* query, const Real* key, const Real* value, const Mask* mask,
       const Real* result, const Real* log_sum, Real* by_key, Real* by_value, Real factor,
       Task task) {
    __shared__ Real weight[THREADS], slope[THREADS];
    const long long row = blockIdx.x, j = row % task.keys, head = row / task.keys;
    const long long k = head % task.kept, n = head / task.kept, groups = task.heads / task.kept;
    const Real *mine = row_of(key, task.key, n, k, j), *v = row_of(value, task.value, n, k, j);
    by_key += row * task.width;
    by_value += row * task.depth;
    for (long long c = threadIdx.x; c < task.width; c += THREADS) by_key[c] = 0;
    for (long long c = threadIdx.x; c < task.depth; c += THREADS) by_value[c] = 0;
    for (long long h = k * groups; h < (k + 1) * groups; ++h)
        for (long long first = 0; first < task.queries; first += THREADS) {
            const long long i = first + threadIdx.x;
            const long long at = (n * task.heads + h) * task.queries + i;
            if (i < task.queries) {
                Pair pair = {0, 0};
                if (!(task.causal && j > i))
                    pair = pair_of(
                        row_of(query, task.query, n, h, i), mine, v, row_of(g, task.g, n, h, i),
                        result + at * task.depth, log_sum[at], bias(mask, task, n, h, i, j),
                        factor, task);
                weight[threadIdx.x] = pair.weight;
                slope[threadIdx.x] = pair.slope;
            }
            __syncthreads();
            const long long count = task.queries - first < THREADS ? task.queries - first : THREADS;
            for (long long c = threadIdx.x; c < task.width; c += THREADS) {
                Real sum = by_key[c];
                for (long long t = 0; t < count; ++t)
                    sum += slope[t] * factor *
                           row_of(query, task.query, n, h, first + t)[c * task.query[3]];
                by_key[c] = sum;
            }
            for (long long c = threadIdx.x; c < task.depth; c += THREADS) {
                Real sum = by_value[c];
                for (long long t = 0; t < count; ++t)
                    sum += weight[t] * row_of(g, task.g, n, h, first + t)[c * task.g[3]];
                by_value[c] = sum;
            }
            __syncthreads();
        }
}
