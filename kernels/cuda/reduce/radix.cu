// Radix sort of rows, digit by digit from the lowest one; each pass is stable. radix.py puts
// radix.cuh before this file.
//
// A row of at most 32 words is sorted by a warp, and one that fits a tile by a block, in one
// launch. A longer row is cut into chunks, and each digit takes three launches: `count` how often
// each digit occurs in a chunk; `begin` computes where each chunk's words of a digit go; `move`.
// Bound by memory: each digit reads the words twice and writes them once, through shared memory, so
// that adjacent words move together. No atomics are used, no block waits for another, and the host
// reads nothing.

// values: the sorted integers, if the task wants them; order: their original indices.
__device__ void give(Word word, Place place, long long at, long long* values, long long* order,
                     const Task& task) {
    if (task.gives_values) values[at] = (long long)(word) + task.low;
    order[at] = (long long)(place);
}

// A warp sorts a row of at most 32: each thread counts the elements before its element.
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

// A block sorts a row that fits a tile.
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
    order_by_all_digits(word, place, task.length, task.bits, counts, tile);
    for (int i = threadIdx.x; i < task.length; i += THREADS)
        give(tile.word[i], tile.place[i], start + i, values, order, task);
}

// The row and chunk of a block.
struct Chunk {
    long long row, number, begin, end;
    __device__ explicit Chunk(const Task& task)
        : row(blockIdx.x / task.chunks), number(blockIdx.x % task.chunks) {
        begin = number * task.chunk;
        end = begin + task.chunk < task.length ? begin + task.chunk : task.length;
    }
};

// Writes how often each digit occurs in each chunk: (rows, digits, chunks).
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

// A block for each digit of a row: replaces each chunk's count by the sum of the counts of the
// chunks before it, and writes the sum over the row into totals.
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

// Moves words and indices into the order of a digit: the first time from given, and the last time
// into values and order.
extern "C" __global__ void __launch_bounds__(THREADS)
move(const Given* given, const Word* words, const Place* places, const Place* counted,
     const Place* totals, Word* moved, Place* moved_places, long long* values, long long* order,
     Task task) {
    __shared__ Counts counts;
    __shared__ Tile tile;
    __shared__ Place goes[DIGITS];  // where the next word of each digit goes
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
