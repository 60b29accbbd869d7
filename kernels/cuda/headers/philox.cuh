// The four random words of a block of a stream: Philox-4x32-10, see random_numbers/philox.py.

typedef unsigned int Word;
typedef unsigned long long Long;

struct Block {
    Word word[4];
    __device__ Block(Long place, Long seed, Word attempt) {
        Word c0 = Word(place), c1 = Word(place >> 32), c2 = attempt, c3 = 0;
        Word k0 = Word(seed), k1 = Word(seed >> 32);
#pragma unroll
        for (int round = 0; round < 10; ++round) {
            const Long product_0 = Long(c0) * 0xD2511F53u, product_1 = Long(c2) * 0xCD9E8D57u;
            const Word high_0 = Word(product_0 >> 32), high_1 = Word(product_1 >> 32);
            c0 = high_1 ^ c1 ^ k0, c2 = high_0 ^ c3 ^ k1;
            c1 = Word(product_1), c3 = Word(product_0);
            k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
        }
        word[0] = c0, word[1] = c1, word[2] = c2, word[3] = c3;
    }
    __device__ Long wide(int i) const { return word[2 * i] | Long(word[2 * i + 1]) << 32; }
};

// The start of a draw. A task's `place` is 0, or the address of two numbers: the seed, and the
// block that `first` counts from.
struct Start {
    Long seed, first;
    template <typename Task>
    __device__ explicit Start(const Task& task) : seed(task.seed), first(task.first) {
        if (task.place) {
            const Long* place = reinterpret_cast<const Long*>(task.place);
            seed = place[0], first += place[1];
        }
    }
};
