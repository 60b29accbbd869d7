"""Resizing of images: interpolate, and the deprecated functions that call interpolate."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Final, cast

from ...core.dtypes import float16, float64, uint8
from ...core.errors import ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import before, composite
from ...tensor.tensor import Tensor
from ..channels_last import in_format_of
from ..unrecorded_moves import by_table
from . import interpolation_taps  # noqa: F401 (its makers are called by name)
from .average_pooling import adaptive_average
from .pool_arguments import require_dtype
from .weighted_neighbours import weighed

_AXES: Final = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3, "lanczos": 2}
_ANY: Final = ("nearest", "nearest-exact", "area")
_MODES: Final = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
# The names of the functions in interpolation_taps.py that compute taps, by mode.
_MAKERS: Final = {
    "nearest": "nearest",
    "nearest-exact": "nearest_exact",
    "linear": "linear",
    "bilinear": "linear",
    "trilinear": "linear",
    "bicubic": "cubic",
}


def _is_nearest(*args: object, mode: object = "nearest", **named: object) -> bool:
    """Return whether the mode only copies elements of the input."""
    return (args[2] if len(args) > 2 else mode) in ("nearest", "nearest-exact")


@before(by_table(_is_nearest))
@composite(homes="functional", known_as="")
def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Return images resized to `size`, or by the factor `scale_factor`.

    Modes "nearest", "nearest-exact" and "area" support 1 to 3 spatial axes, "linear" supports 1,
    "bilinear", "bicubic" and "lanczos" support 2, "trilinear" supports 3. With align_corners the
    outermost elements keep their positions. `antialias` widens the filter of "bilinear", "bicubic"
    and "lanczos" along axes that shrink.

    Raises  ValueError for arguments that exclude each other, NotImplementedError for a mode that
            does not support the number of axes

    Args:
        input: Images of shape (n, c, ...) with 1 to 3 spatial axes, floating-point; some modes also
            take uint8.
        size: The size of the result, a number or one for each spatial axis; None: scale_factor.
        scale_factor: The factor by which the image is scaled; None: size is given.
        mode: "nearest", "nearest-exact", "area", "linear", "bilinear", "bicubic", "lanczos" or
            "trilinear".
        align_corners: Whether the outermost elements keep their positions; False if None.
        recompute_scale_factor: Whether to compute the factor again from the rounded size; None: no.
        antialias: Whether to apply a low-pass filter before an image is reduced.

    Example:
        >>> F.interpolate(torch.tensor([[[1.0, 2.0]]]), scale_factor=2)
        tensor([[[1., 1., 2., 2.]]])
    """
    shape = input._layout.shape
    if mode in _ANY and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            "| bicubic | trilinear"
        )
    lengths, factors = _sizes(input, size, scale_factor, bool(recompute_scale_factor), mode)
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and len(shape) == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    _require_mode(mode, len(shape), bool(align_corners), antialias)
    if mode == "area":
        axes = len(shape) - 2
        return adaptive_average(f"adaptive_avg_pool{axes}d", input, lengths, axes)
    _require_space(input, lengths)
    made = _resampled(input, lengths, factors, mode, bool(align_corners), antialias)
    return cast(Tensor, made if input._layout.contiguous else in_format_of(input, made))


def _sizes(
    input: Tensor,
    size: int | Sequence[int] | None,
    scale_factor: float | Sequence[float] | None,
    recompute: bool,
    mode: str,
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """Return the lengths of the result, and for each axis the scale factor from which indices are
    computed. The scale factor is None if the lengths alone determine it.
    """
    space = input._layout.shape[2:]
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return _given_size(space, size), (None,) * len(space)
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if isinstance(scale_factor, tuple | list):
        if len(scale_factor) != len(space):
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got "
                f"input with spatial dimensions of {list(space)} and scale_factor of shape "
                f"{short_repr(scale_factor)}. Please provide input tensor in (N, C, d1, d2, "
                "...,dK) format and "
                "scale_factor in (s1, s2, ...,sK) format."
            )
        factors = tuple(map(_factor, scale_factor))
    else:
        factors = (_factor(scale_factor),) * len(space)
    lengths = tuple([int(n * factor) for n, factor in zip(space, factors, strict=True)])
    if recompute or mode == "area":
        return lengths, (None,) * len(space)
    return lengths, factors


def _factor(value: Any) -> float:
    if not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        raise TypeError(f"interpolate(): scale_factor must be numbers, got {short_repr(value)}")
    return float(value)


def _given_size(space: tuple[int, ...], size: Any) -> tuple[int, ...]:
    several = size if isinstance(size, tuple | list) else (size,) * len(space)
    if len(several) != len(space):
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got input with "
            f"spatial dimensions of {list(space)} and output size of {short_repr(size)}. Please "
            "provide input "
            "tensor in (N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format."
        )
    if not all(hasattr(n, "__index__") for n in several):
        raise TypeError(
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, "
            f"int], but got size with types {[type(n) for n in several]}"
        )
    return tuple([n.__index__() for n in several])


def _require_mode(mode: str, ndim: int, align_corners: bool, antialias: bool) -> None:
    axes = _AXES.get(mode)
    if mode in _ANY and 3 <= ndim <= 5:
        return
    if axes == ndim - 2:
        if mode == "lanczos" and align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if mode == "lanczos" and not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
        return
    if 3 <= ndim <= 5 and mode in ("linear", "bilinear", "trilinear"):
        raise NotImplementedError(
            f"Got {ndim}D input, but {mode} mode needs {_AXES[mode] + 2}D input"
        )
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {ndim}D) for the modes: "
        f"{_MODES} (got {mode})"
    )


def _require_space(input: Tensor, lengths: tuple[int, ...]) -> None:
    shape = input._layout.shape
    before, axes = shape[2:], len(shape) - 2
    if min(*before, *lengths) <= 0:
        letters = "DHW"[-axes:]
        shown = [
            ", ".join([f"{letter}: {n}" for letter, n in zip(letters, part, strict=True)])
            for part in (before, lengths)
        ]
        joint = " and" if axes == 1 else ""
        raise ShapeError(
            f"Input and output sizes should be greater than 0, but got input ({shown[0]}){joint} "
            f"output ({shown[1]})"
        )
    if shape[1] == 0:
        raise ShapeError(
            f"Non-empty {axes + 2}D data tensor expected but got a tensor with sizes {list(shape)}"
        )


def _resampled(
    input: Tensor,
    lengths: tuple[int, ...],
    factors: tuple[float | None, ...],
    mode: str,
    align: bool,
    antialias: bool,
) -> Any:
    dtype, before = input._layout.dtype, input._layout.shape[2:]
    axes = len(before)
    whole = dtype is uint8 and (mode in ("nearest", "nearest-exact") or axes == 2)
    kernel = f"upsample_{mode.replace('-', '_')}{axes}d"
    require_dtype(kernel, dtype, fits=lambda one: one.is_floating_point or whole)
    if antialias:
        require_dtype("compute_index_ranges_weights", dtype, fits=lambda one: one is not float16)
    maker = "filtered" if antialias else _MAKERS[mode]
    more: tuple[Any, ...] = (align, mode) if antialias else (align,)
    if mode.startswith("nearest"):
        # See Note [Nearest neighbours of small images].
        more = (axes == 2 and sum(lengths) <= 128,)
    real = "float64" if dtype is float64 else "float32"
    recipes = [
        (maker, n, m, factor, *more, real)
        for n, m, factor in zip(before, lengths, factors, strict=True)
    ]
    if not whole:
        return weighed(input, recipes)
    wide = weighed(input.float(), recipes)
    return (wide + 0.5).floor().clamp(0, 255).to(uint8)


@composite(homes="functional", known_as="")
def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Call interpolate, which replaces this function, with the same arguments."""
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=3,
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


@composite(homes="functional", known_as="")
def upsample_nearest(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """Call interpolate, which replaces this function, with mode "nearest"."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=3,
    )
    return interpolate(input, size, scale_factor, mode="nearest")


@composite(homes="functional", known_as="")
def upsample_bilinear(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """Call interpolate, which replaces this function, with mode "bilinear" and align_corners."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=3,
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
