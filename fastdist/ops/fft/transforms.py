"""Discrete Fourier transforms: three ops from which `fastdist.fft` composes its functions.

The spectrum of real numbers consists of pairs of conjugates. `fft_r2c` returns one half of the
spectrum, and `fft_c2r` takes one half. Each of these two ops is the adjoint of the other, except
for a factor of 2 for numbers whose conjugates are in the omitted half. Both have an option that
applies this factor, so that the gradients of half spectra are transforms of half spectra.

Source  PyTorch's aten/src/ATen/native/SpectralOps.cpp, and fft_r2c_backward and fft_c2r_backward in
        torch/csrc/autograd/FunctionsManual.cpp, which pad the half spectrum instead
"""

from __future__ import annotations

from typing import Any, Final

from ...core.dtypes import complex_of, real_of
from ...core.errors import ShapeError
from ...dispatch.structured import Plan, structured
from ...tensor.axes import Axes
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor
from ..pointwise.complex_numbers import real_part

# PyTorch's codes for the divisor of a transform of n numbers: 1, sqrt(n) or n.
NOTHING, BY_ROOT_N, BY_N = range(3)
# NumPy's names for these divisors, in this order, for a forward and for an inverse transform.
_FORWARD: Final = ("backward", "ortho", "forward")
_BACK: Final = ("forward", "ortho", "backward")

# In all three ops, dim holds axes counted from the end, so that batch axes may be added in front.


@structured(
    "fft.transforms.transform",
    linear=True,
    fresh=True,
    homes="nowhere",
    batch="last axes",
    known_as="_fft_c2c",
    takes_complex=True,
)
def fft_c2c(input: Tensor, dim: Axes, normalization: int, forward: bool) -> Tensor:
    """Return the transform of complex numbers along dim."""


@fft_c2c.plan
def _(input: Tensor, dim: tuple[int, ...], normalization: int, forward: bool) -> Plan:
    words = _FORWARD if forward else _BACK
    return Plan(input._layout.shape, input._layout.dtype, (dim, words[normalization], forward))


@fft_c2c.vjp("input")
def _(g: Tensor, dim: tuple[int, ...], normalization: int, forward: bool) -> Any:
    return fft_c2c(g, dim, normalization, not forward)


@structured(
    "fft.transforms.transform_real",
    linear=True,
    fresh=True,
    homes="nowhere",
    batch="last axes",
    known_as="_fft_r2c",
    takes_complex=True,
)
def fft_r2c(
    input: Tensor, dim: Axes, normalization: int, onesided: bool, doubled: bool = False
) -> Tensor:
    """Return the transform of real numbers along dim. If onesided, return only one half along the
    last axis in dim. If doubled, numbers whose conjugates are in the omitted half are doubled.
    """


@fft_r2c.plan
def _(
    input: Tensor, dim: tuple[int, ...], normalization: int, onesided: bool, doubled: bool
) -> Plan:
    shape, numbers = input._layout.shape, (dim, _FORWARD[normalization], onesided, doubled)
    if onesided:
        shape = _with_length(shape, dim[-1], shape[dim[-1]] // 2 + 1)
    return Plan(shape, complex_of(input._layout.dtype), numbers)


@fft_r2c.vjp("input")
def _(
    g: Tensor,
    input_layout: Layout,
    dim: tuple[int, ...],
    normalization: int,
    onesided: bool,
    doubled: bool,
) -> Any:
    if not onesided:
        return real_part(fft_c2c(g, dim, normalization, False)).contiguous()
    return fft_c2r(g, dim, normalization, input_layout.shape[dim[-1]], not doubled)


@structured(
    "fft.transforms.to_real",
    linear=True,
    fresh=True,
    homes="nowhere",
    batch="last axes",
    known_as="_fft_c2r",
    takes_complex=True,
)
def fft_c2r(
    input: Tensor, dim: Axes, normalization: int, last_dim_size: int, halved: bool = False
) -> Tensor:
    """Return the real numbers whose half spectrum along dim is input; last_dim_size is the length
    of the result along the last axis in dim. If halved, numbers of input whose conjugates are in
    the omitted half are halved.
    """


@fft_c2r.plan
def _(
    input: Tensor, dim: tuple[int, ...], normalization: int, last_dim_size: int, halved: bool
) -> Plan:
    shape = _with_length(input._layout.shape, dim[-1], last_dim_size)
    numbers = (dim, _BACK[normalization], last_dim_size, halved)
    return Plan(shape, real_of(input._layout.dtype), numbers)


@fft_c2r.vjp("input")
def _(g: Tensor, dim: tuple[int, ...], normalization: int, halved: bool) -> Any:
    return fft_r2c(g, dim, normalization, True, not halved)


def _with_length(shape: tuple[int, ...], axis: int, length: int) -> Any:
    axis += len(shape)
    return (*shape[:axis], length, *shape[axis + 1 :])


def divided_by(norm: str | None, forward: bool) -> int:
    """Return the code of the divisor of a transform, given the user's norm.

    Raises  RuntimeError for an unknown norm
    """
    if norm is None or norm == "backward":
        return NOTHING if forward else BY_N
    if norm == "forward":
        return BY_N if forward else NOTHING
    if norm != "ortho":
        raise ShapeError(
            f'Invalid normalization mode: "{norm}"; known: "forward", "backward", "ortho"'
        )
    return BY_ROOT_N
