"""The fastdist backend of einops; einops imports this module."""

from __future__ import annotations

from typing import Any

from einops._backends import AbstractBackend

from ..core.short_repr import short_repr
from ..namespace.load import NAMES
from ..tensor.tensor import Tensor


class FastdistBackend(AbstractBackend):  # type: ignore[misc]
    """The functions that einops needs of a backend."""

    framework_name = __package__.partition(".")[0]

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Return whether an object is a fastdist tensor."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Any:
        """Return a tensor that shares an array's memory."""
        return NAMES["from_numpy"](x)

    def to_numpy(self, x: Any) -> Any:
        """Return the elements as a NumPy array."""
        return x.detach().cpu().numpy()

    def arange(self, start: int, stop: int) -> Any:
        """Return the integers from start to stop - 1."""
        return NAMES["arange"](start, stop)

    def shape(self, x: Any) -> Any:
        """Return the shape of x."""
        return tuple(x.shape)

    def reshape(self, x: Any, shape: Any) -> Any:
        """Return x with another shape."""
        return x.reshape(tuple(shape))

    def transpose(self, x: Any, axes: Any) -> Any:
        """Return x with its axes permuted."""
        return x.permute(*axes)

    def reduce(self, x: Any, operation: str, axes: Any) -> Any:
        """Return x reduced over axes by an operation such as "sum"."""
        axes = tuple(axes)
        if operation in ("min", "max"):
            return getattr(x, f"a{operation}")(dim=axes)
        if operation in ("sum", "mean"):
            return getattr(x, operation)(dim=axes)
        if operation == "prod":
            for axis in sorted(axes, reverse=True):
                x = x.prod(dim=axis)
            return x
        if operation in ("any", "all"):
            for axis in sorted(axes, reverse=True):
                x = getattr(x, operation)(dim=axis)
            return x
        raise NotImplementedError(f"einops: unknown reduction {short_repr(operation)}")

    def stack_on_zeroth_dimension(self, tensors: Any) -> Any:
        """Return tensors stacked along a new first axis."""
        return NAMES["stack"](tensors)

    def add_axis(self, x: Any, new_position: int) -> Any:
        """Return x with a new axis of length 1."""
        return x.unsqueeze(new_position)

    def tile(self, x: Any, repeats: Any) -> Any:
        """Return x repeated along its axes."""
        return x.repeat(*repeats)

    def concat(self, tensors: Any, axis: int) -> Any:
        """Return tensors concatenated along an axis."""
        return NAMES["cat"](tensors, dim=axis)

    def add_axes(self, x: Any, n_axes: int, pos2len: Any) -> Any:
        """Return x expanded along new axes."""
        lengths = [-1] * n_axes
        for position, length in pos2len.items():
            x = self.add_axis(x, position)
            lengths[position] = length
        return x.expand(*lengths)

    def is_float_type(self, x: Any) -> bool:
        """Return whether x has a floating-point dtype."""
        return bool(x.is_floating_point())

    def einsum(self, pattern: str, *x: Any) -> Any:
        """Return the Einstein sum of tensors."""
        return NAMES["einsum"](pattern, *x)
