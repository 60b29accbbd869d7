"""The LDL factors computed with NumPy equal LAPACK's; invalid pivots are rejected."""

from __future__ import annotations

import numpy as np
import pytest

import fastdist as fd
from fastdist.core import ldl

KINDS = (np.float64, np.complex128)


def matrices(dtype: type, hermitian: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    found = []
    for n in (0, 1, 2, 3, 6, 17):
        for kind in range(4):
            x = rng.standard_normal((n, n)).astype(dtype)
            if dtype is np.complex128:
                x += 1j * rng.standard_normal((n, n))
            x = np.round(x) if kind == 1 else x
            x = np.where(np.eye(n) > 0, 0, x) if kind >= 2 else x
            x = np.where(rng.random((n, n)) < 0.5, 0, x) if kind == 3 else x
            found.append(x + (x.conj().T if hermitian else x.T))
    return found


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("hermitian", [False, True])
def test_the_factors_are_lapack_s(dtype: type, hermitian: bool) -> None:
    for x in matrices(dtype, hermitian):
        wanted = fd.linalg.ldl_factor_ex(fd.tensor(x), hermitian=hermitian)
        found, pivots, info = ldl.factor(x, hermitian)
        assert pivots.tolist() == wanted.pivots.tolist() and info == wanted.info.item()
        np.testing.assert_allclose(found, wanted.LD.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("hermitian", [False, True])
def test_the_solution_solves(dtype: type, hermitian: bool) -> None:
    for x in matrices(dtype, hermitian):
        found, pivots, info = ldl.factor(x, hermitian)
        right = np.ones((len(x), 2), dtype)
        if not info:
            solution = ldl.solve(found, pivots, right, hermitian)
            np.testing.assert_allclose(x @ solution, right, atol=1e-8)


@pytest.mark.parametrize(
    ("pivots", "is_valid"),
    [
        ([], True),
        ([1, 2, 3], True),
        ([3, 3, 3], True),
        ([-3, -3, 3], True),
        ([1, -3, -3], True),
        ([0, 1, 2], False),
        ([1, 2, 4], False),
        ([-4, -4, 1], False),
        ([-2, 2, 3], False),
        ([1, 2, -3], False),
        ([-1, -1, -1], False),
        ([-(2**31), 1, 1], False),
    ],
)
def test_pivots_of_no_factorization_are_noticed(pivots: list[int], is_valid: bool) -> None:
    given = np.array(pivots, np.int32)
    assert ldl.valid_pivots(given) is is_valid
    x, right = np.eye(len(given)), np.ones((len(given), 1))
    assert np.isnan(ldl.solve(x, given, right, False)).all() is np.bool_(not is_valid) or not pivots
