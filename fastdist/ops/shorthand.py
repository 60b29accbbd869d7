"""Names that say in one word what takes two or three ops."""

from __future__ import annotations

from typing import Any

from ..dispatch.composite import composite
from ..dispatch.rules import normalize_axis
from ..tensor.tensor import Tensor
from .creation import arange, tensor
from .joining import cat, narrow, split
from .norms import std, var


@composite()
def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of the lengths split_sizes along dim."""
    return split(input, list(split_sizes), dim)


@composite(method=False)
def std_mean(input: Tensor, dim: Any = None, **more: Any) -> tuple[Tensor, Tensor]:
    """Return the standard deviation and the mean over dim."""
    return std(input, dim, **more), input.mean(dim, more.get("keepdim", False))


@composite(method=False)
def var_mean(input: Tensor, dim: Any = None, **more: Any) -> tuple[Tensor, Tensor]:
    """Return the variance and the mean over dim."""
    return var(input, dim, **more), input.mean(dim, more.get("keepdim", False))


@composite()
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Return the sum over dim of what is not NaN."""
    return input.masked_fill(input.isnan(), 0.0).sum(dim, keepdim)


@composite()
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Return the mean over dim of what is not NaN."""
    counted = input.isnan().logical_not().to(input.dtype).sum(dim, keepdim)
    return nansum(input, dim, keepdim) / counted


@composite()
def diff(input: Tensor, n: int = 1, dim: int = -1) -> Tensor:
    """Return the differences between neighbours along dim, n times over."""
    axis = normalize_axis("diff", dim, len(input.layout.shape))
    for _ in range(n):
        left = max(input.layout.shape[axis] - 1, 0)
        skipped = min(1, input.layout.shape[axis])
        input = narrow(input, axis, skipped, left) - narrow(input, axis, 0, left)
    return input


@composite()
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Return the norm of input - other."""
    return (input - other).norm(p)


@composite()
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """Return the inner product of two vectors."""
    return input.dot(other)


@composite()
def repeat_interleave(input: Tensor, repeats: Any, dim: int | None = None) -> Tensor:
    """Return input with each element (or slice along dim) repeated."""
    if dim is None:
        input, dim = input.reshape(-1), 0
    axis = normalize_axis("repeat_interleave", dim, len(input.layout.shape))
    n = input.layout.shape[axis]
    times = repeats.tolist() if isinstance(repeats, Tensor) else repeats
    each = [times] * n if isinstance(times, int) else times * n if len(times) == 1 else times
    places = [i for i, count in enumerate(each) for _ in range(count)]
    index = tensor(places, dtype=arange(0).dtype, device=input.layout.device)
    return input.index_select(axis, index)


@composite(method=False)
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Return each vector as a grid over all of them; indexing "xy" swaps the first two axes."""
    packed = len(tensors) == 1 and not isinstance(tensors[0], Tensor)
    given = list(tensors[0] if packed else tensors)
    if indexing == "xy" and len(given) > 1:
        given[0], given[1] = given[1], given[0]
    shape = [one.layout.numel for one in given]
    grids = []
    for i, one in enumerate(given):
        lengths = [n if j == i else 1 for j, n in enumerate(shape)]
        grids.append(one.reshape(lengths).expand(shape))
    if indexing == "xy" and len(given) > 1:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def _at_least(given: tuple[Any, ...], ndim: int) -> Any:
    made = []
    for one in given:
        while len(one.layout.shape) < ndim:
            one = one.unsqueeze(-1 if len(one.layout.shape) == 2 else 0)
        made.append(one)
    return made[0] if len(made) == 1 else tuple(made)


@composite(method=False)
def atleast_1d(*tensors: Any) -> Any:
    """Return tensors with an axis, put in where there is none."""
    return _at_least(tensors, 1)


@composite(method=False)
def atleast_2d(*tensors: Any) -> Any:
    """Return tensors with two axes at least; a vector is a row."""
    return _at_least(tensors, 2)


@composite(method=False)
def atleast_3d(*tensors: Any) -> Any:
    """Return tensors with three axes at least; a matrix gets the third one last."""
    return _at_least(tensors, 3)


@composite(method=False)
def dstack(tensors: Any) -> Tensor:
    """Return tensors behind each other along the third axis."""
    return cat([_at_least((one,), 3) for one in tensors], 2)


@composite(method=False)
def column_stack(tensors: Any) -> Tensor:
    """Return tensors side by side; a vector is a column."""
    given = [one.reshape(-1, 1) if len(one.layout.shape) < 2 else one for one in tensors]
    return cat(given, 1)
