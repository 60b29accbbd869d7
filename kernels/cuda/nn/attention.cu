// Rows of scores of attention: weights from scores, and gradients from weights. attention.py puts
// before this file: memory.cuh, rows.cuh with its typedefs, typedefs of Stored and Mask, DROPS
// (whether there is dropout), philox.cuh and attention.cuh.
//
// Scores are Real; operands of products are Stored, and overwrite the scores if Stored is Real.
//
// The rows belong to a block of queries of each head. Each query sees all keys, or, if causal, the
// keys up to its own position. A group of threads computes one row. Bound by memory: a block of
// scores is so small that it is read from the cache to which a product has written it.

struct Task {
    long long rows, keys, lanes;
    // Numbers of: the queries of a head and of the block, the block's first query, heads of a
    // sample.
    long long queries, height, first, heads;
    long long causal, masked, depth;
    // Whether the gradients by scores are also needed as Real.
    long long learns;
    // For dropout: see Thinner.
    long long all, below, scale;
    // Strides of samples, heads, rows and columns.
    long long mask[4];
};

// A row of the block: its query, and the keys that this query may attend to.
struct Query {
    long long i, at;  // its index in its head, and over all heads
    long long seen;   // the number of keys that it sees
    const Mask* mask;
    bool masked;
    long long step;

    __device__ Query(const Place& place, const Mask* given, const Task& task)
        : masked(task.masked), step(task.mask[3]) {
        const long long head = place.row / task.height;
        i = task.first + place.row % task.height;
        at = head * task.queries + i;
        seen = task.causal && i + 1 < place.length ? i + 1 : place.length;
        mask = given;
        if (masked)
            mask += head / task.heads * task.mask[0] + head % task.heads * task.mask[1] +
                    i * task.mask[2];
    }
    __device__ Real bias(long long j) const { return masked ? added(mask[j * step]) : Real(0); }
};

// Calls act(j, dropout factor) for the keys of a row: adjacent keys for adjacent threads, or, with
// dropout, four adjacent keys per thread, whose random words are drawn together.
template <typename Act>
__device__ void each_key(const Place& place, long long count, const Thinner& thinner, Act act) {
    if constexpr (DROPS) {
        for (long long four = place.lane; four * 4 < count; four += place.lanes) {
            Real stays[4];
            thinner.four(four, stays);
            for (int i = 0; i < 4; ++i)
                if (four * 4 + i < count) act(four * 4 + i, stays[i]);
        }
    } else {
        for (long long j = place.lane; j < count; j += place.lanes) act(j, Real(1));
    }
}

// Computes the weights from the scores, and the logarithm of each row's sum of exp(score).
extern "C" __global__ void __launch_bounds__(THREADS)
weights(const Real* scores, Stored* made, const Mask* mask, const long long* seed, Real* log_sum,
        Task task) {
    const Place place(task.rows, task.keys, task.lanes);
    const Query query(place, mask, task);
    scores += place.row * task.keys;
    made += place.row * task.keys;
    const Row<Real> row(scores, query.seen, 1, place);
    Real top = -infinity(), allowed = -infinity();
    row.each([&](long long j, const Real* x) {
        const Real bias = query.bias(j);
        allowed = Larger()(allowed, bias);
        top = Larger()(top, *x + bias);
    });
    top = join(top, place.lanes, Larger());
    // If no key is seen, there are no weights; if all scores are -inf, they are NaN.
    const bool blind = query.masked && join(allowed, place.lanes, Larger()) == -infinity();
    const Real shift = top == -infinity() ? Real(0) : top;
    Real total = 0;
    row.each([&](long long j, const Real* x) { total += ::exp(*x + query.bias(j) - shift); });
    total = join(total, place.lanes, Plus());
    const auto weight = [&](long long j, Real x) {
        return blind ? Real(0) : ::exp(x + query.bias(j) - shift) / total;
    };
    // All threads of a row have read the scores when its total is known.
    if constexpr (DROPS) {
        const Thinner thinner(seed, query.at, task);
        each_key(place, query.seen, thinner, [&](long long j, Real stays) {
            made[j] = cast<Stored>(weight(j, scores[j]) * stays);
        });
    } else {
        row.each([&](long long j, const Real* x) { made[j] = cast<Stored>(weight(j, *x)); });
    }
    for (long long j = query.seen + place.lane; j < place.length; j += place.lanes)
        made[j] = cast<Stored>(Real(0));
    if (place.tells()) log_sum[query.at] = blind ? infinity() : shift + ::log(total);
}

// Computes the weights from the scores, and the gradients by scores from the gradients by weights,
// which are g @ value.T.
extern "C" __global__ void __launch_bounds__(THREADS)
slopes(const Real* scores, Real* towards, Stored* made, Stored* made_slopes, const Stored* g,
       const Stored* result, const Mask* mask, const long long* seed, const Real* log_sum,
       Task task) {
    const Place place(task.rows, task.keys, task.lanes);
    const Query query(place, mask, task);
    const long long start = place.row * task.keys;
    g += place.row * task.depth;
    result += query.at * task.depth;
    // The term that the gradients of a row share.
    Real even = 0;
    if (place.length)
        for (long long c = place.lane; c < task.depth; c += place.lanes)
            even += cast<Real>(g[c]) * cast<Real>(result[c]);
    even = join(even, place.lanes, Plus());
    const Real log_total = log_sum[query.at];
    const Thinner thinner(seed, query.at, task);
    each_key(place, place.length, thinner, [&](long long j, Real stays) {
        Real weight = 0, slope = 0;
        if (j < query.seen) {
            weight = ::exp(scores[start + j] + query.bias(j) - log_total);
            slope = weight * (towards[start + j] * stays - even);
        }
        made[start + j] = cast<Stored>(weight * stays);
        made_slopes[start + j] = cast<Stored>(slope);
        if (task.learns) towards[start + j] = slope;
    });
}

// Writes the dropout factors of weights, for rows in C order.
extern "C" __global__ void __launch_bounds__(THREADS)
thinning(Stored* out, const long long* seed, Task task) {
    const Place place(task.rows, task.keys, task.lanes);
    const Thinner thinner(seed, place.row, task);
    out += place.row * task.keys;
    each_key(place, place.length, thinner,
             [&](long long j, Real stays) { out[j] = cast<Stored>(stays); });
}
