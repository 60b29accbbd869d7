// The position of the n-th word of each sorted row; of equal words, the first in memory comes
// first. radix.py puts radix.cuh before this file.
//
// A row is cut into chunks. From the highest digit down, `tally` counts in each chunk the digits of
// the words that agree with the known digits of the wanted word. `narrow` adds the counts, which
// gives one more digit; after the last digit it searches the chunk that contains the word. Bound by
// memory: each digit reads the row once. No atomics are used, no block waits for another, and the
// host reads nothing.

// Writes how often each digit occurs in each chunk: (rows, digits, chunks). lasts: for each row the
// wanted word, in the bits that are known.
extern "C" __global__ void __launch_bounds__(THREADS)
tally(const Given* given, const Word* lasts, Place* counted, Task task) {
    __shared__ Counts counts;
    const long long row = blockIdx.x / task.chunks, chunk = blockIdx.x % task.chunks;
    const long long begin = chunk * task.chunk, next = begin + task.chunk;
    const long long end = next < task.length ? next : task.length;
    given += row * task.length;
    // At first no digit is known: a shift by all bits of a word would be undefined.
    const Word last = task.is_first ? Word(0) : lasts[row] >> task.shift >> WIDTH;
    counts.clear();
    for (long long tile = begin; tile < end; tile += TILE)
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const long long i = tile + in_tile(k);
            const Word word = i < end ? task.word_of(given[i]) : Word(0);
            const bool agrees = i < end && (task.is_first || word >> task.shift >> WIDTH == last);
            counts.meet(agrees ? digit_of(word, task.shift) : DIGITS);
        }
    __syncthreads();
    counted[(row * DIGITS + threadIdx.x) * task.chunks + chunk] = counts.add_up();
}

// The part that contains the wanted word, and its number within that part; equal for all threads.
struct Within {
    long long part, number;
};

// Each thread has the number of words in one part. Finds the part with the word number `wanted`.
// Returns whether it is one of the block's parts; if not, `wanted` is reduced by their sum.
__device__ bool find(Place here, long long part, long long& wanted, Within& found) {
    __shared__ Within said;
    __shared__ Place all;
    const long long before = before_in_block(here);
    if (threadIdx.x == 0) said.part = -1;
    if (threadIdx.x == THREADS - 1) all = Place(before) + here;
    __syncthreads();
    if (before <= wanted && wanted < before + (long long)(here))
        said.part = part, said.number = wanted - before;
    __syncthreads();
    found = said;
    wanted -= all;
    __syncthreads();
    return found.part >= 0;
}

// A block for each row. places: the wanted position in the sorted row, from 0 on; lefts: the
// position among the words that agree with the known digits; order: the word's index in the row.
extern "C" __global__ void __launch_bounds__(THREADS)
narrow(const Given* given, const long long* places, const Place* counted, Word* lasts,
       long long* lefts, long long* order, Task task) {
    const long long row = blockIdx.x;
    given += row * task.length, counted += row * DIGITS * task.chunks;
    long long wanted = task.is_first ? places[row] : lefts[row];
    Place here = 0;
    for (long long c = 0; c < task.chunks; ++c) here += counted[threadIdx.x * task.chunks + c];
    Within digit, chunk;
    // False only for a position outside the row, which callers never pass.
    if (!find(here, threadIdx.x, wanted, digit)) return;
    const Word last = (task.is_first ? Word(0) : lasts[row]) | Word(digit.part) << task.shift;
    if (!task.is_last) {
        __syncthreads();
        if (threadIdx.x == 0) lasts[row] = last, lefts[row] = digit.number;
        return;
    }
    counted += digit.part * task.chunks, wanted = digit.number;
    for (long long first = 0;; first += THREADS) {
        const long long c = first + threadIdx.x;
        if (find(c < task.chunks ? counted[c] : Place(0), c, wanted, chunk)) break;
    }
    long long left = chunk.number;
    for (long long first = chunk.part * task.chunk; left >= 0; first += THREADS) {
        const long long i = first + threadIdx.x;
        const bool is_equal = i < task.length && task.word_of(given[i]) == last;
        const Said same = say(is_equal);
        if (is_equal && same.before == left) order[row] = i;
        left -= same.all;
    }
}
