"""Products of matrices in tiles that stay in registers, compiled, for one thread.

A tile is eight rows of the result by two vectors, or six where there are sixteen registers. Each
step along the inner axis takes two vectors of b and one number of a for each row: sixteen
multiply-adds, for which ten loads come in time.
Nothing is packed: a may lie in any way, of b and the result only rows need to be gapless. That
suits the middling products of models, where a BLAS packs about as long as it multiplies, and
machines whose BLAS was told of older ones.

GFLOP/s of one core of an AMD EPYC (Zen 5), OpenBLAS 0.3.31 with its SkylakeX and Haswell kernels:
  (n, k) @ (k, m)    here   SkylakeX   Haswell
  32, 128, 512        235        145        90
  64, 512, 512        230        178       104
  64, 64, 64          220        190        93
  256, 768, 256       220        207       105
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from fastdist.core.blas import read_cpu

from .compiler import compiled, entry_point
from .machine import intrinsic
from .vectors import INT64, Vectors, loop

# Steps for which the panel of b, two vectors wide, and a band of tiles of a stay in the caches.
_DEPTH: Final = 256
_BAND: Final = 8


class Tiling(NamedTuple):
    """How numbers of a dtype are tiled: lanes of a vector, and rows of a tile."""

    dtype: str
    lanes: int
    rows: int

    @property
    def size(self) -> int:
        """The bytes of a number."""
        return 4 if self.dtype == "float32" else 8

    def vectors(self, builder: Any) -> Vectors:
        """Return what builds vectors of its numbers."""
        element = ir.FloatType() if self.dtype == "float32" else ir.DoubleType()
        return Vectors(builder, element, self.lanes)


@functools.cache
def tiling(dtype: str) -> Tiling:
    """Return how float32 or float64 is tiled on this machine."""
    features = read_cpu().features
    wide = "avx512f" in features
    width = 64 if wide else 32 if "avx2" in features else 16
    # x86 has sixteen registers below AVX-512, others thirty-two.
    rows = 8 if wide or "sse2" not in features else 6
    return Tiling(dtype, width // (4 if dtype == "float32" else 8), rows)


def _tile(how: Tiling, rows: int, vectors: int) -> Any:
    """Return the function that makes so many rows by so many vectors of a product."""

    @intrinsic
    def tile(
        typingctx: Any, a: Any, a_row: Any, a_step: Any, b: Any, b_step: Any, c: Any, c_row: Any,
        steps: Any, adds: Any,
    ) -> Any:  # fmt: skip
        """Write the sum over so many steps to the address c, or add it to what is there. Addresses
        and strides are in bytes; there is one step at least.
        """

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            *walk, c, c_row, steps, adds = args
            lot = how.vectors(builder)
            sums = _summed(builder, how, rows, vectors, walk, steps)
            places = [
                lot.moved(builder.add(c, builder.mul(c_row, ir.Constant(INT64, r))), v * how.lanes)
                for r in range(rows)
                for v in range(vectors)
            ]
            is_later = builder.icmp_signed("!=", adds, ir.Constant(INT64, 0))
            with builder.if_else(is_later) as (more, anew):
                with more:
                    for total, place in zip(sums, places, strict=True):
                        lot.store(builder.fadd(lot.load(place), total), place)
                with anew:
                    for total, place in zip(sums, places, strict=True):
                        lot.store(total, place)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 9), codegen

    return tile


def _summed(builder: Any, how: Tiling, rows: int, vectors: int, walk: Any, steps: Any) -> Any:
    """Return the sums over all steps, those of a row after another, which never leave registers."""
    a, a_row, a_step, b, b_step = walk
    lot = how.vectors(builder)

    def add(_: Any, values: list[Any]) -> list[Any]:
        at_a, at_b, *sums = values
        given = [lot.load(lot.moved(at_b, v * how.lanes)) for v in range(vectors)]
        made, place = [], at_a
        for r in range(rows):
            number = lot.splat(lot.number(place))
            made += [lot.fma(number, given[v], sums[r * vectors + v]) for v in range(vectors)]
            place = builder.add(place, a_row)
        return [builder.add(at_a, a_step), builder.add(at_b, b_step), *made]

    zeros = [lot.constant([0.0] * how.lanes)] * (rows * vectors)
    return loop(builder, steps, [a, b, *zeros], add)[2:]


def _turn(how: Tiling) -> Any:
    lanes = how.lanes

    @intrinsic
    def turn(typingctx: Any, x: Any, x_row: Any, to: Any, to_row: Any) -> Any:
        """Write the transpose of lanes x lanes numbers at address x to address to."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x, x_row, to, to_row = args
            lot = how.vectors(builder)
            rows = []
            for _ in range(lanes):
                rows.append(lot.load(x))
                x = builder.add(x, x_row)
            # Each round shuffles the whole block as a pack of cards; log2(lanes) rounds transpose.
            for _ in range(lanes.bit_length() - 1):
                pairs = zip(rows[: lanes // 2], rows[lanes // 2 :], strict=True)
                rows = [half for a, b in pairs for half in lot.shuffled(a, b)]
            for row in rows:
                lot.store(row, to)
                to = builder.add(to, to_row)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), codegen

    return turn


def _copy(how: Tiling) -> Any:
    @intrinsic
    def copy(typingctx: Any, source: Any, to: Any) -> Any:
        """Copy one vector between addresses."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            lot = how.vectors(builder)
            lot.store(lot.load(args[0]), args[1])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return copy


def _filler(how: Tiling) -> Any:
    wide_tile, slim_tile, wide_row, slim_row = [
        _tile(how, rows, vectors) for rows in (how.rows, 1) for vectors in (2, 1)
    ]
    height = how.rows

    @compiled(inline=True)
    def fill(
        a: Any, a_row: Any, a_step: Any, b: Any, b_step: Any, c: Any, c_row: Any, rows: Any,
        steps: Any, adds: Any, wide: Any,
    ) -> None:  # fmt: skip
        """Make so many rows of one panel of the result, two vectors wide or one."""
        whole = rows - rows % height
        for i in range(0, whole, height):
            x, to = a + i * a_row, c + i * c_row
            if wide:
                wide_tile(x, a_row, a_step, b, b_step, to, c_row, steps, adds)
            else:
                slim_tile(x, a_row, a_step, b, b_step, to, c_row, steps, adds)
        for i in range(whole, rows):
            x, to = a + i * a_row, c + i * c_row
            if wide:
                wide_row(x, a_row, a_step, b, b_step, to, c_row, steps, adds)
            else:
                slim_row(x, a_row, a_step, b, b_step, to, c_row, steps, adds)

    return fill


def _plain(how: Tiling) -> Any:
    fill, lanes, size, band = _filler(how), how.lanes, how.size, how.rows * _BAND

    @compiled()
    def multiply(a: Any, b: Any, out: Any, adds: Any) -> None:
        (n, m), k = out.shape, a.shape[1]
        a_row, a_step = a.strides
        b_step, c_row = b.strides[0], out.strides[0]
        a_at, b_at, c_at = a.ctypes.data, b.ctypes.data, out.ctypes.data
        for first in range(0, k, _DEPTH):
            steps, more = min(_DEPTH, k - first), first or adds
            for top in range(0, n, band):
                rows, x = min(band, n - top), a_at + first * a_step + top * a_row
                for j in range(0, m, 2 * lanes):
                    y, to = b_at + first * b_step + j * size, c_at + top * c_row + j * size
                    wide = m - j >= 2 * lanes
                    fill(x, a_row, a_step, y, b_step, to, c_row, rows, steps, more, wide)

    return multiply


def _layer(how: Tiling) -> Any:
    turn, copy, lanes, size = _turn(how), _copy(how), how.lanes, how.size

    @compiled(inline=True)
    def lay_panel(b: Any, b_row: Any, k: Any, panel: Any, count: Any, turned: Any) -> None:
        """Lay together so many columns of b, or rows if turned, the first one at address b."""
        step = count * size
        for part in range(0, count, lanes):
            to = panel + part * size
            if turned:
                for i in range(0, k, lanes):
                    turn(b + part * b_row + i * size, b_row, to + i * step, step)
            else:
                for i in range(k):
                    copy(b + i * b_row + part * size, to + i * step)

    return lay_panel


def _packed(how: Tiling) -> Any:
    fill, lay_panel, lanes, size = _filler(how), _layer(how), how.lanes, how.size

    @compiled()
    def multiply_packed(a: Any, b: Any, room: Any, out: Any, turned: Any, adds: Any) -> None:
        (n, m), k = out.shape, a.shape[1]
        a_row, a_step = a.strides
        b_row, c_row = b.strides[0], out.strides[0]
        a_at, b_at, c_at, panel = a.ctypes.data, b.ctypes.data, out.ctypes.data, room.ctypes.data
        b_step = b_row if turned else size
        for j in range(0, m, 2 * lanes):
            wide = m - j >= 2 * lanes
            count = 2 * lanes if wide else lanes
            step = count * size
            lay_panel(b_at + j * b_step, b_row, k, panel, count, turned)
            for first in range(0, k, _DEPTH):
                x, y, steps = a_at + first * a_step, panel + first * step, min(_DEPTH, k - first)
                to, more = c_at + j * size, first or adds
                fill(x, a_row, a_step, y, step, to, c_row, n, steps, more, wide)

    return multiply_packed


def _lay(how: Tiling) -> Any:
    lay_panel, lanes, size = _layer(how), how.lanes, how.size

    @compiled()
    def lay(b: Any, room: Any, turned: Any) -> None:
        k, m = (b.shape[1], b.shape[0]) if turned else b.shape
        b_row, at, to = b.strides[0], b.ctypes.data, room.ctypes.data
        b_step = b_row if turned else size
        for j in range(0, m, 2 * lanes):
            count = 2 * lanes if m - j >= 2 * lanes else lanes
            lay_panel(at + j * b_step, b_row, k, to + j * k * size, count, turned)

    return lay


def _laid(how: Tiling) -> Any:
    fill, lanes, size = _filler(how), how.lanes, how.size

    @compiled()
    def multiply_laid(a: Any, room: Any, first: Any, out: Any) -> None:
        (n, m), k = out.shape, a.shape[1]
        a_row, a_step = a.strides
        c_row = out.strides[0]
        a_at, laid, c_at = a.ctypes.data, room.ctypes.data, out.ctypes.data
        columns, j, end = len(room) // k, first, first + m
        while j < end:
            inside = j % (2 * lanes)
            begin = j - inside
            step = (2 * lanes if columns - begin >= 2 * lanes else lanes) * size
            wide = inside == 0 and end - j >= 2 * lanes
            panel, to = laid + begin * k * size + inside * size, c_at + (j - first) * size
            for top in range(0, k, _DEPTH):
                x, y, steps = a_at + top * a_step, panel + top * step, min(_DEPTH, k - top)
                fill(x, a_row, a_step, y, step, to, c_row, n, steps, top, wide)
            j += 2 * lanes if wide else lanes

    return multiply_laid


def _matrix(dtype: str) -> Any:
    return types.Array(getattr(numba, dtype), 2, "A")


@functools.cache
def multiplier(dtype: str = "float32") -> Callable[[Any, Any, Any, bool], object]:
    """Return multiply(a, b, out, adds), which writes a @ b into out, or adds it to what is there.

    Shapes (n, k), (k, m) -> (n, m), m a multiple of tiling(dtype).lanes; rows of b and of out are
    gapless.
    """
    return entry_point(_plain(tiling(dtype)), (*[_matrix(dtype)] * 3, types.boolean))


@functools.cache
def packed_multiplier(dtype: str = "float32") -> Callable[[Any, Any, Any, Any, bool, bool], object]:
    """Return multiply_packed(a, b, room, out, turned, adds), which does the same.

    Each panel of b is laid together before, in room for 2 * lanes * k numbers. With turned it
    writes a @ b.T, and k is a multiple of lanes.
    """
    line, matrix = getattr(numba, dtype)[::1], _matrix(dtype)
    given = matrix, matrix, line, matrix, types.boolean, types.boolean
    return entry_point(_packed(tiling(dtype)), given)


@functools.cache
def layer(dtype: str = "float32") -> Callable[[Any, Any, bool], object]:
    """Return lay(b, room, turned), which lays all panels of b, or of b.T, together in room for as
    many numbers; b as for packed_multiplier.
    """
    line, matrix = getattr(numba, dtype)[::1], _matrix(dtype)
    return entry_point(_lay(tiling(dtype)), (matrix, line, types.boolean))


@functools.cache
def laid_multiplier(dtype: str = "float32") -> Callable[[Any, Any, int, Any], object]:
    """Return multiply_laid(a, room, first, out), which writes into out what a makes of the columns
    in room from the first on: it and out's width are multiples of lanes.
    """
    line, matrix = getattr(numba, dtype)[::1], _matrix(dtype)
    return entry_point(_laid(tiling(dtype)), (matrix, line, types.int64, matrix))
