// Rows, each shared by a group of `lanes` threads. THREADS is the size of a block, Real the compute
// type, HELD the number of a row's elements that each thread holds in registers; if it is 0, each
// pass reads the row again, mostly from the cache. Included after memory.cuh.
//
// A thread takes PACK adjacent elements at a time: 16 bytes, if rows are contiguous and begin at
// multiples of 16 bytes; otherwise 1. The threads of a group are adjacent, or, if rows are APART
// (not contiguous), as far from each other as there are groups, so that adjacent threads read
// adjacent rows.

constexpr int THREADS = 256;
static_assert(HELD % PACK == 0, "registers hold whole packs");

struct Larger {
    // NaN wins, so that it reaches every result of its row.
    template <typename T> __device__ T operator()(T a, T b) const {
        return a > b || a != a ? a : b;
    }
};
struct Plus {
    template <typename T> __device__ T operator()(T a, T b) const { return a + b; }
};

template <typename T, typename Join> __device__ T join_apart(T value, int lanes, Join joined) {
    __shared__ T of_thread[THREADS];
    const int groups = THREADS / lanes;
    of_thread[threadIdx.x] = value;
    for (int half = lanes / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half * groups)
            of_thread[threadIdx.x] =
                joined(of_thread[threadIdx.x], of_thread[threadIdx.x + half * groups]);
    }
    __syncthreads();
    value = of_thread[threadIdx.x % groups];
    // A barrier, because the next call writes where slower threads may still read.
    __syncthreads();
    return value;
}

// Returns the result of the whole row to every thread of the group, combined in a fixed tree order.
template <typename T, typename Join> __device__ T join(T value, int lanes, Join joined) {
    if constexpr (APART) {
        return join_apart(value, lanes, joined);
    } else {
        __shared__ T of_warp[THREADS / 32];
        const int width = lanes < 32 ? lanes : 32;
        for (int by = width / 2; by > 0; by /= 2)
            value = joined(value, __shfl_xor_sync(0xffffffffu, value, by, width));
        if (lanes <= 32) return value;
        if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
        __syncthreads();
        const int first = threadIdx.x / lanes * (lanes / 32);
        value = of_warp[first];
        for (int warp = 1; warp < lanes / 32; ++warp) value = joined(value, of_warp[first + warp]);
        // A barrier for the same reason as above.
        __syncthreads();
        return value;
    }
}

// The row that a thread shares, and its index in the group. A thread without a row gets one of
// length 0, because it must take part in barriers.
struct Place {
    int lanes, lane;
    long long row, length;
    __device__ Place(long long rows, long long length, long long lanes) : lanes(int(lanes)) {
        const int groups = THREADS / int(lanes);
        lane = APART ? threadIdx.x / groups : threadIdx.x % int(lanes);
        row = (long long)(blockIdx.x) * groups +
              (APART ? threadIdx.x % groups : threadIdx.x / int(lanes));
        this->length = row < rows ? length : 0;
        // Nothing is read or written for a row that does not exist.
        if (row >= rows) row = 0;
    }
    __device__ bool tells() const { return length > 0 && lane == 0; }
};

// The number of elements of T that one instruction moves, at most PACK.
template <typename T> constexpr int AT_ONCE = PACK * sizeof(T) <= 16 ? PACK : 16 / sizeof(T);

// Converts a pack of T in memory to PACK values, and back.
template <typename T> __device__ void fetch(const T* at, Real* to) {
    typedef Pack<T, AT_ONCE<T>> Some;
#pragma unroll
    for (int k = 0; k < PACK; k += AT_ONCE<T>) {
        const Some some = *reinterpret_cast<const Some*>(at + k);
#pragma unroll
        for (int j = 0; j < AT_ONCE<T>; ++j) to[k + j] = cast<Real>(some.lane[j]);
    }
}
template <typename T> __device__ void store(const Real* from, T* at) {
    typedef Pack<T, AT_ONCE<T>> Some;
#pragma unroll
    for (int k = 0; k < PACK; k += AT_ONCE<T>) {
        Some some;
#pragma unroll
        for (int j = 0; j < AT_ONCE<T>; ++j) some.lane[j] = cast<T>(from[k + j]);
        *reinterpret_cast<Some*>(at + k) = some;
    }
}

// A thread's part of a row.
template <typename From> struct Row {
    const From* at;
    long long length, step;
    int lane, lanes;
    Real held[HELD > 0 ? HELD : 1];

    __device__ Row(const From* at, long long length, long long step, const Place& place)
        : at(at), length(length), step(step), lane(place.lane), lanes(place.lanes) {
#pragma unroll
        for (int k = 0; k < HELD; k += PACK) {
            const long long i = lane * PACK + (long long)(k) * lanes;
            if (i < length) fetch(at + i * step, held + k);
        }
    }
    // Calls act(i, x), where x points to the PACK elements from i on.
    template <typename Act> __device__ void each(Act act) const {
        if constexpr (HELD > 0) {
#pragma unroll
            for (int k = 0; k < HELD; k += PACK) {
                const long long i = lane * PACK + (long long)(k) * lanes;
                if (i < length) act(i, held + k);
            }
        } else {
            read([&](long long i, const Real* x) { act(i, x); });
        }
    }
    // The same, also with the elements of a second row.
    template <typename Other, typename Act>
    __device__ void each_with(const Row<Other>& other, Act act) const {
        if constexpr (HELD > 0) {
#pragma unroll
            for (int k = 0; k < HELD; k += PACK) {
                const long long i = lane * PACK + (long long)(k) * lanes;
                if (i < length) act(i, held + k, other.held + k);
            }
        } else {
            read([&](long long i, const Real* x) {
                Real y[PACK];
                fetch(other.at + i * other.step, y);
                act(i, x, y);
            });
        }
    }
    // Replaces each element in registers by act(x).
    template <typename Act> __device__ void put(Act act) {
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const long long i = lane * PACK + (long long)(k - k % PACK) * lanes;
            if (i < length) held[k] = act(held[k]);
        }
    }
    // Calls act(x) for each element.
    template <typename Act> __device__ void fold(Act act) const {
        each([&](long long, const Real* x) {
#pragma unroll
            for (int j = 0; j < PACK; ++j) act(x[j]);
        });
    }

private:
    // Two packs are in flight at a time.
    template <typename Act> __device__ void read(Act act) const {
        const long long stride = (long long)(lanes) * PACK;
        long long i = (long long)(lane) * PACK;
        for (; i + stride < length; i += 2 * stride) {
            Real x[2 * PACK];
            fetch(at + i * step, x);
            fetch(at + (i + stride) * step, x + PACK);
            act(i, x);
            act(i + stride, x + PACK);
        }
        if (i < length) {
            Real x[PACK];
            fetch(at + i * step, x);
            act(i, x);
        }
    }
};
