// Writing and adding at places in the order in which threads run. So the value that wins, and the
// rounding of a sum, differ from run to run. Used only if the user waived repeatable results.
// indexing.py puts before this file: indexing.cu with its requirements, and the typedef of Added,
// the type of the sums: out's elements, or the elements of a float32 copy.

// Adds value atomically, complex numbers part by part. For dtypes without atomics it does nothing,
// and is never called.
template <typename T> __device__ void add_to(T* at, T value) {
    if constexpr (IS_COMPLEX) {
        atomicAdd(&at->re, value.re);
        atomicAdd(&at->im, value.im);
    } else if constexpr (sizeof(T) >= 4) {
        atomicAdd(at, value);
    }
}
template <> __device__ void add_to(long long* at, long long value) {
    // In two's complement, unsigned addition gives the same bits.
    atomicAdd(reinterpret_cast<unsigned long long*>(at), (unsigned long long)(value));
}

// Adds `by` times the elements of src to out. numbers: the flat number of each entry's place.
extern "C" __global__ void __launch_bounds__(THREADS)
add_at_once(const Stored* src, const long long* numbers, Real by, Added* out, Runs task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.entries * task.columns) return;
    // Adjacent threads add to adjacent columns.
    const long long column = Index(number) % Index(task.columns);
    const long long entry = Index(number) / Index(task.columns);
    const long long place = numbers[entry];
    if (!task.is_place(place)) return;
    const Real value = by * cast<Real>(*task.given(entry, column, src));
    add_to(task.at(place, column, out), cast<Added>(value));
}

// Writes the elements of src to their places.
extern "C" __global__ void __launch_bounds__(THREADS)
put_at_once(const Stored* src, const long long* numbers, Stored* out, Runs task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.entries * task.columns) return;
    const long long column = Index(number) % Index(task.columns);
    const long long entry = Index(number) / Index(task.columns);
    const long long place = numbers[entry];
    if (task.is_place(place)) *task.at(place, column, out) = *task.given(entry, column, src);
}
