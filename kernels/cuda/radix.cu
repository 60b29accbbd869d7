// Orders of rows, digit by digit from the lowest one, each time keeping the order of equals.
// radix.py puts before this text: memory.cuh, typedefs of Given (in memory), Bits (unsigned, of its
// size), Word (unsigned, whose order is what is asked for) and Place (unsigned, counts a row's
// elements), whether Given IS_REAL, and the Bits of its infinity, INFINITE.
//
// A row of at most 32 is ordered by a warp, one that fits a tile by a block, in one launch. A longer
// one is cut into chunks, and each digit takes three launches: `count` how often each stands in a
// chunk, `begin` where a digit's words of each chunk go, `move`. Bound by memory: a digit reads the
// words twice and writes them once, through shared memory, so that neighbours go together. Nothing
// is counted by atomics, no block waits for another, and the host looks at nothing.

constexpr int THREADS = 256, WARPS = THREADS / 32, DIGITS = 256, WIDTH = 8;
constexpr int ITEMS = 64 / sizeof(Word), TILE = THREADS * ITEMS;
static_assert(DIGITS == THREADS, "a thread looks after a digit");
constexpr unsigned int ALL = 0xffffffffu;

struct Task {
    long long rows, length, chunk, chunks, shift, bits;
    long long low, descends;  // low: what of integers is word 0
    long long is_first, is_last, gives_values;

    __device__ bool has(long long row, long long i) const { return row < rows && i < length; }

    // A template: only what fits Given is compiled.
    template <typename T> __device__ Word word_of(T given) const {
        Word word;
        if constexpr (IS_REAL) {
            Bits bits;
            memcpy(&bits, &given, sizeof bits);
            constexpr Bits sign = Bits(Bits(1) << (8 * sizeof(Bits) - 1));
            const Bits size = Bits(bits & ~sign);
            // A NaN of either sign is the largest, and -0 is 0.
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

// What stands before each thread's value in its block, added up. The same shared memory serves the
// next call, behind a barrier.
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

// How often each warp has met a digit; one more digit is that of what lies behind the row's end.
struct Counts {
    unsigned int of[WARPS][DIGITS + 1];

    __device__ void clear() {
        for (int d = threadIdx.x % 32; d <= DIGITS; d += 32) of[threadIdx.x / 32][d] = 0;
        __syncwarp();
    }

    // Counts a digit of each lane of a warp; how many of those met so far stand before.
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

    // How often all warps have met the digit of this thread; makes of the counts what stands before.
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

// Words and places of a tile, on their way into the order of one digit.
struct Tile {
    Word word[TILE];
    Place place[TILE];
    unsigned int begins[DIGITS];  // of each digit
};

// A warp's k-th words are neighbours, and before its next ones.
__device__ int in_tile(int k) {
    return threadIdx.x / 32 * (32 * ITEMS) + k * 32 + threadIdx.x % 32;
}

// Brings `count` words and places of a tile into the order of a digit; how many of the tile have the
// digit of this thread. Ends with a barrier.
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

// values: what of integers stands there, where the task gives them; order: where it came from.
__device__ void give(Word word, Place place, long long at, long long* values, long long* order,
                     const Task& task) {
    if (task.gives_values) values[at] = (long long)(word) + task.low;
    order[at] = (long long)(place);
}

// A warp orders a row of at most 32: a thread counts what is before its element.
extern "C" __global__ void __launch_bounds__(THREADS)
order_in_warps(const Given* given, long long* values, long long* order, Task task) {
    const long long row = (long long)(blockIdx.x) * WARPS + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const bool is_there = task.has(row, lane);
    const Word word = is_there ? task.word_of(given[row * task.length + lane]) : Word(0);
    int before = 0;
    for (int i = 0; i < task.length; ++i) {
        const Word other = __shfl_sync(ALL, word, i);
        before += other < word || (other == word && i < lane);
    }
    if (is_there) give(word, Place(lane), row * task.length + before, values, order, task);
}

// A block orders a row that fits a tile.
extern "C" __global__ void __launch_bounds__(THREADS)
order_in_blocks(const Given* given, long long* values, long long* order, Task task) {
    __shared__ Counts counts;
    __shared__ Tile tile;
    const long long start = (long long)(blockIdx.x) * task.length;
    Word word[ITEMS];
    Place place[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const int i = in_tile(k);
        place[k] = Place(i);
        word[k] = i < task.length ? task.word_of(given[start + i]) : Word(0);
    }
    for (long long shift = 0; shift < task.bits; shift += WIDTH) {
        order_tile(word, place, task.length, shift, counts, tile);
#pragma unroll
        for (int k = 0; k < ITEMS; ++k)
            word[k] = tile.word[in_tile(k)], place[k] = tile.place[in_tile(k)];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < task.length; i += THREADS)
        give(tile.word[i], tile.place[i], start + i, values, order, task);
}

// Which row and which chunk of it a block has.
struct Chunk {
    long long row, number, begin, end;
    __device__ explicit Chunk(const Task& task)
        : row(blockIdx.x / task.chunks), number(blockIdx.x % task.chunks) {
        begin = number * task.chunk;
        end = begin + task.chunk < task.length ? begin + task.chunk : task.length;
    }
};

// Writes how often each digit stands in each chunk: (rows, digits, chunks).
extern "C" __global__ void __launch_bounds__(THREADS)
count(const Given* given, const Word* words, Place* counted, Task task) {
    __shared__ Counts counts;
    const Chunk at(task);
    const long long start = at.row * task.length;
    counts.clear();
    for (long long tile = at.begin; tile < at.end; tile += TILE)
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const long long i = tile + in_tile(k);
            int digit = DIGITS;
            if (i < at.end)
                digit = digit_of(task.is_first ? task.word_of(given[start + i]) : words[start + i],
                                 task.shift);
            counts.meet(digit);
        }
    __syncthreads();
    counted[(at.row * DIGITS + threadIdx.x) * task.chunks + at.number] = counts.add_up();
}

// A block for each digit of a row: makes of its counts what stands in the chunks before, and writes
// how often it stands in the row into totals.
extern "C" __global__ void __launch_bounds__(THREADS)
begin(Place* counted, Place* totals, Task task) {
    __shared__ Place last;
    counted += (long long)(blockIdx.x) * task.chunks;
    Place before = 0;
    for (long long start = 0; start < task.chunks; start += THREADS) {
        const long long chunk = start + threadIdx.x;
        const Place here = chunk < task.chunks ? counted[chunk] : Place(0);
        const Place upto = before + before_in_block(here);
        if (chunk < task.chunks) counted[chunk] = upto;
        if (threadIdx.x == THREADS - 1) last = upto + here;
        __syncthreads();
        before = last;
        __syncthreads();
    }
    if (threadIdx.x == 0) totals[blockIdx.x] = before;
}

// Moves words and places into the order of a digit: the first time given's, and the last time into
// values and order.
extern "C" __global__ void __launch_bounds__(THREADS)
move(const Given* given, const Word* words, const Place* places, const Place* counted,
     const Place* totals, Word* moved, Place* moved_places, long long* values, long long* order,
     Task task) {
    __shared__ Counts counts;
    __shared__ Tile tile;
    __shared__ Place goes[DIGITS];  // where the next word of each digit does
    const Chunk at(task);
    const long long start = at.row * task.length, mine = at.row * DIGITS + threadIdx.x;
    goes[threadIdx.x] = before_in_block(totals[mine]) + counted[mine * task.chunks + at.number];
    for (long long first = at.begin; first < at.end; first += TILE) {
        const long long left = at.end - first, size = left < TILE ? left : TILE;
        Word word[ITEMS];
        Place place[ITEMS];
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const long long i = first + in_tile(k);
            const bool is_there = i < at.end;
            if (task.is_first) {
                word[k] = is_there ? task.word_of(given[start + i]) : Word(0);
                place[k] = Place(i);
            } else {
                word[k] = is_there ? words[start + i] : Word(0);
                place[k] = is_there ? places[start + i] : Place(0);
            }
        }
        const unsigned int total = order_tile(word, place, size, task.shift, counts, tile);
        for (int i = threadIdx.x; i < size; i += THREADS) {
            const int digit = digit_of(tile.word[i], task.shift);
            const long long to = start + (long long)(goes[digit] + (i - tile.begins[digit]));
            if (task.is_last) {
                give(tile.word[i], tile.place[i], to, values, order, task);
            } else {
                moved[to] = tile.word[i];
                moved_places[to] = tile.place[i];
            }
        }
        __syncthreads();
        goes[threadIdx.x] += total;
    }
}
