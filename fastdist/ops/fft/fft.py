"""The functions of `fastdist.fft`, composed of the three ops of transforms.py.

`n`, or `s` for several axes, is the length of the transform: longer input is truncated, and shorter
input padded with zeros. `norm` selects which direction divides by the length: "backward" (the
default) means the inverse transform, and "forward" the forward transform. With "ortho" both divide
by the square root of the length.

Dtype   integers are cast to the default dtype; float32 and complex64 keep single precision
Raises  RuntimeError for half types (PyTorch does not support them on the CPU either), for a length
        below 1, and for an axis that is named twice; IndexError for an axis that does not exist
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.dtypes import WORDS, DType, complex_of
from ...core.errors import DTypeError, NoKernelError, ShapeError
from ...core.memory_format import MemoryLayout
from ...core.overflow_checks import require_countable
from ...core.sequences import all_of
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.signature import ArgumentError
from ...tensor.axes import Axes, DimError, Dims, normalize_axis
from ...tensor.methods import DeviceLike
from ...tensor.promotion import dtype_or_default, get_default_dtype
from ...tensor.tensor import Tensor
from ..create.allocation import fills_out, finish, rounded
from ..nn.padding import constant_pad
from ..pointwise.complex_numbers import conjugate
from ..shape.rearranging import roll
from ..shape.splitting import narrow
from .transforms import divided_by, fft_c2c, fft_c2r, fft_r2c


def _c2c(*given: Any) -> Tensor:
    return fft_c2c(*given)


def _r2c(*given: Any) -> Tensor:
    return fft_r2c(*given)


def _c2r(*given: Any) -> Tensor:
    return fft_c2r(*given)


# ---- Along one axis -----------------------------------------------------------------------------


@composite(homes="fft", out="kind")
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return, for each j along dim, the sum over k of input[k] * exp(-2 * pi * i * j * k / n)."""
    input = computable(input)
    input, axes = _along(input, n, dim)
    if input._layout.dtype.is_complex:
        return _c2c(input, axes, divided_by(norm, True), True)
    return _r2c(input, axes, divided_by(norm, True), False)


@composite(homes="fft", out="kind")
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return the inverse of fft."""
    input = computable(input)
    input, axes = _along(input, n, dim)
    divided = divided_by(norm, False)
    if input._layout.dtype.is_complex:
        return _c2c(input, axes, divided, False)
    return conjugate(_r2c(input, axes, divided, False))


@composite(homes="fft", out="kind")
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return the first n // 2 + 1 numbers of fft for real input. These numbers determine the
    others.
    """
    _require_real("rfft expects a real input tensor, but got", input)
    input, axes = _along(computable(input), n, dim)
    return _r2c(input, axes, divided_by(norm, True), True)


@composite(homes="fft", out="kind")
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return the inverse of rfft: n real numbers. By default, n is 2 * (input.shape[dim] - 1)."""
    input, axes, n = _half_along(input, n, dim)
    return _c2r(input, axes, divided_by(norm, False), n)


@composite(homes="fft", out="kind")
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return the real transform of n numbers. input holds the first n // 2 + 1 numbers; the others
    are conjugates of these.
    """
    input, axes, n = _half_along(input, n, dim)
    divided = divided_by(norm, True)
    return _c2r(conjugate(input), axes, divided, n)


@composite(homes="fft", out="kind")
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return the inverse of hfft for real input: the first n // 2 + 1 complex numbers."""
    _require_real("ihfft expects a real input tensor, but got", input)
    input, axes = _along(computable(input), n, dim)
    return conjugate(_r2c(input, axes, divided_by(norm, False), True))


# ---- Along several axes -------------------------------------------------------------------------


@composite(homes="fft", out="kind")
def fftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Axes = None, norm: str | None = None
) -> Tensor:
    """Return fft along each axis in dim: by default all axes or, with s, the last len(s) axes."""
    return _all_complex(input, s, dim, norm, True)


@composite(homes="fft", out="kind")
def ifftn(input: Tensor, s: Any = None, dim: Axes = None, norm: str | None = None) -> Tensor:
    """Return the inverse of fftn."""
    return _all_complex(input, s, dim, norm, False)


@composite(homes="fft", out="kind")
def rfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Axes = None, norm: str | None = None
) -> Tensor:
    """Return rfft along the last axis in dim, followed by fft along the other axes."""
    return _half_of_all(input, s, dim, norm)


@composite(homes="fft", out="kind")
def irfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Axes = None, norm: str | None = None
) -> Tensor:
    """Return the inverse of rfftn."""
    return _all_real(input, s, dim, norm)


@composite(homes="fft", out="kind")
def hfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Axes = None, norm: str | None = None
) -> Tensor:
    """Return hfft along the last axis of dim, after fft along the other axes of dim."""
    return _all_hermitian(input, s, dim, norm)


@composite(homes="fft", out="kind")
def ihfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Axes = None, norm: str | None = None
) -> Tensor:
    """Return the inverse of hfftn for real input: half of the numbers along the last axis."""
    return _half_hermitian(input, s, dim, norm)


@composite(homes="fft", out="kind")
def fft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Axes = (-2, -1), norm: str | None = None
) -> Tensor:
    """Return fftn along the last two axes."""
    return _all_complex(input, s, _told(dim), norm, True)


@composite(homes="fft", out="kind")
def ifft2(
    input: Tensor, s: Any = None, dim: int | Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """Return ifftn along the last two axes."""
    return _all_complex(input, s, _told(dim), norm, False)


@composite(homes="fft", out="kind")
def rfft2(
    input: Tensor, s: Any = None, dim: int | Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """Return rfftn along the last two axes."""
    return _half_of_all(input, s, _told(dim), norm)


@composite(homes="fft", out="kind")
def irfft2(
    input: Tensor, s: Any = None, dim: int | Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """Return irfftn along the last two axes."""
    return _all_real(input, s, _told(dim), norm)


@composite(homes="fft", out="kind")
def hfft2(
    input: Tensor, s: Any = None, dim: int | Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """Return hfftn along the last two axes."""
    return _all_hermitian(input, s, _told(dim), norm)


@composite(homes="fft", out="kind")
def ihfft2(
    input: Tensor, s: Any = None, dim: int | Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """Return ihfftn along the last two axes."""
    return _half_hermitian(input, s, _told(dim), norm)


def _all_complex(
    input: Tensor, s: Sequence[int] | None, dim: Any, norm: str | None, forward: bool
) -> Tensor:
    input = computable(input, is_complex=True)
    axes, lengths = _axes(input, s, dim)
    divided = divided_by(norm, forward)
    if not axes:
        return input.clone()
    return _c2c(_fitted(input, axes, lengths), axes, divided, forward)


def _half_of_all(input: Tensor, s: Sequence[int] | None, dim: Any, norm: str | None) -> Tensor:
    _require_real("rfftn expects a real-valued input tensor, but got", input)
    input = computable(input)
    axes, lengths = _some_axes("rfftn", input, s, dim)
    return _r2c(_fitted(input, axes, lengths), axes, divided_by(norm, True), True)


def _all_real(input: Tensor, s: Sequence[int] | None, dim: Any, norm: str | None) -> Tensor:
    input, axes, n = _half_of("irfftn", input, s, dim)
    return _c2r(input, axes, divided_by(norm, False), n)


def _all_hermitian(input: Tensor, s: Sequence[int] | None, dim: Any, norm: str | None) -> Tensor:
    input, axes, n = _half_of("hfftn", input, s, dim)
    divided = divided_by(norm, True)
    if axes[1:]:
        input = _c2c(input, axes[:-1], divided, True)
    return _c2r(conjugate(input), axes[-1:], divided, n)


def _half_hermitian(input: Tensor, s: Sequence[int] | None, dim: Any, norm: str | None) -> Tensor:
    _require_real("Only supports floating-point dtypes, but found:", input)
    input = computable(input)
    axes, lengths = _some_axes("ihfftn", input, s, dim)
    divided = divided_by(norm, False)
    half = conjugate(_r2c(_fitted(input, axes, lengths), axes[-1:], divided, True))
    return _c2c(half, axes[:-1], divided, False) if axes[1:] else half


# ---- Arguments ----------------------------------------------------------------------------------


def computable(input: Tensor, *, is_complex: bool = False) -> Tensor:
    """Return input, cast to a dtype for which transforms are implemented."""
    given = dtype = input._layout.dtype
    if not dtype.may_have_gradient:
        dtype = get_default_dtype()
    if dtype.is_half:
        raise DTypeError(f"Unsupported dtype {WORDS[dtype]}: cast with .to(fastdist.float32)")
    if is_complex:
        dtype = complex_of(dtype)
    return input if dtype is given else input.to(dtype)


def _require_real(words: str, input: Tensor) -> None:
    if input._layout.dtype.is_complex:
        raise DTypeError(f"{words} {WORDS[input._layout.dtype]}: take its real or imag")


def _axis(dim: Dims, ndim: int) -> int:
    """Return dim counted from the end, so that the last axis is -1."""
    if not ndim:
        raise DimError(f"Dimension specified as {short_repr(dim)} but tensor has no dimensions")
    return normalize_axis("fft", dim, ndim) - ndim


def _require_points(n: int) -> None:
    if n < 1:
        raise ShapeError(
            f"Invalid number of data points ({short_repr(n)}) specified: there must be one or more"
        )


def _along(input: Tensor, n: int | None, dim: int) -> tuple[Tensor, tuple[int, ...]]:
    """Return input, truncated or padded to n elements along dim, and the axis dim in a tuple."""
    shape = input._layout.shape
    axis = _axis(dim, len(shape))
    length = shape[axis] if n is None else n
    _require_points(length)
    axes = (axis,)
    return (input if n is None else _fitted(input, axes, (length,))), axes


def _half_along(input: Tensor, n: int | None, dim: int) -> tuple[Tensor, tuple[int, ...], int]:
    """Return input as the half spectrum of n numbers along dim, the axis dim in a tuple, and n."""
    input = computable(input, is_complex=True)
    shape = input._layout.shape
    axis = _axis(dim, len(shape))
    length = 2 * (shape[axis] - 1) if n is None else n
    _require_points(length)
    axes = (axis,)
    return (input if n is None else _fitted(input, axes, (length // 2 + 1,))), axes, length


def _fitted(input: Tensor, axes: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """Return input truncated or padded with zeros to the given lengths along axes."""
    shape, ends = input._layout.shape, {}
    for axis, length in zip(axes, lengths, strict=True):
        if length < shape[axis]:
            input = narrow(input, axis, 0, length)
        elif length > shape[axis]:
            ends[len(shape) + axis] = (0, length - shape[axis])
    return constant_pad(input, ends, 0.0) if ends else input


def _told(dim: Any) -> Any:
    """Return dim, the argument of a function along two axes.

    Raises  TypeError if dim is None, which only functions along all axes accept
    """
    if dim is None:
        raise TypeError("argument 'dim' must be tuple of ints, not NoneType: fftn takes all axes")
    return dim


def _listed(name: str, values: Any) -> tuple[int, ...]:
    """Return an argument that is an integer or a sequence of integers as a tuple.

    Raises  TypeError for anything else
    """
    given: Any = (
        (values,) if hasattr(values, "__index__") and values.__class__ is not bool else values
    )
    found = f"not {type(values).__name__}"
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        given = all_of(given)
        wrong = [place for place, one in enumerate(given) if not hasattr(one, "__index__")]
        if not wrong:
            return tuple([one.__index__() for one in given])
        kind = type(given[wrong[0]]).__name__
        found = f"but found element of type {kind} at pos {wrong[0]}"
    raise ArgumentError(f"argument '{name}' must be tuple of ints, {found}")


def _axes(input: Tensor, s: Any, dim: Sequence[int] | None) -> tuple[tuple[int, ...], list[int]]:
    """Return the axes to transform, counted from the end, and their lengths."""
    shape = input._layout.shape
    axes = tuple(range(-len(shape), 0))
    if dim is not None:
        dim = _listed("dim", dim)
        axes = tuple([_axis(one, len(shape)) for one in dim])
        if len(set(axes)) != len(axes):
            raise ShapeError(f"FFT dims must be unique: got {short_repr(dim)}")
    if s is None:
        lengths = [shape[axis] for axis in axes]
    else:
        given = _listed("s", s)
        if dim is None:
            if len(given) > len(shape):
                raise ShapeError(
                    f"Got shape with {len(given)} values but input tensor only has {len(shape)} "
                    "dimensions."
                )
            axes = axes[len(shape) - len(given) :]
        elif len(given) != len(axes):
            raise ShapeError(
                "When given, dim and shape arguments must have the same length: got dim "
                f"{short_repr(dim)} and s {given}"
            )
        lengths = [shape[axis] if n == -1 else n for axis, n in zip(axes, given, strict=True)]
    for n in lengths:
        _require_points(n)
    return axes, lengths


def _some_axes(
    name: str, input: Tensor, s: Sequence[int] | None, dim: Sequence[int] | None
) -> tuple[tuple[int, ...], list[int]]:
    axes, lengths = _axes(input, s, dim)
    if not axes:
        raise ShapeError(f"{name} must transform at least one axis")
    return axes, lengths


def _half_of(
    name: str, input: Tensor, s: Any, dim: Sequence[int] | None
) -> tuple[Tensor, tuple[int, ...], int]:
    """Return three values: input as a half spectrum; the axes of the transform; and the length of
    the full spectrum along the last of these axes.
    """
    input = computable(input, is_complex=True)
    axes, lengths = _some_axes(name, input, s, dim)
    last = -1 if s is None else _listed("s", s)[-1]
    n = 2 * (input._layout.shape[axes[-1]] - 1) if last == -1 else lengths[-1]
    _require_points(n)
    lengths[-1] = n // 2 + 1
    return _fitted(input, axes, lengths), axes, n


# ---- Frequencies and their order ----------------------------------------------------------------


@composite(homes="fft")
@fills_out
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return the frequencies of the n results of fft, for samples at distance d. 0 and the positive
    frequencies come first, then the negative frequencies.
    """
    places = np.arange(_length("fftfreq", n, dtype))
    places[(n + 1) // 2 :] -= n
    return finish(_frequencies(places, n * d, dtype), device, requires_grad, layout, pin_memory)


@composite(homes="fft")
@fills_out
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return the frequencies of the n // 2 + 1 results of rfft, for n samples at distance d."""
    places = np.arange(_length("rfftfreq", n, dtype) // 2 + 1)
    return finish(_frequencies(places, n * d, dtype), device, requires_grad, layout, pin_memory)


def _length(name: str, n: int, dtype: DType | None) -> int:
    wanted = dtype_or_default(dtype)
    if not wanted.may_have_gradient:
        raise DTypeError(f"{name} requires a floating point or complex dtype, got {wanted!r}")
    if wanted.is_complex:
        raise NoKernelError(f'"arange_cpu" not implemented for {WORDS[wanted]!r}: {name} is real')
    if n < 0:
        raise ShapeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    require_countable(n)
    return n


def _frequencies(places: Any, span: float, dtype: DType | None) -> Any:
    wanted = dtype_or_default(dtype)
    scale = 1.0 / span if span else float("inf")
    with np.errstate(invalid="ignore"):
        return rounded(places.astype(wanted.computes_in.numpy) * scale, wanted)


@composite(homes="fft")
def fftshift(input: Tensor, dim: Axes = None) -> Tensor:
    """Return input, rolled so that index 0 moves to the middle along dim, by default all axes."""
    return _shifted(input, dim, lambda n: n // 2)


@composite(homes="fft")
def ifftshift(input: Tensor, dim: Axes = None) -> Tensor:
    """Return the inverse of fftshift."""
    return _shifted(input, dim, lambda n: (n + 1) // 2)


def _shifted(input: Tensor, dim: Any, by: Callable[..., Any]) -> Tensor:
    shape = input._layout.shape
    dims = (
        range(-len(shape), 0)
        if dim is None
        else [_axis(one, len(shape)) for one in _listed("dim", dim)]
    )
    if not dims:
        raise ShapeError("`shifts` required: there is no axis along which to move")
    by_axis = tuple([by(shape[axis]) for axis in dims])
    return roll(input, by_axis, tuple(dims))
