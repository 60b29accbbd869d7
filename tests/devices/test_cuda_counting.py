"""Counting, searching and drawing on cuda: the CPU's results, and how often the host waits."""

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


# How often each waits for the device: as often as the host must know a size.
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
    "nonzero_static": (1, lambda on: fd.nonzero_static(on(WHOLE), size=50)),
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
