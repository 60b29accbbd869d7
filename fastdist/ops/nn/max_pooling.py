"""The maximum of each window: max_pool and adaptive_max_pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.dtypes import INTEGRAL, DType, int64
from ...dispatch.composite import composite
from ...dispatch.node_writer import OpNode
from ...dispatch.structured import Plan, structured
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor
from ..channels_last import in_format_of
from .pool_arguments import adaptive_lengths, require_dtype, windows_of

# Stands for (kernel, stride, padding, dilation) in adaptive pooling, where the windows of an axis
# are parts of nearly equal size.
_ADAPTIVE = (0, 0, 0, 0)


@structured(
    "nn.windows.largest",
    fresh=True,
    homes="nowhere",
    batch="last axes",
    known_as="max_pool",
    piecewise=True,
)
def largest(input: Tensor, windows: Any, counts: Any) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window over the last axes, and the maximum's flat index within the
    spatial axes. `windows` holds (kernel, stride, padding, dilation) of each axis.
    """


@largest.names_event
def _(operands: tuple[Any, ...], attributes: tuple[Any, ...]) -> str:
    """Return PyTorch's name for max pooling along this number of axes."""
    return f"max_pool{max(len(attributes[0]), 2)}d_with_indices"


@largest.names_node
def _(node: OpNode) -> str:
    windows = node.naming_route.attributes[0]
    if windows[0] == _ADAPTIVE:
        return f"adaptive_max_pool{max(len(windows), 2)}d"
    return f"max_pool{max(len(windows), 2)}d_with_indices"


@largest.plan
def _(input: Tensor, windows: Any, counts: Tensor) -> Plan:
    shape = (*input._layout.shape[: -len(windows)], *counts)
    return Plan(shape, input._layout.dtype, (windows,), extra_outputs=((shape, int64),))


@largest.vjp("input")
def _(g: Tensor, others: tuple[Tensor, ...], input_layout: Layout, windows: Any) -> Any:
    return spread(g, others[0], windows, input_layout.shape[-len(windows) :])


@largest.jvp
def _(input_t: Tensor, others: tuple[Tensor, ...], windows: Any) -> Any:
    return pick(input_t, others[0], windows)


@structured(
    "nn.windows.pick",
    linear=True,
    fresh=True,
    homes="nowhere",
    batch="last axes",
    known_as="gather",
)
def pick(input: Tensor, places: Tensor, windows: Any) -> Tensor:
    """Return the elements of each plane of input at the flat indices `places`."""


@pick.plan
def _(input: Tensor, places: Tensor, windows: Any) -> Plan:
    return Plan(places._layout.shape, input._layout.dtype, (windows,))


@pick.vjp("input")
def _(g: Tensor, places: Tensor, input_layout: Layout, windows: Any) -> Any:
    return spread(g, places, windows, input_layout.shape[-len(windows) :])


@structured("nn.windows.spread", linear=True, fresh=True, homes="nowhere", batch="last axes")
def spread(input: Tensor, places: Tensor, windows: Any, space: Any) -> Tensor:
    """Return zeros to which the elements of input are added at the flat indices `places` of each
    plane. This is the adjoint of `pick`.
    """


@spread.names_event
def _(operands: tuple[Any, ...], attributes: tuple[Any, ...]) -> str:
    return f"max_pool{max(len(attributes[0]), 2)}d_with_indices_backward"


@spread.plan
def _(input: Tensor, places: Tensor, windows: Any, space: Any) -> Plan:
    lead = input._layout.shape[: -len(windows)]
    return Plan((*lead, *space), input._layout.dtype, (windows,))


@spread.vjp("input")
def _(g: Tensor, places: Tensor, windows: Any) -> Any:
    return pick(g, places, windows)


def max_pool(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: Any,
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    ceil_mode: bool,
    axes: int,
    takes_whole: bool,
) -> Any:
    """Return the maximum of each window over the last `axes` axes, and the maximum's index."""
    function = f"max_pool{axes}d"
    found = windows_of(function, input, kernel_size, stride, padding, dilation, ceil_mode, axes)
    dtype = input._layout.dtype
    kernel = "max_pool1d_impl" if axes == 1 else function
    require_dtype(
        kernel,
        dtype,
        fits=lambda one: one.is_floating_point or (takes_whole and _is_whole(one)),
    )
    windows = tuple([window[:4] for window in found])
    made = largest(input, windows, tuple([window.outputs for window in found]))
    return made if input._layout.contiguous else in_format_of(input, made)


def _is_whole(dtype: DType) -> bool:
    return dtype.category == INTEGRAL and not dtype.is_bare


def adaptive_max_pool(input: Tensor, output_size: int | Sequence[int], axes: int) -> Any:
    """Divide the last `axes` axes into output_size parts, and return the maximum of each part and
    the maximum's index.
    """
    function = f"adaptive_max_pool{axes}d"
    counts = adaptive_lengths(function, input, output_size, axes, channels=True)
    kernel = "adaptive_max_pool3d_cpu" if axes == 3 else "adaptive_max_pool2d"
    require_dtype(kernel, input._layout.dtype, fits=lambda dtype: dtype.is_floating_point)
    made = largest(input, (_ADAPTIVE,) * axes, counts)
    return made if input._layout.contiguous else in_format_of(input, made)


def _declare(axes: int) -> None:
    """Declare the functions max_pool and adaptive_max_pool for `axes` spatial axes."""
    over = {1: "the last axis", 2: "the last two axes", 3: "the last three axes"}[axes]

    def max_pool_with_indices(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        return max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, axes, True)

    def max_pool_alone(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: Any = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        # Without indices, PyTorch has a separate kernel for one axis. This kernel supports only
        # floating-point dtypes.
        whole = axes > 1 or return_indices
        found = max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, axes, whole)
        return found if return_indices else found[0]

    def adaptive_with_indices(
        input: Tensor, output_size: int | Sequence[int], return_indices: bool = False
    ) -> Any:
        return adaptive_max_pool(input, output_size, axes)

    def adaptive_alone(
        input: Tensor, output_size: int | Sequence[int], return_indices: bool = False
    ) -> Any:
        found = adaptive_max_pool(input, output_size, axes)
        return found if return_indices else found[0]

    largest_of = f"Return the largest element of each window over {over}"
    parts_of = f"Return the largest element of each of output_size even parts of {over}"
    where = ", and its index in the plane."
    asked = "; with return_indices also its index."
    for name, function, text in (
        (f"max_pool{axes}d_with_indices", max_pool_with_indices, largest_of + where),
        (f"max_pool{axes}d", max_pool_alone, largest_of + asked),
        (f"adaptive_max_pool{axes}d_with_indices", adaptive_with_indices, parts_of + where),
        (f"adaptive_max_pool{axes}d", adaptive_alone, parts_of + asked),
    ):
        function.__name__ = function.__qualname__ = name
        function.__doc__ = text
        is_function = name.startswith("max_pool") and (axes == 1 or not name.endswith("indices"))
        homes = "function functional" if is_function else "functional"
        word = name.removesuffix("_with_indices") if name.startswith("adaptive") else name
        node = "squeeze.1" if axes == 1 else ""
        composite(homes=homes, known_as=word, node=node)(function)


for _axes in (1, 2, 3):
    _declare(_axes)
