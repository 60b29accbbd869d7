"""Names that say in one word what takes two or three ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.caller_warning import warn_caller
from ...core.counted import repeat_each, require_countable
from ...core.device import CPU
from ...core.dtypes import bool_, int32, int64
from ...core.errors import DeviceError, DTypeError, ShapeError
from ...core.memory_format import contiguous_format
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.op import OPS
from ...dispatch.pytorch_names import node_named, recorded_as
from ...listeners.batched_tensor import Batched, most_of_all_calls, same_in_all_calls
from ...tensor.axes import normalize_axis
from ...tensor.layout import Shape
from ...tensor.tensor import Tensor, from_array
from ..create.ranges import arange
from ..index.searchsorted import searchsorted
from ..pointwise.complex_numbers import conjugate
from ..reduce.norms import UNSET, std, var
from .joining import cat, narrow, split

# PyTorch expands and reshapes where all are repeated as often.
_VIEWED = node_named("view")


@composite(node="split_with_sizes")
def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of the lengths split_sizes along dim."""
    return split(input, list(split_sizes), dim)


@composite(out="same", node="narrow_copy")
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return a copy of length elements from start on along dim."""
    return narrow(input, dim, start, length).clone(memory_format=contiguous_format)


def _with_mean(name: str, spread: Callable[..., Tensor]) -> None:
    """Declare the function that returns what spread does, and the mean."""

    def both(
        input: Tensor,
        dim: int | tuple[int, ...] | bool | None = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: Any = UNSET,
    ) -> tuple[Tensor, Tensor]:
        found = spread(input, dim, unbiased, keepdim, correction=correction)
        return found, input.mean(None if isinstance(dim, bool) else dim, keepdim)

    both.__name__ = both.__qualname__ = name
    both.__doc__ = f"Return {spread.__name__} and the mean over dim."
    composite(homes="function", node=name)(both)


_with_mean("std_mean", std)
_with_mean("var_mean", var)


@composite(out="cast", node="nansum")
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Return the sum over dim of what is not NaN."""
    return input.masked_fill(input.isnan(), 0.0).sum(dim, keepdim)


@composite(out="cast")
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Return the mean over dim of what is not NaN.

    Raises  RuntimeError for integers and bool
    """
    if not input.facts.dtype.is_floating_point:
        raise DTypeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{input.facts.dtype.name}; cast with .to(fastdist.float32)"
        )
    counted = input.isnan().logical_not().to(input.dtype).sum(dim, keepdim)
    return nansum(input, dim, keepdim) / counted


@composite(out="same", memory="apart")
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Return the differences between neighbours along dim, n times over; prepend and append are
    joined to input first.
    """
    if not input.facts.shape:
        raise ShapeError(
            "diff expects input to be at least one-dimensional, got one without axes; "
            "give it one with reshape(1)"
        )
    axis = normalize_axis("diff", dim, len(input.facts.shape))
    if n < 0:
        raise ShapeError(f"order must be non-negative but got {n}")
    if n == 0:
        return input.clone()
    ends = [_fitting(input, end, axis) for end in (prepend, append) if end is not None]
    if ends:
        input = cat([*ends[: prepend is not None], input, *ends[prepend is not None :]], axis)
    apart = OPS["logical_xor" if input.facts.dtype is bool_ else "sub"].public
    for _ in range(min(n, input.facts.shape[axis])):
        left = max(input.facts.shape[axis] - 1, 0)
        skipped = min(1, input.facts.shape[axis])
        input = apart(narrow(input, axis, skipped, left), narrow(input, axis, 0, left))
    return input


def _fitting(input: Tensor, end: Tensor, axis: int) -> Tensor:
    """Return end if it can be joined to input along axis.

    Raises  RuntimeError
    """
    wanted, given = input.facts.shape, end.facts.shape
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


@composite(node="dist")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Return the norm of input - other."""
    return (input - other).norm(p)


@composite(out="same", node="vdot")
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """Return the inner product of two vectors, the first one's conjugates where it is complex."""
    return conjugate(input).dot(other)


@composite()
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Return input with each element (or slice along dim) repeated, all as often or each by its
    own number; of one tensor of numbers alone, each place as often as its number says.
    """
    if repeats is None:
        input, repeats = arange(input.facts.numel, device=input.facts.device), input
    if dim is None:
        input, dim = input.reshape(-1), 0
    axis = normalize_axis("repeat_interleave", dim, len(input.facts.shape))
    length = input.facts.shape[axis]
    if isinstance(repeats, Tensor) and (
        repeats.__class__ is Batched or repeats.facts.device is not CPU
    ):
        places = _repeated_by_ops(repeats, length, output_size)
        return input.index_select(axis, places)
    times = np.broadcast_to(_repeats(repeats, length), (length,))
    places = repeat_each(np.arange(length), times)
    if output_size is not None and output_size != len(places):
        raise ShapeError(
            f"repeat_interleave: output_size is {output_size}, the repeats add up to {len(places)}"
        )
    found = input.index_select(axis, from_array(places).to(input.facts.device))
    return found if isinstance(repeats, Tensor) else recorded_as(_VIEWED, found, ())


def _repeats(repeats: Any, length: int) -> Any:
    """Return how often each of so many slices is repeated: a number, or an array of them.

    Raises  RuntimeError for numbers that are none, or not as many as slices
    """
    # A private copy: NumPy reads the numbers again after it has added them up.
    times = np.array(repeats.to_numpy() if isinstance(repeats, Tensor) else repeats)
    if times.dtype.kind not in "iu" and times.size:
        raise DTypeError(f"repeat_interleave: repeats must be integers, got {short_repr(repeats)}")
    _require_repeats(times.shape, length)
    if times.size and times.min() < 0:
        raise ShapeError(f"Repeats must be non-negative, got {times.min()}")
    if times.size:
        require_countable(int(times.max()))  # of uint64 more than int64 holds
    return times.astype(np.int64, copy=False)


def _require_repeats(shape: Shape, length: int) -> None:
    if len(shape) > 1:
        raise ShapeError(f"repeats must be 0-dim or 1-dim tensor, got shape {shape}")
    if shape and shape[0] not in (1, length):
        raise ShapeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{shape[0]} and input.size(0) = {length}"
        )


def _repeated_by_ops(repeats: Any, length: int, output_size: int | None) -> Any:
    """Return the place of each slice as often as it is repeated. Waits once for the device, for
    their number, unless that is output_size, which is taken on trust.

    Raises  RuntimeError for calls of a batch that repeat to several lengths
    """
    layout = repeats.facts
    if layout.dtype not in (int32, int64) and layout.numel:
        raise DTypeError(f"repeat_interleave: repeats must be integers, got {layout.dtype.name}")
    _require_repeats(layout.shape, length)
    if layout.device is CPU and (least := -most_of_all_calls(-repeats)) < 0:
        raise ShapeError(f"Repeats must be non-negative, got {least}")
    ends = repeats.reshape(-1).expand(length).cumsum(0)
    if output_size is None:
        output_size = same_in_all_calls("repeat_interleave", ends[-1]) if length else 0
    numbers = arange(output_size, device=layout.device)
    return searchsorted(ends, numbers, right=True).clamp(max=max(length - 1, 0))


@composite(homes="function")
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Return each vector as a grid over all of them; indexing "xy" swaps the first two axes.

    Raises  RuntimeError for tensors with more axes than one, or of different dtypes
    """
    if indexing is None:
        indexing = "ij"
        warn_caller(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
            "argument.",
            once=True,
        )
    packed = len(tensors) == 1 and not isinstance(tensors[0], Tensor)
    given = list(tensors[0] if packed else tensors)
    _require_vectors(given, indexing)
    if indexing == "xy" and len(given) > 1:
        given[0], given[1] = given[1], given[0]
    shape = [one.facts.numel for one in given]
    grids = []
    for i, one in enumerate(given):
        lengths = [n if j == i else 1 for j, n in enumerate(shape)]
        grids.append(one.reshape(lengths).expand(shape))
    if indexing == "xy" and len(given) > 1:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def _require_vectors(given: list[Tensor], indexing: str) -> None:
    """Raise for what meshgrid cannot make a grid of."""
    if not given:
        raise ShapeError("meshgrid expects a non-empty TensorList")
    for one in given:
        layout, first = one.facts, given[0].facts
        if len(layout.shape) > 1:
            raise ShapeError(
                "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: "
                f"{list(layout.shape)}; flatten() it"
            )
        if layout.dtype is not first.dtype:
            raise DTypeError(
                "meshgrid expects all tensors to have the same dtype, got "
                f"{first.dtype.name} and {layout.dtype.name}"
            )
        if layout.device is not first.device:
            raise DeviceError(
                "meshgrid expects all tensors to have the same device, got "
                f"{first.device} and {layout.device}"
            )
    if indexing not in ("ij", "xy"):
        raise ShapeError(
            'torch.meshgrid: indexing must be one of "xy" or "ij", but received: '
            f"{short_repr(indexing)}"
        )


def _at_least(given: tuple[Any, ...], ndim: int) -> Any:
    if len(given) == 1 and isinstance(given[0], tuple | list):
        return tuple([_at_least((one,), ndim) for one in given[0]])
    made = []
    for one in given:
        while len(one.facts.shape) < ndim:
            one = one.unsqueeze(-1 if len(one.facts.shape) == 2 else 0)
        made.append(one)
    return made[0] if len(made) == 1 else tuple(made)


@composite(homes="function")
def atleast_1d(*tensors: Any) -> Any:
    """Return tensors with an axis, put in where there is none."""
    return _at_least(tensors, 1)


@composite(homes="function")
def atleast_2d(*tensors: Any) -> Any:
    """Return tensors with two axes at least; a vector is a row."""
    return _at_least(tensors, 2)


@composite(homes="function")
def atleast_3d(*tensors: Any) -> Any:
    """Return tensors with three axes at least; a matrix gets the third one last."""
    return _at_least(tensors, 3)


@composite(homes="function", out="cast", memory="outside")
def dstack(tensors: Any) -> Tensor:
    """Return tensors behind each other along the third axis."""
    return cat([_at_least((one,), 3) for one in tensors], 2)


@composite(homes="function", out="cast", memory="outside")
def column_stack(tensors: Any) -> Tensor:
    """Return tensors side by side; a vector is a column."""
    given = [one.reshape(-1, 1) if len(one.facts.shape) < 2 else one for one in tensors]
    return cat(given, 1)
