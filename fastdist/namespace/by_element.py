"""Tensor methods that call a Python function for each element, or write to a diagonal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.device import CPU
from ..core.errors import DTypeError, GraphError, ShapeError
from ..core.folded_frames import folds
from ..dispatch.inplace import copy_
from ..dispatch.op import OPS
from ..dispatch.signature import require_kinds
from ..interpreters.batch_loop import loop, warn_of_loop
from ..interpreters.batched_tensor import Batched
from ..ops.shape.as_strided import as_strided
from ..tensor.constants import placed
from ..tensor.tensor import Tensor, from_array


@folds
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element x by callable(x), one after another; this is slow.

    Raises  RuntimeError for a tensor that requires grad; TypeError if it is not on the CPU,
            or if callable does not return a number
    """
    return _written(self, "apply_", (), callable)


@folds
def map_(self: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace x by callable(x, y), for all elements x of this tensor and y of `other`; it is slow.

    Raises  RuntimeError for a tensor that requires grad; TypeError if a tensor has another dtype or
            is not on the CPU, or if callable does not return a number
    """
    require_kinds(map_, (self, other, callable), {}, set(), ())
    return _written(self, "map_", (other,), callable)


@folds
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace each element e by callable(e, x's element, y's element); this is slow.

    Raises  RuntimeError for a tensor that requires grad; TypeError if a tensor has another dtype or
            is not on the CPU, or if callable does not return a number
    """
    require_kinds(map2_, (self, x, y, callable), {}, set(), ())
    return _written(self, "map2_", (x, y), callable)


def _written(
    self: Tensor, name: str, others: tuple[Tensor, ...], function: Callable[..., Any]
) -> Tensor:
    layout = self._layout
    if self._edge is not None:
        raise GraphError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() "
            "instead."
        )
    if layout.device is not CPU:
        raise TypeError(f"{name} is only implemented on CPU tensors, got one on {layout.device}")
    for other in others:
        if other._layout.dtype is not layout.dtype or other._layout.device is not CPU:
            raise DTypeError(
                f"{name}: expected {layout.dtype.name} on cpu for each other tensor (got "
                f"{other._layout.dtype.name} on {other._layout.device})"
            )
    given = [self, *[OPS["expand"].public(other, layout.shape) for other in others]]
    columns = [one.detach().to_numpy().reshape(-1).tolist() for one in given]
    found = [placed(_number(function(*row)), layout.dtype) for row in zip(*columns, strict=True)]
    array = np.array(found, layout.dtype.numpy).reshape(layout.shape)
    return copy_(self, from_array(array))


def _number(value: Any) -> Any:
    if isinstance(value, Tensor | np.generic):
        value = value.item()
    if not isinstance(value, int | float):
        raise TypeError(f"must be real number, not {type(value).__name__}")
    return value


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Set the elements of the diagonal, whose indices are all equal, to `fill_value`.

    If `wrap` is true, the diagonal of a tall matrix starts again after every width + 1 rows.

    Raises  RuntimeError for a 1-d tensor, or for more than two axes of unequal lengths
    """
    if isinstance(self, Batched):
        warn_of_loop("fill_diagonal_")
        loop(fill_diagonal_, (self, fill_value, wrap), self.level)
        return self
    shape, strides = self._layout.shape, self.stride()
    if len(shape) < 2:
        raise ShapeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise ShapeError("all dimensions of input must be of equal length")
    size, step = min(shape), sum(strides)
    _fill_each(self, size, step, 0, fill_value)
    width = shape[1]
    if wrap and len(shape) == 2 and shape[0] > width + 1:
        rest = -(-self._layout.numel // (size + 1)) - size
        _fill_each(self, rest, step, strides[0] * (width + 1), fill_value)
    return self


def _fill_each(self: Tensor, count: int, step: int, start: int, value: Any) -> None:
    seen: Any = as_strided(self, (count,), (step,), self.storage_offset() + start)
    seen.fill_(value)


METHODS: dict[str, Any] = {
    "apply_": apply_,
    "fill_diagonal_": fill_diagonal_,
    "map2_": map2_,
    "map_": map_,
}
