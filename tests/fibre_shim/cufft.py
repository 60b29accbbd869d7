"""cuFFT's transforms with CuPy's interface, implemented with NumPy on the CPU.

The functions have CuPy's parameters. As in CuPy, inputs are not changed and results are new arrays.
Errors are a length below 1, and a stream under capture, because a plan cannot be captured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.fibre_shim.operators import computed

_NORMS = ("backward", "ortho", "forward")


def transforms(made: Any) -> SimpleNamespace:
    """Return the functions of `cupy.fft`, for arrays of the class `made`."""

    def of_axes(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(a: Any, s: None = None, axes: Sequence[int] = (), norm: str = "") -> Any:
            assert isinstance(a, made) and norm in _NORMS and len(set(axes)) == len(axes) > 0
            _require_room(a)
            return computed(made, function, a, axes=tuple(axes), norm=norm)

        return call

    def irfft(a: Any, n: int, axis: int, norm: str) -> Any:
        assert isinstance(a, made) and norm in _NORMS and a.shape[axis] == n // 2 + 1
        _require_room(a)
        return computed(made, np.fft.irfft, a, n=n, axis=axis, norm=norm)

    return SimpleNamespace(
        fftn=of_axes(np.fft.fftn),
        ifftn=of_axes(np.fft.ifftn),
        rfftn=of_axes(np.fft.rfftn),
        irfft=irfft,
    )


def _require_room(a: Any) -> None:
    assert a.size, "CuPy has no plan for nothing"
    assert a.dtype.char in "fdFD", "CuPy would cast"
