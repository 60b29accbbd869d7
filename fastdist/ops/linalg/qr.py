"""QR decompositions, and products of Householder reflections.

The derivatives follow PyTorch's torch/csrc/autograd/FunctionsManual.cpp (linalg_qr_*). A
product of reflections is computed as I - V @ T @ V.H (Schreiber and Van Loan 1989, "A
storage-efficient WY representation for products of Householder transformations"). Autograd
differentiates this formula.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import ShapeError
from ...dispatch.composite import composite
from ...dispatch.structured import Plan, structured
from ...tensor.tensor import Tensor
from .. import return_types
from ..create.ranges import eye
from ..pointwise.complex_numbers import real_part
from ..shape.joining import cat
from .cholesky import triangular
from .matrix_checks import require_computable, require_matrix


@structured(
    "linalg.dense.qr",
    several=True,
    homes="nowhere",
    batch="last axes",
    known_as="linalg_qr",
    takes_complex=True,
)
def qr_parts(input: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    """Return Q and R; for mode "r", Q is empty."""


@qr_parts.plan
def _(input: Tensor, mode: str) -> Plan:
    *batch, m, n = input._layout.shape
    dtype = input._layout.dtype
    require_computable("linalg.qr", "geqrf_cpu", input, takes_complex=True)
    k = m if mode == "complete" else min(m, n)
    q = (0,) if mode == "r" else (*batch, m, k)
    return Plan(q, dtype, (mode,), extra_outputs=(((*batch, k, n), dtype),))


def _require_derivable(input: Tensor, mode: str) -> None:
    m, n = input._layout.shape[-2:]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
            "use linalg.qr(A, mode='reduced') if you are going to require gradients."
        )
    if mode == "complete" and m > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
        )


@qr_parts.vjp("input")
def _(grads: tuple[Tensor | None, ...], input: Tensor, outs: tuple[Tensor, ...], mode: str) -> Any:
    _require_derivable(input, mode)
    (by_q, by_r), (q, r) = grads, outs
    if by_q is None and by_r is None:
        return None
    m, n = input._layout.shape[-2:]
    rest = None
    if m < n:
        # The first m columns of a wide matrix determine Q and the first m columns of R.
        right, r = r.narrow(-1, m, n - m), r.narrow(-1, 0, m)
        if by_r is not None:
            by_right, by_r = by_r.narrow(-1, m, n - m), by_r.narrow(-1, 0, m)
            through = q @ (right @ by_right.mH)
            by_q, rest = through if by_q is None else by_q + through, q @ by_right
    met = by_r @ r.mH if by_r is not None else None
    if by_q is not None:
        through = q.mH @ by_q
        met = -through if met is None else met - through
    assert met is not None
    above = met.triu()
    found = q @ (above + above.mH - real_part(above.diagonal(dim1=-2, dim2=-1)).diag_embed())
    if by_q is not None:
        found = found + by_q
    found = triangular(r, found.mH, True, False).mH
    if m < n:
        more = found.new_zeros(()).expand(*found.shape[:-1], n - m) if rest is None else rest
        found = cat([found, more], -1)
    return found


@qr_parts.jvp
def _(input_t: Tensor, input: Tensor, outs: tuple[Tensor, ...], mode: str) -> Any:
    _require_derivable(input, mode)
    q, r = outs
    m, n = input._layout.shape[-2:]
    square, first = r.narrow(-1, 0, min(m, n)), input_t.narrow(-1, 0, min(m, n))
    scaled = triangular(square.mT, first.mT, False, False).mT
    met = q.mH @ scaled
    below = met.tril(-1)
    upper = met - below + below.mH
    if upper._layout.dtype.is_complex:
        # The diagonal of R is real, and so is the diagonal of its tangent.
        diagonal = upper.diagonal(dim1=-2, dim2=-1)
        upper = upper - (diagonal - real_part(diagonal)).diag_embed()
    by_q, by_r = scaled - q @ upper, upper @ square
    if m < n:
        right = q @ r.narrow(-1, m, n - m)
        more = by_q.mH @ right + q.mH @ input_t.narrow(-1, m, n - m)
        by_r = cat([by_r, more], -1)
    return by_q, by_r


@composite(name="qr", homes="linalg", out="same")
def linalg_qr(A: Tensor, mode: str = "reduced") -> return_types.linalg_qr:
    """Return (Q, R) with A = Q @ R, where Q has orthonormal columns and R is upper triangular.

    Shape   (..., m, n) -> (..., m, k), (..., k, n), where k is min(m, n), or m for mode "complete".
            For mode "r", Q is empty
    """
    if mode not in ("reduced", "r", "complete"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )
    require_matrix("linalg.qr", A)
    return return_types.linalg_qr(*qr_parts(A, mode))


@composite(out="same")
def qr(input: Tensor, some: bool = True) -> return_types.qr:
    """Return (Q, R); replaced by linalg.qr."""
    return return_types.qr(*linalg_qr(input, "reduced" if some else "complete"))


@structured(
    "linalg.dense.reflectors",
    homes="nowhere",
    batch="last axes",
    known_as="geqrf",
    takes_complex=True,
    differentiable=False,
)
def reflectors(input: Tensor) -> tuple[Tensor, Tensor]:
    """Return R with the Householder vectors of Q below R's diagonal, and their scales tau."""


@reflectors.plan
def _(input: Tensor) -> Plan:
    shape, dtype = input._layout.shape, input._layout.dtype
    require_computable("geqrf", "geqrf_cpu", input, takes_complex=True)
    more = (((*shape[:-2], min(shape[-2:])), dtype),)
    return Plan(shape, dtype, extra_outputs=more)


@composite(out="cast")
def geqrf(input: Tensor) -> return_types.geqrf:
    """Return (a, tau), the arguments of householder_product. a holds R and, below R's diagonal, the
    Householder vectors; tau holds the scales of the reflections.

    Note    this function has no derivatives, as in PyTorch
    """
    require_matrix("geqrf", input)
    return return_types.geqrf(*reflectors(input))


def _reflections(name: str, A: Tensor, tau: Tensor) -> tuple[Any, Any]:
    """Return V and T @ V.H, where I - V @ T @ V.H is the product of the reflections."""
    shape, scales = A._layout.shape, tau._layout.shape
    if len(shape) < 2:
        raise ShapeError(f"{name}: input must have at least 2 dimensions.")
    if shape[-2] < shape[-1] and not name.endswith("ormqr"):
        raise ShapeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if scales[:-1] != shape[:-2]:
        raise ShapeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{list(scales[:-1])}"
        )
    if not scales or min(shape[-2:]) < scales[-1]:
        raise ShapeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    require_computable(name, "orgqr_cpu", A, takes_complex=True)
    count = scales[-1]
    vectors: Any = A.narrow(-1, 0, count).tril(-1)
    vectors = vectors + eye(shape[-2], count, dtype=A.dtype, device=A.device)
    # The inverse of T has 1 / tau on its diagonal, and elements of V.H @ V above its diagonal. Row
    # i of this inverse is multiplied by tau[i], so that a reflection with scale 0, which is the
    # identity, causes no division by 0.
    common = tau.unsqueeze(-1) * (vectors.mH @ vectors)
    return vectors, triangular(common, tau.unsqueeze(-1) * vectors.mH, True, True)


@composite(homes="linalg", out="cast")
def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """Return the first n columns of the product of the reflections I - tau[i] * v[i] @ v[i].H.
    Vector v[i] equals column i of input below the diagonal; it is 1 on the diagonal and 0 above.

    Shape   (..., m, n), (..., k) -> (..., m, n), k <= n <= m
    """
    vectors, turned = _reflections("torch.linalg.householder_product", input, tau)
    m, n = input._layout.shape[-2:]
    return eye(m, n, dtype=input.dtype, device=input.device) - vectors @ turned.narrow(-1, 0, n)  # type: ignore[no-any-return]


@composite(out="same")
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """Return the first n columns of a product of reflections; an alias of
    linalg.householder_product.
    """
    return householder_product(input, input2)


@composite(out="same", node="ormqr")
def ormqr(
    input: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """Return Q @ input3, or input3 @ Q if `left` is false. If `transpose` is true, Q.H replaces Q.
    Q has all m columns of the product of the reflections; see linalg.householder_product.

    Shape   (..., m, n), (..., n), (..., m, k) -> (..., m, k)
    """
    vectors, turned = _reflections("torch.ormqr", input, input2)
    rows = input._layout.shape[-2]
    if len(input3._layout.shape) < 2 or input3._layout.shape[-2 if left else -1] != rows:
        raise ShapeError(
            f"torch.ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2], got "
            f"{input3._layout.shape} for {input._layout.shape}"
        )
    given: Any = input3
    if left is transpose:
        # The result is Q.H @ input3, or input3 @ Q.
        vectors, turned = turned.mH, vectors.mH
    if not left:
        return given - (given @ turned.mH) @ vectors.mH  # type: ignore[no-any-return]
    return given - vectors @ (turned @ given)  # type: ignore[no-any-return]
