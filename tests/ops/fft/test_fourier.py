"""Fourier transforms: everything except their values and derivatives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import fft
from fastdist.autograd.gradcheck import gradcheck, gradgradcheck
from fastdist.core.caller_warning import forget_what_was_told
from tests.kernels.cpu.processes import run_script


def drawn(*shape: int, dtype: Any = fd.float64) -> fd.Tensor:
    random = np.random.default_rng(3)
    made = random.standard_normal(shape) + 1j * random.standard_normal(shape)
    return fd.tensor(made if dtype.is_complex else made.real, dtype=dtype).requires_grad_()


COMPLEX: dict[str, Callable[[fd.Tensor], fd.Tensor]] = {
    "fft": lambda x: fft.fft(x, 5),
    "ifft2": fft.ifft2,
    "fftn of others": lambda x: fft.fftn(x, (2, 7), (2, 0), "ortho"),
    "irfft": lambda x: fft.irfft(x, 5, 1),
    "irfftn": lambda x: fft.irfftn(x, (4, 3), (-1, 1)),
    "hfftn": fft.hfftn,
}
REAL: dict[str, Callable[[fd.Tensor], fd.Tensor]] = {
    "fft": fft.fft,
    "ifft": lambda x: fft.ifft(x, 7, 0),
    "rfft": fft.rfft,
    "rfft of an odd number": lambda x: fft.rfft(x, 5, 1, "forward"),
    "rfftn": lambda x: fft.rfftn(x, dim=(1, 0)),
    "ihfft2": fft.ihfft2,
    "irfft": fft.irfft,
}
CALLS = [
    *[pytest.param(call, fd.complex128, id=f"{name} of complex") for name, call in COMPLEX.items()],
    *[pytest.param(call, fd.float64, id=f"{name} of real") for name, call in REAL.items()],
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("call", "dtype"), CALLS)
def test_first_and_second_derivatives_of_both_modes_are_those_of_differences(
    call: Callable[[fd.Tensor], fd.Tensor], dtype: Any
) -> None:
    x = drawn(2, 3, 4, dtype=dtype)
    assert gradcheck(call, (x,), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(call, (x,), check_fwd_over_rev=True)


def test_the_gradient_of_a_half_is_the_transform_of_a_half() -> None:
    x = drawn(6)
    (made,) = fd.autograd.grad(fft.rfft(x).abs().square().sum(), x, create_graph=True)
    assert type(made.grad_fn).__name__ == "FftC2RBackward0"


@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_the_sum_of_real_numbers_has_the_angle_of_a_real_number(n: int) -> None:
    x = fd.full((n,), -1.0)
    found = [fft.fft(x)[0], fft.rfft(x)[0], fft.fftn(x)[0], fft.ihfft(x)[0].conj()]
    assert [one.angle().item() for one in found] == [pytest.approx(np.pi)] * 4


@pytest.mark.parametrize("dtype", [fd.float32, fd.complex64])
def test_single_precision_is_kept_and_is_as_exact_as_it_can_be(dtype: Any) -> None:
    x = drawn(1 << 12, dtype=dtype).detach()
    found = fft.fft(x)
    exact = np.fft.fft(x.numpy().astype(np.complex128))
    assert found.dtype is fd.complex64
    assert np.abs(found.numpy() - exact).max() < 3e-7 * np.abs(exact).max()


def test_rows_that_threads_share_are_as_one_thread_makes_them() -> None:
    x = drawn(64, 1024, dtype=fd.complex64).detach()
    together = fft.fft(x)
    alone = fd.stack([fft.fft(row) for row in x])
    np.testing.assert_allclose(together.numpy(), alone.numpy(), rtol=1e-4, atol=1e-4)


def test_several_threads_transform_at_once() -> None:
    x = drawn(3, 50, dtype=fd.complex128).detach()
    expected, found = fft.fft(x).numpy(), list[Any]()
    threads = [threading.Thread(target=lambda: found.append(fft.fft(x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [np.array_equal(one.numpy(), expected) for one in found] == [True] * 4


def test_rows_of_none_are_transformed_to_none() -> None:
    shapes = [fft.fft(fd.zeros(0, 4)).shape, fft.rfft2(fd.zeros(0, 4, 6)).shape]
    shapes += [fft.irfft(fd.zeros(0, 4)).shape, fft.fftn(fd.zeros(0, 3), dim=1).shape]
    assert shapes == [(0, 4), (0, 4, 4), (0, 6), (0, 3)]


def test_nothing_is_written_over_and_nan_stays_in_its_row() -> None:
    x = drawn(2, 5, dtype=fd.complex128).detach()
    x[0, 1] = np.nan
    before = x.numpy().copy()
    found = fft.irfft(x)
    np.testing.assert_array_equal(x.numpy(), before)
    assert found.isnan().any(1).tolist() == [True, False]


def test_out_is_written_and_must_be_of_the_result_s_kind() -> None:
    x = drawn(4).detach()
    out = fd.empty(0, dtype=fd.complex64)
    assert fft.fft(x, out=out) is out
    assert out.shape == (4,) and out.dtype is fd.complex64
    with pytest.raises(RuntimeError, match="rfft expects a complex output tensor, but got Double"):
        fft.rfft(x, out=fd.empty(3, dtype=fd.float64))
    with pytest.raises(RuntimeError, match="hfft expects a floating point output tensor, but got"):
        fft.hfft(x, out=fd.empty(6, dtype=fd.complex128))


@pytest.mark.one_in(3)
def test_whole_numbers_are_taken_in_the_default_dtype() -> None:
    fd.set_default_dtype(fd.float64)
    try:
        found = [fft.fft(fd.ones(3).long()).dtype, fft.irfft(fd.ones(3).bool()).dtype]
    finally:
        fd.set_default_dtype(fd.float32)
    assert found == [fd.complex128, fd.float64]
    assert fft.rfft(fd.ones(3).int()).dtype is fd.complex64


def test_autocast_on_the_cpu_transforms_halves_in_float32() -> None:
    x = fd.ones(4).bfloat16()
    with fd.autocast("cpu"):
        assert fft.fft(x).dtype is fd.complex64
        with pytest.raises(RuntimeError, match="Unsupported dtype BFloat16"):
            fft.hfft2(x.reshape(2, 2))  # PyTorch does not cast for hfft2


def test_a_batch_is_transformed_at_once_along_any_axes() -> None:
    x = drawn(3, 4, 5, dtype=fd.complex128).detach()
    found = fd.vmap(lambda one: fft.irfftn(one, (3, 6), (1, 0)), in_dims=2)(x)
    expected = fft.irfftn(x, (3, 6), (1, 0)).movedim(2, 0)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-12)


def test_a_signal_comes_back_from_its_stretches() -> None:
    x, window = drawn(2, 100).detach(), fd.hann_window(16, dtype=fd.float64)
    found = fd.istft(fd.stft(x, 16, window=window, return_complex=True), 16, window=window)
    np.testing.assert_allclose(found.numpy(), x.numpy(), atol=1e-12)
    longer = x.stft(16, 3, window=window, return_complex=True).istft(
        16, 3, window=window, length=90
    )
    np.testing.assert_allclose(longer.numpy(), x[:, :90].numpy(), atol=1e-12)


def test_who_gives_no_window_and_who_wants_more_than_there_is_is_warned() -> None:
    forget_what_was_told()
    x = drawn(64).detach()
    with pytest.warns(UserWarning, match="A window was not provided"):
        fd.stft(x, 8, return_complex=True)
    stretches = fd.stft(x, 8, return_complex=True)  # warns only once: pytest makes warnings errors
    with pytest.warns(UserWarning, match="A window was not provided"):
        fd.istft(stretches, 8)
    with pytest.warns(UserWarning, match="The length of signal is shorter than the length param"):
        padded = fd.istft(stretches, 8, length=70)
    assert padded[68:].tolist() == [0.0] * 2


def test_each_of_a_batch_of_signals_is_cut_into_stretches_at_once() -> None:
    x, window = drawn(3, 2, 20).detach(), fd.ones(6, dtype=fd.float64)

    def there_and_back(one: fd.Tensor) -> fd.Tensor:
        return fd.istft(fd.stft(one, 6, 2, window=window, return_complex=True), 6, 2, window=window)

    np.testing.assert_allclose(fd.vmap(there_and_back)(x).numpy(), x.numpy(), atol=1e-12)


@pytest.mark.one_in(3)
def test_a_fork_waits_for_transforms_on_several_threads() -> None:
    script = """
import os, threading, warnings
import fastdist as fd
warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of a fork beside threads
fd.set_num_threads(2)
x, ends, failed = fd.randn(200, 200), threading.Event(), []
expected = fd.fft.fft2(x)
def transform():
    while not ends.is_set():
        try:
            assert fd.fft.fft2(x).equal(expected)
        except Exception as error:
            failed.append(error)
threads = [threading.Thread(target=transform) for _ in range(4)]
for thread in threads: thread.start()
statuses = set()
for _ in range(40):
    child = os.fork()
    if child == 0:
        os._exit(0 if fd.fft.fft2(x).equal(expected) else 1)
    statuses.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
ends.set()
for thread in threads: thread.join()
print(statuses, failed)
"""
    assert run_script(script, NUMBA_NUM_THREADS="2") == "{0} []"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"s": (2.5, 3)}, "'s' must be tuple of ints, but found element of type float at pos 0"),
        (
            {"s": (3, None)},
            "'s' must be tuple of ints, but found element of type NoneType at pos 1",
        ),
        ({"s": "a"}, "'s' must be tuple of ints, not str"),
        ({"s": True}, "'s' must be tuple of ints, not bool"),
        ({"s": 2.5}, "'s' must be tuple of ints, not float"),
        ({"s": (2,), "dim": {0}}, r"'dim'.* must be "),
    ],
)
def test_lengths_and_axes_that_are_no_integers_are_refused(given: Any, found: str) -> None:
    for transform in (fft.fftn, fft.irfftn):
        with pytest.raises(TypeError, match=found):
            transform(fd.ones(4, 4), **given)
