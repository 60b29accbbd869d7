"""Triangular systems, and Cholesky factors.

The derivatives follow PyTorch's torch/csrc/autograd/FunctionsManual.cpp
(linalg_solve_triangular_*, cholesky_*). The batched formulas are in Giles 2008, "An extended
collection of matrix derivative results for forward and reverse mode algorithmic differentiation".
"""

from __future__ import annotations

from typing import Any

from ...core.dtypes import int32
from ...core.errors import ShapeError
from ...dispatch.composite import composite
from ...dispatch.structured import Plan, structured
from ...tensor.tensor import Tensor
from .. import return_types
from ..create.ranges import eye
from ..pointwise.complex_numbers import real_part
from .matrix_checks import (
    SINGULAR,
    batch_of,
    require_computable,
    require_computed,
    require_fitting,
    require_matrix,
    require_square,
)


@structured(
    "linalg.dense.solve_triangular",
    fresh=True,
    homes="nowhere",
    batch="last axes",
    known_as="linalg_solve_triangular",
    takes_complex=True,
)
def triangular(a: Tensor, b: Tensor, upper: bool, unitriangular: bool) -> Tensor:
    """Return X with a @ X = b for a triangular matrix a. The other triangle of a is not read; nor
    is the diagonal of a if unitriangular is true.
    """


@triangular.plan
def _(a: Tensor, b: Tensor, upper: bool, unitriangular: bool) -> Plan:
    name, (left, right) = "linalg.solve_triangular", (a._layout.shape, b._layout.shape)
    require_computable(name, "triangular_solve_cpu", a, takes_complex=True)
    shape = (*batch_of(name, left, right), *right[-2:])
    return Plan(shape, a._layout.dtype, (bool(upper), bool(unitriangular)), compute=a._layout.dtype)


def _triangle(matrix: Tensor, upper: bool, unitriangular: bool) -> Any:
    """Return the part of a triangular matrix that is read."""
    return matrix.triu(int(unitriangular)) if upper else matrix.tril(-int(unitriangular))


@triangular.vjp("a", "b")
def _(
    g: Tensor, a: Tensor, out: Tensor, upper: bool, unitriangular: bool, wanted: tuple[bool, ...]
) -> tuple[Any, Any]:
    by_b = triangular(a.mH, g, not upper, unitriangular)
    by_a = _triangle(-(by_b @ out.mH), upper, unitriangular) if wanted[0] else None
    return by_a, by_b


@triangular.jvp
def _(
    a: Tensor, a_t: Tensor | None, b_t: Tensor | None, out: Tensor, upper: bool, unitriangular: bool
) -> Any:
    moved = None if a_t is None else _triangle(a_t, upper, unitriangular) @ out
    right: Any = b_t if moved is None else -moved if b_t is None else b_t - moved
    return triangular(a, right, upper, unitriangular)


@composite(homes="linalg", out="same")
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Return X with A @ X = B for a triangular A, or with X @ A = B if `left` is false. The other
    triangle of A is not read.

    Shape   (..., n, n), (..., n, k) -> (..., n, k); batch axes broadcast
    Note    a 0 on the diagonal gives inf and NaN, and raises no error
    """
    name = "linalg.solve_triangular"
    shape = require_square(name, A)
    require_fitting(name, shape, require_matrix(name, B, "B"), left)
    if left:
        return triangular(A, B, upper, unitriangular)
    return triangular(A.mT, B.mT, not upper, unitriangular).mT


@composite(out="same", node="triangular_solve")
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> return_types.triangular_solve:
    """Return (X, copy of A) with A @ X = input; an older form of linalg.solve_triangular."""
    name = "triangular_solve"
    shape, right = require_square(name, A), require_matrix(name, input, "b")
    require_fitting(name, shape, right)
    batch = batch_of(name, shape, right)
    given: Any = A.mT if transpose else A
    found = triangular(given, input, upper is not transpose, unitriangular)
    return return_types.triangular_solve(found, A.expand(*batch, *shape[-2:]).clone())


@structured(
    "linalg.dense.cholesky",
    homes="nowhere",
    batch="last axes",
    known_as="linalg_cholesky_ex",
    takes_complex=True,
)
def cholesky_parts(input: Tensor, upper: bool) -> tuple[Tensor, Tensor]:
    """Return the Cholesky factor, and for each matrix the order of the first leading minor that is
    not positive-definite (0 if all minors are positive-definite).
    """


@cholesky_parts.plan
def _(input: Tensor, upper: bool) -> Plan:
    shape = require_square("linalg.cholesky", input)
    require_computable("linalg.cholesky", "cholesky_cpu", input, takes_complex=True)
    more = ((shape[:-2], int32),)
    return Plan(shape, input._layout.dtype, (bool(upper),), extra_outputs=more)


@cholesky_parts.vjp("input")
def _(g: Tensor, out: Tensor, upper: bool) -> Any:
    factor, g = (out.mH, g.mH) if upper else (out, g)
    met = factor.mH @ g
    # Both triangles are filled, so that the gradient is symmetric. The diagonal of the factor is
    # real, so only the real part of the gradient of the diagonal matters.
    below = met.tril(-1)
    diagonal = real_part(met.diagonal(dim1=-2, dim2=-1)).diag_embed()
    half = (below + below.mH + diagonal) * 0.5
    above = triangular(factor.mH, half, True, False)
    return triangular(factor.mH, above.mH, True, False)


@cholesky_parts.jvp
def _(input_t: Tensor, out: Tensor, upper: bool) -> Any:
    factor = out.mH if upper else out
    below = triangular(factor, input_t, False, False)
    # As in PyTorch, only the lower triangle of this product is used, even for a tangent that is not
    # Hermitian.
    met = triangular(factor, below.mH, False, False).mH
    found = factor @ ((met.tril() + met.tril(-1)) * 0.5)
    return found.mH if upper else found


NOT_DEFINITE = (
    "The factorization could not be completed because the input is not positive-definite (the "
    "leading minor of order {} is not positive-definite)."
)


def _cholesky(name: str, A: Tensor, upper: bool, check_errors: bool) -> tuple[Tensor, Tensor]:
    require_square(name, A)
    factor, info = cholesky_parts(A, upper)
    if check_errors:
        require_computed(name, info, NOT_DEFINITE)
    return factor, info


@composite(name="cholesky", homes="linalg", out="same")
def linalg_cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """Return the lower triangular L with L @ L.mH = input, or the upper triangular U with
    U.mH @ U = input if upper is true.

    Shape   (..., n, n) -> (..., n, n)
    Raises  LinAlgError if input is not positive-definite
    """
    return _cholesky("linalg.cholesky", input, upper, True)[0]


@composite(homes="linalg", out="same")
def cholesky_ex(
    input: Tensor, *, upper: bool = False, check_errors: bool = False
) -> return_types.linalg_cholesky_ex:
    """Return (L, info). For a matrix that is not positive-definite, L is NaN and info is the order
    of the first leading minor that is not positive-definite.
    """
    return return_types.linalg_cholesky_ex(
        *_cholesky("linalg.cholesky_ex", input, upper, check_errors)
    )


@composite(out="cast")
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """Return the Cholesky factor; an older form of linalg.cholesky."""
    return _cholesky("cholesky", input, upper, True)[0]


@structured(
    "linalg.dense.cholesky_solve",
    fresh=True,
    homes="nowhere",
    batch="last axes",
    known_as="cholesky_solve",
    takes_complex=True,
)
def cholesky_solved(b: Tensor, factor: Tensor, upper: bool) -> Tensor:
    """Return X with A @ X = b, given A's Cholesky factor, whose other triangle is not read."""


@cholesky_solved.plan
def _(b: Tensor, factor: Tensor, upper: bool) -> Plan:
    right, left = b._layout.shape, factor._layout.shape
    require_computable("cholesky_solve", "cholesky_solve_cpu", factor, takes_complex=True)
    shape = (*batch_of("cholesky_solve", left, right), *right[-2:])
    return Plan(shape, b._layout.dtype, (upper,), compute=b._layout.dtype)


# Note [Gradients of Cholesky's factors] The solution depends on A = L @ L.mH. Let G be the gradient
# with respect to A. The gradient with respect to L is (G + G.mH) @ L. Its elements outside of the
# triangle are not 0, because A would change if the zeros of L there changed. PyTorch returns the
# same gradient if the other triangle of the given factor is 0. Otherwise, PyTorch multiplies by the
# elements given there, on which the solution does not depend.
def _as_triangle(factor: Tensor, upper: bool) -> Any:
    """Return factor with zeros in its other triangle; gradients still flow to all its elements."""
    unread = factor.detach()
    return factor - (unread.tril(-1) if upper else unread.triu(1))


@cholesky_solved.vjp("b", "factor")
def _(
    g: Tensor, factor: Tensor, out: Tensor, upper: bool, wanted: tuple[bool, ...]
) -> tuple[Any, Any]:
    by_b = cholesky_solved(g, factor, upper)
    if not wanted[1]:
        return by_b, None
    by_product = by_b @ out.mH
    both, triangle = -(by_product + by_product.mH), _as_triangle(factor, upper)
    return by_b, triangle @ both if upper else both @ triangle


@cholesky_solved.jvp
def _(factor: Tensor, b_t: Tensor | None, factor_t: Tensor | None, out: Tensor, upper: bool) -> Any:
    right: Any = b_t
    if factor_t is not None:
        triangle = _as_triangle(factor, upper)
        moved = triangle.mH @ factor_t if upper else factor_t @ triangle.mH
        moved = (moved + moved.mH) @ out
        right = -moved if b_t is None else b_t - moved
    return cholesky_solved(right, factor, upper)


@composite(out="cast")
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """Return X with A @ X = input, where input2 is the Cholesky factor of A.

    Shape   (..., n, k), (..., n, n) -> (..., n, k); batch axes broadcast
    Note    if G is the gradient with respect to A, the gradient with respect to input2 is
            (G + G.mH) @ input2, which is not triangular
    """
    for one, what in ((input, "b"), (input2, "u")):
        if len(one._layout.shape) < 2:
            raise ShapeError(
                f"{what} should have at least 2 dimensions, but has {len(one._layout.shape)} "
                "dimensions instead"
            )
    shape, right = require_square("cholesky_solve", input2), input._layout.shape
    if shape[-1] != right[-2]:
        raise ShapeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {shape[-1]} by "
            f"{shape[-1]} but each b matrix is {right[-2]} by {right[-1]}"
        )
    return cholesky_solved(input, input2, bool(upper))


@composite(out="cast", node="cholesky_inverse")
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """Return the inverse of the matrix whose Cholesky factor is input.

    Raises  LinAlgError if an element of the diagonal is 0
    """
    shape = require_square("cholesky_inverse", input)
    zeros: Any = input.detach().diagonal(dim1=-2, dim2=-1) == 0
    places = zeros.int().argmax(-1) + 1 if shape[-1] else zeros.sum(-1)
    require_computed("cholesky_inverse", places * zeros.any(-1), SINGULAR)
    one = eye(shape[-1], dtype=input.dtype, device=input.device)
    return cholesky_solve(one, input, upper)
