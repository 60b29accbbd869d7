"""grid_sample, which samples images at the points of a grid, and affine_grid, which makes grids."""

from __future__ import annotations

import itertools
import math
from typing import Any, Final, cast

from ...core.dtypes import WORDS, DType, int64
from ...core.errors import DTypeError, ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.declaration import node_named, recorded_as
from ...tensor.methods import DeviceLike
from ...tensor.tensor import Tensor
from ..create.creation import ones
from ..create.ranges import linspace
from ..pointwise.masked import where as where_op
from ..shape.joining import stack
from .pool_arguments import require_dtype

_PADDINGS: Final = ("zeros", "border", "reflection")
_CUBIC: Final = -0.75


@composite(homes="functional", known_as="grid_sampler")
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Return input sampled at the points of grid. The last axis of grid holds (x, y) or (x, y, z),
    each from -1 to 1.

    Shape   (batch, channels, space...), (batch, points..., axes) -> (batch, channels, points...)
    Note    with align_corners, -1 and 1 are the centers of the outermost elements; without
            align_corners, -1 and 1 are the outer edges of these elements
    """
    _require_fitting(input, grid, mode, padding_mode)
    space = input._layout.shape[2:]
    align = bool(align_corners)
    # The first coordinate in the last axis of grid belongs to the last spatial axis of input.
    raw = [_in_elements(grid[..., -1 - i], n, align) for i, n in enumerate(space)]
    if mode == "bicubic":
        found = _cubic(input, raw, padding_mode, align)
    else:
        where = [_padded(x, n, padding_mode, align) for x, n in zip(raw, space, strict=True)]
        found = (_nearest if mode == "nearest" else _linear)(input, where)
    known_as = node_named(f"grid_sampler_{len(space)}d")
    return cast(Tensor, recorded_as(known_as, found, (input, grid)))


def _require_fitting(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: {short_repr(mode)}"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: {short_repr(padding_mode)}"
        )
    shape, places = input._layout.shape, grid._layout.shape
    sizes = f"but got input with sizes {list(shape)} and grid with sizes {list(places)}"
    if len(shape) not in (4, 5) or len(places) != len(shape):
        fits = 4 if len(shape) == 4 else 5
        raise ShapeError(
            f"grid_sampler(): expected {fits}D input and grid with same number of dimensions, "
            f"{short_repr(sizes)}"
        )
    if shape[0] != places[0]:
        raise ShapeError(
            f"grid_sampler(): expected grid and input to have same batch size, {short_repr(sizes)}"
        )
    if places[-1] != len(shape) - 2:
        raise ShapeError(
            f"grid_sampler(): expected grid to have size {len(shape) - 2} in last dimension, but "
            f"got grid with sizes {list(places)}"
        )
    for axis, length in enumerate(shape[2:], 2):
        if length == 0:
            raise ShapeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                f"has sizes {list(shape)} with dimension {axis} being empty"
            )
    if mode == "bicubic" and len(shape) == 5:
        raise ShapeError("grid_sampler(): bicubic interpolation only supports 4D input")
    dtype = input._layout.dtype
    require_dtype("grid_sampler_2d_cpu_kernel_impl", dtype, fits=lambda d: d.is_floating_point)
    if grid._layout.dtype is not dtype:
        raise DTypeError(
            f"expected scalar type {WORDS[dtype]} but found {WORDS[grid._layout.dtype]}: "
            "grid_sample takes input and grid of one dtype"
        )


def _in_elements(x: Tensor, length: int, align: bool) -> Any:
    """Convert coordinates in -1 ... 1 to indices, where 0 is the center of the first element."""
    if align:
        return (x + 1) * ((length - 1) / 2)
    return ((x + 1) * length - 1) / 2


def _padded(x: Tensor, length: int, padding: str, align: bool) -> Any:
    """Return the coordinates at which to sample: unchanged, clamped to the border, or reflected."""
    if padding == "zeros":
        return x
    if padding == "reflection":
        x = _reflected(x, 0, 2 * (length - 1)) if align else _reflected(x, -1, 2 * length - 1)
    # As in PyTorch, a coordinate exactly at the border has no gradient, and a NaN coordinate
    # samples the first element.
    inside = (x > 0).logical_and(x < length - 1)
    edge = (x >= length - 1).to(x._layout.dtype) * float(length - 1)
    return _chosen(inside, x, edge)


def _reflected(x: Tensor, twice_low: int, twice_high: int) -> Any:
    if twice_low == twice_high:
        return x * 0
    low, span = twice_low / 2, (twice_high - twice_low) / 2
    away = x - low
    away = _chosen(away < 0, -away, away)
    flips = (away.detach() / span).floor()
    extra = away - flips * span
    return _chosen(flips % 2 == 0, extra + low, span - extra + low)


def _chosen(condition: Tensor, a: Tensor, b: Any) -> Any:
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = condition.to(condition._layout.dtype) * 0.0 + a
    return where_op(condition, a, b)


def _read(input: Tensor, where: list[Any]) -> Any:
    """Return the elements at integer coordinates, and 0 for coordinates outside of the image."""
    shape = input._layout.shape
    batch, channels, *space = shape
    places: Any = 0
    inside: Any = None
    for x, n in zip(where, space, strict=True):
        fits = (x >= 0).logical_and(x <= n - 1)
        inside = fits if inside is None else inside.logical_and(fits)
        places = places * n + _chosen(fits, x, 0.0).to(int64)
    sites = where[0]._layout.shape[1:]
    count = math.prod(sites)
    index = places.reshape((batch, 1, count)).expand((batch, channels, count))
    flat: Any = input.reshape((batch, channels, math.prod(space)))
    found = flat.gather(2, index).reshape((batch, channels, *sites))
    return _chosen(inside.unsqueeze(1), found, 0.0)


def _nearest(input: Tensor, where: list[Any]) -> Any:
    found = _read(input, [x.detach().round() for x in where])
    # `still` is 0. Adding `still` to the values gives the grid a gradient, which is 0.
    still: Any = sum([x.round() for x in where])
    still = still - still.detach()
    return found + _chosen(still == 0, still, 0.0).unsqueeze(1)


def _linear(input: Tensor, where: list[Any]) -> Any:
    low = [x.detach().floor() for x in where]
    total: Any = None
    for corner in itertools.product((0, 1), repeat=len(where)):
        weight: Any = None
        for x, first, far in zip(where, low, corner, strict=True):
            part = x - first if far else first + 1 - x
            weight = part if weight is None else weight * part
        at = [first + far for first, far in zip(low, corner, strict=True)]
        value = _read(input, at) * weight.unsqueeze(1)
        total = value if total is None else total + value
    return total


def _cubic(input: Tensor, where: list[Any], padding: str, align: bool) -> Any:
    low = [x.detach().floor() for x in where]
    weights = [_keys(x - first) for x, first in zip(where, low, strict=True)]
    space = input._layout.shape[2:]
    total: Any = None
    for i in range(4):
        row: Any = None
        for j in range(4):
            at = [
                _padded(first + (k - 1), n, padding, align).round()
                for first, k, n in zip(low, (i, j), space, strict=True)
            ]
            value = _read(input, at) * weights[1][j].unsqueeze(1)
            row = value if row is None else row + value
        row = row * weights[0][i].unsqueeze(1)
        total = row if total is None else total + row
    return total


def _keys(t: Tensor) -> list[Any]:
    """Return the weights of four neighbouring elements for a point at distance t after the second
    of these elements.
    """
    a = _CUBIC

    def near(x: Tensor) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


@composite(homes="functional", known_as="affine_grid_generator", node="affine_grid_generator")
def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """Return a grid for grid_sample: the points of an image, transformed by affine matrices.

    Shape   (batch, 2, 3) and size (batch, channels, h, w) -> (batch, h, w, 2); (batch, 3, 4) and
            size (batch, channels, d, h, w) -> (batch, d, h, w, 3)
    """
    lengths = tuple([n.__index__() for n in size])
    dtype, shape = theta._layout.dtype, theta._layout.shape
    if not dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {dtype}")
    axes = len(lengths) - 2
    if axes not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {lengths}."
        )
    if len(shape) != 3 or shape[1:] != (axes, axes + 1):
        raise ValueError(
            f"Expected a batch of {axes}D affine matrices of shape Nx{axes}x{axes + 1} for size "
            f"{lengths}. Got {theta.shape}."
        )
    if min(lengths) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {lengths}")
    batch, _, *space = lengths
    if shape[0] != batch:
        raise ShapeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"[{batch}, {axes + 1}] but got: [{shape[0]}, {axes + 1}]."
        )
    device = theta._layout.device
    parts = []
    for axis, n in reversed(list(enumerate(space))):
        along = _middles(n, bool(align_corners), dtype, device)
        parts.append(along.reshape([-1 if i == axis else 1 for i in range(axes)]).expand(space))
    parts.append(ones(space, dtype=dtype, device=device))
    base: Any = stack(parts, -1).reshape((1, math.prod(space), axes + 1))
    moved = base.expand((batch, *base._layout.shape[1:])) @ theta.transpose(1, 2)
    return moved.reshape((batch, *space, axes))  # type: ignore[no-any-return]


def _middles(length: int, align: bool, dtype: DType, device: DeviceLike) -> Any:
    """Return the coordinates, in -1 ... 1, of the elements of an axis."""
    if length <= 1:
        return linspace(0, 0, 1, dtype=dtype, device=device)
    along: Any = linspace(-1, 1, length, dtype=dtype, device=device)
    return along if align else along * (length - 1) / length
