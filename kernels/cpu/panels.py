"""Products of float32 matrices in tiles that stay in registers, compiled, for one thread.

A tile is eight rows of the result by two vectors. Each step along the inner axis takes two vectors
of b and one number of a for each row: sixteen multiply-adds, for which ten loads come in time.
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
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from .compiler import compiled, entry_point
from .machine import intrinsic
from .vectors import INT64, Vectors, loop

LANES: Final = 16
_ROWS: Final = 8
# Steps for which the panel of b, two vectors wide, and the band of a stay in the caches.
_DEPTH: Final = 256
_BAND: Final = 64


def _tile(rows: int, vectors: int) -> Any:
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
            lot = Vectors(builder, ir.FloatType(), LANES)
            sums = _summed(builder, lot, rows, vectors, walk, steps)
            places = [
                lot.moved(builder.add(c, builder.mul(c_row, ir.Constant(INT64, r))), v * LANES)
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


def _summed(builder: Any, lot: Vectors, rows: int, vectors: int, walk: Any, steps: Any) -> Any:
    """Return the sums over all steps, those of a row after another, which never leave registers."""
    a, a_row, a_step, b, b_step = walk

    def add(_: Any, values: list[Any]) -> list[Any]:
        at_a, at_b, *sums = values
        given = [lot.load(lot.moved(at_b, v * LANES)) for v in range(vectors)]
        made, place = [], at_a
        for r in range(rows):
            number = lot.splat(lot.number(place))
            made += [lot.fma(number, given[v], sums[r * vectors + v]) for v in range(vectors)]
            place = builder.add(place, a_row)
        return [builder.add(at_a, a_step), builder.add(at_b, b_step), *made]

    zeros = [lot.constant([0.0] * LANES)] * (rows * vectors)
    return loop(builder, steps, [a, b, *zeros], add)[2:]


_tiles: Final = [_tile(rows, vectors) for rows in (_ROWS, 1) for vectors in (2, 1)]
_wide, _slim, _wide_row, _slim_row = _tiles


@intrinsic
def _turn(typingctx: Any, x: Any, x_row: Any, to: Any, to_row: Any) -> Any:
    """Write the transpose of LANES x LANES numbers at address x to address to."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, x_row, to, to_row = args
        lot = Vectors(builder, ir.FloatType(), LANES)
        rows = []
        for _ in range(LANES):
            rows.append(lot.load(x))
            x = builder.add(x, x_row)
        # Each round shuffles the whole block as a pack of cards; log2(LANES) rounds transpose it.
        for _ in range(LANES.bit_length() - 1):
            pairs = zip(rows[: LANES // 2], rows[LANES // 2 :], strict=True)
            rows = [half for a, b in pairs for half in lot.shuffled(a, b)]
        for row in rows:
            lot.store(row, to)
            to = builder.add(to, to_row)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), codegen


@intrinsic
def _copy(typingctx: Any, source: Any, to: Any) -> Any:
    """Copy one vector between addresses."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lot = Vectors(builder, ir.FloatType(), LANES)
        lot.store(lot.load(args[0]), args[1])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@compiled(inline=True)
def _fill(
    a: Any, a_row: Any, a_step: Any, b: Any, b_step: Any, c: Any, c_row: Any, rows: Any, steps: Any,
    adds: Any, wide: Any,
) -> None:  # fmt: skip
    """Make so many rows of one panel of the result, two vectors wide or one."""
    whole = rows - rows % _ROWS
    for i in range(0, whole, _ROWS):
        x, to = a + i * a_row, c + i * c_row
        if wide:
            _wide(x, a_row, a_step, b, b_step, to, c_row, steps, adds)
        else:
            _slim(x, a_row, a_step, b, b_step, to, c_row, steps, adds)
    for i in range(whole, rows):
        x, to = a + i * a_row, c + i * c_row
        if wide:
            _wide_row(x, a_row, a_step, b, b_step, to, c_row, steps, adds)
        else:
            _slim_row(x, a_row, a_step, b, b_step, to, c_row, steps, adds)


@compiled()
def _multiply(a: Any, b: Any, out: Any) -> None:
    (n, m), k = out.shape, a.shape[1]
    a_row, a_step = a.strides
    b_step, c_row = b.strides[0], out.strides[0]
    a_at, b_at, c_at = a.ctypes.data, b.ctypes.data, out.ctypes.data
    for first in range(0, k, _DEPTH):
        steps = min(_DEPTH, k - first)
        for top in range(0, n, _BAND):
            rows, x = min(_BAND, n - top), a_at + first * a_step + top * a_row
            for j in range(0, m, 2 * LANES):
                y, to = b_at + first * b_step + j * 4, c_at + top * c_row + j * 4
                wide = m - j >= 2 * LANES
                _fill(x, a_row, a_step, y, b_step, to, c_row, rows, steps, first, wide)


@compiled()
def _multiply_packed(a: Any, b: Any, room: Any, out: Any, turned: Any) -> None:
    (n, m), k = out.shape, a.shape[1]
    a_row, a_step = a.strides
    b_row, c_row = b.strides[0], out.strides[0]
    a_at, b_at, c_at, panel = a.ctypes.data, b.ctypes.data, out.ctypes.data, room.ctypes.data
    for j in range(0, m, 2 * LANES):
        wide = m - j >= 2 * LANES
        step = 8 * LANES if wide else 4 * LANES
        for part in range(0, step // 4, LANES):
            to = panel + part * 4
            if turned:
                for i in range(0, k, LANES):
                    _turn(b_at + (j + part) * b_row + i * 4, b_row, to + i * step, step)
            else:
                for i in range(k):
                    _copy(b_at + i * b_row + (j + part) * 4, to + i * step)
        for first in range(0, k, _DEPTH):
            x, y, steps = a_at + first * a_step, panel + first * step, min(_DEPTH, k - first)
            _fill(x, a_row, a_step, y, step, c_at + j * 4, c_row, n, steps, first, wide)


_any, _line = types.Array(types.float32, 2, "A"), types.float32[::1]


@functools.cache
def multiplier() -> Callable[[Any, Any, Any], object]:
    """Return multiply(a, b, out), which writes a @ b into out.

    Shapes (n, k), (k, m) -> (n, m), m a multiple of LANES; rows of b and of out are gapless.
    """
    return entry_point(_multiply, (_any, _any, _any))


@functools.cache
def packed_multiplier() -> Callable[[Any, Any, Any, Any, bool], object]:
    """Return multiply_packed(a, b, room, out, turned), which does the same.

    Each panel of b is laid together before, in room for 2 * LANES * k numbers. With turned it
    writes a @ b.T, and k is a multiple of LANES.
    """
    return entry_point(_multiply_packed, (_any, _any, _line, _any, types.boolean))
