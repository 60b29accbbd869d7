"""Gamma, Poisson and binomial numbers on cuda equal the CPU's up to rounding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.dtypes import bfloat16
from fastdist.kernels.cuda.create.rejection import plan_tried
from fastdist.random_numbers import rejection
from tests.fibre_shim.driver import SEEDS, run
from tests.fibre_shim.installed import cuda_on_fibres, host_traffic

COUNTS = [0, 1, 5, 255, 257, 1500]
STREAMS = [(0, 0), (12345, 7), ((1 << 64) - 3, (1 << 32) - 2), (1 << 63, (1 << 64) - 2)]
ODD = [np.nan, np.inf, -np.inf, -1.0, -0.0, 0.0, 1e-300, 1e300]


def drawn(name: str, given: tuple[Any, ...], *part: int) -> np.ndarray[Any, Any]:
    found = []
    for order in SEEDS:
        out = np.full_like(given[0], 77)
        run(plan_tried(name, given, out, *part), order)
        found.append(out)
    assert all(one.tobytes() == found[0].tobytes() for one in found)
    return found[0]


def expected(name: str, given: tuple[Any, ...], *part: int) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        found = getattr(rejection, name)(part, *(one.astype(np.float64) for one in given))
        return found.astype(given[0].dtype)  # type: ignore[no-any-return]


def narrowed(numbers: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    with np.errstate(over="ignore"):
        return numbers.astype(dtype)


def require_equal(name: str, given: tuple[Any, ...], *part: int) -> None:
    # Compare in float64, since NumPy does not compare NaNs of every dtype as equal.
    found, wanted = (make(name, given, *part).astype(np.float64) for make in (drawn, expected))
    np.testing.assert_array_equal(found, wanted)


def values(count: int, low: float, high: float, dtype: Any) -> np.ndarray[Any, Any]:
    """Return numbers of all magnitudes, among them those in ODD."""
    found = np.exp(np.random.default_rng(count).uniform(np.log(low), np.log(high), count))
    found[5 : 5 + len(ODD)] = ODD[: max(0, len(found) - 5)]
    return narrowed(found, dtype)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_logarithms_of_gamma_numbers_are_the_same_but_for_roundings(count: int, dtype: Any) -> None:
    for part in STREAMS:
        given = (values(count, 1e-5, 1e4, dtype),)
        found = drawn("log_gamma", given, *part).astype(np.float64)
        wanted = expected("log_gamma", given, *part).astype(np.float64)
        np.testing.assert_allclose(found, wanted, 1e-6 if dtype == "float32" else 1e-12, 1e-6)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", bfloat16.numpy])
def test_gamma_numbers_are_the_same_but_for_roundings(count: int, dtype: Any) -> None:
    for part in STREAMS:
        given = (values(count, 1e-3, 1e4, dtype),)
        step = (
            2.0
            ** -{"float64": 46, "float32": 23, "float16": 10, "bfloat16": 7}[np.dtype(dtype).name]
        )
        found = drawn("gamma", given, *part).astype(np.float64)
        wanted = expected("gamma", given, *part).astype(np.float64)
        np.testing.assert_allclose(found, wanted, step, 0)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", bfloat16.numpy])
def test_poisson_numbers_are_the_same(count: int, dtype: Any) -> None:
    for part in STREAMS:
        given = (values(count, 1e-2, 1e5, dtype),)
        require_equal("poisson", given, *part)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", bfloat16.numpy])
def test_binomial_numbers_are_the_same(count: int, dtype: Any) -> None:
    chances = np.random.default_rng(count).uniform(-0.1, 1.1, count)
    chances[::7] **= 8
    chances[20 : 20 + len(ODD)] = ODD[: max(0, count - 20)]
    for part in STREAMS:
        given = values(count, 0.5, 1e5, dtype), narrowed(chances, dtype)
        require_equal("binomial", given, *part)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from cuda_on_fibres(monkeypatch)


DRAWS = {
    "poisson": lambda x: fd.poisson(x * 30),
    "binomial": lambda x: fd.binomial((x * 100).floor(), x.clamp(max=1.0)),
    "gamma": lambda x: fd.distributions.Gamma(x * 3, x + 1).sample(),
    "dirichlet": lambda x: fd.distributions.Dirichlet(x).sample(),
    "beta": lambda x: fd.distributions.Beta(x, x + 1).sample(),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.usefixtures("cuda")
def test_what_users_draw_is_made_there_without_copies_or_waits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = fd.linspace(0.01, 2, 60).reshape(6, 10).t()
    on_device = x.to("cuda")
    fd.distributions.Distribution.set_default_validate_args(False)
    fd.manual_seed(3)
    wanted = [DRAWS[name](x) for _ in range(2)]
    fd.manual_seed(3)
    DRAWS[name](on_device)
    traffic = host_traffic(monkeypatch)
    found = DRAWS[name](on_device)
    assert not traffic
    fd.distributions.Distribution.set_default_validate_args(True)
    assert found.device.type == "cuda"
    fd.testing.assert_close(found.cpu(), wanted[1], rtol=2e-6, atol=1e-37)


@pytest.mark.usefixtures("cuda")
def test_a_graph_draws_anew_at_each_replay() -> None:
    rate = fd.full((40,), 30.0, device="cuda")
    fd.poisson(rate)  # compiles before the capture
    graph = fd.cuda.CUDAGraph()
    fd.cuda.manual_seed(7)
    with fd.cuda.graph(graph):
        found = fd.poisson(rate)
    seen = []
    for _ in range(2):
        graph.replay()
        seen.append(found.cpu().tolist())
    fd.cuda.manual_seed(7)
    assert seen == [fd.poisson(rate).cpu().tolist() for _ in range(2)]
    assert seen[0] != seen[1]


@pytest.mark.usefixtures("cuda")
def test_what_is_no_rate_is_nan_on_a_device_and_an_error_on_the_cpu() -> None:
    rates = fd.tensor([-1.0, float("nan"), 3.0])
    found = fd.poisson(rates.to("cuda")).cpu()
    assert found[:2].isnan().all() and not found[2].isnan()
    with pytest.raises(RuntimeError, match="invalid Poisson rate"):
        fd.poisson(rates)
