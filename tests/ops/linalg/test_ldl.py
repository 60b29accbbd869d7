"""LDL factors of symmetric and Hermitian matrices, and linear systems that they solve."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist import linalg as LA

SYMMETRIC = fd.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]], dtype=fd.float64)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("batch", [(), (2,), (0,), (2, 3)])
@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", [fd.float32, fd.float64, fd.complex64, fd.complex128])
def test_ldl_factors_solve(batch: tuple[int, ...], hermitian: bool, dtype: fd.dtype) -> None:
    x = fd.randn(*batch, 4, 4, dtype=dtype)
    x = x + (x.mH if hermitian else x.mT)
    right = fd.randn(*batch, 4, 2, dtype=dtype)
    factors, pivots = LA.ldl_factor(x, hermitian=hermitian)
    assert (factors.dtype, pivots.dtype, pivots.shape) == (dtype, fd.int32, (*batch, 4))
    assert factors.equal(factors.tril())
    found = LA.ldl_solve(factors, pivots, right, hermitian=hermitian)
    wide = fd.complex128 if dtype.is_complex else fd.float64
    wanted = LA.solve(x.to(wide), right.to(wide))
    assert found.to(wide).allclose(wanted, 1e-2 if dtype in (fd.float32, fd.complex64) else 1e-6)
    read = LA.ldl_factor(x + 9 * fd.ones(4, 4, dtype=dtype).triu(1), hermitian=hermitian)
    assert read.LD.equal(factors)  # only the lower triangle is read


def test_ldl_pivots_of_two_rows_are_negative() -> None:
    factors, pivots, info = LA.ldl_factor_ex(SYMMETRIC)
    assert pivots.tolist() == [-3, -3, 3] and info.item() == 0
    assert factors.tolist() == [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [1.5, 0.5, -3.0]]
    out = (fd.empty(0, dtype=fd.float64), fd.empty(0, dtype=fd.int32))
    LA.ldl_factor(SYMMETRIC, out=out)
    assert out[0].equal(factors) and out[1].equal(pivots)


def test_ldl_says_which_pivot_is_zero() -> None:
    x = fd.stack([fd.eye(2), fd.diag(fd.tensor([1.0, 0.0]))])
    assert LA.ldl_factor_ex(x).info.tolist() == [0, 2]
    for factor in (LA.ldl_factor, lambda y: LA.ldl_factor_ex(y, check_errors=True)):
        with pytest.raises(LA.LinAlgError, match=r"\(Batch element 1\): D\[2,2\] is zero"):
            factor(x)


def test_ldl_solve_broadcasts_right_sides_and_takes_int64_pivots() -> None:
    factors, pivots = LA.ldl_factor(SYMMETRIC)
    found = LA.ldl_solve(factors, pivots.long(), fd.ones(5, 3, 1, dtype=fd.float64))
    assert (SYMMETRIC @ found).allclose(fd.ones(5, 3, 1, dtype=fd.float64))


@pytest.mark.parametrize(
    ("pivots", "words"),
    [
        ([9, 1, 1], r"\|pivot\| <= LD.size\(-2\)"),
        ([0, 1, 1], r"\|pivot\| >= 1"),
        ([-4, -4, 1], r"\|pivot\| <= LD.size\(-2\)"),
        ([-(2**31), 1, 1], r"\|pivot\|"),
        ([1, 2], "Expected LD.shape"),
    ],
)
def test_ldl_solve_refuses_pivots_of_no_factorization(pivots: list[int], words: str) -> None:
    given = fd.tensor(pivots, dtype=fd.int32)
    with pytest.raises(RuntimeError, match=words):
        LA.ldl_solve(SYMMETRIC, given, fd.ones(3, 1, dtype=fd.float64))


@pytest.mark.parametrize("pivots", [[1, 2, -3], [-2, 2, 3], [-1, -1, -1]])
def test_negative_pivots_without_a_second_give_nan(pivots: list[int]) -> None:
    # A negative pivot must come in a pair. With these pivots LAPACK would write outside the matrix.
    given = fd.tensor(pivots, dtype=fd.int32)
    assert LA.ldl_solve(SYMMETRIC, given, fd.ones(3, 1, dtype=fd.float64)).isnan().all()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: LA.ldl_factor(fd.ones(2, 3)), RuntimeError, "batches of square matrices"),
        (lambda: LA.ldl_factor(fd.ones(3)), RuntimeError, "at least 2 dimensions"),
        (lambda: LA.ldl_factor(fd.eye(2).long()), RuntimeError, "Expected a floating point"),
        (lambda: LA.ldl_factor(fd.eye(2).half()), NotImplementedError, "'Half'"),
        (lambda: LA.ldl_factor(fd.eye(2), True), TypeError, "positional"),
        (
            lambda: LA.ldl_solve(SYMMETRIC, fd.arange(1, 4), fd.ones(3, 1)),
            RuntimeError,
            "same dtype",
        ),
        (
            lambda: LA.ldl_solve(SYMMETRIC, fd.arange(1, 4), fd.ones(2, 1, dtype=fd.float64)),
            RuntimeError,
            "Incompatible matrix sizes for torch.linalg.ldl_solve: each A matrix is 3 by 3",
        ),
        (
            lambda: LA.ldl_solve(SYMMETRIC, fd.ones(3), fd.ones(3, 1, dtype=fd.float64)),
            RuntimeError,
            "pivots to be integers",
        ),
    ],
)
def test_ldl_refuses_what_it_cannot_take(call: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_ldl_has_no_derivative_and_says_so() -> None:
    x = SYMMETRIC.clone().requires_grad_()
    factors, pivots = LA.ldl_factor(x)
    assert factors.requires_grad and not pivots.requires_grad
    with pytest.raises(RuntimeError, match="linalg_ldl_factor_ex is not implemented"):
        factors.sum().backward()
    right = fd.ones(3, 1, dtype=fd.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="linalg_ldl_solve is not implemented"):
        LA.ldl_solve(factors.detach(), pivots, right).sum().backward()


@pytest.mark.parametrize("place", [(0, 0), (1, 1)])
def test_ldl_factor_says_that_the_input_has_a_nan(place: tuple[int, int]) -> None:
    A = fd.tensor([[1.0, 1.0], [1.0, 2.0]])
    A[place] = float("nan")
    with pytest.raises(RuntimeError, match=r"D\[\d,\d\] is not a number"):
        fd.linalg.ldl_factor(A)
