"""Discrete Fourier transforms: three ops, from which `fastdist.fft` builds its functions.

A transform of real numbers holds each of them twice, conjugated; `fft_r2c` keeps one half and
`fft_c2r` takes it. Transposed each is the other, but for what stands for its twin as well: that
counts twice in one, or half in the other. So the gradients of a half are transforms of halves.

Source  PyTorch, aten/src/ATen/native/SpectralOps.cpp, and fft_r2c_backward, fft_c2r_backward in
        torch/csrc/autograd/FunctionsManual.cpp, which pads the half in the place of halving it
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

# By what the transform of n numbers is divided, as PyTorch counts it: nothing, sqrt(n), n.
NOTHING, BY_ROOT_N, BY_N = range(3)
# NumPy's names of these norms, for a forward and for an inverse transform.
_FORWARD: Final = ("backward", "ortho", "forward")
_BACK: Final = ("forward", "ortho", "backward")

# In all three, dim are axes counted from the last one, so that a batch may lie before the others.


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
    """Return the transform of real numbers along dim: one half of the last of them, or all of it;
    doubled, what has a twin in the other half counts twice.
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
    """Return the real numbers of which input is one half of the transform along dim, last_dim_size
    of them along the last of these; halved, what has a twin in the other half counts half.
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
    """Return by what a norm of the user's divides a transform.

    Raises  RuntimeError for a word that is none
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
