"""Recurrent layers over whole sequences, and their gradient, on CUDA arrays.

Each step is a matrix product by cuBLAS and one launch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from fastdist.language.scalar import parse

from ..launch import C_TYPES, THREADS, Launch, headers_for, int64_fields, launch, text_of
from ..linalg.product import matmul
from ..pointwise.pointwise import pointwise

_CELLS: Final = {"lstm": 0, "gru": 1, "tanh": 2, "relu": 3}
_SUM: Final = parse("x + y", ("x", "y"))


def sequence(
    gates: Any,
    hx: Any,
    cx: Any,
    weight: Any,
    bias: Any,
    out: Any,
    last_h: Any,
    last_c: Any,
    saved: Any,
    before: Any,
    cell: str,
    batch_sizes: tuple[int, ...],
    reverse: bool,
) -> None:
    """Run a layer over packed rows: write each step's h, the last h, and for lstm the last c.

    Shapes and dtypes as in the CPU module.

    Thread  any; queued on the current stream of out's device
    """
    import cupy

    with out.device:
        gates = cupy.ascontiguousarray(gates)
        transposed = weight.transpose((1, 0))
        h = _copied(hx)
        c = h if cx is None else _copied(cx)
        product = cupy.empty((hx.shape[0], weight.shape[0]), saved.dtype)
        for rows, count in _steps_of(batch_sizes, reverse):
            mine, over = h[:count], product[:count]
            matmul(mine, transposed, over)
            state = mine if cx is None else c[:count]
            results = saved[rows], before[rows], mine, state, out[rows]
            launch(plan_step(gates[rows], over, bias, *results, cell))
        last_h[...] = h
        if cx is not None:
            last_c[...] = c


def sequence_gradient(
    hx: Any,
    saved: Any,
    before: Any,
    weight: Any,
    g: Any,
    last_h: Any,
    last_c: Any,
    out: Any,
    over: Any,
    d_hx: Any,
    d_cx: Any,
    cell: str,
    batch_sizes: tuple[int, ...],
    reverse: bool,
) -> None:
    """Run `sequence` backward: write the gradients by gates, by hx, by cx, and by the contribution
    of the product (h times weight) to the gates. Shapes and dtypes as in the CPU module.

    Thread  any; queued on the current stream of out's device
    """
    import cupy

    real, shape = saved.dtype, hx.shape
    with out.device:
        g = _zeros(before.shape, real) if g is None else cupy.ascontiguousarray(g)
        wide = out if out.dtype == real else cupy.empty(out.shape, real)
        is_gru = cell == "gru"
        to_product = over if is_gru else wide
        dh = _zeros(shape, real) if last_h is None else _copied(last_h)
        dc = dh
        if d_cx.shape[0]:
            dc = _zeros(shape, real) if last_c is None else _copied(last_c)
        through = cupy.empty(dh.shape, real)
        for here, count in _steps_of(batch_sizes, not reverse):
            mine, d = dh[:count], to_product[here]
            given = g[here], saved[here], before[here], mine, dc[:count], wide[here], d
            launch(plan_step_back(*given, cell))
            if is_gru:
                matmul(d, weight, through[:count])
                pointwise(_SUM, (mine, through[:count]), mine)
            else:
                matmul(d, weight, mine)
        if wide is not out:
            out[...] = wide
        d_hx[...] = dh
        if d_cx.shape[0]:
            d_cx[...] = dc


def _zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    import cupy

    made = cupy.empty(shape, dtype)
    made.fill(0)
    return made


def _copied(array: Any) -> Any:
    import cupy

    made = cupy.empty(array.shape, array.dtype)
    made[...] = array
    return made


def _steps_of(batch_sizes: tuple[int, ...], reverse: bool) -> Iterator[tuple[slice, int]]:
    """Yield the rows of each step, as a slice, and their number, in the order in which the layer
    processes the steps.
    """
    stops = np.cumsum(batch_sizes).tolist()
    steps = list(zip(stops, batch_sizes, strict=True))
    for stop, count in reversed(steps) if reverse else steps:
        yield slice(stop - count, stop), count


def plan_step(
    gates: Any,
    product: Any,
    bias: Any,
    saved: Any,
    before: Any,
    h: Any,
    c: Any,
    out: Any,
    cell: str,
) -> list[Launch]:
    """Return the launch that overwrites h and c with the new state; no launch if h is empty."""
    source = source_of_recurrent(saved.dtype, out.dtype, cell, has_bias=bias is not None)
    # A missing bias is replaced by an array that is not read.
    arrays = gates, product, product if bias is None else bias, saved, before, h, c, out
    return _launch_on(h, source, "forward", arrays)


def plan_step_back(
    g: Any,
    saved: Any,
    before: Any,
    dh: Any,
    dc: Any,
    d_gates: Any,
    d_product: Any,
    cell: str,
) -> list[Launch]:
    """Return the launch that computes the gradients of a step. It leaves in dh the part of h's
    gradient that does not pass through the matrix product.
    """
    source = source_of_recurrent(saved.dtype, saved.dtype, cell, has_bias=False)
    arrays = g, saved, before, dh, dc, d_gates, d_product
    return _launch_on(dh, source, "backward", arrays)


def _launch_on(h: Any, source: str, name: str, arrays: tuple[Any, ...]) -> list[Launch]:
    if not h.size:
        return []
    task = int64_fields(h.size, h.shape[1])
    return [Launch(source, name, (-(-h.size // THREADS), 1), (*arrays, task))]


@functools.lru_cache(maxsize=256)
def source_of_recurrent(
    real: np.dtype[Any], stored: np.dtype[Any], cell: str, *, has_bias: bool
) -> str:
    """Return the CUDA source that computes in the dtype `real`, and stores the results of steps in
    the dtype `stored`.
    """
    return f"""{headers_for([real, stored])}
typedef {C_TYPES[stored]} Stored;
typedef {C_TYPES[real]} Real;
constexpr int CELL = {_CELLS[cell]};
constexpr bool BIAS = {str(has_bias).lower()};
{text_of("nn/recurrent.cu")}"""
