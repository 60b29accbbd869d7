"""Branches and loops of PyTorch's compiler, and symbolic sizes.

fastdist runs programs eagerly: `cond` calls the selected branch, and every size is an int. So the
`sym_*` functions compute with Python numbers, and no value is a SymInt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from ..core.errors import ShapeError
from ..core.folded_frames import fold_public
from ..tensor.tensor import Tensor


class SymInt:
    """A symbolic int of PyTorch's compiler; fastdist has no such values."""


class SymFloat:
    """A symbolic float of PyTorch's compiler; fastdist has no such values."""


class SymBool:
    """A symbolic bool of PyTorch's compiler; fastdist has no such values."""


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()
) -> Any:
    """Return true_fn(*operands), or false_fn(*operands) if pred (a bool or a tensor) is False.

    Raises  RuntimeError if pred is a tensor that does not have exactly one element
    """
    if isinstance(pred, Tensor) and pred._layout.numel != 1:
        raise ShapeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    return (true_fn if pred else false_fn)(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any
) -> tuple[Any, ...]:
    """Run values = body_fn(*values) while cond_fn(*values) is true, and return the last values.

    Raises  RuntimeError if body_fn returns more or fewer values than it gets
    """
    values = tuple(carried_inputs)
    while cond_fn(*values):
        found = body_fn(*values)
        found = (found,) if isinstance(found, Tensor) else tuple(found)
        if len(found) != len(values):
            raise RuntimeError(
                f"body_fn should return the same number of elements as carried_inputs: "
                f"{len(values)}, got {len(found)}"
            )
        values = found
    return values


def sym_not(a: Any) -> bool:
    """Return not a."""
    return not a


def sym_float(a: Any) -> float:
    """Return a as a float."""
    return float(a)


def sym_int(a: Any) -> int:
    """Return a as an int, truncated towards zero."""
    return int(a)


def sym_max(a: Any, b: Any) -> Any:
    """Return the larger number, as a float if either is a float."""
    return _alike(max, a, b)


def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller number, as a float if either is a float."""
    return _alike(min, a, b)


def _alike(choose: Callable[..., Any], a: Any, b: Any) -> Any:
    chosen = choose(a, b)
    return float(chosen) if isinstance(a, float) or isinstance(b, float) else chosen


def sym_sqrt(a: Any) -> float:
    """Return the square root of a."""
    return math.sqrt(a)


def sym_sum(args: Iterable[Any]) -> Any:
    """Return the sum of args."""
    return sum(args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """Return t if b, else f."""
    return t if b else f


fold_public(__name__)
