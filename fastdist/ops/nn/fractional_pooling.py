"""fractional_max_pool: randomly placed windows, for any ratio of input size to output size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.dtypes import int64
from ...core.errors import ShapeError
from ...dispatch.composite import composite
from ...tensor.tensor import Tensor
from ..create.random import rand
from ..create.ranges import arange
from ..index.indexing import gather
from ..saved_indices import keep_version
from ..shape.joining import cat
from .pool_arguments import numbers, require_dtype

_seen = gather.in_steps()

_NAMES = ("time", "height", "width")


def _beginnings(samples: Tensor, length: int, count: int, kernel: int) -> Any:
    """Return, for each random number, the start indices of the windows along one axis.

    Shape   (...) -> (..., count)
    """
    device = samples._layout.device
    last = arange(1, device=device) + (length - kernel)
    lead = samples._layout.shape
    last = last.expand((*lead, 1))
    if count <= 1:
        return last[..., :count]
    alpha = (length - kernel) / (count - 1)
    i = arange(count - 1, device=device)
    # As in PyTorch, start indices are computed in the dtype of the random numbers and rounded
    # towards zero.
    begin = ((samples[..., None] + i) * alpha).to(int64) - (samples[..., None] * alpha).to(int64)
    return cat([begin, last], -1)


def fractional_max_pool(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: Any,
    output_ratio: float | tuple[float, ...] | None,
    samples: Tensor | None,
    axes: int,
) -> Any:
    """Return the maximum of each window over the last `axes` axes, and the maximum's index."""
    function = f"fractional_max_pool{axes}d"
    shape = input._layout.shape
    counts = _counts(function, shape, output_size, output_ratio, axes)
    kernel = numbers(function, "kernel_size", kernel_size, axes)
    if len(shape) not in (axes + 1, axes + 2):
        raise IndexError(
            f"{function}(): Expected {axes + 1}D or {axes + 2}D tensor, but got: {list(shape)}"
        )
    require_dtype("check_uniform_bounds", input._layout.dtype, fits=lambda d: d.is_floating_point)
    space, lead = shape[-axes:], shape[:-axes]
    # In three dimensions, PyTorch requires one more input element along each axis.
    spare = 1 if axes == 3 else 0
    for name, n, k, m in zip(_NAMES[-axes:], space, kernel, counts, strict=True):
        if m + k - 1 + spare > n:
            tail = "_out" if axes == 3 else ""
            raise ShapeError(
                f"{function}{tail}(): pool {name} {k} too large relative to input {name} {n}"
            )
    batch = lead[0] if len(lead) == 2 else 1
    if samples is None:
        layout = input._layout
        samples = rand(batch, lead[-1], axes, dtype=layout.dtype, device=layout.device)
    elif samples._layout.shape[0] < batch:
        raise ShapeError("Expect _random_samples.size(0) no less then input batch size.")
    drawn: Any = samples[:batch].reshape((*lead, axes))
    # In two dimensions PyTorch uses the first random number for the width.
    order = (1, 0) if axes == 2 else (0, 1, 2)
    places: Any = 0
    for axis in range(axes):
        begin = _beginnings(drawn[..., order[axis]], space[axis], counts[axis], kernel[axis])
        inside = begin[..., None] + arange(kernel[axis], device=input._layout.device)
        split = [1] * (2 * axes)
        split[axis], split[axes + axis] = counts[axis], kernel[axis]
        places = places * space[axis] + inside.reshape((*lead, *split))
    windows, elements = math.prod(counts), math.prod(kernel)
    places = places.reshape((*lead, windows, elements))
    flat: Any = input.reshape((*lead, math.prod(space)))
    seen = _seen(flat, -1, places.reshape((*lead, windows * elements)))
    values, where = seen.reshape((*lead, windows, elements)).max(-1)
    found = places.gather(-1, where[..., None]).reshape((*lead, *counts))
    return keep_version(values.reshape((*lead, *counts)), found), found


def _counts(
    function: str,
    shape: tuple[int, ...],
    output_size: int | Sequence[int],
    output_ratio: float | tuple[float, ...] | None,
    axes: int,
) -> tuple[int, ...]:
    if output_size is not None:
        return numbers(function, "output_size", output_size, axes)
    if output_ratio is None:
        raise ValueError(f"{function} requires specifying either an output_size or an output_ratio")
    ratios = output_ratio if isinstance(output_ratio, tuple | list) else (output_ratio,) * axes
    if len(ratios) != axes:
        raise ValueError(
            f"{function} requires output_ratio to either be a single Int or tuple of Ints."
        )
    return tuple([int(n * ratio) for n, ratio in zip(shape[-axes:], ratios, strict=True)])


def _declare(axes: int) -> None:
    """Declare the functions fractional_max_pool for `axes` spatial axes."""

    def with_indices(
        input: Tensor,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = None,
        output_ratio: float | tuple[float, ...] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        return fractional_max_pool(
            input, kernel_size, output_size, output_ratio, _random_samples, axes
        )

    def alone(
        input: Tensor,
        kernel_size: int | Sequence[int],
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        found = fractional_max_pool(
            input, kernel_size, output_size, output_ratio, _random_samples, axes
        )
        return found if return_indices else found[0]

    name = f"fractional_max_pool{axes}d"
    text = "Return the largest element of each of output_size windows that begin at random places"
    for called, function, more in (
        (f"{name}_with_indices", with_indices, ", and its index in the plane."),
        (name, alone, "; with return_indices also its index."),
    ):
        function.__name__ = function.__qualname__ = called
        function.__doc__ = text + more
        composite(homes="functional", known_as=name)(function)


for _axes in (2, 3):
    _declare(_axes)
