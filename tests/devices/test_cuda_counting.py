"""Counting, searching and drawing on cuda: the CPU's results, and the number of host waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from tests.fibre_shim.installed import cuda_on_fibres, uploads, waits

RNG = np.random.default_rng(21)
WHOLE = RNG.integers(0, 7, (5, 9))
REAL = RNG.integers(-6, 6, (4, 11)).astype(np.float32) / 2
ROW, TIMES = np.sort(RNG.integers(0, 9, 12)), RNG.integers(0, 4, 5)


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from cuda_on_fibres(monkeypatch)


def _written(on: Any) -> Any:
    x = on(REAL) * 1
    x[x > 1] = 0.5
    return x


# How often each call waits for the device: once for each size that the host must know.
CALLS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "searchsorted": (0, lambda on: fd.searchsorted(on(ROW), on(WHOLE))),
    "searchsorted of rows": (
        0,
        lambda on: fd.searchsorted(on(REAL).sort()[0], on(REAL), right=True, out_int32=True),
    ),
    "searchsorted by a sorter": (
        0,
        lambda on: fd.searchsorted(on(REAL), on(REAL), sorter=on(REAL).argsort()),
    ),
    "searchsorted of a number": (0, lambda on: fd.searchsorted(on(ROW), 4.5, side="right")),
    "bucketize": (0, lambda on: fd.bucketize(on(REAL), on(ROW))),
    "isin": (0, lambda on: fd.isin(on(WHOLE), on(ROW))),
    "one_hot": (0, lambda on: fd.nn.functional.one_hot(on(WHOLE), 9)),
    "one_hot of the largest": (1, lambda on: fd.nn.functional.one_hot(on(WHOLE))),
    "repeat_interleave": (
        0,
        lambda on: on(WHOLE).repeat_interleave(on(TIMES), 0, output_size=int(TIMES.sum())),
    ),
    "repeat_interleave of an unknown size": (1, lambda on: on(TIMES).repeat_interleave(on(TIMES))),
    "bincount": (1, lambda on: on(WHOLE).reshape(-1).bincount(minlength=9)),
    "bincount of weights": (
        1,
        lambda on: on(WHOLE).reshape(-1)[:44].bincount(on(REAL).reshape(-1)),
    ),
    "histc": (0, lambda on: on(REAL).histc(5, -2, 2)),
    "histc of all": (1, lambda on: on(REAL).histc(5)),
    "nonzero": (1, lambda on: on(WHOLE).nonzero()),
    "nonzero of axes": (1, lambda on: fd.cat(on(REAL).nonzero(as_tuple=True))),
    "nonzero_static": (0, lambda on: fd.nonzero_static(on(WHOLE), size=50)),
    "a mask": (1, lambda on: on(REAL)[on(REAL) > 0]),
    "a mask of an axis": (1, lambda on: on(REAL)[:, on(REAL)[0] > 0]),
    "what a mask writes": (1, _written),
    "masked_select": (1, lambda on: on(REAL).masked_select(on(REAL) < 1)),
    "unique": (
        1,
        lambda on: fd.cat([one.reshape(-1) for one in on(WHOLE).unique(True, True, True)]),
    ),
    "unique_consecutive": (1, lambda on: fd.cat(on(ROW).unique_consecutive(True, True))),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CALLS)
def test_the_host_waits_for_sizes_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count, call = CALLS[name]
    kept = {id(array): fd.tensor(array, device="cuda") for array in (WHOLE, REAL, ROW, TIMES)}
    expected = call(fd.tensor)
    with monkeypatch.context() as patch:
        waited, copied = waits(patch), uploads(patch)
        found = call(lambda array: kept[id(array)])
        assert (len(waited), copied) == (count, [])
    assert found.dtype is expected.dtype
    np.testing.assert_array_equal(found.cpu().numpy(), expected.numpy())


CREATED: dict[str, Callable[[str], Any]] = {
    "arange": lambda device: fd.arange(300, device=device),
    "arange backwards": lambda device: fd.arange(7, -8, -3, dtype=fd.int32, device=device),
    "arange of fractions": lambda device: fd.arange(0.3, 90, 0.1, dtype=fd.float64, device=device),
    "arange of halves": lambda device: fd.arange(0, 9, 0.1, dtype=fd.float16, device=device),
    "eye": lambda device: fd.eye(5, device=device),
    "eye of a wide one": lambda device: fd.eye(3, 6, dtype=fd.int64, device=device),
    "tril_indices": lambda device: fd.tril_indices(5, 4, 1, device=device),
    "triu_indices": lambda device: fd.triu_indices(6, 7, -2, dtype=fd.int32, device=device),
}


@pytest.mark.parametrize("name", CREATED)
def test_what_follows_from_numbers_alone_is_made_on_the_device(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        waited, copied = waits(patch), uploads(patch)
        found = CREATED[name]("cuda")
        assert waited == copied == []
    expected = CREATED[name]("cpu")
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found.cpu().numpy(), expected.numpy())


def _filled(name: str, *numbers: float, dtype: Any = fd.float32) -> Callable[[Any], Any]:
    return lambda on: getattr(on(REAL).to(dtype), name)(*numbers)


CHANCES = np.abs(REAL) / 4
DRAWN: dict[str, Callable[[Any], Any]] = {
    "randperm": lambda on: fd.randperm(50, device=on(REAL).device),
    "randperm of floats": lambda on: fd.randperm(9, device=on(REAL).device, dtype=fd.float16),
    "exponential_": _filled("exponential_", 2.0),
    "exponential_ of halves": _filled("exponential_", dtype=fd.float16),
    "geometric_": _filled("geometric_", 0.3),
    "geometric_ of integers": _filled("geometric_", 0.3, dtype=fd.int32),
    "cauchy_": _filled("cauchy_", 1.0, 0.5, dtype=fd.float64),
    "log_normal_": _filled("log_normal_", 0.5, 0.2),
    "bernoulli": lambda on: fd.bernoulli(on(CHANCES).clamp(max=1)),
    "bernoulli of a number": lambda on: on(REAL).bernoulli(0.4),
    "normal": lambda on: fd.normal(on(REAL), on(CHANCES)),
    "multinomial": lambda on: fd.multinomial(on(CHANCES) + 0.1, 5),
    "multinomial with replacement": lambda on: fd.multinomial(on(CHANCES) + 0.1, 20, True),
    "multinomial of one row": lambda on: fd.multinomial(on(CHANCES)[0] + 0.1, 1, True),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", DRAWN)
def test_draws_are_the_cpu_s_and_nobody_waits_for_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {id(array): fd.tensor(array, device="cuda") for array in (REAL, CHANCES)}
    fd.manual_seed(3)
    expected = [DRAWN[name](fd.tensor) for _ in range(2)]
    with monkeypatch.context() as patch:
        waited, copied = waits(patch), uploads(patch)
        fd.manual_seed(3)
        found = [DRAWN[name](lambda array: kept[id(array)].clone()) for _ in range(2)]
        assert waited == copied == []
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        roundings = 0 if one.dtype is fd.int64 else 2e-6 if one.dtype is not fd.float16 else 2e-3
        np.testing.assert_allclose(one.cpu().numpy(), other.numpy(), rtol=roundings, atol=roundings)


def test_draws_of_a_graph_go_on_at_each_replay() -> None:
    def block() -> list[Any]:
        x = fd.ones(20, device="cuda")
        return [fd.randperm(6, device="cuda"), x.exponential_(), x.multinomial(3, True)]

    fd.cuda.manual_seed(8)
    expected = [[one.tolist() for one in block()] for _ in range(3)]
    captured = fd.cuda.CUDAGraph()
    with fd.cuda.graph(captured):
        drawn = block()
    fd.cuda.manual_seed(8)
    for turn in range(3):
        captured.replay()
        assert [one.tolist() for one in drawn] == expected[turn]


def test_what_is_empty_is_counted_and_searched() -> None:
    def compute(on: Callable[[np.ndarray], Any]) -> list[Any]:
        nothing, number = on(np.zeros((0, 3), np.int64)), on(np.array(3))
        made = [nothing.nonzero(), number.nonzero(), *number.nonzero(as_tuple=True)]
        made += [nothing.unique(), *nothing.reshape(-1).unique(True, True, True)]
        made += [nothing.reshape(-1).bincount(), nothing.reshape(-1).bincount(minlength=2)]
        made += [fd.searchsorted(nothing[:, 0], number.reshape(1)), on(REAL)[on(REAL) > 99]]
        made += [fd.nn.functional.one_hot(nothing, 4), nothing.repeat_interleave(nothing[:, 0], 0)]
        return made

    found, expected = (
        compute(lambda array, device=device: fd.tensor(array, device=device))
        for device in ("cuda", "cpu")
    )
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tolist() == other.tolist()
