"""Compiled iteration over arrays of any shape and strides, in contiguous runs.

Shapes, strides and addresses are read from the array objects. Axes are dropped, reordered and
merged. The inner loop then gets rows where memory is contiguous, and otherwise blocks that are
packed into small buffers. So a launch costs about 1.5 us, while reading NumPy's metadata in Python
takes 10 us, and each inner loop is compiled only once, without strides.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np

from .array_objects import BAD_SHAPE, HEADER, ITEMS, OVERLAP
from .compiler import compiled, entry_point
from .machine import LOAD, STORE, call_loop, copy_bytes, load_int, on_threads, select, stack_words

# The number of elements of a packed block: all blocks of a launch stay in the L1 cache.
BLOCK: Final = 1024
# If rows are shorter than this, another axis becomes the inner one, and its elements are packed.
_SHORT: Final = 16
# Rows up to this length are run several at a time if possible: see Note [Tiles of short rows].
_TILED: Final = 256
# The least row length for which a repeated number is expanded; for shorter rows another axis
# becomes the inner one.
_REPEATED: Final = 6
# A repeated number is stored in whole cache lines, which may overrun the block by one line.
_LINE_BYTES: Final = 64

_MAX_NDIM: Final = 64

# Note [Words instead of arrays]
# The functions below keep tables in 64-bit words on the stack, and pass the addresses of the words.
# With NumPy arrays instead, Numba takes 6 s to compile the functions, not 2.3 (once per machine).
# The helpers have no wrappers for callers from Python and C, which would take more compile time.
# The table `plan` describes `count` arrays. It has `count` words of base addresses, then 64 words
# of the shape, and then 64 * `count` words of strides, one axis after the other.
_step = compiled(inline=True)
_part = compiled(alone=False)
_load8, _load16, _load32 = LOAD["int8"], LOAD["int16"], LOAD["int32"]
_store8, _store16, _store32 = STORE["int8"], STORE["int16"], STORE["int32"]
_get, _put = LOAD["int64"], STORE["int64"]


@_step
def _lesser(a: Any, b: Any) -> Any:
    # Not Python's min, of which Numba compiles a separate function for each use.
    return select(a < b, a, b)


@_step
def _shape_of(plan: Any, count: Any) -> Any:
    return plan + 8 * count


@_step
def _strides_of(plan: Any, count: Any, axis: Any) -> Any:
    return plan + 8 * (count + _MAX_NDIM + axis * count)


@_part
def _read(operands: Any, count: Any, plan: Any) -> Any:
    """Fill the plan from a tuple of `count` arrays, of which the output is the last.

    Returns the number of axes, or -1 if an input does not broadcast to the output.
    """
    shape = _shape_of(plan, count)
    out = _get(operands + ITEMS, count - 1)
    ndim = load_int(out + HEADER + 8)
    dims = _get(out + HEADER, 2)
    for axis in range(ndim):
        _put(shape, axis, _get(dims, axis))
    for i in range(count):
        array = _get(operands + ITEMS, i)
        _put(plan, i, _get(array + HEADER, 0))
        lead = ndim - load_int(array + HEADER + 8)
        dims, strides = _get(array + HEADER, 2), _get(array + HEADER, 3)
        if lead < 0:
            return -1
        for axis in range(ndim):
            stride = 0
            if axis >= lead and _get(dims, axis - lead) != 1:
                if _get(dims, axis - lead) != _get(shape, axis):
                    return -1
                stride = _get(strides, axis - lead)
            _put(_strides_of(plan, count, axis), i, stride)
    return ndim


@_part
def _overlaps(ndim: Any, count: Any, plan: Any, sizes: Any) -> Any:
    """Return whether an input shares bytes with the output without being the same view."""
    out = count - 1
    out_low, out_high = _extent(ndim, count, plan, sizes, out)
    for i in range(out):
        low, high = _extent(ndim, count, plan, sizes, i)
        if low < out_high and out_low < high:
            same = _get(plan, i) == _get(plan, out) and _get(sizes, i) == _get(sizes, out)
            for axis in range(ndim):
                steps = _strides_of(plan, count, axis)
                same = same and _get(steps, i) == _get(steps, out)
            if not same:
                return True
    return False


@_part
def _extent(ndim: Any, count: Any, plan: Any, sizes: Any, i: Any) -> Any:
    low = _get(plan, i)
    size = _get(sizes, i)
    high = low + select(size == 0, np.int64(1), size)  # a single number, of size 0, counts one byte
    for axis in range(ndim):
        reach = _get(_strides_of(plan, count, axis), i) * (_get(_shape_of(plan, count), axis) - 1)
        if reach < 0:
            low += reach
        else:
            high += reach
    return low, high


@_part
def _simplify(ndim: Any, count: Any, plan: Any, sizes: Any) -> Any:
    """Order axes by the output's strides and merge contiguous ones; return the number of axes."""
    shape = _shape_of(plan, count)
    kept: Any = np.int64(0)  # for a literal, Numba would compile the callee a second time
    for axis in range(ndim):
        if _get(shape, axis) != 1:
            _swap(plan, count, kept, axis)
            kept += 1
    for first in range(1, kept):
        axis = first
        while axis > 0 and _out_step(plan, count, axis - 1) < _out_step(plan, count, axis):
            _swap(plan, count, axis - 1, axis)
            axis -= 1
    last: Any = np.int64(0)
    for axis in range(1, kept):
        if _is_one_run(plan, count, last, axis):
            _put(shape, axis, _get(shape, axis) * _get(shape, last))
        else:
            last += 1
        _swap(plan, count, last, axis)
    if kept == 0:
        _put(shape, 0, 1)
    elif _get(shape, last) < _SHORT and not _can_tile(last + 1, count, plan, sizes):
        longest = last
        for axis in range(last):
            if _get(shape, axis) > _get(shape, longest):
                longest = axis
        _swap(plan, count, longest, last)
    return last + 1


@_step
def _out_step(plan: Any, count: Any, axis: Any) -> Any:
    step = _get(_strides_of(plan, count, axis), count - 1)
    return select(step < 0, -step, step)


@_part
def _is_one_run(plan: Any, count: Any, outer: Any, inner: Any) -> Any:
    length = _get(_shape_of(plan, count), inner)
    for i in range(count):
        step = _get(_strides_of(plan, count, inner), i)
        if _get(_strides_of(plan, count, outer), i) != step * length:
            return False
    return True


@_part
def _swap(plan: Any, count: Any, a: Any, b: Any) -> None:
    if a != b:
        _swap_words(_shape_of(plan, count), a, b)
        x, y = _strides_of(plan, count, a), _strides_of(plan, count, b)
        for i in range(count):
            first, second = _get(x, i), _get(y, i)
            _put(x, i, second)
            _put(y, i, first)


@_step
def _swap_words(words: Any, a: Any, b: Any) -> None:
    first, second = _get(words, a), _get(words, b)
    _put(words, a, second)
    _put(words, b, first)


# Note [Tiles of short rows]
# A row costs 8 ns in addition to its elements, the time of 100 float32 elements. Therefore rows
# that are adjacent in the output are run several at a time. An input whose rows are adjacent as
# well is read in place. The rows of other inputs are packed into a block: each of these rows is
# contiguous, or consists of one repeated number. One row that is broadcast to all rows is packed
# once. On one core of an AMD EPYC (Zen 4), an op on float32 arrays of shapes (13264, 1) and
# (13264, 16) took 1790 us without tiles, and takes 50 us with tiles. For the shapes (16,) and
# (13264, 16), these times are 113 and 21 us.
@_part
def _can_tile(ndim: Any, count: Any, plan: Any, sizes: Any) -> Any:
    """Return whether rows, along the last simplified axis, can be run several at a time."""
    inner, out = _get(_shape_of(plan, count), ndim - 1), count - 1
    if ndim < 2 or inner > _TILED:
        return False
    steps, above = _strides_of(plan, count, ndim - 1), _strides_of(plan, count, ndim - 2)
    fits = _get(steps, out) == _get(sizes, out) and _get(above, out) == _get(steps, out) * inner
    for i in range(out):
        step, size = _get(steps, i), _get(sizes, i)
        if step == 0 and size != 0 and _get(above, i) != 0:
            fits = fits and inner >= _REPEATED
        else:
            fits = fits and (step == 0 or step == size)
    return fits


@_part
def _pack(source: Any, step: Any, target: Any, target_step: Any, count: Any, size: Any) -> None:
    """Copy `count` elements of `size` bytes from one strided memory to another."""
    if size == 4:
        for k in range(count):
            _store32(target + k * target_step, 0, _load32(source + k * step, 0))
    elif size == 8:
        for k in range(count):
            _put(target + k * target_step, 0, _get(source + k * step, 0))
    elif size == 2:
        for k in range(count):
            _store16(target + k * target_step, 0, _load16(source + k * step, 0))
    else:
        for k in range(count):
            _store8(target + k * target_step, 0, _load8(source + k * step, 0))


@_step
def _fill_line(source: Any, target: Any, size: Any) -> None:
    """Fill a cache line with the number at source, of `size` bytes, in stores that LLVM merges."""
    if size == 4:
        single = _load32(source, 0)
        for k in range(_LINE_BYTES // 4):
            _store32(target, k, single)
    elif size == 8:
        double = _get(source, 0)
        for k in range(_LINE_BYTES // 8):
            _put(target, k, double)
    elif size == 2:
        half = _load16(source, 0)
        for k in range(_LINE_BYTES // 2):
            _store16(target, k, half)
    else:
        byte = _load8(source, 0)
        for k in range(_LINE_BYTES):
            _store8(target, k, byte)


@_step
def _repeat(source: Any, target: Any, count: Any, size: Any) -> None:
    """Write the number at `source`, of `size` bytes, `count` times, and then repeat it up to the
    end of the cache line.
    """
    end, line = target + count * size, target + 2 * _LINE_BYTES
    _fill_line(source, target, size)
    if target + _LINE_BYTES < end:
        _fill_line(source, target + _LINE_BYTES, size)
    # Copying a line takes half the time of storing it, but must wait for the first stores to
    # finish.
    while line < end:
        copy_bytes(target, line, np.int64(_LINE_BYTES))
        line += _LINE_BYTES


@_part
def _pack_rows(
    source: Any, above: Any, step: Any, target: Any, rows: Any, inner: Any, size: Any
) -> None:
    """Copy rows one after the other; each row is contiguous, or one repeated number."""
    for row in range(rows):
        if step == 0:
            _repeat(source + row * above, target + row * inner * size, inner, size)
        else:
            copy_bytes(source + row * above, target + row * inner * size, inner * size)


@_part
def _run_tiles(
    loop: Any, count: Any, ndim: Any, plan: Any, sizes: Any, begin: Any, end: Any
) -> None:
    """Run the rows from begin to end of the simplified shape, several at a time."""
    row = stack_words(3 * count + _MAX_NDIM + count * BLOCK + 8)
    pointers, filled = row + 8 * count, row + 16 * count
    index = row + 24 * count
    blocks = (index + 8 * _MAX_NDIM + 63) // 64 * 64
    shape = _shape_of(plan, count)
    inner, length = _get(shape, ndim - 1), _get(shape, ndim - 2)
    steps, above = _strides_of(plan, count, ndim - 1), _strides_of(plan, count, ndim - 2)
    most = (BLOCK - _LINE_BYTES // 4) // inner
    _enter_row(count, ndim, plan, sizes, begin, row, index)
    for i in range(count):
        _put(filled, i, 0)
    while begin < end:
        at = _get(index, ndim - 2)
        n = _lesser(_lesser(length - at, end - begin), most)
        for i in range(count):
            source, size = _get(row, i), _get(sizes, i)
            step, row_step = _get(steps, i), _get(above, i)
            if step == size and row_step == step * inner:
                _put(pointers, i, source)
            else:
                block = blocks + i * (8 * BLOCK)
                _put(pointers, i, block)
                if row_step != 0 or _get(filled, i) != source:
                    rows = n if row_step else most
                    _pack_rows(source, row_step, step, block, rows, inner, size)
                    _put(filled, i, source)
        call_loop(loop, pointers, n * inner)
        begin += n
        # Advance to the last of these rows, and then to the next one.
        _put(index, ndim - 2, at + n - 1)
        for i in range(count):
            _put(row, i, _get(row, i) + (n - 1) * _get(above, i))
        _next_row(count, ndim, plan, row, index)


# _run keeps these words on the stack, before its blocks: the addresses of the current row in all
# operands, the arguments of the loop, the source of each block, and the index of the row.
@_part
def _run(loop: Any, count: Any, ndim: Any, plan: Any, sizes: Any, begin: Any, end: Any) -> None:
    """Run the elements from begin to end of the simplified shape, last axis fastest."""
    # The words have one more cache line than needed, so that blocks can begin at a cache line: 1e6
    # float32 with one repeated number then take 62 us, otherwise 74 (AMD EPYC, Zen 4).
    row = stack_words(3 * count + _MAX_NDIM + count * BLOCK + 8)
    pointers, filled = row + 8 * count, row + 16 * count
    index = row + 24 * count
    blocks = (index + 8 * _MAX_NDIM + 63) // 64 * 64
    inner = _get(_shape_of(plan, count), ndim - 1)
    steps = _strides_of(plan, count, ndim - 1)
    most = _enter_row(count, ndim, plan, sizes, begin // inner, row, index)
    out = count - 1
    for i in range(count):
        _put(filled, i, 0)
    at = begin % inner
    while begin < end:
        n = _lesser(_lesser(inner - at, end - begin), most)
        for i in range(count):
            step = _get(steps, i)
            source, size = _get(row, i) + at * step, _get(sizes, i)
            if step == size:
                _put(pointers, i, source)
            else:
                block = blocks + i * (8 * BLOCK)
                _put(pointers, i, block)
                # A block is filled with a repeated number only once.
                if i < out and step != 0:
                    _pack(source, step, block, size, n, size)
                elif i < out and _get(filled, i) != source:
                    _repeat(source, block, _lesser(inner, most), size)
                    _put(filled, i, source)
        call_loop(loop, pointers, n)
        step, size = _get(steps, out), _get(sizes, out)
        target = _get(row, out) + at * step
        if step != size:
            _pack(_get(pointers, out), size, target, step, n, size)
        begin += n
        at += n
        if at == inner:
            at = 0
            _next_row(count, ndim, plan, row, index)


@_part
def _enter_row(
    count: Any, ndim: Any, plan: Any, sizes: Any, number: Any, row: Any, index: Any
) -> Any:
    """Set `row` and `index` to row `number`; return how many elements a loop call may take."""
    most = np.int64(1) << 62
    for i in range(count):
        _put(row, i, _get(plan, i))
        if _get(_strides_of(plan, count, ndim - 1), i) != _get(sizes, i):
            most = np.int64(BLOCK)
    for axis in range(ndim - 2, -1, -1):
        length = _get(_shape_of(plan, count), axis)
        _put(index, axis, number % length)
        for i in range(count):
            step = _get(_strides_of(plan, count, axis), i)
            _put(row, i, _get(row, i) + (number % length) * step)
        number //= length
    return most


@_part
def _next_row(count: Any, ndim: Any, plan: Any, row: Any, index: Any) -> None:
    for axis in range(ndim - 2, -1, -1):
        steps = _strides_of(plan, count, axis)
        length = _get(_shape_of(plan, count), axis)
        if _get(index, axis) + 1 < length:
            _put(index, axis, _get(index, axis) + 1)
            for i in range(count):
                _put(row, i, _get(row, i) + _get(steps, i))
            return
        _put(index, axis, 0)
        for i in range(count):
            _put(row, i, _get(row, i) - (length - 1) * _get(steps, i))


@_part
def _prepare(operands: Any, count: Any, sizes: Any, plan: Any) -> Any:
    """Fill the plan; return its number of axes, or the negative of an error code."""
    ndim = _read(operands, count, plan)
    if ndim < 0:
        return -BAD_SHAPE
    if _overlaps(ndim, count, plan, sizes):
        return -OVERLAP
    return _simplify(ndim, count, plan, sizes)


@_part
def _total(count: Any, ndim: Any, plan: Any) -> Any:
    total = 1
    for axis in range(ndim):
        total *= _get(_shape_of(plan, count), axis)
    return total


# The words of a job: loop, count, ndim, plan, sizes, total, elements per share, and whether the
# last two numbers count rows instead of elements.
@_part
def _run_shares(first: Any, shares: Any, job: Any) -> None:
    """Process `shares` shares of equal size, beginning with share number `first`."""
    total, each = _get(job, 5), _get(job, 6)
    begin, end = _lesser(first * each, total), _lesser((first + shares) * each, total)
    loop, count, ndim = _get(job, 0), _get(job, 1), _get(job, 2)
    if _get(job, 7):
        _run_tiles(loop, count, ndim, _get(job, 3), _get(job, 4), begin, end)
    else:
        _run(loop, count, ndim, _get(job, 3), _get(job, 4), begin, end)


_on_threads = on_threads(_run_shares)


@compiled("all ops by element")
def run(loop: Any, operands: Any, count: Any, sizes: Any, threads: Any, pool: Any) -> Any:
    """Run a loop over a tuple of arrays, inputs first; operands is the tuple's address.

    loop is the address of the loop's code. sizes is the address of `count` item sizes; the size is
    0 for an input that the loop takes as one number. pool is the address of the function that runs
    work on a thread pool; one thread needs no pool. Each thread gets a range of elements, so
    results do not depend on the number of threads. Returns 0; BAD_SHAPE if an input does not
    broadcast to the output; or OVERLAP if an input shares only some bytes with the output.
    """
    plan = stack_words(count + _MAX_NDIM + _MAX_NDIM * count)
    ndim = _prepare(operands, count, sizes, plan)
    if ndim > 0:
        total = _total(count, ndim, plan)
        tiled = _can_tile(ndim, count, plan, sizes)
        if tiled:
            total //= _get(_shape_of(plan, count), ndim - 1)
        # Each thread gets whole cache lines, so that no two threads write to the same line.
        elements = ((total + threads - 1) // threads + 63) // 64 * 64
        job = stack_words(np.int64(8))
        _put(job, 0, loop)
        _put(job, 1, count)
        _put(job, 2, ndim)
        _put(job, 3, plan)
        _put(job, 4, sizes)
        _put(job, 5, total)
        _put(job, 6, elements)
        _put(job, 7, select(tiled, np.int64(1), np.int64(0)))
        if threads > 1:
            _on_threads(pool, job, threads, threads)
        else:
            _run_shares(np.int64(0), np.int64(1), job)
    return select(ndim < 0, -ndim, np.int64(0))


def runner() -> Any:
    """Return `run` as a compiled function."""
    return entry_point(run, (numba.int64,) * 6)
