"""Kronecker products and cross products."""

from __future__ import annotations

from ...core.dtypes import WORDS
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...tensor.axes import normalize_axis
from ...tensor.broadcast import broadcast_shapes
from ...tensor.tensor import Tensor
from ..shape.rearranging import roll
from ..shape.views import expand


@composite(out="cast", node="_unsafe_view", memory="apart")
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Return the Kronecker product: each element of input times all of other."""
    ndim = max(len(input._layout.shape), len(other._layout.shape))
    shapes = [(1,) * (ndim - len(o._layout.shape)) + o._layout.shape for o in (input, other)]
    left = [n for pair in zip(shapes[0], (1,) * ndim, strict=True) for n in pair]
    right = [n for pair in zip((1,) * ndim, shapes[1], strict=True) for n in pair]
    whole = [n * m for n, m in zip(*shapes, strict=True)]
    return (input.reshape(left) * other.reshape(right)).reshape(whole)


@composite(out="same", node="linalg_cross", memory="outside")
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Return the cross products of vectors of three elements along dim, by default the first axis
    of length 3.
    """
    a, b = input._layout.shape, other._layout.shape
    if input._layout.dtype is not other._layout.dtype:
        raise DTypeError(
            f"expected scalar type {WORDS[input._layout.dtype]} but found "
            f"{WORDS[other._layout.dtype]}: cross takes two tensors of one dtype"
        )
    if len(a) != len(b):
        raise ShapeError(
            "linalg.cross: inputs must have the same number of dimensions, got "
            f"{len(a)} and {len(b)}"
        )
    if dim is None:
        threes = [i for i, (n, m) in enumerate(zip(a, b, strict=True)) if n == 3 and m == 3]
        if not threes:
            raise ShapeError("no dimension of size 3 in input")
        axis = threes[0]
    else:
        axis = normalize_axis("linalg.cross", dim, len(a))
    if not a or a[axis] != 3 or b[axis] != 3:
        sizes = (a[axis] if a else 0, b[axis] if b else 0)
        raise ShapeError(
            f"linalg.cross: inputs dimension {axis} must have length 3. Got {sizes[0]} and "
            f"{sizes[1]}"
        )
    shape = broadcast_shapes("linalg.cross", [a, b])
    x, y = expand(input, shape), expand(other, shape)
    return roll(x, -1, axis) * roll(y, -2, axis) - roll(x, -2, axis) * roll(y, -1, axis)
