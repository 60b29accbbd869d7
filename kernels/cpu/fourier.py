"""Discrete Fourier transforms on the CPU, by SciPy's pocketfft: in the dtype that is given.

SciPy's computes many rows at once in vector registers, and several axes in one call, on as many
threads as it is told; NumPy's does neither: 1024 of 1024 complex64 take 2.2 times as long, 1e6 of
them in a row 2.8 times (AMD EPYC, one thread).
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .small import Facts, Run, small

Array = np.ndarray[Any, Any]
# From so many numbers on a second thread is worth being called.
_SHARED = 1 << 15
# A fork ends SciPy's threads before it, and waits for ever if another thread gives them work then.
_no_fork = threading.RLock()
os.register_at_fork(
    before=_no_fork.acquire, after_in_parent=_no_fork.release, after_in_child=_no_fork.release
)


def transform(x: Array, out: Array, axes: tuple[int, ...], norm: str, forward: bool) -> None:
    """Write the transform of complex x along axes into out, both of one shape."""
    np.copyto(out, _transform(axes, norm, forward, x.size)(x))


def transform_real(
    x: Array, out: Array, axes: tuple[int, ...], norm: str, onesided: bool, doubled: bool
) -> None:
    """Write the transform of real x along axes into out: all of it, or the half that the other
    follows from, of the last of the axes; doubled, what has such a twin counts twice.
    """
    np.copyto(out, _transform_real(axes, norm, onesided, doubled, x.shape[axes[-1]], x.size)(x))


def to_real(x: Array, out: Array, axes: tuple[int, ...], norm: str, n: int, halved: bool) -> None:
    """Write into out the real numbers, n along the last of axes, of which x is the transform's one
    half; halved, what has a twin in the other counts half.
    """
    np.copyto(out, _to_real(axes, norm, n, halved, x.shape, out.size)(x))


# The three below return what computes such a result of x alone: what SciPy returns is fresh and in
# C order. `size` is how many numbers there are.


def _transform(axes: tuple[int, ...], norm: str, forward: bool, size: int) -> Run:
    from scipy import fft

    if len(axes) > 1:
        along_all = fft.fftn if forward else fft.ifftn
        return lambda x: _on_threads(size, along_all, x, None, axes, norm)
    (axis,) = axes
    along = fft.fft if forward else fft.ifft
    if size < _SHARED:
        return lambda x: along(x, None, axis, norm)
    return lambda x: _on_threads(size, along, x, None, axis, norm)


def _on_threads(size: int, run: Callable[..., Array], *args: Any) -> Array:
    if size >= _SHARED:
        from .launch import get_num_threads

        if (threads := get_num_threads()) > 1:
            with _no_fork:
                return run(*args, workers=threads)
    return run(*args)


_OTHER_WAY = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _transform_real(
    axes: tuple[int, ...], norm: str, onesided: bool, doubled: bool, n: int, size: int
) -> Run:
    if not onesided:
        # SciPy's own gives the sum of real numbers an imaginary part of -0.0, and so a negative one
        # the angle -pi. Its transform back has that as well, and is this one's conjugate.
        back = _transform(axes, _OTHER_WAY[norm], False, size)

        def run_whole(x: Array) -> Array:
            found: Array = back(x)
            return np.conjugate(found, out=found)

        return run_whole
    from scipy import fft

    rfft, rfftn, inner = fft.rfft, fft.rfftn, _inner(axes[-1], n)
    if len(axes) == 1 and not doubled and size < _SHARED:
        return lambda x: rfft(x, None, axes[0], norm)

    def run(x: Array) -> Array:
        if len(axes) == 1:
            found: Array = _on_threads(size, rfft, x, None, axes[0], norm)
        else:
            found = _on_threads(size, rfftn, x, None, axes, norm)
        if doubled:
            found[inner] *= 2
        return found

    return run


def _to_real(
    axes: tuple[int, ...], norm: str, n: int, halved: bool, shape: tuple[int, ...], size: int
) -> Run:
    from scipy import fft

    irfft, irfftn, inner = fft.irfft, fft.irfftn, _inner(axes[-1], n)
    if len(axes) == 1 and not halved and size < _SHARED:
        return lambda x: irfft(x, n, axes[0], norm)
    lengths = (*[shape[axis] for axis in axes[:-1]], n)

    def run(x: Array) -> Array:
        if halved:
            x = x.copy()
            x[inner] *= 0.5
        if len(axes) == 1:
            found: Array = _on_threads(size, irfft, x, n, axes[0], norm)
        else:
            found = _on_threads(size, irfftn, x, lengths, axes, norm)
        return found

    return run


def _inner(axis: int, n: int) -> Any:
    """Return the index of what has a twin in the half that is left out, of n numbers along axis."""
    return (..., slice(1, (n + 1) // 2), *[slice(None)] * (-1 - axis))


@small("fourier.transform")
def _make_transform(facts: Facts) -> Run:
    axes, norm, forward = facts.numbers
    return _transform(axes, norm, forward, math.prod(facts.shape))


@small("fourier.transform_real")
def _make_transform_real(facts: Facts) -> Run:
    axes, norm, onesided, doubled = facts.numbers
    shape = facts.shapes[0]
    assert shape is not None
    return _transform_real(axes, norm, onesided, doubled, shape[axes[-1]], math.prod(shape))


@small("fourier.to_real")
def _make_to_real(facts: Facts) -> Run:
    axes, norm, n, halved = facts.numbers
    shape = facts.shapes[0]
    assert shape is not None
    return _to_real(axes, norm, n, halved, shape, math.prod(facts.shape))
