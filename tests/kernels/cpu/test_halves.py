"""Kernels of the CPU see float32 in place of half types, and what they write is rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdist.devices.cpu import CpuBackend
from fastdist.kernels.cpu.halves import in_float32

NUMBERS = np.random.default_rng(0).standard_normal((9, 70)).astype(np.float16)


def test_a_kernel_is_given_float32_and_its_result_is_rounded_once() -> None:
    seen = []

    def kernel(x: Any, index: Any, out: Any, factor: float) -> None:
        seen.extend([x.dtype, index.dtype, out.dtype])
        np.multiply(x, factor, out=out)

    out = np.empty_like(NUMBERS)
    in_float32("some.kernel", kernel, 2)(NUMBERS, np.arange(3), out, 0.1)
    assert seen == [np.float32, np.int64, np.float32]
    np.testing.assert_array_equal(
        out, (NUMBERS.astype(np.float32) * np.float32(0.1)).astype(np.float16)
    )


def test_what_is_written_over_float16_is_inf_without_a_warning() -> None:
    out = np.empty((), np.float16)
    x = np.full(9, 60000, np.float16)
    CpuBackend().kernel("reduce.sum", 1)(x, out, (0,))
    assert out == np.inf


def test_a_kernel_may_add_to_what_it_writes() -> None:
    out = np.full(3, 2, np.float16)
    index = (np.array([0, 0, 2]),)
    CpuBackend().kernel("indexing.put", 1)(np.ones(3, np.float16), out, index, True)
    assert out.tolist() == [4, 2, 3]


@pytest.mark.parametrize("name", ["indexing.gather", "copying.flip"])
def test_a_kernel_that_moves_elements_is_given_them_as_they_are(name: str) -> None:
    assert CpuBackend().kernel(name, 2) is CpuBackend().kernel(name)


def test_the_largest_of_windows_is_that_of_float32() -> None:
    windows = ((3, 2, 1, 1), (3, 2, 1, 1))
    found = []
    for dtype, reads in ((np.float16, 1), (np.float32, None)):
        out, places = np.empty((5, 35), dtype), np.empty((5, 35), np.int64)
        kernel = CpuBackend().kernel("windows.largest", reads)
        kernel(NUMBERS.astype(dtype), out, places, windows)
        found.append((out, places))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
