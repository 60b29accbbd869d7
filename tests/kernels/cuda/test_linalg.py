"""CUDA linear algebra, with LAPACK in place of the GPU libraries, against the CPU kernels.

Only a GPU can show what cuSOLVER computes, and how it fails. These tests show that each kernel
makes the right calls with the arguments that the library requires (tests/fibre_shim/lapack.py), and
that it stores the results in the right place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.devices.cuda import CudaBackend
from fastdist.kernels.cpu.linalg import dense as cpu
from fastdist.kernels.cuda.linalg import dense as cuda
from fastdist.kernels.cuda.linalg import solvers
from fastdist.kernels.cuda.linalg.swaps import plan_permutation
from tests.fibre_shim import cupy
from tests.fibre_shim.driver import SEEDS, run
from tests.fibre_shim.installed import cuda_on_fibres, host_traffic
from tests.properties import in_one_test


@pytest.fixture(autouse=True)
def on_fibres(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def with_parts(x: np.ndarray) -> np.ndarray:
    """Return complex numbers with real part x; definite matrices stay definite."""
    if not x.size or x.shape[-2] != x.shape[-1]:
        return x + 1j * x[..., ::-1] / 3
    skew = np.triu(x, 1)
    return x + 0.1j * (skew - skew.mT)


def definite(*shape: int) -> np.ndarray:
    x = drawn(*shape)
    return x @ x.mT + np.eye(shape[-1])


def symmetric(*shape: int) -> np.ndarray:
    x = drawn(*shape)
    return x + x.mT


def pair(x: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """Return x after one of its matrices was replaced by `bad`, which cannot be factorized."""
    x = x.copy()
    x[1] = bad
    return x


SINGULAR = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 7.0], [1.0, 2.0, 5.0]])
INDEFINITE = np.diag([1.0, -1.0, 1.0])
PIVOTS = np.array([[2, 3, 3], [3, 2, 3]], np.int32)
# Pivots, as columns: of blocks of one row, and of blocks of two rows.
ROWS = np.array([[[1], [3], [3]], [[1], [-3], [-3]]], np.int32)
# Kernels that run on the host; the host waits for the device first.
BY_HOST = ("ldl", "ldl_solve")
# By call: the kernel, the inputs, the results as (shape, dtype), and the numbers.
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
        ("cholesky_solve", [drawn(2, 3, 2), definite(*shape, 3, 3)], [((2, 3, 2), "f8")], (upper,))
        for shape in ((), (2,), (1,))
        for upper in (False, True)
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
    *[
        ("ldl", [x], [(x.shape, "f8"), (x.shape[:-1], "i4"), (x.shape[:-2], "i4")], (hermitian,))
        for x in (symmetric(3, 3), symmetric(2, 4, 4), np.zeros((2, 0, 0)))
        for hermitian in (False, True)
    ],
    *[
        ("ldl_solve", [definite(2, 3, 3), ROWS, drawn(2, 3, 2)], [((2, 3, 2), "f8")], (hermitian,))
        for hermitian in (False, True)
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
        # Use distinct eigenvalues, since the vectors of repeated ones depend on the build of
        # LAPACK.
        for x in (drawn(2, 3, 3), pair(drawn(2, 3, 3), np.full((3, 3), np.nan)))
    ],
]  # fmt: skip


# Kernels that have a real result for complex inputs, and the index of this result.
REAL = {"eigh": 0, "eigenvalues": 0, "singular_values": 0, "svd": 1, "pseudo_inverse": 1}
REAL |= {"log_determinant": 0}


def of_vectors(name: str, results: list[np.ndarray]) -> list[np.ndarray]:
    """Replace vectors in the results by products, since the signs of the vectors are arbitrary."""
    if name == "eigh":
        values, vectors, info = results
        return [values, (vectors * values[..., None, :]) @ vectors.mT.conj(), info]
    if name == "svd":
        u, values, right, info = results
        k = values.shape[-1]
        whole = [one @ one.mT.conj() for one in (u.mT, right)]
        return [(u[..., :k] * values[..., None, :]) @ right[..., :k, :], *whole, values, info]
    return results


def run_on_cpu(call: tuple[Any, ...]) -> list[np.ndarray]:
    name, inputs, kinds, numbers = call
    outs = [np.full(shape, -7, dtype) for shape, dtype in kinds]
    getattr(cpu, name)(*[x.copy() for x in inputs], *outs, *numbers)
    return of_vectors(name, outs)


def run_on_cuda(call: tuple[Any, ...], stretch: int = 1) -> list[np.ndarray]:
    """Return the CUDA kernel's output in memory where it owns every `stretch`th element."""
    name, inputs, kinds, numbers = call
    rooms = [cupy.array(np.full((*shape, stretch), -7, dtype)) for shape, dtype in kinds]
    outs = [room[..., 0] for room in rooms]
    getattr(cuda, name)(*[cupy.array(x) for x in inputs], *outs, *numbers)
    assert all((room.host[..., 1:] == -7).all() for room in rooms)
    return of_vectors(name, [out.host.copy() for out in outs])


def in_complex(call: tuple[Any, ...]) -> tuple[Any, ...]:
    name, inputs, kinds, numbers = call
    inputs = [with_parts(x) if x.dtype == "f8" and x.ndim > 1 else x for x in inputs]
    kinds = [
        (shape, "c16" if dtype == "f8" and REAL.get(name) != nth else dtype)
        for nth, (shape, dtype) in enumerate(kinds)
    ]
    return name, inputs, kinds, numbers


@pytest.mark.one_in(5)
@in_one_test("is_complex", [False, True])
@pytest.mark.parametrize("i", range(len(CALLS)))
def test_the_twin_asks_for_what_the_cpu_computes(i: int, *, is_complex: bool) -> None:
    call = in_complex(CALLS[i]) if is_complex else CALLS[i]
    for found, expected in zip(run_on_cuda(call), run_on_cpu(call), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("i", range(len(CALLS)))
def test_results_go_where_there_are_gaps(i: int) -> None:
    for found, expected in zip(run_on_cuda(CALLS[i], 2), run_on_cpu(CALLS[i]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.one_in(5)
@in_one_test("is_complex", [False, True])
@pytest.mark.parametrize("i", range(len(CALLS)))
def test_a_call_for_each_matrix_does_as_one_for_all(
    i: int, monkeypatch: pytest.MonkeyPatch, *, is_complex: bool
) -> None:
    monkeypatch.setattr(solvers, "_is_for_one_call", lambda stack: False)
    monkeypatch.setattr(solvers, "_MOST_JACOBI", 0)
    call = in_complex(CALLS[i]) if is_complex else CALLS[i]
    for found, expected in zip(run_on_cuda(call), run_on_cpu(call), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("i", [i for i, (name, *_) in enumerate(CALLS) if name not in BY_HOST])
def test_nobody_waits(i: int, monkeypatch: pytest.MonkeyPatch) -> None:
    name, inputs, kinds, numbers = CALLS[i]
    given = [cupy.array(x) for x in inputs]
    outs = [cupy.array(np.full(shape, -7, dtype)) for shape, dtype in kinds]
    told = host_traffic(monkeypatch)
    getattr(cuda, name)(*given, *outs, *numbers)
    assert told == []


@pytest.mark.parametrize(
    "i", [i for i, (name, *_) in enumerate(CALLS) if name in ("eig", "eigvals")]
)
def test_spectra_go_by_the_host_where_cusolver_has_no_function_for_them(
    i: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda.solvers, "has_geev", lambda: False)
    for found, expected in zip(run_on_cuda(CALLS[i]), run_on_cpu(CALLS[i]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_every_kernel_of_the_twin_is_called() -> None:
    public = {name for name, one in vars(cuda).items() if getattr(one, "__module__", "") ==
              cuda.__name__ and not name.startswith("_")}  # fmt: skip
    assert {name for name, *_ in CALLS} == public


@pytest.mark.parametrize(("batch", "rows", "swaps"), [(1, 1, 1), (3, 40, 25), (2, 300, 300)])
def test_swaps_are_one_launch(batch: int, rows: int, swaps: int) -> None:
    random = np.random.default_rng(rows)
    pivots = np.stack([random.integers(np.arange(swaps), rows) + 1 for _ in range(batch)]).astype(
        np.int32
    )
    expected = np.empty((batch, rows), np.int64)
    cpu.permutation(pivots, expected)
    for seed in SEEDS:
        out = np.full((batch, rows), -7)
        launches = plan_permutation(pivots, out)
        assert len(launches) == 1
        run(launches, seed)
        np.testing.assert_array_equal(out, expected)
    assert plan_permutation(pivots[:0], expected[:0]) == []
