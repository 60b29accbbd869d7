"""Transforms on the CPU: SciPy's internal module against its public functions, and huge numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.kernels.cpu.fft import transforms

RNG = np.random.default_rng(3)


def complex_numbers(*shape: int, dtype: str = "complex64") -> Any:
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)


@pytest.mark.parametrize("axes", [(-1,), (-2,), (-2, -1), (-1, -3)])
@pytest.mark.parametrize("divisor", [0, 1, 2])
@pytest.mark.parametrize("forward", [True, False])
def test_public_functions_stand_in_for_the_inner_module(
    axes: tuple[int, ...], divisor: int, forward: bool
) -> None:
    inner, public = transforms._scipys(), transforms._of_public_functions()
    x = complex_numbers(3, 4, 6)
    more = (forward, divisor, None, 1)
    np.testing.assert_array_equal(public.c2c(x, axes, *more), inner.c2c(x, axes, *more))
    real = x.real.copy()
    if forward:
        np.testing.assert_array_equal(public.r2c(real, axes, *more), inner.r2c(real, axes, *more))
    else:
        n = 2 * (x.shape[axes[-1]] - 1)
        np.testing.assert_array_equal(public.c2r(x, axes, n, *more), inner.c2r(x, axes, n, *more))


def test_all_functions_run_where_scipy_has_another_inner_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = RNG.normal(size=(5, 8)).astype(np.float32)
    half = complex_numbers(5, 8)

    def found() -> list[Any]:
        whole = transforms._transform_real((-1,), "backward", False, False, x.shape)
        one = transforms._transform_real((-1,), "ortho", True, True, x.shape)
        back = transforms._to_real((-2, -1), "backward", 14, True, half.shape)
        return [whole(x), one(x), back(half)]

    expected = found()
    monkeypatch.setattr(transforms, "_scipys", transforms._of_public_functions)
    for ours, theirs in zip(found(), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", [fd.float32, fd.float64])
def test_what_is_divided_does_not_overflow_before(dtype: Any) -> None:
    large = fd.full((4, 16), fd.finfo(dtype).max, dtype=dtype)
    flat, peak = (
        large.to(fd.complex128 if dtype is fd.float64 else fd.complex64),
        large[0, 0].item(),
    )
    for found in (
        fd.fft.ifft(flat), fd.fft.irfft(large), fd.fft.rfft(large, norm="forward"),
        fd.fft.fft(large, norm="forward"), fd.fft.ifft(large),
    ):  # fmt: skip
        np.testing.assert_allclose(found.real[:, 0].numpy(), peak, rtol=1e-6)
        assert found[:, 1:].abs().max().item() <= peak * 1e-6
    np.testing.assert_allclose(fd.fft.ifft2(flat).real[0, 0].item(), peak, rtol=1e-6)
    # An infinite result stays infinite, and rows that contain a NaN or inf become NaN.
    assert math.isinf(fd.fft.fft(large).real[0, 0].item())
    large[0, 3] = math.inf
    assert not fd.fft.ifft(large)[0].isfinite().any()


def test_numbers_in_the_wrong_place_of_memory_are_copied_first() -> None:
    memory = np.zeros(8 * 16 + 1, np.uint8)[1:].view(np.float64)
    memory[:] = RNG.normal(size=16)
    assert not memory.flags.aligned
    found = fd.fft.rfft(fd.from_numpy(memory))
    np.testing.assert_array_equal(found.numpy(), np.asarray(fd.fft.rfft(fd.tensor(memory.copy()))))
