// The first few words of each sorted row; equal words keep their order in memory. radix.py puts
// radix.cuh before this file.
//
// Each row has a block. From the highest digit down, it counts the words that agree with the known
// digits of the last wanted word; each count gives one more digit of that word. Then it takes the
// smaller words and the first of those equal to it, and sorts them in shared memory. Bound by
// memory: a row is read once for each digit and a last time to take the words, from the cache if it
// fits.

struct Wanted {
    Word last, known;       // the last wanted word, in the bits that are known
    long long of_the_last;  // how many of the words that agree with it are wanted
};

// Finds one more digit of the last wanted word.
__device__ void look_at_digit(const Given* row, long long shift, Counts& counts, Wanted& wanted,
                              const Task& task) {
    __shared__ Word digit;
    __shared__ Place left;
    counts.clear();
    for (long long tile = 0; tile < task.length; tile += TILE)
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const long long i = tile + in_tile(k);
            const Word word = i < task.length ? task.word_of(row[i]) : Word(0);
            const bool agrees = i < task.length && (word & wanted.known) == wanted.last;
            counts.meet(agrees ? digit_of(word, shift) : DIGITS);
        }
    __syncthreads();
    const Place here = counts.add_up(), before = before_in_block(here);
    if (before < wanted.of_the_last && wanted.of_the_last <= (long long)(before) + here)
        digit = Word(threadIdx.x), left = Place(wanted.of_the_last - before);
    __syncthreads();
    wanted.last |= digit << shift, wanted.known |= Word(DIGITS - 1) << shift;
    wanted.of_the_last = left;
    __syncthreads();
}

// order: (rows, task.chunk); task.chunk is at most the size of a tile.
extern "C" __global__ void __launch_bounds__(THREADS)
select_in_blocks(const Given* given, long long* order, Task task) {
    __shared__ Counts counts;
    __shared__ Tile tile;
    const Given* row = given + (long long)(blockIdx.x) * task.length;
    Wanted wanted{0, 0, task.chunk};
    for (long long shift = (task.bits - 1) / WIDTH * WIDTH; shift >= 0; shift -= WIDTH)
        look_at_digit(row, shift, counts, wanted, task);
    int taken = 0;
    long long equals = 0;
    for (long long first = 0; first < task.length && taken < task.chunk; first += THREADS) {
        const long long i = first + threadIdx.x;
        // Mask the unused high bits: in descending order, words are inverted.
        const Word word = i < task.length ? task.word_of(row[i]) & wanted.known : Word(0);
        const bool is_before = i < task.length && word < wanted.last;
        const bool is_equal = i < task.length && word == wanted.last;
        const Said same = say(is_equal);
        const bool is_wanted =
            is_before || (is_equal && equals + same.before < wanted.of_the_last);
        equals += same.all;
        const Said mine = say(is_wanted);
        if (is_wanted)
            tile.word[taken + mine.before] = word, tile.place[taken + mine.before] = Place(i);
        taken += mine.all;
    }
    __syncthreads();
    Word word[ITEMS];
    Place place[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const bool is_there = in_tile(k) < task.chunk;
        word[k] = is_there ? tile.word[in_tile(k)] : Word(0);
        place[k] = is_there ? tile.place[in_tile(k)] : Place(0);
    }
    __syncthreads();
    order_by_all_digits(word, place, task.chunk, task.bits, counts, tile);
    for (int i = threadIdx.x; i < task.chunk; i += THREADS)
        order[blockIdx.x * task.chunk + i] = (long long)(tile.place[i]);
}
