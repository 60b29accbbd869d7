// Counter-based random numbers, Philox-4x32-10: see Note [One stream on every device] in
// random_numbers/philox.py. random.py puts before this file: memory.cuh, the typedef of Stored, the
// number of axes DIMS, LONG (whether an element takes 64 random bits), BITS (the random bits of a
// uniform number if not), and philox.cuh.
//
// A thread makes one block of the stream, four words, and the elements that are made from them.
// Bound by arithmetic for normal numbers, by memory for others.

constexpr int THREADS = 256;
struct Task {
    long long size, first, seed, place;  // see Start
    long long low, span, last;  // for integers; span 0 stands for 2**64
    long long shape[DIMS], step[DIMS];
};

constexpr float STEP = 1.0f / (1 << BITS);
constexpr int EACH = LONG ? 2 : 4;

__device__ long long number_of_block() {
    return (long long)(blockIdx.x) * THREADS + threadIdx.x;
}

template <typename Value>
__device__ void put(Stored* out, long long i, Value value, const Task& task) {
    if (i < task.size)
        out[offset_of<Long, DIMS>(i, task.shape, task.step)] = cast<Stored>(value);
}

extern "C" __global__ void __launch_bounds__(THREADS)
uniform(Stored* out, Task task) {
    const long long number = number_of_block();
    if (number * EACH >= task.size) return;
    const Start start(task);
    const Block block(start.first + number, start.seed, 0);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        if constexpr (LONG) put(out, number * 2 + i, (block.wide(i) >> 11) * 0x1p-53, task);
        else put(out, number * 4 + i, (block.word[i] >> (32 - BITS)) * STEP, task);
    }
}

// float64 numbers in (0, 1); LONG says whether each takes two words.
extern "C" __global__ void __launch_bounds__(THREADS)
open_uniform(Stored* out, Task task) {
    const long long number = number_of_block();
    if (number * EACH >= task.size) return;
    const Start start(task);
    const Block block(start.first + number, start.seed, 0);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        if constexpr (LONG)
            put(out, number * 2 + i, (double(block.wide(i) >> 12) + 0.5) * 0x1p-52, task);
        else
            put(out, number * 4 + i, (double(block.word[i]) + 0.5) * 0x1p-32, task);
    }
}

// Normal numbers, made in pairs by the Box-Muller method in float64, and rounded at the end.
extern "C" __global__ void __launch_bounds__(THREADS)
normal(Stored* out, Task task) {
    const long long number = number_of_block();
    if (number * EACH >= task.size) return;
    const Start start(task);
    const Block block(start.first + number, start.seed, 0);
    constexpr double scale = LONG ? 0x1p-53 : 0x1p-32;
#pragma unroll
    for (int pair = 0; pair < EACH / 2; ++pair) {
        const double u = LONG ? double(block.wide(0) >> 11) : double(block.word[2 * pair]);
        const double v = LONG ? double(block.wide(1) >> 11) : double(block.word[2 * pair + 1]);
        // Adding one gives u in (0, 1], where the logarithm is finite.
        const double radius = ::sqrt(-2.0 * ::log((u + 1.0) * scale));
        const long long at = number * EACH + 2 * pair;
        // sinpi and cospi, because sin and cos keep an array in local memory for huge angles.
        double sine, cosine;
        ::sincospi(2.0 * scale * v, &sine, &cosine);
        if constexpr (LONG) {
            put(out, at, radius * cosine, task);
            put(out, at + 1, radius * sine, task);
        } else {
            put(out, at, float(radius * cosine), task);
            put(out, at + 1, float(radius * sine), task);
        }
    }
}

// A word that would favor small numbers is rejected and drawn again.
extern "C" __global__ void __launch_bounds__(THREADS)
integers(Stored* out, Task task) {
    const long long number = number_of_block();
    if (number * 2 >= task.size) return;
    const Start start(task);
    const Long place = start.first + number, span = task.span;
    const Block block(place, start.seed, 0);
    for (int i = 0; i < 2; ++i) {
        Long drawn = block.wide(i);
        if (span) {
            for (Word attempt = 1; drawn > Long(task.last); ++attempt)
                drawn = Block(place, start.seed, attempt).wide(i);
            drawn %= span;
        }
        put(out, number * 2 + i, (long long)(drawn + Long(task.low)), task);
    }
}
