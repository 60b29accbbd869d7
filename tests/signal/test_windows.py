"""Windows, periodic or symmetric, equal NumPy's, and reject arguments that PyTorch rejects."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.signal import windows
from tests.fibre_shim.installed import cuda_on_fibres, host_traffic

NUMPYS: dict[str, Any] = {
    "bartlett": np.bartlett,
    "blackman": np.blackman,
    "hamming": np.hamming,
    "hann": np.hanning,
    "kaiser": lambda n: np.kaiser(n, 12.0),
}


@pytest.mark.parametrize("name", NUMPYS)
@pytest.mark.parametrize("length", [0, 1, 2, 5, 8])
def test_a_window_is_numpys(name: str, length: int) -> None:
    found = getattr(windows, name)(length, dtype=fd.float64)
    np.testing.assert_allclose(found.numpy(), NUMPYS[name](length), atol=1e-15)


@pytest.mark.parametrize("name", NUMPYS)
@pytest.mark.parametrize("length", [0, 1, 2, 5, 8])
def test_a_periodic_window_is_the_next_longer_one_less_its_end(name: str, length: int) -> None:
    found = getattr(fd, f"{name}_window")(length, dtype=fd.float64)
    expected = np.ones(1) if length == 1 else NUMPYS[name](length + 1)[:length]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-15)


@pytest.mark.parametrize("name", NUMPYS)
def test_both_rooms_have_the_same_windows(name: str) -> None:
    periodic = getattr(fd, f"{name}_window")
    symmetric = getattr(windows, name)
    assert fd.equal(periodic(6), symmetric(6, sym=False))
    assert fd.equal(periodic(6, False), symmetric(6))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (windows.cosine(4), np.sin(np.pi * (np.arange(4) + 0.5) / 4)),
        (windows.cosine(4, sym=False), np.sin(np.pi * (np.arange(4) + 0.5) / 5)),
        (windows.exponential(3, tau=2.0), np.exp([-0.5, 0.0, -0.5])),
        (windows.exponential(3, center=0.0, sym=False), np.exp([0.0, -1.0, -2.0])),
        (windows.gaussian(3, std=0.5), np.exp([-2.0, 0.0, -2.0])),
        (windows.general_cosine(3, a=[1.0, 2.0, 4.0]), np.array([3.0, 7.0, 3.0])),
        (windows.general_hamming(3, alpha=0.75), np.array([0.5, 1.0, 0.5])),
        (windows.nuttall(3), np.array([0.0003628, 1.0, 0.0003628])),
        (fd.hamming_window(4, True, 0.5, 0.25), np.array([0.25, 0.5, 0.75, 0.5])),
    ],
)
def test_a_window_has_its_formula(found: fd.Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-7)


def test_a_window_is_made_as_told() -> None:
    made = fd.hann_window(4, dtype=fd.float64, device="sim:0", requires_grad=True)
    assert (made.dtype, str(made.device), made.requires_grad) == (fd.float64, "sim:0", True)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: windows.hann(-1), ValueError),
        (lambda: windows.hann(3, dtype=fd.float16), ValueError),
        (lambda: windows.hann(3, layout=fd.sparse_coo), ValueError),
        (lambda: windows.hann(2.5), TypeError),
        (lambda: windows.kaiser(3, beta=-1.0), ValueError),
        (lambda: windows.gaussian(3, std=0.0), ValueError),
        (lambda: windows.exponential(3, tau=0.0), ValueError),
        (lambda: windows.exponential(3, center=1.0), ValueError),
        (lambda: windows.general_cosine(3, a=[]), ValueError),
        (lambda: windows.general_cosine(3, a=0.5), TypeError),
        (lambda: fd.hann_window(-1), RuntimeError),
        (lambda: fd.hann_window(3, dtype=fd.int64), RuntimeError),
        (lambda: fd.hann_window(3, layout=fd.sparse_coo), RuntimeError),
        (lambda: fd.hann_window(2.5), TypeError),
    ],
)
def test_what_no_window_has_is_refused(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


_NAMES = [name for name in windows.__all__ if name != "general_cosine"]
_SHORT = [(name, n) for name in ("hann", "kaiser", "bartlett") for n in (0, 1, 2)]
MADE = {
    **{name: partial(getattr(windows, name), 9) for name in _NAMES},
    **{f"{name} of {n}": partial(getattr(windows, name), n) for name, n in _SHORT},
    "general_cosine": partial(windows.general_cosine, 9, a=[0.3, 0.5, 0.2]),
    "off its center": partial(windows.exponential, 9, center=2.5, tau=3.0, sym=False),
    "hann_window": partial(fd.hann_window, 10),
    "kaiser_window": partial(fd.kaiser_window, 10, beta=3.0),
    "of halves": partial(fd.hamming_window, 10, dtype=fd.float16),
    "logspace": partial(fd.logspace, -2, 3, 11, 2.5),
    "logspace of float64": partial(fd.logspace, -2, 3, 11, dtype=fd.float64),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", MADE)
def test_on_a_device_they_are_made_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = MADE[name]()
    fibres = cuda_on_fibres(monkeypatch)
    next(fibres)
    MADE[name](device="cuda")  # compiles the kernel
    traffic = host_traffic(monkeypatch)
    found = MADE[name](device="cuda", requires_grad=True)
    assert not traffic and found.is_leaf and found.requires_grad
    assert (found.dtype, found.device.type) == (expected.dtype, "cuda")
    step = 2e-3 if found.dtype is fd.float16 else 1e-6
    fd.testing.assert_close(found.detach().cpu(), expected, rtol=step, atol=1e-7)
    del found
    list(fibres)


def test_on_a_device_unknown_words_are_refused_as_well() -> None:
    for device in ("cpu", "sim"):
        with pytest.raises(TypeError, match="colour"):
            fd.hann_window(5, device=device, colour="red")
