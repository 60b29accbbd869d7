"""LDL factors of symmetric and Hermitian matrices, and linear systems solved by these factors."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import int32, int64
from ...core.errors import DTypeError, LinAlgError, NoDerivativeError, ShapeError
from ...dispatch.composite import composite
from ...dispatch.structured import Plan, structured
from ...interpreters.batched_tensor import levels, max_over_batch
from ...tensor.tensor import Tensor
from .. import return_types
from ..index.index_range import is_seen_by_kernels_alone
from .matrix_checks import (
    batch_of,
    require_computable,
    require_computed,
    require_matrix,
    require_same_dtype,
    require_square,
)


@structured(
    "linalg.dense.ldl",
    homes="nowhere",
    batch="last axes",
    known_as="linalg_ldl_factor_ex",
    takes_complex=True,
)
def ldl_parts(input: Tensor, hermitian: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return L and D in one matrix, the pivots, and for each matrix the number of the first zero
    pivot, counted from 1, or 0 if no pivot is zero.
    """


@ldl_parts.plan
def _(input: Tensor, hermitian: bool) -> Plan:
    shape = input._layout.shape
    require_computable("linalg.ldl_factor", "ldl_factor_kernel_cpu", input, takes_complex=True)
    more = ((shape[:-1], int32), (shape[:-2], int32))
    return Plan(shape, input._layout.dtype, (hermitian,), extra_outputs=more)


@ldl_parts.vjp("input")
def _(g: Tensor) -> Any:
    raise NoDerivativeError("derivative for aten::linalg_ldl_factor_ex is not implemented")


@ldl_parts.jvp
def _(input_t: Tensor) -> Any:
    raise NoDerivativeError("derivative for aten::linalg_ldl_factor_ex is not implemented")


@structured(
    "linalg.dense.ldl_solve",
    homes="nowhere",
    batch="last axes",
    known_as="linalg_ldl_solve",
    takes_complex=True,
)
def ldl_solved(factors: Tensor, pivots: Tensor, b: Tensor, hermitian: bool) -> Tensor:
    """Return X with A @ X = b, given the LDL factors of A."""


@ldl_solved.plan
def _(factors: Tensor, pivots: Tensor, b: Tensor, hermitian: bool) -> Plan:
    left, right = factors._layout.shape, b._layout.shape
    require_computable("linalg.ldl_solve", "ldl_solve_kernel_cpu", factors, takes_complex=True)
    shape = (*batch_of("linalg.ldl_solve", left, right), *right[-2:])
    return Plan(shape, factors._layout.dtype, (hermitian,))


@ldl_solved.vjp("factors", "b")
def _(g: Tensor) -> Any:
    raise NoDerivativeError("derivative for aten::linalg_ldl_solve is not implemented")


@ldl_solved.jvp
def _(factors_t: Tensor, b_t: Tensor) -> Any:
    raise NoDerivativeError("derivative for aten::linalg_ldl_solve is not implemented")


_NO_SOLUTION = (
    "D[{0},{0}] is zero and using it on ldl_solve would result in a division by zero. If you still "
    "want the factors, call linalg.ldl_factor_ex(A)"
)


_NOT_A_NUMBER = (
    "D[{0},{0}] is not a number: the input contains NaN or infinities, and has no such factors. "
    "linalg.ldl_factor_ex(A) returns what there is"
)


def _require_factors(name: str, A: Tensor, info: Tensor) -> None:
    """Raise LinAlgError if a pivot is 0."""
    try:
        require_computed(name, info, _NO_SOLUTION)
    except LinAlgError:
        if not levels.depth and not A.isfinite().all():
            require_computed(name, info, _NOT_A_NUMBER)
        raise


def _factor(A: Tensor, hermitian: bool) -> tuple[Tensor, Tensor, Tensor]:
    require_square("torch.linalg.ldl_factor_ex", A)
    return ldl_parts(A, bool(hermitian))


@composite(homes="linalg", out="same")
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> return_types.linalg_ldl_factor:
    """Return (LD, pivots) with A = L @ D @ L.mT. With hermitian=True, a complex A is L @ D @ L.mH.
    LD holds the blocks of D and, below these blocks, L without its diagonal of ones. The pivots
    have LAPACK's format. Only the lower triangle of A is read.

    Shape   (..., n, n) -> (..., n, n), (..., n) of int32
    Raises  RuntimeError if a pivot is 0
    Note    this function has no derivative, as in PyTorch
    """
    found, pivots, info = _factor(A, hermitian)
    _require_factors("torch.linalg.ldl_factor", A, info)
    return return_types.linalg_ldl_factor(found, pivots)


@composite(homes="linalg", out="same")
def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False
) -> return_types.linalg_ldl_factor_ex:
    """Return (LD, pivots, info), with LD and pivots of ldl_factor. info is the number of the first
    zero pivot, counted from 1, or 0 if no pivot is zero.
    """
    found, pivots, info = _factor(A, hermitian)
    if check_errors:
        _require_factors("torch.linalg.ldl_factor_ex", A, info)
    return return_types.linalg_ldl_factor_ex(found, pivots, info)


@composite(homes="linalg", out="same")
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """Return X with A @ X = B, given the results of ldl_factor for A.

    Shape   (..., n, n), (..., n), (..., n, k) -> (..., n, k)
    Raises  RuntimeError for invalid pivots on the CPU. Pivots on a GPU are not checked, because a
            check would wait for the GPU; if they are invalid, the result is NaN
    """
    name = "torch.linalg.ldl_solve"
    shape = require_square(name, LD)
    right = require_matrix(name, B, "B")
    require_same_dtype(name, LD, B)
    if shape[-1] != right[-2]:
        raise ShapeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {shape[-1]} by {shape[-1]} "
            f"but each b matrix is {right[-2]} by {right[-1]}"
        )
    _require_pivots(name, LD, pivots)
    # `pivots` gets an additional last axis. In each operand, the axes before the last two are then
    # the batch axes.
    return ldl_solved(LD, pivots.unsqueeze(-1), B, bool(hermitian))


def _require_pivots(name: str, LD: Tensor, pivots: Tensor) -> None:
    if pivots._layout.dtype is not int32 and pivots._layout.dtype is not int64:
        raise DTypeError(f"{name}: Expected pivots to be integers. Got {pivots._layout.dtype.name}")
    if pivots._layout.shape != LD._layout.shape[:-1]:
        raise ShapeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {list(pivots._layout.shape)} instead"
        )
    if not pivots._layout.numel or is_seen_by_kernels_alone(pivots):
        return
    sizes, n = pivots.abs(), pivots._layout.shape[-1]
    for wrong, words in ((sizes < 1, ">= 1"), (sizes > n, "<= LD.size(-2)")):
        if max_over_batch(wrong.sum()):
            raise ShapeError(
                f"Pivots given to ldl_solve must all satisfy |pivot| {words}. Did you properly "
                "pass the result of ldl_factor?"
            )
