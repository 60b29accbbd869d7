"""Recurrent layers over whole sequences, and their gradient, on the CPU.

A step is a matrix product and one compiled call for the cell. The product takes most of the time:
(32, 128) times (128, 512) takes 18 us with linalg/panels.py and 30 to 45 us with a BLAS; the cell
takes 11 us (one core of an AMD EPYC, Zen 5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, Final

import numpy as np

from ..jit.array_objects import require_arrays
from ..jit.background import is_numpys_turn
from ..jit.kernel_cache import find_function
from ..linalg.product import multiplier
from ..silence import silent
from .numpy_cells import BACKWARD, FORWARD

Array = np.ndarray[Any, Any]


def steps_of(batch_sizes: tuple[int, ...], reverse: bool) -> Iterator[tuple[slice, int]]:
    """Yield the rows of each step, as a slice, and their number, in the order in which the layer
    processes the steps.
    """
    stops = accumulate(batch_sizes)  # np.cumsum takes 5 us longer for one step
    steps = list(zip(stops, batch_sizes, strict=True))
    for stop, count in reversed(steps) if reverse else steps:
        yield slice(stop - count, stop), count


def _compiled(name: str, cell: str, dtype: str) -> Callable[..., object]:
    return find_function("nn.recurrent_cells", name, cell, dtype)


def _step(name: str, cell: str, dtype: str) -> Callable[..., object] | None:
    """Return the compiled step that `name`, "forward_of" or "backward_of", makes for a cell. Return
    None while NumPy must be used.
    """
    return None if is_numpys_turn(_compiled, name, cell, dtype) else _compiled(name, cell, dtype)


# For more steps than this, a transposed copy of the weight saves more time than it costs: a product
# of 32 rows by 128 or 256 columns then takes 3 to 15 percent less time. The kernel of
# linalg/panels.py needs the copy; a BLAS can also use the view.
_MANY_STEPS: Final = 16


@silent
def sequence(
    gates: Array,
    hx: Array,
    cx: Array | None,
    weight: Array,
    bias: Array | None,
    out: Array,
    last_h: Array,
    last_c: Array,
    saved: Array,
    before: Array,
    cell: str,
    batch_sizes: tuple[int, ...],
    reverse: bool,
) -> None:
    """Run a layer over packed rows: write each step's h, the last h, and for lstm the last c.

    gates: (rows, n * hidden), the inputs' contribution to the gates; hx, cx, last_h and last_c:
    (batch, hidden); weight: (n * hidden, hidden); bias: (n * hidden,); out: (rows, hidden). saved
    and before, (rows, ...), are for the gradient. Step i processes the first batch_sizes[i] rows of
    the batch. All inputs have the dtype of saved; each result is rounded to its own dtype.
    """
    # Below, compiled code gets the addresses of rows of these arrays. Other inputs may be copied.
    require_arrays(weight, saved, before)
    h = np.array(hx, order="C")
    c = h if cx is None else np.array(cx, order="C")
    gates, transposed = np.ascontiguousarray(gates), weight.T
    multiply: Callable[[Array, Array, Array], object] = np.dot
    if len(batch_sizes) > _MANY_STEPS:
        transposed = np.ascontiguousarray(transposed)
        multiply = multiplier(len(hx), hx.shape[1], len(weight), saved.dtype)
    forward = _step("forward_of", cell, saved.dtype.name)
    product = np.empty((len(hx), len(weight)), saved.dtype)
    for rows, count in steps_of(batch_sizes, reverse):
        mine, over = h[:count], product[:count]
        before[rows] = mine
        multiply(mine, transposed, over)
        if bias is not None:
            np.add(over, bias, out=over)
        # Variables hold these arrays, because a compiled step gets only their ids.
        given, kept, state = gates[rows], saved[rows], c[:count]
        if forward is None:
            FORWARD[cell](given, over, kept, mine, state)
        else:
            forward(id(given), id(over), id(kept), id(mine), id(state))
        out[rows] = mine
    last_h[:] = h
    if cx is not None:
        last_c[:] = c


@silent
def sequence_gradient(
    hx: Array,
    saved: Array,
    before: Array,
    weight: Array,
    g: Array | None,
    last_h: Array | None,
    last_c: Array | None,
    out: Array,
    over: Array,
    d_hx: Array,
    d_cx: Array,
    cell: str,
    batch_sizes: tuple[int, ...],
    reverse: bool,
) -> None:
    """Run `sequence` backward: write the gradient by gates into `out`, by the product's
    contribution to the gates into `over`, by hx into `d_hx` and by cx into `d_cx`. `over` has rows
    only for gru: for other cells, `out` is the gradient by both contributions to the gates.

    g, last_h and last_c are the gradients of sequence's results; None stands for zeros. d_cx has
    rows only for lstm. over has saved's dtype.
    """
    require_arrays(saved, before, out, over)
    rows, batch = len(saved), len(d_hx)
    weight = np.ascontiguousarray(weight)
    g = np.zeros((rows, hx.shape[1]), saved.dtype) if g is None else np.ascontiguousarray(g)
    wide = out if out.dtype == saved.dtype else np.empty(out.shape, saved.dtype)
    to_product = over if len(over) == rows else wide
    dh = np.zeros(hx.shape, saved.dtype) if last_h is None else np.array(last_h, order="C")
    dc = dh
    if len(d_cx):
        dc = np.zeros(hx.shape, saved.dtype) if last_c is None else np.array(last_c, order="C")
    backward, direct = _step("backward_of", cell, saved.dtype.name), np.empty_like(dh)
    multiply = multiplier(batch, len(weight), weight.shape[1], saved.dtype)
    for here, count in steps_of(batch_sizes, not reverse):
        mine, d = dh[:count], to_product[here]
        given, kept, old, state, to = g[here], saved[here], before[here], dc[:count], wide[here]
        if backward is None:
            BACKWARD[cell](given, kept, old, mine, state, to, d)
        else:
            backward(id(given), id(kept), id(old), id(mine), id(state), id(to), id(d))
        if cell == "gru":
            multiply(d, weight, direct[:count])
            np.add(mine, direct[:count], out=mine)
        else:
            multiply(d, weight, mine)
    if wide is not out:
        np.copyto(out, wide, casting="unsafe")
    np.copyto(d_hx, dh, casting="unsafe")
    if len(d_cx):
        np.copyto(d_cx, dc, casting="unsafe")
