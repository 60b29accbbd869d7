// Words whose integer order is the order of the values, and tiles of words sorted by a digit.
// radix.py puts before this file: memory.cuh, typedefs of Given (in memory), Bits (unsigned, of
// Given's size), Word (unsigned) and Place (unsigned, counts a row's elements), whether Given
// IS_REAL, and INFINITE, the Bits of its infinity.

constexpr int THREADS = 256, WARPS = THREADS / 32, DIGITS = 256, WIDTH = 8;
constexpr int ITEMS = 64 / sizeof(Word), TILE = THREADS * ITEMS;
static_assert(DIGITS == THREADS, "a thread looks after a digit");
constexpr unsigned int ALL = 0xffffffffu;

struct Task {
    long long rows, length, chunk, chunks, shift, bits;
    long long low, descends;  // low: the integer that becomes word 0
    long long is_first, is_last, gives_values;

    __device__ bool has(long long row, long long i) const { return row < rows && i < length; }

    // A template, so that only the branch for Given is compiled.
    template <typename T> __device__ Word word_of(T given) const {
        Word word;
        if constexpr (IS_REAL) {
            Bits bits;
            memcpy(&bits, &given, sizeof bits);
            constexpr Bits sign = Bits(Bits(1) << (8 * sizeof(Bits) - 1));
            const Bits size = Bits(bits & ~sign);
            // NaN of either sign is the largest, and -0 counts as 0.
            if (size > Bits(INFINITE)) word = Bits(~Bits(0));
            else if (!size) word = sign;
            else word = bits & sign ? Bits(~bits) : Bits(bits | sign);
        } else {
            word = Word(given) - Word(low);
        }
        return descends ? Word(~word) : word;
    }
};

__device__ int digit_of(Word word, long long shift) { return int(word >> shift) & (DIGITS - 1); }

// Returns the sum of the values of all earlier threads of the block. The shared memory is reused by
// the next call, after a barrier.
__device__ Place before_in_block(Place value) {
    __shared__ Place of_warp[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Place upto = value;
    for (int by = 1; by < 32; by *= 2) {
        const Place other = __shfl_up_sync(ALL, upto, by);
        if (lane >= by) upto += other;
    }
    if (lane == 31) of_warp[warp] = upto;
    __syncthreads();
    for (int w = 0; w < warp; ++w) upto += of_warp[w];
    __syncthreads();
    return upto - value;
}

// The number of the block's threads before this one that pass true, and the number of all threads
// that do.
struct Said {
    int before, all;
};
__device__ Said say(bool yes) {
    __shared__ int of_warp[WARPS];
    const int warp = threadIdx.x / 32;
    const unsigned int lanes = __ballot_sync(ALL, yes);
    if (threadIdx.x % 32 == 0) of_warp[warp] = __popc(lanes);
    __syncthreads();
    Said said{__popc(lanes & ((1u << threadIdx.x % 32) - 1)), 0};
    for (int w = 0; w < WARPS; ++w) {
        if (w < warp) said.before += of_warp[w];
        said.all += of_warp[w];
    }
    __syncthreads();
    return said;
}

// How often each warp has counted each digit; an extra digit is for words after the end of the row.
struct Counts {
    unsigned int of[WARPS][DIGITS + 1];

    __device__ void clear() {
        for (int d = threadIdx.x % 32; d <= DIGITS; d += 32) of[threadIdx.x / 32][d] = 0;
        __syncwarp();
    }

    // Counts the digits of a warp's lanes; returns how many equal digits the warp counted before
    // this one.
    __device__ unsigned int meet(int digit) {
        const unsigned int same = __match_any_sync(ALL, digit);
        const unsigned int ahead = same & ((1u << threadIdx.x % 32) - 1);
        unsigned int& met = of[threadIdx.x / 32][digit];
        const unsigned int before = met;
        __syncwarp();
        if (!ahead) met = before + __popc(same);
        __syncwarp();
        return before + __popc(ahead);
    }

    // Returns how often all warps have counted this thread's digit, and replaces each warp's count
    // by the sum of the counts of the warps before it.
    __device__ unsigned int add_up() {
        unsigned int total = 0;
        for (int w = 0; w < WARPS; ++w) {
            const unsigned int here = of[w][threadIdx.x];
            of[w][threadIdx.x] = total;
            total += here;
        }
        return total;
    }
};

// The words and indices of a tile while they are sorted by one digit.
struct Tile {
    Word word[TILE];
    Place place[TILE];
    unsigned int begins[DIGITS];  // where the words of each digit begin
};

// A warp's k-th words are adjacent, and precede its next words.
__device__ int in_tile(int k) {
    return threadIdx.x / 32 * (32 * ITEMS) + k * 32 + threadIdx.x % 32;
}

// Sorts `count` words and indices of a tile by a digit; returns how many words have the digit of
// this thread's number. Ends with a barrier.
__device__ unsigned int order_tile(const Word (&word)[ITEMS], const Place (&place)[ITEMS],
                                   long long count, long long shift, Counts& counts, Tile& tile) {
    unsigned int rank[ITEMS];
    counts.clear();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        rank[k] = counts.meet(in_tile(k) < count ? digit_of(word[k], shift) : DIGITS);
    __syncthreads();
    const unsigned int total = counts.add_up();
    tile.begins[threadIdx.x] = (unsigned int)(before_in_block(total));
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        if (in_tile(k) >= count) continue;
        const int digit = digit_of(word[k], shift);
        const unsigned int at = tile.begins[digit] + counts.of[threadIdx.x / 32][digit] + rank[k];
        tile.word[at] = word[k], tile.place[at] = place[k];
    }
    __syncthreads();
    return total;
}

// Sorts `count` words and indices of a tile. Ends with a barrier.
__device__ void order_by_all_digits(Word (&word)[ITEMS], Place (&place)[ITEMS], long long count,
                                    long long bits, Counts& counts, Tile& tile) {
    for (long long shift = 0; shift < bits; shift += WIDTH) {
        order_tile(word, place, count, shift, counts, tile);
#pragma unroll
        for (int k = 0; k < ITEMS; ++k)
            word[k] = tile.word[in_tile(k)], place[k] = tile.place[in_tile(k)];
        __syncthreads();
    }
}
