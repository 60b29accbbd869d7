"""Differences between neighbours along an axis."""

from __future__ import annotations

from ...core.dtypes import bool_
from ...core.errors import ShapeError
from ...dispatch.composite import composite
from ...dispatch.op import OPS
from ...tensor.axes import normalize_axis
from ...tensor.tensor import Tensor
from ..shape.joining import cat
from ..shape.splitting import narrow


@composite(out="same", memory="apart")
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Return the n-th differences between neighbours along dim. First, `prepend` and `append` are
    joined to input.

    Raises  RuntimeError if input has no axes, or n is negative; IndexError if dim is out of range

    Args:
        input: A tensor with at least one axis. Differences of bool are exclusive or; unsigned
            integers wrap around.
        n: How many times to take differences.
        dim: The axis along which neighbours are subtracted; the result is n elements shorter there,
            or empty.
        prepend: A tensor to insert before input; nothing if None.
        append: A tensor to append to input; nothing if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.diff(torch.tensor([1, 4, 9]))
        tensor([3, 5])
    """
    if not input._layout.shape:
        raise ShapeError(
            "diff expects input to be at least one-dimensional, got one without axes; "
            "give it one with reshape(1)"
        )
    axis = normalize_axis("diff", dim, len(input._layout.shape))
    if n < 0:
        raise ShapeError(f"order must be non-negative but got {n}")
    if n == 0:
        return input.clone()
    ends = [_fitting(input, end, axis) for end in (prepend, append) if end is not None]
    if ends:
        input = cat([*ends[: prepend is not None], input, *ends[prepend is not None :]], axis)
    apart = OPS["logical_xor" if input._layout.dtype is bool_ else "sub"].public
    for _ in range(min(n, input._layout.shape[axis])):
        left = max(input._layout.shape[axis] - 1, 0)
        skipped = min(1, input._layout.shape[axis])
        input = apart(narrow(input, axis, skipped, left), narrow(input, axis, 0, left))
    return input


def _fitting(input: Tensor, end: Tensor, axis: int) -> Tensor:
    """Return `end` if it can be joined to input along axis.

    Raises  RuntimeError if it cannot be joined
    """
    wanted, given = input._layout.shape, end._layout.shape
    if len(wanted) != len(given):
        raise ShapeError(
            "diff expects prepend or append to be the same dimension as input: "
            f"input has shape {wanted}, this one {given}"
        )
    for other, (n, m) in enumerate(zip(wanted, given, strict=True)):
        if other != axis and n != m:
            raise ShapeError(
                "diff expects the shape of tensor to prepend or append to match that of input "
                f"except along the differencing dimension; input.size({other}) = {n}, but got "
                f"tensor.size({other}) = {m}"
            )
    return end
