"""Matrix products in tiles that stay in registers, compiled, for one thread.

A tile is eight rows of the result by two vectors, or six rows on machines with sixteen registers.
Each step along the inner axis loads two vectors of b, and one number of a for each row. With eight
rows, the sixteen multiply-adds of a step hide its ten loads. Nothing is packed: a may have any
strides, while the rows of b and of the result must be contiguous. That suits the medium-size
products of models, for which a BLAS packs about as long as it multiplies. It also suits machines
that are newer than the BLAS.

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
from typing import Any, Final

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from ..jit.array_objects import HEADER
from ..jit.compiler import compiled, entry_point
from ..jit.machine import LOAD, intrinsic, select
from ..jit.vectors import INT64, Vectors, loop
from .panel_ways import ADDS, LAID, LAYING, PACKED, TURNED, Tiling, tiling

# In _DEPTH steps, the two vectors of b per step stay in the caches, as does a band of a, of _BAND
# tiles.
_DEPTH: Final = 256
_BAND: Final = 8
_get: Final = LOAD["int64"]


def _vectors(how: Tiling, builder: Any) -> Vectors:
    """Return the builder of vector operations for a tiling."""
    element = ir.FloatType() if how.dtype == "float32" else ir.DoubleType()
    return Vectors(builder, element, how.lanes)


def _tile(how: Tiling, rows: int, vectors: int) -> Any:
    """Return the function that computes a tile of a product: `rows` rows by `vectors` vectors."""

    @intrinsic
    def tile(
        typingctx: Any, a: Any, a_row: Any, a_step: Any, b: Any, b_step: Any, c: Any, c_row: Any,
        steps: Any, adds: Any,
    ) -> Any:  # fmt: skip
        """Write the sum over `steps` steps to the address c, or, if `adds` is not 0, add it to the
        values at c. Addresses and strides are in bytes; there is at least one step.
        """

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            *walk, c, c_row, steps, adds = args
            lot = _vectors(how, builder)
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
    """Return the sums over all steps, row after row; the sums stay in registers."""
    a, a_row, a_step, b, b_step = walk
    lot = _vectors(how, builder)

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
        """Write the transpose of a block of lanes x lanes numbers at address x to address `to`."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x, x_row, to, to_row = args
            lot = _vectors(how, builder)
            rows = []
            for _ in range(lanes):
                rows.append(lot.load(x))
                x = builder.add(x, x_row)
            # Each round is a perfect shuffle of the whole block; log2(lanes) rounds transpose it.
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
        """Copy one vector from one address to another."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            lot = _vectors(how, builder)
            lot.store(lot.load(args[0]), args[1])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return copy


@functools.cache  # both kernels share the function, because it takes long to compile
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
        """Compute `rows` rows of one panel of the result. A panel is two vectors wide, or one if
        not `wide`.
        """
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


def _layer(how: Tiling) -> Any:
    turn, copy, lanes, size = _turn(how), _copy(how), how.lanes, how.size

    @compiled(inline=True)
    def lay_panel(b: Any, b_row: Any, k: Any, panel: Any, count: Any, turned: Any) -> None:
        """Pack `count` columns of b (rows if `turned`), starting at address b, into the panel."""
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


@compiled(inline=True)
def _lesser(a: Any, b: Any) -> Any:
    # Not Python's min, of which Numba compiles a separate function for each use.
    return select(a < b, a, b)


@compiled(inline=True)
def _matrix_of(array: Any) -> Any:
    """Return a matrix's address, lengths and strides: see Note [Reading array objects]."""
    lengths, strides = _get(array + HEADER, 2), _get(array + HEADER, 3)
    return (
        _get(array + HEADER, 0),
        _get(lengths, 0), _get(lengths, 1), _get(strides, 0), _get(strides, 1),
    )  # fmt: skip


def _plain(how: Tiling) -> Any:
    fill, size, pair, band = _filler(how), how.size, 2 * how.lanes, how.rows * _BAND

    @compiled("matmul")
    def multiply(a: Any, b: Any, out: Any, adds: Any) -> None:
        x, _, k, a_row, a_step = _matrix_of(a)
        y, _, _, y_step, _ = _matrix_of(b)
        to, n, m, c_row, _ = _matrix_of(out)
        for start in range(0, k, _DEPTH):
            steps, later = _lesser(_DEPTH, k - start), start | adds
            for top in range(0, n, band):
                rows, here = _lesser(band, n - top), x + start * a_step + top * a_row
                for i in range(0, m, pair):
                    wide, there = m - i >= pair, to + top * c_row + i * size
                    given = y + start * y_step + i * size
                    fill(
                        here, a_row, a_step, given, y_step, there, c_row, rows, steps, later, wide
                    )  # fmt: skip

    return multiply


def _in_panels(how: Tiling) -> Any:
    fill, lay_panel, lanes, size = _filler(how), _layer(how), how.lanes, how.size
    pair = 2 * lanes

    @compiled("matmul")
    def multiply_in_panels(a: Any, b: Any, out: Any, more: Any, way: Any) -> None:
        x, _, k, a_row, a_step = _matrix_of(a)
        b_at, depth, columns, b_row, _ = _matrix_of(b)
        to, n, m, c_row, _ = _matrix_of(out)
        first, adds, turned, panel = np.int64(0), way & ADDS, way & TURNED != 0, to
        if way & LAYING:
            k, n = n, 0
        elif way & PACKED:
            panel = _get(more + HEADER, 0)
        else:
            first = more
        j = 0
        while j < m:
            inside = (first + j) % pair
            count = select(inside == 0, _lesser(m - j, pair), lanes)
            if way & LAID:
                begin = first + j - inside
                y_step = _lesser(columns - begin, pair) * size
                y = b_at + begin * depth * size + inside * size
            else:
                y, y_step = panel, count * size
                from_ = b_at + j * select(turned, b_row, size)
                lay_panel(from_, b_row, k, panel, count, turned)
                if way & LAYING:
                    panel += k * y_step
            if n > 0:
                for start in range(0, k, _DEPTH):
                    steps, later = _lesser(_DEPTH, k - start), start | adds
                    here, there = x + start * a_step, to + j * size
                    given, wide = y + start * y_step, count == pair
                    fill(here, a_row, a_step, given, y_step, there, c_row, n, steps, later, wide)
            j += count

    return multiply_in_panels


@functools.cache
def multiplier(dtype: str) -> Callable[[int, int, int, bool], object]:
    """Return multiply(a, b, out, adds) for float32 or float64. This function writes a @ b into out,
    or adds a @ b to the values in out.

    Arrays are given by their ids; the caller must keep them alive. Shapes (n, k), (k, m) -> (n, m);
    m is a multiple of tiling(dtype).lanes; the rows of b and out are contiguous.
    """
    return entry_point(_plain(tiling(dtype)), (types.int64,) * 4)


@functools.cache
def panel_multiplier(dtype: str) -> Callable[[int, int, int, int, int], object]:
    """Return multiply_in_panels(a, b, out, more, way), the same product by packed panels of b.

    `way` has the flags of panel_ways. PACKED first packs each panel into the array `more`, which
    has space for 2 * lanes * k numbers. With TURNED, b is (m, k), and k is a multiple of lanes.
    LAYING packs all panels into out, which is (k, m), and multiplies nothing; b may be passed for a
    as well. With LAID, b has the panels that LAYING has packed, and `more` is a column number, a
    multiple of lanes. The panels may have more rows and columns than the product needs: it uses the
    first rows, and the columns from number `more` on.

    With ADDS the product is added to the values in out.
    """
    return entry_point(_in_panels(tiling(dtype)), (types.int64,) * 5)
