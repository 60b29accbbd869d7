// Moves of elements along axes, and zeros outside of a band. copying.py puts before this file:
// memory.cuh, the typedefs of Stored and Index (counts elements), and the number of axes DIMS.
//
// A thread of `move` writes one element of out; a thread of `move_packs` writes 16 bytes along the
// last axis, where out consists of whole packs. Both divide equally often, but a pack is read by
// one load where its elements are contiguous. Along each axis a thread reads for out's index i at
// index begin + sign * i, wrapped around the end of the axis once. Outside of the band
// least <= column - row <= most of two axes, elements are 0, and nothing is read. `turn` shifts the
// flat index, around the end.

constexpr int THREADS = 256, LAST = DIMS - 1;
constexpr int PACK = sizeof(Stored) < 16 ? 16 / sizeof(Stored) : 1;

struct Task {
    long long size, turn, first;  // first: the offset of the element for out's first one
    long long row_axis, column_axis, least, most;
    long long shape[DIMS], begin[DIMS], sign[DIMS], step_x[DIMS], step_out[DIMS];
};

// The position of an element: its row and column, and the offsets at which it is read and written.
struct Place {
    long long row = 0, column = 0, read, write = 0;

    // Processes one more axis, from the last one on; returns the index along it that is read.
    __device__ long long step(int d, Index& rest, const Task& task) {
        const Index length = Index(task.shape[d]), before = d ? rest / length : 0;
        const long long own = rest - before * length;
        rest = before;
        if (d == task.row_axis) row = own;
        if (d == task.column_axis) column = own;
        write += own * task.step_out[d];
        const long long place = task.begin[d] + task.sign[d] * own;
        return place < task.shape[d] ? place : place - task.shape[d];
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
move(const Stored* x, Stored* out, Task task) {
    const long long number = (long long)(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= task.size) return;
    Index rest = Index(number + task.turn), written = Index(number);
    if (number + task.turn >= task.size) rest = Index(number + task.turn - task.size);
    Place place{0, 0, task.first, 0};
    long long turned = 0;
#pragma unroll
    for (int d = DIMS - 1; d >= 0; --d) {
        place.read += place.step(d, rest, task) * task.step_x[d];
        if (task.turn) {
            const Index length = Index(task.shape[d]), outer = d ? written / length : 0;
            turned += (long long)(written - outer * length) * task.step_out[d];
            written = outer;
        }
    }
    const long long off = place.column - place.row;
    const bool inside = off >= task.least && off <= task.most;
    out[task.turn ? turned : place.write] = inside ? x[place.read] : Stored();
}

extern "C" __global__ void __launch_bounds__(THREADS)
move_packs(const Stored* x, Stored* out, Task task) {
    const long long number = ((long long)(blockIdx.x) * THREADS + threadIdx.x) * PACK;
    if (number >= task.size) return;
    Index rest = Index(number);
    Place place{0, 0, task.first, 0};
    const long long begun = place.step(LAST, rest, task);
#pragma unroll
    for (int d = LAST - 1; d >= 0; --d) place.read += place.step(d, rest, task) * task.step_x[d];
    const long long length = task.shape[LAST], sign = task.sign[LAST], step = task.step_x[LAST];
    // How column - row changes from one element to the next.
    const long long slope = (task.column_axis == LAST) - (task.row_axis == LAST);
    const long long off = place.column - place.row, end = off + slope * (PACK - 1);
    const long long below = off < end ? off : end, above = off < end ? end : off;
    Pack<Stored, PACK> made;
    if (above < task.least || below > task.most) {
#pragma unroll
        for (int k = 0; k < PACK; ++k) made.lane[k] = Stored();
    } else {
        const Stored* const from = x + place.read + (sign < 0 ? begun - (PACK - 1) : begun);
        const bool together = step == 1 && (sign < 0 || begun + PACK <= length);
        if (together && reinterpret_cast<unsigned long long>(from) % sizeof made == 0) {
            const Pack<Stored, PACK> given = *reinterpret_cast<const Pack<Stored, PACK>*>(from);
#pragma unroll
            for (int k = 0; k < PACK; ++k) {
                // Both values are in variables, so that a pack stays in registers.
                const Stored forward = given.lane[k], backward = given.lane[PACK - 1 - k];
                made.lane[k] = sign < 0 ? backward : forward;
            }
        } else {
#pragma unroll
            for (int k = 0; k < PACK; ++k) {
                const long long at = begun + sign * k;
                made.lane[k] = x[place.read + (at < length ? at : at - length) * step];
            }
        }
        if (below < task.least || above > task.most) {
#pragma unroll
            for (int k = 0; k < PACK; ++k) {
                const long long each = off + slope * k;
                if (each < task.least || each > task.most) made.lane[k] = Stored();
            }
        }
    }
    *reinterpret_cast<Pack<Stored, PACK>*>(out + place.write) = made;
}
