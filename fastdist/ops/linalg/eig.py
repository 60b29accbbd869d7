"""Eigenvalues and eigenvectors of general square matrices, as complex numbers.

The derivatives follow PyTorch's torch/csrc/autograd/FunctionsManual.cpp (linalg_eig_backward,
linalg_eig_jvp). The derivatives grow without bound as eigenvalues approach each other.
"""

from __future__ import annotations

from typing import Any

from ...core.dtypes import complex_of, int32
from ...dispatch.composite import composite
from ...dispatch.structured import Plan, structured
from ...dispatch.tangents import is_differentiated
from ...tensor.tensor import Tensor
from .. import return_types
from ..pointwise.complex_numbers import conjugate, imaginary_part, real_part
from .eigh_svd import differences, require_no_phase
from .linear_systems import solve_parts
from .matrix_checks import require_computable, require_computed, require_square


@structured(
    "linalg.dense.eig",
    several=True,
    homes="nowhere",
    batch="last axes",
    known_as="linalg_eig",
    takes_complex=True,
)
def eig_parts(input: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return eigenvalues, eigenvectors as columns, and a flag of failure for each matrix."""


@eig_parts.plan
def _(input: Tensor) -> Plan:
    shape, dtype = input._layout.shape, complex_of(input._layout.dtype)
    require_computable("linalg.eig", "linalg_eig", input, takes_complex=True)
    return Plan(shape[:-1], dtype, extra_outputs=((shape, dtype), (shape[:-2], int32)))


@eig_parts.vjp("input")
def _(grads: tuple[Tensor | None, ...], outs: tuple[Tensor, ...]) -> Any:
    by_values, by_vectors, _ = grads
    values, vectors, _ = outs
    if by_vectors is None:
        if by_values is None:
            return None
        return solve_parts(vectors.mH, by_values.unsqueeze(-1) * vectors.mH)[0]
    turned = vectors.mH @ by_vectors
    along = turned.diagonal(dim1=-2, dim2=-1)
    require_no_phase(imaginary_part(along.detach()), "linalg_eig_backward")
    # Each eigenvector has length 1, so the part of its gradient along the eigenvector is removed.
    turned = turned - vectors.mH @ (vectors * real_part(along).unsqueeze(-2))
    met = turned / conjugate(differences(values))
    if by_values is not None:
        met = met + by_values.diag_embed()
    return solve_parts(vectors.mH, met @ vectors.mH)[0]


@eig_parts.jvp
def _(input_t: Tensor, outs: tuple[Tensor, ...]) -> Any:
    values, vectors, _ = outs
    met = solve_parts(vectors, input_t.to(vectors.dtype) @ vectors)[0]
    moved = vectors @ (met / differences(values))
    longer = real_part((vectors.mH @ moved).diagonal(dim1=-2, dim2=-1))
    return met.diagonal(dim1=-2, dim2=-1), moved - vectors * longer.unsqueeze(-2), None


@structured(
    "linalg.dense.eigvals",
    homes="nowhere",
    batch="last axes",
    known_as="linalg_eigvals",
    takes_complex=True,
    differentiable=False,
)
def eigvals_alone(input: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues alone, in less time than eig_parts; this op has no derivatives."""


@eigvals_alone.plan
def _(input: Tensor) -> Plan:
    shape = input._layout.shape
    require_computable("linalg.eigvals", "linalg_eig", input, takes_complex=True)
    return Plan(shape[:-1], complex_of(input._layout.dtype), extra_outputs=((shape[:-2], int32),))


_NOT_FOUND = "input tensor should not contain infs or NaNs, or the algorithm failed to converge."


@composite(homes="linalg", out="cast")
def eig(input: Tensor) -> return_types.linalg_eig:
    """Return (eigenvalues, eigenvectors) of square matrices, in no particular order. Eigenvectors
    are columns of length 1.

    Shape   (..., n, n) -> (..., n), (..., n, n)
    Dtype   float32 -> complex64, float64 -> complex128; complex -> the same
    Raises  LinAlgError if the algorithm fails, for example for NaN
    Note    LAPACK chooses the phase of each eigenvector; gradients must not depend on this phase
    """
    require_square("linalg.eig", input)
    values, vectors, info = eig_parts(input)
    require_computed("torch.linalg.eig", info, _NOT_FOUND)
    return return_types.linalg_eig(values, vectors)


@composite(homes="linalg", out="cast")
def eigvals(input: Tensor) -> Tensor:
    """Return the eigenvalues of square matrices, in no particular order; see eig.

    Raises  LinAlgError if the algorithm fails, for example for NaN
    """
    require_square("linalg.eigvals", input)
    op: Any = eig_parts if is_differentiated(input) else eigvals_alone
    values, *_, info = op(input)
    require_computed("torch.linalg.eigvals", info, _NOT_FOUND)
    return values  # type: ignore[no-any-return]
