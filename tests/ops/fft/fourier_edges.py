"""Fourier transforms without elements, without axes, and of infinite values: see edge_cases.py."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import fastdist as fd
import fastdist.fft as FT
from tests.ops.cases import case, plain
from tests.ops.fft.fourier_cases import CASES, NO_HALF, parts

# Each element affects all results, through sums whose order differs between libraries. Therefore
# it is undefined which results of infinite inputs are NaN or infinite.
FINITE_ALONE = frozenset(NO_HALF)
NAMES_THE_SIZE = {
    (name, i) for name in ("fft.hfft2", "stft", "istft") for i in range(len(CASES[name]))
}
WITHOUT_EMPTY = {"istft"}  # rejects empty inputs, as PyTorch does
EMPTY = {
    "stft": [
        case(
            lambda x: fd.stft(x, 2, 1, window=x.new_ones(2), center=False, return_complex=False),
            lambda x: np.zeros((0, 2, 3, 2)),
            (0, 4),
        )
    ],
    "fft.ifftn": [case(lambda x: parts(FT.ifftn(x, dim=1)), lambda x: np.zeros((0, 3, 2)), (0, 3))],
    "fft.hfft2": [case(FT.hfft2, lambda x: np.zeros((0, 3, 4)), (0, 3, 3))],
    "fft.hfftn": [case(lambda x: FT.hfftn(x, dim=1), lambda x: np.zeros((0, 4)), (0, 3))],
    "fft.ihfftn": [
        case(lambda x: parts(FT.ihfftn(x, dim=1)), lambda x: np.zeros((0, 2, 2)), (0, 3))
    ],
    "fft.fftfreq": [plain(lambda x: FT.fftfreq(0, dtype=x.dtype), lambda x: np.zeros(0), (0,))],
    "fft.rfftfreq": [
        plain(lambda x: FT.rfftfreq(0, dtype=x.dtype), lambda x: np.full(1, np.nan), (0,))
    ],
}


def refusing(name: str) -> Callable[[fd.Tensor], object]:
    if name == "istft":
        return lambda x: fd.istft(fd.complex(x, x), 1, 1, window=fd.ones(1))
    if name == "stft":
        return lambda x: fd.stft(x, 1, 1, window=fd.ones(1), return_complex=True)
    function: Callable[[fd.Tensor], object] = getattr(FT, name.removeprefix("fft."))
    return function


_WITHOUT_AXES = {"fft.fftfreq", "fft.rfftfreq", "fft.fftn", "fft.ifftn"}
REFUSED_SCALAR = {name: refusing(name) for name in sorted(CASES.keys() - _WITHOUT_AXES)}
