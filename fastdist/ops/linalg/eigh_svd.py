"""Eigenvalues of symmetric matrices, and singular values.

The derivatives follow PyTorch's torch/csrc/autograd/FunctionsManual.cpp (linalg_eig_backward,
svd_*). Derivatives of eigenvectors and singular vectors grow without bound as eigenvalues or
singular values approach each other; derivatives of eigenvalues and singular values do not.
"""

from __future__ import annotations

import math
from typing import Any

from ...core.dtypes import int32, real_of
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.structured import Plan, structured
from ...dispatch.tangents import is_differentiated
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor
from .. import return_types
from ..create.creation import zeros, zeros_like
from ..create.ranges import eye
from ..pointwise.complex_numbers import complex_of, imaginary_part, real_part
from ..shape.joining import cat
from .matrix_checks import require_computable, require_computed, require_matrix, require_square


@structured(
    "linalg.dense.eigh",
    several=True,
    homes="nowhere",
    batch="last axes",
    known_as="linalg_eigh",
    takes_complex=True,
)
def eigh_parts(input: Tensor, upper: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return eigenvalues in ascending order, eigenvectors as columns, and for each matrix
    whether the algorithm failed.
    """


@eigh_parts.plan
def _(input: Tensor, upper: bool) -> Plan:
    shape, dtype = input._layout.shape, input._layout.dtype
    require_computable("linalg.eigh", "linalg_eigh_cpu", input, takes_complex=True)
    more = ((shape, dtype), (shape[:-2], int32))
    return Plan(shape[:-1], real_of(dtype), (upper,), extra_outputs=more)


def differences(values: Tensor) -> Any:
    """Return values[j] - values[i] at [i, j], infinite on the diagonal."""
    n = values._layout.shape[-1]
    apart = values.unsqueeze(-2) - values.unsqueeze(-1)
    # The diagonal is filled with infinity, so that numbers divided by the diagonal are exactly 0,
    # and their derivatives as well.
    return apart.masked_fill(eye(n, device=values.device).bool(), math.inf)


@eigh_parts.vjp("input")
def _(grads: tuple[Tensor | None, ...], outs: tuple[Tensor, ...]) -> Any:
    by_values, by_vectors, _ = grads
    values, vectors, _ = outs
    if by_vectors is None:
        if by_values is None:
            return None
        return (vectors * by_values.unsqueeze(-2)) @ vectors.mH
    turned = vectors.mH @ by_vectors
    if turned._layout.dtype.is_complex:
        require_no_phase(turned.detach().diagonal(dim1=-2, dim2=-1).imag, "linalg_eigh_backward")
    # Only the part of the gradient that rotates the eigenvectors is used. The rest would make the
    # gradient unsymmetric: a step along such a gradient would change one triangle, which is the
    # only one that is read, twice as much as the other triangle.
    met = (turned - turned.mH) / (2 * differences(values))
    if by_values is not None:
        met = met + by_values.diag_embed()
    return vectors @ met @ vectors.mH


def require_no_phase(turned: Tensor, name: str) -> None:
    """Raise RuntimeError for a gradient that depends on the phases of eigenvectors; turned holds
    the gradients along the phases.

    Note    waits for the device
    """
    if bool((turned.abs() > 1e-2).any()):
        raise RuntimeError(
            f"{name}: The eigenvectors in the complex case are specified up to multiplication by "
            "e^{i phi}. The specified loss function depends on this quantity, so it is "
            "ill-defined: use a quantity that does not, such as abs() of the vectors."
        )


@eigh_parts.jvp
def _(input_t: Tensor, outs: tuple[Tensor, ...]) -> Any:
    values, vectors, _ = outs
    met = vectors.mH @ input_t @ vectors
    return met.diagonal(dim1=-2, dim2=-1).real, vectors @ (met / differences(values)), None


@structured(
    "linalg.dense.eigenvalues",
    homes="nowhere",
    batch="last axes",
    known_as="linalg_eigvalsh",
    takes_complex=True,
    differentiable=False,
)
def eigenvalues(input: Tensor, upper: bool) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues alone, in less time than eigh_parts; this op has no derivatives."""


@eigenvalues.plan
def _(input: Tensor, upper: bool) -> Plan:
    shape = input._layout.shape
    require_computable("linalg.eigh", "linalg_eigh_cpu", input, takes_complex=True)
    dtype = real_of(input._layout.dtype)
    return Plan(shape[:-1], dtype, (upper,), extra_outputs=((shape[:-2], int32),))


_NOT_FOUND = (
    "The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
    "repeated eigenvalues (error code: {})."
)


def _is_upper(name: str, A: Tensor, UPLO: str) -> bool:
    require_square(name, A)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper() == "U"


@composite(homes="linalg", out="same")
def eigh(input: Tensor, UPLO: str = "L") -> return_types.linalg_eigh:
    """Return (eigenvalues, eigenvectors) of symmetric or Hermitian matrices. Only the lower ("L")
    or the upper ("U") triangle is read. Eigenvalues ascend; eigenvectors are columns.

    Shape   (..., n, n) -> (..., n), (..., n, n)
    Raises  LinAlgError if the algorithm fails, for example for NaN
    Note    LAPACK chooses the sign or phase of each vector; gradients must not depend on it
    """
    values, vectors, info = eigh_parts(input, _is_upper("linalg.eigh", input, UPLO))
    require_computed("linalg.eigh", info, _NOT_FOUND)
    return return_types.linalg_eigh(values, vectors)


@composite(homes="linalg", out="same")
def eigvalsh(input: Tensor, UPLO: str = "L") -> Tensor:
    """Return the eigenvalues of symmetric matrices, in ascending order; see eigh.

    Raises  LinAlgError if the algorithm fails, for example for NaN
    """
    upper = _is_upper("linalg.eigvalsh", input, UPLO)
    op: Any = eigh_parts if is_differentiated(input) else eigenvalues
    values, *_, info = op(input, upper)
    require_computed("linalg.eigh", info, _NOT_FOUND)
    return values  # type: ignore[no-any-return]


@structured(
    "linalg.dense.svd",
    several=True,
    homes="nowhere",
    batch="last axes",
    known_as="linalg_svd",
    takes_complex=True,
)
def svd_parts(input: Tensor, full_matrices: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return U, S, Vh, and for each matrix whether the algorithm failed."""


@svd_parts.plan
def _(input: Tensor, full_matrices: bool) -> Plan:
    shape, dtype = input._layout.shape, input._layout.dtype
    require_computable("linalg.svd", "linalg_svd_cpu", input, takes_complex=True)
    *batch, m, n = shape
    k = min(m, n)
    rows, columns = (m, n) if full_matrices else (k, k)
    more = (((*batch, k), real_of(dtype)), ((*batch, columns, n), dtype), (tuple(batch), int32))
    return Plan((*batch, m, rows), dtype, (bool(full_matrices),), extra_outputs=more)


def _reduced(outs: tuple[Tensor, ...]) -> tuple[Any, Any, Any]:
    """Return U, S and Vh in the shapes of full_matrices=False."""
    u, values, right = outs[:3]
    k = values._layout.shape[-1]
    if u._layout.shape[-1] != k:
        u = u.narrow(-1, 0, k)
    return u, values, right if right._layout.shape[-2] == k else right.narrow(-2, 0, k)


def _skewed(x: Tensor) -> Any:
    return x - x.mH


@svd_parts.vjp("input")
def _(grads: tuple[Tensor | None, ...], input_layout: Layout, outs: tuple[Tensor, ...]) -> Any:
    u, values, right = _reduced(outs)
    by_u, by_values, by_right, _ = grads
    *_, m, n = input_layout.shape
    k = min(m, n)
    met = turned = turned_right = None
    if by_u is None and by_right is None:
        # This formula has no division, so equal singular values are allowed.
        return None if by_values is None else (u * by_values.unsqueeze(-2)) @ right
    apart = differences(values * values)
    if by_u is not None:
        by_u = by_u.narrow(-1, 0, k)
        turned = u.mH @ by_u
        met = _skewed(turned) / apart * values.unsqueeze(-2)
    if by_right is not None:
        by_right = by_right.narrow(-2, 0, k)
        turned_right = right @ by_right.mH
        more = values.unsqueeze(-1) * (_skewed(turned_right) / apart)
        met = more if met is None else met + more
    assert met is not None
    if met._layout.dtype.is_complex:
        met = met + _by_phases(turned, turned_right, values).diag_embed()
    if by_values is not None:
        met = met + by_values.diag_embed()
    found = u @ met @ right
    if m > k and by_u is not None:
        outside = by_u / values.unsqueeze(-2)
        found = found + (outside - u @ (u.mH @ outside)) @ right
    if n > k and by_right is not None:
        outside = by_right / values.unsqueeze(-1)
        found = found + u @ (outside - (outside @ right.mH) @ right)
    return found


def _by_phases(turned: Tensor | None, turned_right: Tensor | None, values: Tensor) -> Any:
    """Return the part of the gradient along the phases of pairs of singular vectors.

    Raises  RuntimeError for gradients that depend on these phases, because LAPACK chooses them
    Note    waits for the device
    """
    moved = [
        None if one is None else imaginary_part(one.diagonal(dim1=-2, dim2=-1))
        for one in (turned, turned_right)
    ]
    by_left, by_right = [one if one is not None else values.new_zeros(()) for one in moved]
    if bool(((by_left + by_right).detach().abs() > 1e-2).any()):
        raise RuntimeError(
            "svd_backward: The singular vectors in the complex case are specified up to "
            "multiplication by e^{i phi}. The specified loss function depends on this phase "
            "term, making it ill-defined: use a quantity that does not, such as abs() of the "
            "vectors."
        )
    turn = (by_left - by_right) / (2 * values)
    return complex_of(zeros_like(turn), turn)


@svd_parts.jvp
def _(input_t: Tensor, input: Tensor, outs: tuple[Tensor, ...], full_matrices: bool) -> Any:
    u, values, right = _reduced(outs)
    *batch, m, n = input._layout.shape
    k = min(m, n)
    apart = differences(values * values)
    met = u.mH @ input_t @ right.mH
    scaled, turned = met * values.unsqueeze(-2), values.unsqueeze(-1) * met
    by_u = u @ ((scaled + scaled.mH) / apart)
    by_right = right.mH @ ((turned + turned.mH) / apart)
    if met._layout.dtype.is_complex:
        turn = imaginary_part(met.diagonal(dim1=-2, dim2=-1)) / (2 * values)
        turn = complex_of(zeros_like(turn), turn).unsqueeze(-2)
        by_u, by_right = by_u + u * turn, by_right - right.mH * turn
    if m > k:
        outside = input_t @ right.mH / values.unsqueeze(-2)
        by_u = by_u + outside - u @ (u.mH @ outside)
    if n > k:
        outside = input_t.mH @ u / values.unsqueeze(-2)
        by_right = by_right + outside - right.mH @ (right @ outside)
    if full_matrices:
        # The columns that full_matrices adds are arbitrary, so their tangents are 0.
        kind: Any = {"dtype": input.dtype, "device": input.device}
        by_u = cat([by_u, zeros((*batch, m, m - k), **kind)], -1)
        by_right = cat([by_right, zeros((*batch, n, n - k), **kind)], -1)
    return by_u, real_part(met.diagonal(dim1=-2, dim2=-1)), by_right.mH, None


@structured(
    "linalg.dense.singular_values",
    homes="nowhere",
    batch="last axes",
    known_as="linalg_svdvals",
    takes_complex=True,
    differentiable=False,
)
def singular_values(input: Tensor) -> tuple[Tensor, Tensor]:
    """Return the singular values alone, in less time than svd_parts; this op has no derivatives."""


@singular_values.plan
def _(input: Tensor) -> Plan:
    *batch, m, n = input._layout.shape
    require_computable("linalg.svd", "linalg_svd_cpu", input, takes_complex=True)
    more = ((tuple(batch), int32),)
    return Plan((*batch, min(m, n)), real_of(input._layout.dtype), extra_outputs=more)


_NOT_FINITE = (
    "The algorithm failed to converge because the input matrix contained non-finite values."
)


def _require_no_driver(name: str, driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(
            f"torch.linalg.{name}: keyword argument `driver=` is only supported on CUDA inputs "
            f"with cuSOLVER backend; got {short_repr(driver)}, leave it out"
        )


def _svd(A: Tensor, full_matrices: bool) -> tuple[Any, Any, Any]:
    require_matrix("linalg.svd", A)
    u, values, right, info = svd_parts(A, full_matrices)
    require_computed("linalg.svd", info, _NOT_FINITE)
    return u, values, right


def values_of(A: Tensor) -> Any:
    """Return the singular values of A, in descending order."""
    require_matrix("linalg.svd", A)
    if is_differentiated(A):
        return _svd(A, False)[1]
    values, info = singular_values(A)
    require_computed("linalg.svd", info, _NOT_FINITE)
    return values


@composite(name="svd", homes="linalg", out="same")
def linalg_svd(
    A: Tensor, full_matrices: bool = True, *, driver: str | None = None
) -> return_types.linalg_svd:
    """Return (U, S, Vh) with A = U @ diag(S) @ Vh, and singular values S in descending order.

    Shape   (..., m, n) -> (..., m, m), (..., k), (..., n, n) for k = min(m, n);
            (..., m, k), (..., k), (..., k, n) for full_matrices=False
    Raises  LinAlgError if the algorithm fails, for example for NaN
    Note    LAPACK chooses the signs of vectors; gradients must not depend on these signs

    Args:
        A: A matrix, or a batch of matrices.
        full_matrices: Whether U and Vh are square.
        driver: Must be None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.linalg.svd(torch.diag(torch.tensor([3.0, 2.0]))).S
        tensor([3., 2.])
    """
    _require_no_driver("svd", driver)
    return return_types.linalg_svd(*_svd(A, full_matrices))


@composite(homes="linalg", out="same")
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Return the singular values, in descending order.

    Shape   (..., m, n) -> (..., min(m, n))
    Raises  LinAlgError if the algorithm fails, for example for NaN
    """
    _require_no_driver("svdvals", driver)
    return values_of(A)  # type: ignore[no-any-return]


@composite(out="same")
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> return_types.svd:
    """Return (U, S, V), an older form of linalg.svd. Without compute_uv, U and V are zeros.

    Args:
        input: A floating-point or complex tensor of matrices, of shape (..., n, m).
        some: Whether U and V have only as many columns as there are singular values.
        compute_uv: Whether to compute U and V.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.svd(torch.diag(torch.tensor([3.0, 2.0]))).S
        tensor([3., 2.])
    """
    if compute_uv:
        u, values, right = _svd(input, not some)
        return return_types.svd(u, values, right.mH)
    *batch, m, n = require_matrix("linalg.svd", input)
    kind: Any = {"dtype": input.dtype, "device": input.device}
    nothing = [zeros((*batch, size, size), **kind) for size in (m, n)]
    return return_types.svd(nothing[0], values_of(input), nothing[1])
