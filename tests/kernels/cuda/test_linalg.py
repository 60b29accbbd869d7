"""Linear algebra's CUDA twin, with NumPy and SciPy in CuPy's place, held against the CPU's.

What cuSOLVER computes, and how it fails, no machine without a GPU can tell; that each kernel asks
for the right thing, and puts what it gets where it belongs, this can.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from fastdist.kernels.cpu import linalg as cpu
from fastdist.kernels.cuda import linalg as cuda


class Array(np.ndarray):
    """An array that says on which device it is, as CuPy's do."""

    device = contextlib.nullcontext()  # type: ignore[assignment]


def failing_cholesky(x: np.ndarray) -> np.ndarray:
    """Return factors, with what LAPACK leaves where it stopped: cuSOLVER raises nothing either."""
    found = np.empty_like(x)
    for index in np.ndindex(x.shape[:-2]):
        (factor,) = scipy.linalg.get_lapack_funcs(("potrf",), (x,))
        found[index] = factor(x[index], lower=1, clean=1)[0]
    return found


NAMES = """
    arange broadcast_to diagonal empty_like eye isfinite matmul maximum nan
    take_along_axis tril where
"""


@pytest.fixture(autouse=True)
def cupy_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    solvers = {name: getattr(np.linalg, name) for name in np.linalg.__all__}
    linalg = SimpleNamespace(**{**solvers, "cholesky": failing_cholesky})
    names = {name: getattr(np, name) for name in NAMES.split()}
    names["asnumpy"] = names["asarray"] = np.asarray
    names["empty"] = lambda shape, dtype: np.empty(shape, dtype).view(Array)
    own = SimpleNamespace(lu_factor=lu_factor, solve_triangular=scipy.linalg.solve_triangular)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(linalg=linalg, **names))
    for name in ("cupyx", "cupyx.scipy"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupyx.scipy.linalg", own)


def lu_factor(x: np.ndarray, *, check_finite: bool) -> tuple[np.ndarray, np.ndarray]:
    (factor,) = scipy.linalg.get_lapack_funcs(("getrf",), (x,))
    found, pivots, _ = factor(x)
    return found, pivots


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def with_parts(x: np.ndarray) -> np.ndarray:
    """Return complex numbers whose real parts are x; of square matrices, definite where x is."""
    if not x.size or x.shape[-2] != x.shape[-1]:
        return x + 1j * x[..., ::-1] / 3
    skew = np.triu(x, 1)
    return x + 0.1j * (skew - skew.mT)


def definite(*shape: int) -> np.ndarray:
    x = drawn(*shape)
    return x @ x.mT + np.eye(shape[-1])


def pair(x: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """Return x with one of its matrices replaced by one that cannot be computed."""
    x = x.copy()
    x[1] = bad
    return x


SINGULAR = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 7.0], [1.0, 2.0, 5.0]])
INDEFINITE = np.diag([1.0, -1.0, 1.0])
PIVOTS = np.array([[2, 3, 3], [3, 2, 3]], np.int32)
# kernel, inputs, results as (shape, dtype), numbers
CALLS: list[tuple[str, list[np.ndarray], list[tuple[tuple[int, ...], str]], tuple[Any, ...]]] = [
    *[
        ("cholesky", [x], [(x.shape, "f8"), (x.shape[:-2], "i4")], (upper,))
        for x in (definite(3, 3), pair(definite(2, 3, 3), INDEFINITE), np.zeros((2, 0, 0)))
        for upper in (False, True)
    ],
    *[
        ("solve_triangular", [definite(*shape, 3, 3), drawn(2, 3, 2)], [((2, 3, 2), "f8")], flags)
        for shape in ((), (2,), (1,))
        for flags in ((False, False), (True, True), (True, False))
    ],
    *[
        ("inverse", [x], [(x.shape, "f8"), (x.shape[:-2], "i4")], ())
        for x in (definite(3, 3), pair(definite(2, 3, 3), SINGULAR), np.zeros((2, 0, 0)))
    ],
    *[
        ("solve", [x, drawn(2, 3, 2)], [((2, 3, 2), "f8"), (x.shape[:-2], "i4")], ())
        for x in (definite(3, 3), pair(definite(2, 3, 3), SINGULAR))
    ],
    *[
        ("lu", [x], [(x.shape, "f8"), (pivots, "i4"), (x.shape[:-2], "i4")], ())
        for x, pivots in (
            (drawn(3, 3), (3,)),
            (drawn(2, 3, 4), (2, 3)),
            (pair(drawn(2, 3, 3), SINGULAR), (2, 3)),
        )
    ],
    ("permutation", [PIVOTS], [((2, 4), "i8")], ()),
    ("determinant", [drawn(2, 3, 3)], [((2,), "f8")], ()),
    ("determinant", [drawn(2, 0, 0)], [((2,), "f8")], ()),
    ("log_determinant", [drawn(2, 3, 3)], [((2,), "f8"), ((2,), "f8")], ()),
    ("log_determinant", [drawn(2, 0, 0)], [((2,), "f8"), ((2,), "f8")], ()),
    *[
        ("eigh", [drawn(2, 3, 3)], [((2, 3), "f8"), ((2, 3, 3), "f8"), ((2,), "i4")], (upper,))
        for upper in (False, True)
    ],
    ("eigenvalues", [drawn(2, 3, 3)], [((2, 3), "f8"), ((2,), "i4")], (True,)),
    *[
        ("svd", [drawn(*b, m, n)], [((*b, m, k), "f8"), ((*b, s), "f8"), ((*b, j, n), "f8"),
                                    (b, "i4")], (full,))
        for b, m, n, s, k, j, full in (
            ((2,), 4, 3, 3, 3, 3, False),
            ((2,), 4, 3, 3, 4, 3, True),
            ((), 3, 0, 0, 3, 0, True),
        )
    ],
    ("singular_values", [drawn(2, 3, 4)], [((2, 3), "f8"), ((2,), "i4")], ()),
    (
        "pseudo_inverse",
        [drawn(2, 3, 4), np.array(0.5), np.array([1e-9, 0.5])],
        [((2, 4, 3), "f8"), ((2, 3), "f8"), ((2,), "i4")],
        (),
    ),
    ("pseudo_inverse", [drawn(0, 4), np.array(0.0), np.array(0.0)],
     [((4, 0), "f8"), ((0,), "f8"), ((), "i4")], ()),
    *[
        ("qr", [drawn(2, 4, 3)], [((2, 4, k), "f8"), ((2, k, 3), "f8")], (mode,))
        for k, mode in ((3, "reduced"), (4, "complete"))
    ],
    ("qr", [drawn(2, 4, 3)], [((0,), "f8"), ((2, 3, 3), "f8")], ("r",)),
    ("qr", [drawn(3, 0)], [((3, 3), "f8"), ((3, 0), "f8")], ("complete",)),
    ("reflectors", [drawn(2, 4, 3)], [((2, 4, 3), "f8"), ((2, 3), "f8")], ()),
    *[
        (name, [x], [((2, 3), "c16"), *[((2, 3, 3), "c16")] * (name == "eig"), ((2,), "i4")], ())
        for name in ("eig", "eigvals")
        for x in (drawn(2, 3, 3), np.where(np.arange(18).reshape(2, 3, 3) == 4, np.nan, 1.0))
    ],
]  # fmt: skip


# Whose results are real, by number, though what they are of is complex.
REAL = {"eigh": 0, "eigenvalues": 0, "singular_values": 0, "svd": 1, "pseudo_inverse": 1}
REAL |= {"log_determinant": 0}


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("i", range(len(CALLS)))
def test_the_twin_asks_for_what_the_cpu_computes(i: int, *, is_complex: bool) -> None:
    name, inputs, kinds, numbers = CALLS[i]
    if is_complex:
        inputs = [with_parts(x) if x.dtype == "f8" and x.ndim > 1 else x for x in inputs]
        kinds = [
            (shape, "c16" if dtype == "f8" and REAL.get(name) != nth else dtype)
            for nth, (shape, dtype) in enumerate(kinds)
        ]

    def run(kernel: Callable[..., None]) -> list[np.ndarray]:
        outs = [np.full(shape, -7, dtype).view(Array) for shape, dtype in kinds]
        kernel(*[x.copy().view(Array) for x in inputs], *outs, *numbers)
        return outs

    for found, expected in zip(run(getattr(cuda, name)), run(getattr(cpu, name)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_every_kernel_of_the_twin_is_called() -> None:
    public = {name for name, one in vars(cuda).items() if getattr(one, "__module__", "") ==
              cuda.__name__ and not name.startswith("_")}  # fmt: skip
    assert {name for name, *_ in CALLS} == public
