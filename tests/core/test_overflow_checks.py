"""Element counts beyond the address space are rejected, where NumPy would wrap around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.overflow_checks import count_up, repeat_each
from fastdist.nn import functional as F

LARGEST = 2**63 - 1
QUARTERS = fd.tensor([2**62] * 4)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("count", [LARGEST, LARGEST - 1, 2**62, 2**60])
@pytest.mark.parametrize(
    "call",
    [
        fd.arange,
        lambda n: fd.arange(-1, n - 1),
        lambda n: fd.arange(0, float(n)),
        lambda n: fd.linspace(0, 1, n),
        lambda n: fd.linspace(0, 1, n, dtype=fd.complex64),
        lambda n: fd.logspace(0, 1, n),
        lambda n: fd.tril_indices(n, 1),
        lambda n: fd.triu_indices(1, n),
        fd.bartlett_window,
        fd.kaiser_window,
        fd.signal.windows.cosine,
        fd.fft.fftfreq,
        lambda n: fd.fft.rfftfreq(2 * n),
        lambda n: F.one_hot(fd.tensor([n])),
        lambda n: F.pad(fd.ones(1, 1, 3), (n, 0), mode="replicate"),
        lambda n: fd.ones(1).repeat_interleave(n),
        lambda n: fd.ones(1).repeat_interleave(fd.tensor(n)),
    ],
)
def test_counts_beyond_memory_are_refused(call: Callable[[int], Any], count: int) -> None:
    with pytest.raises((RuntimeError, MemoryError, TypeError)):
        call(count)


@pytest.mark.parametrize(
    "call",
    [
        lambda: fd.repeat_interleave(QUARTERS),
        lambda: fd.ones(4).repeat_interleave(QUARTERS),
        lambda: fd.ones(4).repeat_interleave(QUARTERS, output_size=0),
        lambda: fd.repeat_interleave(fd.tensor([LARGEST, LARGEST, 5])),
        lambda: fd.repeat_interleave(fd.tensor([2**63 + 2], dtype=fd.uint64)),
    ],
)
def test_repeats_whose_sum_overflows_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed with sizes"):
        call()


@pytest.mark.parametrize("lengths", [[2**62] * 4 + [4], [LARGEST, LARGEST, 6]])
@pytest.mark.parametrize("unsafe", [False, True])
def test_segments_whose_lengths_overflow_are_refused(lengths: list[int], unsafe: bool) -> None:
    with pytest.raises(RuntimeError, match=r"Expected all rows|Storage size calculation"):
        fd.segment_reduce(fd.ones(4), "sum", lengths=fd.tensor(lengths), unsafe=unsafe)


@pytest.mark.parametrize(
    "make",
    [
        lambda: fd.sparse_coo_tensor([[0, LARGEST]], fd.ones(2)),
        lambda: fd.sparse_coo_tensor([[0, 2**40], [0, 2**40]], fd.ones(2)),
        lambda: fd.sparse_coo_tensor([[1], [1]], fd.ones(1), (2**32, 2**32)),
        lambda: fd.sparse_coo_tensor(size=(2**41, 2**41)),
    ],
)
def test_sparse_places_that_int64_does_not_count_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match="numel: integer multiplication overflow"):
        make()


def test_more_combinations_than_memory_has_are_refused() -> None:
    with pytest.raises((RuntimeError, MemoryError)):
        fd.combinations(fd.ones(100), 30)
    found = fd.combinations(fd.arange(3), 2, with_replacement=True)
    assert found.tolist() == [[0, 0], [0, 1], [0, 2], [1, 1], [1, 2], [2, 2]]
    assert fd.combinations(fd.ones(0), 2, with_replacement=True).shape == (0, 2)


def test_more_parts_than_memory_has_are_refused() -> None:
    with pytest.raises(MemoryError):
        fd.ones(3).tensor_split(2**62)
    assert [len(part) for part in fd.ones(5).tensor_split(3)] == [2, 2, 1]


def test_a_batch_of_counts_is_as_long_as_the_largest_of_a_short_dtype_asks() -> None:
    rows = fd.tensor([[255, 1], [255, 255]], dtype=fd.uint8)
    assert fd.vmap(fd.bincount)(rows)[:, 255].tolist() == [1, 2]


def test_count_up_and_repeat_each_are_numpys() -> None:
    assert count_up(-1, 2).tolist() == [-1, 0, 1]
    assert repeat_each(np.arange(3), np.array([2, 0, 1])).tolist() == [0, 0, 2]
