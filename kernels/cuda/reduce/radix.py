"""Stable radix sorting of rows, on CUDA arrays, by launches whose number does not depend on values.

So sorting can be captured in a CUDA graph, and no call waits for the device.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from ..launch import C_TYPES, THREADS, Launch, Scratch, headers_for, int64_fields, is_real, text_of

WIDTH: Final = 8
"""Bits of a digit."""
_DIGITS: Final = 1 << WIDTH
# The size of a warp, and of tiles of 32-bit and 64-bit words, in elements of one row.
_WARP: Final = 32
_TILES: Final = {32: 16 * THREADS, 64: 8 * THREADS}
# Long rows are cut into chunks until there are this many blocks. More chunks would cost more
# counts: each chunk counts all digits.
_ENOUGH_BLOCKS: Final = 1024
# From this many rows on, one block per row keeps a GPU busy in a selection.
_ENOUGH_ROWS: Final = 16
# The size of a floating element in bytes -> the bits of infinity.
_INFINITIES: Final = {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}
_BFLOAT16_INFINITY: Final = 0x7F80


def plan_order_of_numbers(numbers: Any, values: Any, order: Any, high: int) -> list[Launch]:
    """Return the launches that write the sorted numbers into values, and their original positions
    into order. Sorting is stable.

    numbers: int64, one axis, from -1 to high; values and order: int64, of the same length. Only the
    digits that numbers up to `high` need are sorted. Any of the arrays may be Scratch.
    """
    length = numbers.shape[0]
    bits = (high + 1).bit_length()
    return _plan((1, length), numbers, values, order, bits, low=-1, gives_values=True)


def plan_order(x: Any, order: Any, *, descending: bool) -> list[Launch]:
    """Return the launches that write into `order` the indices that sort each row of x. Sorting is
    stable; NaN is the largest, and -0 equals 0.

    x: (rows, length), order: int64 of this shape; both in C order. No launch if x is empty.
    """
    low, bits = _words_of(x.dtype)
    return _plan(x.shape, x, order, order, bits, low=low, descending=descending)


def can_select(shape: tuple[int, int], dtype: np.dtype[Any], count: int) -> bool:
    """Return whether selecting the first `count` elements of each row in sorted order is faster
    than sorting the whole rows.

    One block selects from a row. With few rows most of a GPU is idle, and short rows can be sorted
    by one launch. (Estimated from the bytes moved, not measured.)
    """
    rows, length = shape
    tile = _TILES[_word_bits(_words_of(dtype)[1])]
    return rows >= _ENOUGH_ROWS and 0 < count <= tile < length < 1 << 32


def plan_selection(x: Any, order: Any, *, descending: bool) -> list[Launch]:
    """Return the launches that write into `order` the indices of the first elements of each sorted
    row of x, as many as `order` has columns. The indices are ordered as in plan_order. Only for
    shapes for which can_select is true.

    x: (rows, length), order: int64, (rows, count); both in C order
    """
    (rows, length), count = x.shape, order.shape[1]
    low, bits = _words_of(x.dtype)
    source = source_of_radix(x.dtype, _word_bits(bits), text="index/selection.cu")
    task = int64_fields(rows, length, count, 1, 0, bits, low, descending, True, True, False)
    return [Launch(source, "select_in_blocks", (rows, 1), (x, order, task))]


def is_in_one_launch(length: int, dtype: np.dtype[Any]) -> bool:
    """Return whether rows of this length are sorted by one launch."""
    return length <= _TILES[_word_bits(_words_of(dtype)[1])]


def plan_nth(x: Any, places: Any, order: Any) -> list[Launch]:
    """Return the launches that write into `order`, for each row of x, the index of the element that
    sorting would move to position places[row].

    x: (rows, length), not empty, places and order: int64, (rows,); all in C order
    """
    rows, length = x.shape
    low, bits = _words_of(x.dtype)
    word, is_wide = _word_bits(bits), length >= 2**32
    source = source_of_radix(x.dtype, word, wide=is_wide, text="reduce/nth.cu")
    chunk, chunks = _chunks(rows, length, _TILES[word])
    counted = Scratch((rows, _DIGITS, chunks), np.dtype(np.uint64 if is_wide else np.uint32))
    lasts = Scratch((rows,), np.dtype(f"uint{word}"))
    lefts = Scratch((rows,), np.dtype(np.int64))
    launches = []
    highest = (bits - 1) // WIDTH * WIDTH
    for shift in range(highest, -1, -WIDTH):
        task = int64_fields(
            *(rows, length, chunk, chunks, shift, bits, low, False),
            *(shift == highest, shift == 0, False),
        )
        found = (x, places, counted, lasts, lefts, order, task)
        launches += [
            Launch(source, "tally", (rows * chunks, 1), (x, lasts, counted, task)),
            Launch(source, "narrow", (rows, 1), found),
        ]
    return launches


def _chunks(rows: int, length: int, tile: int) -> tuple[int, int]:
    """Return the length of the chunks of a row, a multiple of `tile`, and the number of chunks."""
    tiles = -(-length // tile)
    chunk = -(-tiles // min(tiles, max(_ENOUGH_BLOCKS // rows, 1))) * tile
    return chunk, -(-length // chunk)


def _words_of(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the smallest integer of a signed dtype, which becomes word 0 (or 0 for other dtypes),
    and the number of bits of words.
    """
    low = int(np.iinfo(dtype).min) if dtype.kind == "i" else 0
    return low, 1 if dtype == np.bool_ else 8 * dtype.itemsize


def _word_bits(bits: int) -> int:
    return 64 if bits > 32 else 32


def _plan(
    shape: tuple[int, int],
    given: Any,
    values: Any,
    order: Any,
    bits: int,
    *,
    low: int,
    descending: bool = False,
    gives_values: bool = False,
) -> list[Launch]:
    rows, length = shape
    if not rows * length:
        return []
    bits = max(bits, 1)
    word = _word_bits(bits)
    source = source_of_radix(given.dtype, word, wide=length >= 2**32)
    tile = _TILES[word]
    chunk, chunks = _chunks(rows, length, tile)

    def task(shift: int = 0) -> Any:
        is_last = shift + WIDTH >= bits
        return int64_fields(
            *(rows, length, chunk, chunks, shift, bits, low, descending),
            *(shift == 0, is_last, gives_values),
        )

    if length <= tile:
        name = "order_in_warps" if length <= _WARP else "order_in_blocks"
        grid = (-(-rows * _WARP // THREADS), 1) if length <= _WARP else (rows, 1)
        return [Launch(source, name, grid, (given, values, order, task()))]
    place = np.dtype(np.uint64 if length >= 2**32 else np.uint32)
    counted = Scratch((rows, _DIGITS, chunks), place)
    totals = Scratch((rows, _DIGITS), place)
    kinds = (np.dtype(f"uint{word}"), place)
    # The words and indices that the next pass reads, and those that it writes. The first pass reads
    # no indices.
    now, then = [[Scratch(shape, kind) for kind in kinds] for _ in range(2)]
    launches = []
    for shift in range(0, bits, WIDTH):
        step = task(shift)
        launches += [
            Launch(source, "count", (rows * chunks, 1), (given, now[0], counted, step)),
            Launch(source, "begin", (rows * _DIGITS, 1), (counted, totals, step)),
            Launch(
                source,
                "move",
                (rows * chunks, 1),
                (given, *now, counted, totals, *then, values, order, step),
            ),
        ]
        now, then = then, now
    return launches


@functools.lru_cache(maxsize=64)
def source_of_radix(
    dtype: np.dtype[Any], word: int, *, wide: bool = False, text: str = "reduce/radix.cu"
) -> str:
    """Return the CUDA source for elements of a dtype, which are sorted as 32-bit or 64-bit words.
    If `wide` is false, the elements of a row are counted in 32 bits.
    """
    infinity = _INFINITIES.get(dtype.itemsize, 0)
    if C_TYPES[dtype] == "__nv_bfloat16":
        infinity = _BFLOAT16_INFINITY
    bits = np.dtype(f"uint{8 * dtype.itemsize}")
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Given;
typedef {C_TYPES[bits]} Bits;
typedef {C_TYPES[np.dtype(f"uint{word}")]} Word;
typedef {"unsigned long long" if wide else "unsigned int"} Place;
constexpr bool IS_REAL = {str(is_real(dtype)).lower()};
constexpr unsigned long long INFINITE = {infinity:#x};
{text_of("reduce/radix.cuh", text)}"""
