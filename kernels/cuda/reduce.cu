// Sums over axes. reduce.py puts before this text: memory.cuh, typedefs of In (stored), Sum
// (added), Total (what Sum stands for), Out (written) and Index (counts elements), and how many
// axes are KEPT and REDUCED. Integers are added without a sign, for there they may wrap around.
//
// A group of `lanes` threads makes one sum: of one index of the kept axes, over one chunk of the
// reduced elements. Which thread adds what, and in which order sums are joined, follows from the
// shapes alone, so a sum has the same bits on every GPU and in every run.
//
// Bound by memory. Neighbouring threads read neighbouring elements: of one sum where the reduced
// elements lie together (lanes_lie_together), of neighbouring sums otherwise.

constexpr int THREADS = 256;

struct Task {
    long long sums, length, chunk;      // length: of the reduced axes; chunk: of it, per group
    long long lanes, lanes_lie_together;
    long long kept_shape[KEPT], kept_out[KEPT], kept_in[KEPT];
    long long reduced_shape[REDUCED], reduced_in[REDUCED];
};

__device__ long long offset_of_reduced(long long i, const Task& task) {
    return offset_of<Index, REDUCED>(Index(i), task.reduced_shape, task.reduced_in);
}

// Four sums at a time, so that four loads are under way; for rounding they are better, too.
__device__ Sum sum_of_lane(const In* in, const Task& task, long long begin, long long end) {
    Sum partial[4] = {Sum(0), Sum(0), Sum(0), Sum(0)};
    const long long step = task.lanes;
    long long i = begin;
    for (; i + 3 * step < end; i += 4 * step) {
#pragma unroll
        for (int k = 0; k < 4; ++k)
            partial[k] += cast<Sum>(in[offset_of_reduced(i + k * step, task)]);
    }
    for (; i < end; i += step) partial[0] += cast<Sum>(in[offset_of_reduced(i, task)]);
    return (partial[0] + partial[1]) + (partial[2] + partial[3]);
}

// Joins the sums of neighbouring threads; the group's first thread gets the whole.
__device__ Sum join_neighbours(Sum sum, int lanes) {
    __shared__ Sum of_warp[THREADS / 32];
    const int width = lanes < 32 ? lanes : 32;
    for (int by = width / 2; by > 0; by /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, by, width);
    if (lanes <= 32) return sum;
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x % lanes == 0)
        for (int warp = 1; warp < lanes / 32; ++warp) sum += of_warp[threadIdx.x / 32 + warp];
    return sum;
}

// Joins the sums of threads that stand `groups` apart.
__device__ Sum join_apart(Sum sum, int lanes, int groups) {
    __shared__ Sum of_thread[THREADS];
    of_thread[threadIdx.x] = sum;
    for (int half = lanes / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half * groups)
            of_thread[threadIdx.x] += of_thread[threadIdx.x + half * groups];
    }
    return of_thread[threadIdx.x];
}

// blockIdx.x counts blocks of sums, blockIdx.y chunks, whose sums lie one after another in out.
extern "C" __global__ void __launch_bounds__(THREADS)
sum(const In* in, Out* out, Task task) {
    const int lanes = int(task.lanes), groups = THREADS / lanes;
    const bool together = task.lanes_lie_together;
    const int lane = together ? threadIdx.x % lanes : threadIdx.x / groups;
    const int group = together ? threadIdx.x / lanes : threadIdx.x % groups;
    const long long which = (long long)(blockIdx.x) * groups + group;
    const long long begin = blockIdx.y * task.chunk;
    const long long end = begin + task.chunk < task.length ? begin + task.chunk : task.length;
    Sum total = Sum(0);
    if (which < task.sums) {
        const long long first = offset_of<Index, KEPT>(Index(which), task.kept_shape, task.kept_in);
        total = sum_of_lane(in + first, task, begin + lane, end);
    }
    total = together ? join_neighbours(total, lanes) : join_apart(total, lanes, groups);
    if (lane == 0 && which < task.sums) {
        const long long at = offset_of<Index, KEPT>(Index(which), task.kept_shape, task.kept_out);
        out[blockIdx.y * task.sums + at] = cast<Out>(Total(total));
    }
}
