// Rows of scores of attention: weights from scores, and slopes from weights. attention.py puts before
// this text: memory.cuh, rows.cuh with its typedefs, those of Stored and of Mask.
//
// The rows are those of a block of queries of each head, of which each sees the first keys of a
// number, all or, if causal, as many as it is far. A group of threads makes one row. Bound by memory:
// a block of scores is so small that it is read out of the cache in which a product has left it.

struct Task {
    long long rows, keys, lanes;
    // Of a head: all queries, those of the block, and the first of these; heads a sample has.
    long long queries, height, first, heads;
    long long causal, masked, depth;
    // Of samples, heads, rows and columns.
    long long mask[4];
};

__device__ Real infinity() { return Real(__longlong_as_double(0x7ff0000000000000LL)); }

__device__ Real added(bool mask) { return mask ? Real(0) : -infinity(); }
template <typename Number> __device__ Real added(Number mask) { return cast<Real>(mask); }

// A row of the block: of which query it is, and what that may look at.
struct Query {
    long long i, at;  // its place in its head, and among those of all heads
    long long seen;   // keys
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

// Writes weights over scores, and the logarithm of the sum of exp(score) of each row.
extern "C" __global__ void __launch_bounds__(THREADS)
weights(Stored* scores, const Mask* mask, Real* log_sum, Task task) {
    const Place place(task.rows, task.keys, task.lanes);
    const Query query(place, mask, task);
    scores += place.row * task.keys;
    const Row<Stored> row(scores, query.seen, 1, place);
    Real top = -infinity(), allowed = -infinity();
    row.each([&](long long j, const Real* x) {
        const Real bias = query.bias(j);
        allowed = Larger()(allowed, bias);
        top = Larger()(top, *x + bias);
    });
    top = join(top, place.lanes, Larger());
    // Where nothing is looked at there are no weights; where all scores are -inf they are NaN.
    const bool blind = query.masked && join(allowed, place.lanes, Larger()) == -infinity();
    const Real shift = top == -infinity() ? Real(0) : top;
    Real total = 0;
    row.each([&](long long j, const Real* x) { total += ::exp(*x + query.bias(j) - shift); });
    total = join(total, place.lanes, Plus());
    row.each([&](long long j, const Real* x) {
        scores[j] = cast<Stored>(blind ? Real(0) : ::exp(*x + query.bias(j) - shift) / total);
    });
    for (long long j = query.seen + place.lane; j < place.length; j += place.lanes)
        scores[j] = cast<Stored>(Real(0));
    if (place.tells()) log_sum[query.at] = blind ? infinity() : shift + ::log(total);
}

// Writes weights over scores, and the slopes of scores over those of weights: g @ value.T.
extern "C" __global__ void __launch_bounds__(THREADS)
slopes(Stored* scores, Stored* towards, const Stored* g, const Stored* result, const Mask* mask,
       const Real* log_sum, Task task) {
    const Place place(task.rows, task.keys, task.lanes);
    const Query query(place, mask, task);
    scores += place.row * task.keys;
    towards += place.row * task.keys;
    g += place.row * task.depth;
    result += query.at * task.depth;
    // What the slopes of a row have in common.
    Real even = 0;
    if (place.length)
        for (long long c = place.lane; c < task.depth; c += place.lanes)
            even += cast<Real>(g[c]) * cast<Real>(result[c]);
    even = join(even, place.lanes, Plus());
    const Real log_total = log_sum[query.at];
    for (long long j = place.lane; j < place.length; j += place.lanes) {
        Real weight = 0, slope = 0;
        if (j < query.seen) {
            weight = ::exp(cast<Real>(scores[j]) + query.bias(j) - log_total);
            slope = weight * (cast<Real>(towards[j]) - even);
        }
        scores[j] = cast<Stored>(weight);
        towards[j] = cast<Stored>(slope);
    }
}
