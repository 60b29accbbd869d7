"""Indices drawn with given probabilities."""

from __future__ import annotations

import itertools
import math
from typing import Any, Final

import numpy as np

from ...core.device import CPU
from ...core.dtypes import bfloat16, float16, float32, float64, int64
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...dispatch.target import store_in_out
from ...interpreters.batched_tensor import levels, unbatched
from ...random_numbers.generator import Generator
from ...tensor.tensor import Tensor
from ..create.allocation import finish
from ..create.draws import generator_or_default, open_uniform
from .searchsorted import searchsorted


@composite()
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return indices into each row of input, with probabilities proportional to the row's values.

    Shape   (n,) -> (num_samples,); (m, n) -> (m, num_samples)
    Raises  RuntimeError for weights that are negative, not finite or all 0, and for more draws
            without replacement than a row has elements; weights on other devices than the CPU are
            not checked, because a check would wait for the device

    Args:
        input: The weights, one row or several rows; they must not be negative.
        num_samples: The number of indices for each row.
        replacement: Whether an index may be drawn twice.
        generator: The generator to draw from; the default one if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 1)
        tensor([1])
    """
    if out is not None and out._layout.dtype is not int64:
        raise DTypeError(f"multinomial expects Long tensor out, got: {out._layout.dtype.name}")
    chances: Any = input.detach()
    if chances._layout.dtype in (float16, bfloat16):
        # Half types are converted, because NumPy is 20 times as slow with half types, and because
        # quotients of half numbers overflow or are equal.
        chances = chances.to(float32)
    _require_chances(chances, num_samples, replacement)
    if replacement:
        found = _with_replacement(chances, num_samples, generator)
    else:
        # Each index gets an exponential time with its weight as the rate. The earliest times win.
        drawn: Any = open_uniform(chances._layout, generator)
        times = -drawn.log().to(chances._layout.dtype)
        found = (chances / times).topk(num_samples, -1)[1]
    return store_in_out("multinomial", out, found, ())


def _with_replacement(chances: Tensor, num_samples: int, generator: Generator | None) -> Tensor:
    layout = chances._layout
    if layout.device is not CPU or levels.depth:
        return _with_replacement_by_ops(chances, num_samples, generator)
    source = generator_or_default(generator, layout.device)
    drawn = source.open_uniform((*layout.shape[:-1], num_samples), np.dtype(np.float64))
    rows, n = chances.to_numpy(), layout.shape[-1]
    found = _places(rows.reshape(-1, n), drawn.reshape(-1, num_samples))
    return finish(found.reshape(drawn.shape), layout.device, False)


# The quotient of two times: a running sum takes 3 ns per element, and a draw takes 2 ns per element
# of the drawn block.
_PLACES_BY_DRAWS: Final = 1.5


# Up to this many elements, one running sum is cheaper than the additional NumPy calls for blocks.
_FEW: Final = 4096


def _places(rows: Any, drawn: Any) -> Any:
    """Return, for each number in drawn, the index at which the row's running sum exceeds it.

    The numbers are in (0, 1), and are multiplied by the row's total. Blocks of elements are summed
    first. For each number, a binary search finds the block, and then the index in the block.
    """
    count, n = rows.shape
    if rows.size <= _FEW:
        block = 1
    else:
        block = 1 << round(math.log2(max(_PLACES_BY_DRAWS * n / drawn.shape[1], 1.0)) / 2)
        block = min(block, 64) if block >= 4 else 1
    parts = _in_blocks(rows, block)
    with np.errstate(over="ignore"):
        # A product with ones would use BLAS's threads, which can take 50 times as long on a busy
        # machine.
        sums = np.einsum("ij->i", parts.reshape(-1, block)) if block > 1 else parts
        sums = sums.reshape(count, -1)
        ends = np.cumsum(sums, 1, np.float64)
    total = ends[:, -1:]
    largest, least = (total[0, 0],) * 2 if count == 1 else (total.max(), total.min())
    if not (largest < np.inf and least > 1e-290):  # a total is too large or small to divide by
        scale = rows.max(1, keepdims=True).astype(np.float64)
        return _places(rows / scale, drawn)
    wanted = drawn * total
    found = _first_above(ends, total, wanted)
    if block == 1:
        return found
    met = (found + np.arange(count)[:, None] * ends.shape[1]).reshape(-1)
    before = ends.reshape(-1)[met] - sums.reshape(-1)[met]
    rest = np.maximum(wanted.reshape(-1) - before, 0.0)
    return found * block + _inside(parts.reshape(-1, block).take(met, 0), rest).reshape(found.shape)


def _first_above(ends: Any, total: Any, wanted: Any) -> Any:
    """Return, for each number in wanted, the index of the first running sum in the same row of ends
    that exceeds the number. If rounding makes a number too large, return the index at which the
    running sums first reach the total.
    """
    count, n = ends.shape
    if count == 1:
        found = ends[0].searchsorted(wanted, "right")
        if (found == n).any():
            found = np.minimum(found, ends[0].searchsorted(total[0], "left"))
        return found
    # One sorted list holds all rows: the sums of row i are scaled and shifted to i ... i + 1.
    row = np.arange(count)[:, None]
    keys = ends / total + row
    found = keys.reshape(-1).searchsorted(wanted / total + row, "right") - row * n
    if (found >= n).any():
        found = np.minimum(found, (keys < row + 1).sum(1, keepdims=True))
    return found


def _in_blocks(rows: Any, block: int) -> Any:
    """Return rows padded with zeros so that they consist of whole blocks."""
    count, n = rows.shape
    if n % block == 0:
        return np.ascontiguousarray(rows)
    filled = np.zeros((count, -(-n // block) * block), rows.dtype)
    filled[:, :n] = rows
    return filled


def _inside(cells: Any, rest: Tensor | None) -> Any:
    """Return, for each block, the index in the block at which the running sum exceeds `rest`."""
    # Transposed, because NumPy adds whole rows four times as fast as it computes running sums.
    running = cells.T.astype(np.float64, order="C")
    for before, here in itertools.pairwise(running):
        np.add(before, here, out=here)
    found = (running <= rest).view(np.int8).sum(0, dtype=np.int8).astype(np.int64)
    beyond = found == len(running)
    if beyond.any():
        found[beyond] = (running[:, beyond] < running[-1, beyond]).sum(0)
    return found


def _with_replacement_by_ops(
    chances: Tensor, num_samples: int, generator: Generator | None
) -> Tensor:
    running = chances.to(float64).cumsum(-1)
    total = running[..., -1:]
    wanted = total.expand(*chances._layout.shape[:-1], num_samples)
    drawn: Any = open_uniform(wanted._layout, generator)
    found: Tensor = searchsorted(running, drawn * total, right=True)
    return found.minimum((running < total).sum(-1, True))


def _require_chances(input: Tensor, num_samples: int, replacement: bool) -> None:
    layout = input._layout
    if len(layout.shape) not in (1, 2):
        raise ShapeError(f"prob_dist must be 1 or 2 dim, got shape {list(layout.shape)}")
    if not layout.dtype.is_floating_point:
        raise DTypeError(
            "multinomial only supports floating-point dtypes for input, got: "
            f"{layout.dtype.name}; cast with .float()"
        )
    if num_samples <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {num_samples}")
    if not replacement and num_samples > layout.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement: asked for "
            f"{num_samples} of {layout.shape[-1]}"
        )
    if not layout.numel:
        if 0 not in layout.shape[:-1]:  # there are rows, but they have no elements
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
        return
    if layout.device is not CPU:
        return
    chances = unbatched(input).detach().to_numpy()
    if not chances.size:
        return
    with np.errstate(all="ignore"):
        highest = chances.max(-1)
        if not (chances.min() >= 0 and highest.max() < np.inf):
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if highest.min() <= 0:
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
