// Masks and dropout, for attention.cu and attention_tiles.cu. Included after philox.cuh, Real, and
// DROPS: whether there is dropout.

__device__ inline Real infinity() { return Real(__longlong_as_double(0x7ff0000000000000LL)); }

// Returns the term that a mask adds to a score.
__device__ inline Real added(bool mask) { return mask ? Real(0) : -infinity(); }
template <typename Number> __device__ Real added(Number mask) { return cast<Real>(mask); }

// The dropout factors of weights. A task has the number of keys `all` in a row of the stream, the
// word below which a weight is dropped, and the bits of the factor for the other weights. See Note
// [Dropout by counting] in random_numbers/philox.py.
struct Thinner {
    Long seed, first;
    Word below;
    Real scale;
    template <typename Task>
    __device__ Thinner(const long long* seed, long long row, const Task& task)
        : seed(DROPS ? Long(*seed) : 0), first(Long(row) * Long((task.all + 3) / 4)),
          below(Word(task.below)), scale(Real(__longlong_as_double(task.scale))) {}
    // Computes the factors of group `at` of four adjacent keys of the row.
    __device__ void four(long long at, Real* stays) const {
        const Block block(first + at, seed, 0);
#pragma unroll
        for (int i = 0; i < 4; ++i) stays[i] = block.word[i] >= below ? scale : Real(0);
    }
};
