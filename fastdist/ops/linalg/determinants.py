"""Determinants, and their logarithms.

The derivatives follow PyTorch's torch/csrc/autograd/FunctionsManual.cpp (linalg_det_*,
slogdet_*). For singular matrices, the derivatives are exact here, whereas PyTorch perturbs the
matrix slightly.
"""

from __future__ import annotations

import math
from typing import Any

from ...core.dtypes import real_of
from ...dispatch.composite import composite
from ...dispatch.structured import Plan, structured
from ...tensor.tensor import Tensor
from .. import return_types
from ..create.creation import ones, zeros_like
from ..create.ranges import eye
from ..pointwise.complex_numbers import complex_of, conjugate, imaginary_part, real_part
from ..pointwise.masked import where
from ..shape.joining import cat
from .eigh_svd import svd_parts
from .linear_systems import inverse_parts
from .matrix_checks import require_computable, require_square


@structured(
    "linalg.dense.determinant",
    fresh=True,
    homes="nowhere",
    batch="last axes",
    known_as="linalg_det",
    takes_complex=True,
)
def determinant(input: Tensor) -> Tensor:
    """Return the determinant of each matrix."""


@determinant.plan
def _(input: Tensor) -> Plan:
    require_computable("linalg.det", "lu_cpu", input, takes_complex=True)
    return Plan(input._layout.shape[:-2], input._layout.dtype)


def _cofactors(input: Tensor, out: Tensor) -> Any:
    """Return the derivative of the determinant: the determinant times the transposed inverse."""
    is_singular = out.detach() == 0
    if not bool(is_singular.any()):
        return out[..., None, None] * inverse_parts(input)[0].mT
    place = is_singular[..., None, None]
    one = eye(input._layout.shape[-1], dtype=input.dtype, device=input.device)
    regular = out[..., None, None] * inverse_parts(where(place, one, input))[0].mT
    return where(place, _cofactors_by_values(input), regular)


def _cofactors_by_values(input: Tensor) -> Any:
    """Return the cofactors by an SVD: each singular value is replaced by the product of
    all other singular values.
    """
    u, values, right, _ = svd_parts(input, False)
    edge = ones((*values.shape[:-1], 1), dtype=values.dtype, device=values.device)
    n = values.shape[-1]
    before = cat([edge, values.narrow(-1, 0, n - 1)], -1).cumprod(-1)
    after = cat([edge, values.flip(-1).narrow(-1, 0, n - 1)], -1).cumprod(-1).flip(-1)
    turned = determinant(u.detach()) * determinant(right.detach())
    if not turned._layout.dtype.is_complex:
        turned = turned.round()
    return (conjugate(u) * (before * after * turned.unsqueeze(-1)).unsqueeze(-2)) @ conjugate(right)


@determinant.vjp("input")
def _(g: Tensor, input: Tensor, out: Tensor) -> Any:
    return g[..., None, None] * conjugate(_cofactors(input, out))


@determinant.jvp
def _(input: Tensor, input_t: Tensor, out: Tensor) -> Any:
    return (_cofactors(input, out) * input_t).sum((-2, -1))


@composite(name="det", homes="linalg", out="same")
def linalg_det(A: Tensor) -> Tensor:
    """Return the determinant.

    Shape   (..., n, n) -> (...)
    """
    require_square("linalg.det", A)
    return determinant(A)


@composite()
def det(input: Tensor) -> Tensor:
    """Return the determinant; an alias of linalg.det."""
    return linalg_det(input)


@structured(
    "linalg.dense.log_determinant",
    several=True,
    homes="nowhere",
    batch="last axes",
    known_as="linalg_slogdet",
    takes_complex=True,
)
def log_determinant(input: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logarithm of the absolute value of the determinant, and its sign."""


@log_determinant.plan
def _(input: Tensor) -> Plan:
    shape, dtype = input._layout.shape[:-2], input._layout.dtype
    require_computable("linalg.slogdet", "lu_cpu", input, takes_complex=True)
    return Plan(shape, real_of(dtype), extra_outputs=((shape, dtype),))


@log_determinant.vjp("input")
def _(grads: tuple[Tensor | None, ...], input: Tensor, outs: tuple[Tensor, ...]) -> Any:
    g, by_sign = grads
    if by_sign is not None and input._layout.dtype.is_complex:
        # The gradient of a complex sign adds an imaginary part to the gradient of the logarithm. A
        # real sign is constant.
        turn = imaginary_part(conjugate(by_sign) * outs[1])
        g = complex_of(zeros_like(turn) if g is None else g, -turn)
    if g is None:
        return None
    return g[..., None, None] * inverse_parts(input)[0].mH


@log_determinant.jvp
def _(input: Tensor, input_t: Tensor, outs: tuple[Tensor, ...]) -> Any:
    moved = (inverse_parts(input)[0].mT * input_t).sum((-2, -1))
    if not moved._layout.dtype.is_complex:
        return moved, zeros_like(outs[1])
    return real_part(moved), outs[1] * (moved - real_part(moved))


def _slogdet(A: Tensor) -> tuple[Tensor, Tensor]:
    require_square("linalg.slogdet", A)
    size, sign = log_determinant(A)
    return sign, size


@composite(name="slogdet", homes="linalg", out="same")
def linalg_slogdet(A: Tensor) -> return_types.linalg_slogdet:
    """Return (sign, logabsdet). For a singular matrix, the sign is 0 and logabsdet is -inf.

    Shape   (..., n, n) -> (...), (...)
    """
    return return_types.linalg_slogdet(*_slogdet(A))


@composite(out="same")
def slogdet(input: Tensor) -> return_types.slogdet:
    """Return (sign, logabsdet); an alias of linalg.slogdet."""
    return return_types.slogdet(*_slogdet(input))


@composite()
def logdet(input: Tensor) -> Tensor:
    """Return the logarithm of the determinant: -inf if the determinant is 0, NaN if the determinant
    is negative. For complex matrices, the imaginary part of the logarithm is in (-pi, pi].
    """
    sign, size = _slogdet(input)
    if input._layout.dtype.is_complex:
        return sign.log() + size
    return where(sign == -1, math.nan, size)
