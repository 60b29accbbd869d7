"""Distances between all pairs of rows."""

from __future__ import annotations

import math
from typing import Any

from ..core.dtypes import WORDS
from ..core.errors import DTypeError, ShapeError
from ..dispatch.composite import composite
from ..dispatch.op import OPS
from ..tensor.broadcast import broadcast_shapes
from ..tensor.tensor import Tensor
from .builders import triu_indices

_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)
# Up to so many rows differences are taken, which lose no digits.
_FEW = 25


@composite(homes="function", node="cdist")
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """Return the distance of order p of each row of x1 from each of x2.

    Shape   (..., p, m), (..., r, m) -> (..., p, r)
    Note    between equal rows the gradient is 0; second derivatives there are right for squares of
            euclidean distances and functions of these, and NaN for other functions
    """
    _require_rows(x1, x2, p)
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode: {_MODES}")
    rows = max(x1.facts.shape[-2], x2.facts.shape[-2])
    by_product = compute_mode == _MODES[1] or (compute_mode == _MODES[0] and rows > _FEW)
    if p == 2 and by_product:
        return _by_product(x1, x2)
    broadcast_shapes("cdist", [x1.facts.shape[:-2], x2.facts.shape[:-2]])
    return _norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _norm(difference: Any, p: float) -> Tensor:
    if p == math.inf and not difference.facts.shape[-1]:
        return difference.sum(-1)  # type: ignore[no-any-return]
    return OPS["vector_norm"].public(difference, p, -1)  # type: ignore[no-any-return]


def _by_product(x1: Any, x2: Any) -> Tensor:
    """Return euclidean distances as |a|^2 + |b|^2 - 2 a b: a product of matrices, and so quick."""
    squares = [x.square().sum(-1, True) for x in (x1, x2)]
    found = squares[0] + squares[1].transpose(-1, -2) - 2 * x1.matmul(x2.transpose(-1, -2))
    return OPS["distance_root"].public(found)  # type: ignore[no-any-return]


def _require_rows(x1: Tensor, x2: Tensor, p: float) -> None:
    for name, one in (("X1", x1), ("X2", x2)):
        layout = one.facts
        if len(layout.shape) < 2:
            raise ShapeError(
                f"cdist only supports at least 2D tensors, {name} got: {len(layout.shape)}D"
            )
        if not layout.dtype.is_floating_point:
            raise DTypeError(
                f"cdist only supports floating-point dtypes, {name} got: {WORDS[layout.dtype]}"
            )
    if x1.facts.shape[-1] != x2.facts.shape[-1]:
        raise ShapeError(
            "X1 and X2 must have the same number of columns. "
            f"X1: {x1.facts.shape[-1]} X2: {x2.facts.shape[-1]}"
        )
    if x1.facts.dtype is not x2.facts.dtype:
        words = [WORDS[x.facts.dtype] for x in (x1, x2)]
        raise DTypeError(f"expected scalar type {words[0]} but found {words[1]}")
    if p < 0:
        raise ShapeError(f"cdist only supports non-negative p values, got {p}")


@composite(homes="function functional", node="_pdist")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Return the distance of order p of each row of input from each behind it."""
    layout = input.facts
    if len(layout.shape) != 2:
        raise ShapeError(f"pdist only supports 2D tensors, got: {len(layout.shape)}D")
    if not layout.dtype.is_floating_point:
        raise DTypeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise ShapeError(f"pdist only supports non-negative p values, got {p}")
    n = layout.shape[0]
    first, second = triu_indices(n, n, 1, device=layout.device)
    return _norm(input.index_select(0, first) - input.index_select(0, second), p)
