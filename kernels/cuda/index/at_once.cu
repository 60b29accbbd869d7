// Writing and adding at places in whatever order threads come: which of several values stays, and
// how a sum is rounded, is another from run to run. Only where the user waived repeatable results.
// indexing.py puts before this text: indexing.cu with what it needs, and the typedef of Added, what
// is added to: out's elements, or those of a copy in float32.

// Nothing of dtypes that no atomics add: these are never asked for. Complex numbers by their parts.
template <typename T> __device__ void add_to(T* at, T value) {
    if constexpr (IS_COMPLEX) {
        atomicAdd(&at->re, value.re);
        atomicAdd(&at->im, value.im);
    } else if constexpr (sizeof(T) >= 4) {
        atomicAdd(at, value);
    }
}
template <> __device__ void add_to(long long* at, long long value) {
    // In two's complement it is the same addition.
    atomicAdd(reinterpret_cast<unsigned long long*>(at), (unsigned long long)(value));
}

// Adds to out what of src is for each place, times by. numbers: that of each entry's place.
extern "C" __global__ void __launch_bounds__(THREADS)
add_at_once(const Stored* src, const long long* numbers, Real by, Added* out, Runs task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.entries * task.columns) return;
    // Neighbouring threads add to neighbouring columns.
    const long long column = Index(number) % Index(task.columns);
    const long long entry = Index(number) / Index(task.columns);
    const long long place = numbers[entry];
    if (!task.is_place(place)) return;
    const Real value = by * cast<Real>(*task.given(entry, column, src));
    add_to(task.at(place, column, out), cast<Added>(value));
}

// Writes what of src is for each place.
extern "C" __global__ void __launch_bounds__(THREADS)
put_at_once(const Stored* src, const long long* numbers, Stored* out, Runs task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.entries * task.columns) return;
    const long long column = Index(number) % Index(task.columns);
    const long long entry = Index(number) / Index(task.columns);
    const long long place = numbers[entry];
    if (task.is_place(place)) *task.at(place, column, out) = *task.given(entry, column, src);
}
