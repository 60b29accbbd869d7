"""Linear algebra on cuda with LAPACK instead of GPU libraries: errors, batches, sizes, graphs.

Values and gradients are tested with the table (test_cuda_on_fibres.py, test_complex_on_fibres.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
import fastdist.linalg as LA
from fastdist.devices.cuda import CudaBackend
from tests.fibre_shim.installed import cuda_on_fibres, host_traffic

RANDOM = np.random.default_rng(5)
ONE = np.eye(3)
SINGULAR = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 7.0], [1.0, 2.0, 5.0]])
INDEFINITE = np.diag([1.0, -1.0, 1.0])
NAN = np.full((3, 3), np.nan)


@pytest.fixture(autouse=True)
def on_fibres(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda x: LA.cholesky(x(INDEFINITE)),
    "cholesky of a batch": lambda x: LA.cholesky(x(np.stack([ONE, INDEFINITE]))),
    "cholesky of NaN": lambda x: LA.cholesky(x(NAN)),
    "cholesky_ex": lambda x: LA.cholesky_ex(x(-ONE), check_errors=True),
    "inv": lambda x: LA.inv(x(SINGULAR)),
    "inv of a batch": lambda x: LA.inv(x(np.stack([ONE, 0 * ONE]))),
    "inv_ex": lambda x: LA.inv_ex(x(SINGULAR), check_errors=True),
    "solve": lambda x: LA.solve(x(SINGULAR), x(ONE)),
    "solve_ex": lambda x: LA.solve_ex(x(SINGULAR), x(ONE[0]), check_errors=True),
    "tensorinv": lambda x: LA.tensorinv(x(0 * ONE), 1),
    "tensorsolve": lambda x: LA.tensorsolve(x(SINGULAR), x(ONE[0])),
    "negative power": lambda x: LA.matrix_power(x(SINGULAR), -2),
    "cholesky_inverse": lambda x: fd.cholesky_inverse(x(0 * ONE)),
    "lu_factor": lambda x: LA.lu_factor(x(SINGULAR)),
    "lu_factor of a batch": lambda x: LA.lu_factor(x(np.stack([ONE, SINGULAR]))),
    "lstsq": lambda x: LA.lstsq(x(NAN), x(ONE), driver="gels"),
    "eigh": lambda x: LA.eigh(x(NAN)),
    "eigvalsh of a batch": lambda x: LA.eigvalsh(x(np.stack([ONE, NAN]))),
    "eig": lambda x: LA.eig(x(NAN)),
    "eigvals of a batch": lambda x: LA.eigvals(x(np.stack([ONE, NAN]))),
    "svd": lambda x: LA.svd(x(NAN)),
    "svd of a batch": lambda x: LA.svd(x(np.stack([ONE, NAN]))),
    "svdvals": lambda x: LA.svdvals(x(NAN / 0.0)),
    "pinv": lambda x: LA.pinv(x(NAN)),
}


def outcome(call: Callable[[Any], Any], kind: str, device: str) -> Any:
    """Return the arrays of a call's results, or the class and text of the error that it raises."""
    dtype = getattr(fd, kind)
    try:
        found = call(lambda array: fd.tensor(array, dtype=dtype, device=device))
    except (RuntimeError, ValueError) as error:
        return type(error), str(error)
    return [one.cpu().numpy().copy() for one in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.one_in(5)
@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("kind", ["float32", "complex128"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_computed_is_refused_as_on_the_cpu(name: str, kind: str) -> None:
    expected = outcome(REFUSED[name], kind, "cpu")
    found = outcome(REFUSED[name], kind, "cuda")
    np.testing.assert_equal(found, expected)


BESIDE: dict[str, tuple[np.ndarray, Callable[[Any], Any]]] = {
    "cholesky_ex": (INDEFINITE, LA.cholesky_ex),
    "inv_ex": (SINGULAR, LA.inv_ex),
    "solve_ex": (SINGULAR, lambda x: LA.solve_ex(x, x[:1])),
    "lu_factor_ex": (SINGULAR, LA.lu_factor_ex),
    "slogdet": (SINGULAR, fd.slogdet),
    "det": (SINGULAR, fd.det),
    "det of NaN": (NAN, fd.det),
    "slogdet of NaN": (NAN, fd.slogdet),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ["float64", "complex64"])
@pytest.mark.parametrize("name", BESIDE)
def test_a_bad_matrix_leaves_the_others_of_its_batch(name: str, kind: str) -> None:
    bad, call = BESIDE[name]
    x = np.stack([4 * ONE, bad, ONE + 0.1])
    for ours, theirs in zip(
        outcome(lambda tensor: call(tensor(x)), kind, "cuda"),
        outcome(lambda tensor: call(tensor(x)), kind, "cpu"),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


SHAPES = [(0, 0), (2, 0, 0), (0, 3, 3), (40, 40), (2, 40, 40)]
OF_SQUARES: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda x: LA.cholesky(x @ x.mH + fd.eye(x.shape[-1], device=x.device)),
    "inv": LA.inv,
    "solve": lambda x: LA.solve(x, x.mT),
    "solve_triangular": lambda x: LA.solve_triangular(x, x.mT, upper=True),
    "lu": LA.lu,
    "det": LA.det,
    "slogdet": LA.slogdet,
    "eigvalsh": lambda x: LA.eigvalsh(x + x.mH),
    "eigh": lambda x: LA.eigh(x + x.mH)[1].abs(),
    "eigvals": lambda x: fd.sort(LA.eigvals(x).abs())[0],
    "svd": lambda x: LA.svd(x)[0].abs(),
    "svdvals": LA.svdvals,
    "pinv": LA.pinv,
    "qr": LA.qr,
    "matrix_rank": LA.matrix_rank,
    "matrix_exp": LA.matrix_exp,
    "lstsq": lambda x: LA.lstsq(x, x.mT)[0],
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("kind", ["float64", "complex128"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", OF_SQUARES)
def test_matrices_without_elements_and_large_ones_are_as_on_the_cpu(
    name: str, shape: tuple[int, ...], kind: str
) -> None:
    x = RANDOM.standard_normal(shape) / max(shape) + np.eye(shape[-1]) * (
        1 + np.arange(shape[-1]) / 7
    )
    expected = outcome(lambda tensor: OF_SQUARES[name](tensor(x)), kind, "cpu")
    found = outcome(lambda tensor: OF_SQUARES[name](tensor(x)), kind, "cuda")
    if isinstance(expected, tuple):
        assert found == expected
        return
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-8)


UNCHECKED: dict[str, Callable[[Any], Any]] = {
    "cholesky_ex": LA.cholesky_ex,
    "inv_ex": LA.inv_ex,
    "solve_ex": lambda x: LA.solve_ex(x, x),
    "lu_factor_ex": LA.lu_factor_ex,
    "solve_triangular": lambda x: LA.solve_triangular(x, x, upper=False),
    "slogdet": LA.slogdet,
    "qr": LA.qr,
}


@pytest.mark.parametrize("name", UNCHECKED)
def test_what_leaves_its_info_to_the_caller_does_not_wait(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = fd.tensor(np.stack([ONE, SINGULAR]), device="cuda")
    told = host_traffic(monkeypatch)
    UNCHECKED[name](x)
    assert told == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", UNCHECKED)
def test_a_graph_factors_what_is_there_when_it_is_replayed(name: str) -> None:
    x = fd.tensor(np.stack([ONE, ONE]), device="cuda")
    UNCHECKED[name](x)
    graph = fd.cuda.CUDAGraph()
    with fd.cuda.graph(graph):
        found = UNCHECKED[name](x)
    given = RANDOM.standard_normal((2, 3, 3)) + 4 * ONE
    x.copy_(fd.tensor(given @ given.mT))
    graph.replay()
    expected = UNCHECKED[name](fd.tensor(given @ given.mT))
    both = (found, expected) if isinstance(found, tuple) else ((found,), (expected,))
    for ours, theirs in zip(*both, strict=True):
        np.testing.assert_allclose(ours.cpu().numpy(), theirs.numpy(), rtol=1e-9)
