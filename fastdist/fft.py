"""Discrete Fourier transforms under PyTorch's names: `fastdist.fft.X`."""

from __future__ import annotations

from .core.missing import explain_missing
from .namespace.load import FFT as _FFT

globals().update(_FFT)
__all__ = sorted(_FFT)  # noqa: PLE0605 (the catalogue says its names)

explain_missing(__name__)
