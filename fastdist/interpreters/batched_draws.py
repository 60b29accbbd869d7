"""Random draws inside `vmap`: one array has the numbers of all calls.

Functions that draw random numbers ask here which shape to draw. With randomness="different", the
calls of a level get different numbers, so the drawn array has an axis for that level. With "same",
all calls get the numbers of one draw, even if their arguments are different.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..tensor.layout import Shape
from ..tensor.tensor import Tensor, from_array
from .batched_tensor import in_batches, levels, levels_of, sizes_at


def drawing_levels() -> list[int]:
    """Return the open levels with randomness="different", outermost first.

    Raises  RuntimeError if an open vmap has randomness="error"
    """
    if "error" in levels.randomness:
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the "
            "'same' or 'different' randomness flags on vmap or perform the randomness operation "
            "out of vmap"
        )
    return [level for level, kind in enumerate(levels.randomness, 1) if kind == "different"]


def for_all_calls(
    which: Sequence[int], shape: Shape, order: Sequence[int] | None = None
) -> tuple[Shape, Sequence[int] | None]:
    """Return the shape, and the order of the axes in memory, of the draws of all calls at the
    levels in `which`. `shape` and `order` are those of one call.
    """
    whole = (*sizes_at(which), *shape)
    if order is None:
        return whole, None
    more = len(which)
    return whole, (*range(more), *[axis + more for axis in order])


def stacked_draws(
    which: Sequence[int], shape: Shape, draw: Callable[[], np.ndarray[Any, Any]]
) -> np.ndarray[Any, Any]:
    """Return the arrays of this shape that draw() returns for all calls at the levels in `which`,
    along new first axes.
    """
    sizes = sizes_at(which)
    drawn = [draw() for _ in range(math.prod(sizes))]
    return np.array(drawn).reshape(*sizes, *shape)


def draws_to_fill(target: Tensor, draw: Callable[[], np.ndarray[Any, Any]]) -> Any:
    """Return the array that draw() returns, to be written over `target`; inside vmap, a batch of
    the arrays that it returns for all calls.
    """
    if not levels.depth:
        return draw()
    own = drawing_levels()
    drawn = in_batches(from_array(stacked_draws(own, target._layout.shape, draw)), own)
    require_own_numbers(target, drawn)
    return drawn


def require_own_numbers(target: Tensor, drawn: Tensor) -> None:
    """Raise RuntimeError if the calls of a vmap drew different numbers to write into one tensor."""
    if not set(levels_of([drawn])) <= set(levels_of([target])):
        raise RuntimeError(
            "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will "
            "appear like same randomness: draw a new tensor, or let vmap slice the tensor"
        )
