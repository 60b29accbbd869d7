// Rows that a group of `lanes` neighbouring threads shares: THREADS of a block, Real computed, HELD
// how many elements of a row each thread holds in registers; 0: none, and each pass reads the row
// again, mostly from the cache. Comes after memory.cuh.

constexpr int THREADS = 256;

struct Larger {
    // NaN wins, so that it reaches every result of its row.
    template <typename T> __device__ T operator()(T a, T b) const {
        return a > b || a != a ? a : b;
    }
};
struct Plus {
    template <typename T> __device__ T operator()(T a, T b) const { return a + b; }
};

// Gives the whole to every thread of the group. Each order of joining is that of a fixed tree.
template <typename T, typename Join> __device__ T join(T value, int lanes, Join joined) {
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
    // The next call writes where slower threads may still read.
    __syncthreads();
    return value;
}

// Which row a thread shares, and as which of its threads. One without a row has one of length 0, and
// goes through the barriers with the others.
struct Place {
    int lanes, lane;
    long long row, length;
    __device__ Place(long long rows, long long length, long long lanes)
        : lanes(int(lanes)), lane(threadIdx.x % int(lanes)),
          row((long long)(blockIdx.x) * (THREADS / lanes) + threadIdx.x / int(lanes)),
          length(row < rows ? length : 0) {
        // Nothing is read or written for a row that there is not.
        if (row >= rows) row = 0;
    }
    __device__ bool tells() const { return length > 0 && lane == 0; }
};

// A thread's part of a row.
template <typename From> struct Row {
    const From* at;
    long long length, step;
    int lane, lanes;
    Real held[HELD > 0 ? HELD : 1];

    __device__ Row(const From* at, long long length, long long step, int lane, int lanes)
        : at(at), length(length), step(step), lane(lane), lanes(lanes) {
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const long long i = lane + (long long)(k) * lanes;
            held[k] = i < length ? cast<Real>(at[i * step]) : Real(0);
        }
    }
    // Calls act(i, element i, the number of the register that holds it).
    template <typename Act> __device__ void each(Act act) const {
        if constexpr (HELD > 0) {
#pragma unroll
            for (int k = 0; k < HELD; ++k) {
                const long long i = lane + (long long)(k) * lanes;
                if (i < length) act(i, held[k], k);
            }
        } else {
            for (long long i = lane; i < length; i += lanes) act(i, cast<Real>(at[i * step]), 0);
        }
    }
    // Element i, which this thread is at in `each` of a row that goes along with this one.
    __device__ Real along(long long i, int k) const {
        if constexpr (HELD > 0) return held[k];
        else return cast<Real>(at[i * step]);
    }
};
