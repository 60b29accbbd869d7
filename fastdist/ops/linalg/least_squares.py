"""What singular values decide: pseudoinverses, least squares, ranks, matrices of low rank.

Derivatives are those of PyTorch, torch/csrc/autograd/FunctionsManual.cpp: pinv_*; by Golub and
Pereyra 1973, "The differentiation of pseudo-inverses and nonlinear least squares problems whose
variables separate". They hold where the rank does not change.
"""

from __future__ import annotations

from typing import Any

from ...core.dtypes import (
    WORDS,
    complex64,
    complex128,
    float32,
    float64,
    float_limits,
    int32,
    int64,
    real_of,
)
from ...core.errors import DTypeError, ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.op import OPS
from ...dispatch.structured import Plan, structured
from ...listeners.batched_tensor import of_all_calls
from ...listeners.batching import whole
from ...tensor.tensor import Tensor
from .. import return_types
from ..create.creation import empty, full
from ..create.random import randn
from ..pointwise.complex_numbers import real_part
from ..reduce.norms import sized
from .eigh_svd import _NOT_FINITE, eigvalsh, linalg_svd, values_of
from .matrix_checks import require_computable, require_computed, require_matrix, require_square
from .qr import qr_parts


@structured(
    "linalg.pseudo_inverse", fresh=True, homes="nowhere", known_as="linalg_pinv", takes_complex=True
)
def pseudo_inverse(input: Tensor, atol: Tensor, rtol: Tensor) -> Tensor:
    """Return the pseudoinverse, the singular values, and whether they were not found."""


@pseudo_inverse.plan
def _(input: Tensor, atol: Tensor, rtol: Tensor) -> Plan:
    *batch, m, n = input.facts.shape
    dtype = input.facts.dtype
    more = (((*batch, min(m, n)), real_of(dtype)), (tuple(batch), int32))
    return Plan((*batch, n, m), dtype, compute=dtype, extra_outputs=more)


@pseudo_inverse.batches
def _(op: Any, operands: Any, attributes: Any, level: int) -> Any:
    axes = len(operands[0].facts.shape) - 2
    value, *tolerances = whole(operands, level)
    given = []
    for one in tolerances:
        size, *rest = one.facts.shape
        given.append(one.reshape(size, *(1,) * (axes - len(rest)), *rest))
    return op.general((value, *given), attributes)


@pseudo_inverse.vjp("input")
def _(g: Any, input: Any, out: Any) -> Any:
    left, right = out @ out.mH, out.mH @ out
    found = -(out.mH @ g @ out.mH)
    found = found + g.mH @ left - input @ (out @ g.mH @ left)
    turned = right @ g.mH
    return found + turned - turned @ out @ input


@pseudo_inverse.jvp
def _(input: Any, input_t: Any, out: Any) -> Any:
    left, right = out @ out.mH, out.mH @ out
    turned = left @ input_t.mH
    found = -(out @ input_t @ out) + turned - turned @ input @ out
    turned = input_t.mH @ right
    return found + turned - out @ (input @ turned)


def _are_all(rank: Tensor, n: int) -> bool:
    return bool((of_all_calls(rank) == n).all())


def _tolerances(input: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Return atol and rtol as tensors; rtol is that of the dtype unless one of them is given."""
    if rtol is None:
        given = atol is not None and (isinstance(atol, Tensor) or atol > 0)
        eps = float(float_limits(real_of(input.facts.dtype)).eps)
        rtol = 0.0 if given and not isinstance(atol, Tensor) else eps * max(input.facts.shape[-2:])
        if isinstance(atol, Tensor):
            rtol = OPS["where"].public(atol > 0, 0.0, rtol)
    kind: Any = {"dtype": real_of(input.dtype), "device": input.device}
    one = [
        limit if isinstance(limit, Tensor) else full((), limit or 0.0, **kind)
        for limit in (atol, rtol)
    ]
    return one[0], one[1]


_TAKEN = (float32, float64, complex64, complex128)


def _by_triangle(input: Any) -> Any:
    """Return the Hermitian matrix of which the lower triangle is input's, with the derivative of
    input itself: that of pinv is by every entry, as in PyTorch.
    """
    given = input.detach()
    below = given.tril(-1)
    whole = below + below.mH + real_part(given.diagonal(dim1=-2, dim2=-1)).diag_embed()
    return input + (whole - input).detach()


def _pinv(input: Tensor, atol: Any, rtol: Any, hermitian: bool, rcond: Any) -> Tensor:
    shape, dtype = input.facts.shape, input.facts.dtype
    if len(shape) < 2 or dtype not in _TAKEN:
        raise DTypeError(
            f"linalg.pinv({WORDS[dtype]}{{{list(shape)}}}): expected a tensor "
            "with 2 or more dimensions of float, double, cfloat or cdouble types"
        )
    if hermitian:
        require_square("linalg.eigh", input)
        input = _by_triangle(input)
    limits = _tolerances(input, atol, rcond if rtol is None else rtol)
    found, _, info = pseudo_inverse.public(input, *[limit.to(real_of(dtype)) for limit in limits])
    require_computed("linalg.svd", info, _NOT_FINITE)
    return found  # type: ignore[no-any-return]


@composite(homes="linalg", out="cast")
def pinv(
    input: Tensor,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """Return the pseudoinverse; singular values not above the larger of atol (0) and rtol (the
    dtype's epsilon times the longer side; 0 with an atol) times the largest count as 0.

    Shape   (..., m, n) -> (..., n, m)
    Note    of a hermitian input the lower triangle is read; rcond is NumPy's word for rtol
    """
    return _pinv(input, atol, rtol, hermitian, rcond)


@composite(out="same")
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Return the pseudoinverse; see linalg.pinv, whose rtol is rcond."""
    return _pinv(input, None, rcond, False, None)


@composite(homes="linalg", out="cast")
def matrix_rank(
    input: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """Return how many singular values are above the larger of atol and rtol times the largest.

    Shape   (..., m, n) -> (...) of int64
    Note    defaults are those of linalg.pinv; tol is NumPy's word for atol
    """
    name = "torch.linalg.matrix_rank"
    require_matrix(name, input, "input")
    if input.facts.dtype not in _TAKEN:
        raise DTypeError("This function doesn't handle types other than float and double")
    given: Any = input.detach()
    values = eigvalsh(given).abs() if hermitian else values_of(given)
    return _rank(values, *_tolerances(input, tol if atol is None else atol, rtol))


def _rank(values: Any, atol: Any, rtol: Any) -> Tensor:
    if not values.facts.shape[-1]:
        return values.sum(-1).to(int64)  # type: ignore[no-any-return]
    limit = OPS["maximum"].public(atol, rtol * values.amax(-1))
    return (values > limit.unsqueeze(-1)).sum(-1)  # type: ignore[no-any-return]


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@composite(homes="linalg", out="cast", node="linalg_lstsq")
def lstsq(
    input: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> return_types.linalg_lstsq:
    """Return (solution, residuals, rank, singular_values): the shortest X by which input @ X is
    nearest to b, and the squared distances.

    Shape   (..., m, n), (..., m, k) -> (..., n, k), (..., k) or empty, (...), (..., min(m, n)) or
            empty; b may be a vector, or a batch of them
    Note    every driver goes by singular values; they differ in what they tell besides, as in
            PyTorch: "gelsy" (the default) no residuals, "gels" no rank, "gelsd" and "gelss" all.
            Residuals are there for m > n and full rank
    """
    name = "torch.linalg.lstsq"
    shape, right = require_matrix(name, input, "input"), b.facts.shape
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of ({', '.join(_DRIVERS)}), got "
            f"{short_repr(driver)}"
        )
    if not 0 <= len(shape) - len(right) <= 1:
        raise ShapeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - "
            f"other.dim()) <= 1, got {shape} and {right}"
        )
    is_vector = len(shape) - 1 == len(right)
    given: Any = b.unsqueeze(-1) if is_vector else b
    if shape[-2] != given.facts.shape[-2]:
        other = "other.size(-1)" if is_vector else "other.size(-2)"
        raise ShapeError(f"{name}: input.size(-2) should match {other}: {shape} and {right}")
    require_computable(name, "linalg_lstsq_cpu", input, takes_complex=True)
    if input.facts.dtype is not b.facts.dtype:
        raise DTypeError(f"{name}: Expected input and other to have the same dtype")
    limits = _tolerances(input, None, rcond)
    inverse, values, info = pseudo_inverse.public(input, *limits)
    require_computed("linalg.svd", info, _NOT_FINITE)
    solution = inverse @ given
    rank = _rank(values.detach(), *limits)
    nothing = empty(0, dtype=values.dtype, device=input.device)  # real of complex numbers, too
    residuals = nothing
    m, n = shape[-2:]
    if m > n and driver not in (None, "gelsy") and _are_all(rank, n):
        residuals = sized(input @ solution - given).square().sum(-2)
    return return_types.linalg_lstsq(
        solution.squeeze(-1) if is_vector else solution,
        residuals,
        nothing.to(int64) if driver == "gels" else rank,
        values if driver in ("gelsd", "gelss") else nothing,
    )


def _basis(A: Any, q: int, niter: int) -> Any:
    """Return q orthonormal columns that nearly span what A does.

    Source  Halko, Martinsson and Tropp 2011, "Finding structure with randomness", algorithm 4.4
    """
    drawn = randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    basis = qr_parts.public(A @ drawn, "reduced")[0]
    for _ in range(niter):
        across = qr_parts.public(A.mH @ basis, "reduced")[0]
        basis = qr_parts.public(A @ across, "reduced")[0]
    return basis


@composite(homes="function", known_as="")
def svd_lowrank(
    A: Tensor, q: int = 6, niter: int = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (U, S, V) of which U @ diag(S) @ V.mH is near A, or A - M; q is somewhat above the
    rank, niter the number of iterations by which random directions become A's.

    Shape   (..., m, n) -> (..., m, q), (..., q), (..., n, q)
    Source  Halko, Martinsson and Tropp 2011, "Finding structure with randomness", algorithm 5.1
    """
    given: Any = A if M is None else A - M.expand(*A.facts.shape)
    m, n = require_matrix("svd_lowrank", given)[-2:]
    wide = m < n
    if wide:
        given = given.mH
    basis = _basis(given, q, niter)
    u, values, right = linalg_svd(basis.mH @ given, full_matrices=False)
    u, v = basis @ u, right.mH
    return (v, values, u) if wide else (u, values, v)


@composite(homes="function", known_as="")
def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (U, S, V) of the rows of A, less their mean if center; see svd_lowrank. Columns of V
    are the principal directions.

    Raises  ValueError for a q above the shorter side, or a negative niter
    """
    m, n = require_matrix("pca_lowrank", A)[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    given: Any = A - A.mean(-2, keepdim=True) if center else A
    return svd_lowrank(given, q, niter)
