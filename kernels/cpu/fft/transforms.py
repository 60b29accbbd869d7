"""Discrete Fourier transforms on the CPU by SciPy's pocketfft, in the dtype of the input.

SciPy computes several rows at a time in vector registers, and several axes in one call, on a given
number of threads. NumPy does none of this: with NumPy, 1024 transforms of 1024 complex64 numbers
take 2.2 times as long, and one transform of 1e6 numbers takes 2.8 times as long (AMD EPYC, one
thread).
"""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from ..small.call_facts import CallFacts, Run, small

Array = np.ndarray[Any, Any]
# From this many numbers on, several threads are faster.
_SHARED = 1 << 15
# Held during a threaded call, and acquired by a fork. A fork first ends SciPy's threads; work that
# another thread submits to these threads at that time would never finish.
_no_fork = threading.RLock()
os.register_at_fork(
    before=_no_fork.acquire, after_in_parent=_no_fork.release, after_in_child=_no_fork.release
)
# SciPy's code for the divisor of a transform of n numbers: 0 means 1, 1 means sqrt(n), 2 means n.
# The keys are whether the transform is forward, and the argument `norm`.
_DIVISORS: Final = {
    True: {"backward": 0, "ortho": 1, "forward": 2},
    False: {"forward": 0, "ortho": 1, "backward": 2},
}


def transform(x: Array, out: Array, axes: tuple[int, ...], norm: str, forward: bool) -> None:
    """Write the transform of complex x along axes into out, which has the same shape."""
    np.copyto(out, _transform(axes, norm, forward, x.shape)(x))


def transform_real(
    x: Array, out: Array, axes: tuple[int, ...], norm: str, onesided: bool, doubled: bool
) -> None:
    """Write the transform of real x along axes into out: all of it, or, if `onesided`, the half
    along the last of `axes` that determines the other half. If `doubled`, numbers with a mirror
    image in the other half are multiplied by 2.
    """
    np.copyto(out, _transform_real(axes, norm, onesided, doubled, x.shape)(x))


def to_real(x: Array, out: Array, axes: tuple[int, ...], norm: str, n: int, halved: bool) -> None:
    """Write the inverse transform of x, one half of a spectrum, into out: real numbers, `n` of them
    along the last of `axes`. If `halved`, numbers of x with a mirror image in the other half are
    first multiplied by 0.5.
    """
    np.copyto(out, _to_real(axes, norm, n, halved, x.shape)(x))


# ---- SciPy's functions --------------------------------------------------------------------------


class _SciPys(NamedTuple):
    """SciPy's transforms, with the parameters of the module scipy.fft._pocketfft.pypocketfft: from
    complex or real to complex (c2c), from real to a half spectrum (r2c), and back (c2r).
    """

    c2c: Callable[..., Array]
    r2c: Callable[..., Array]
    c2r: Callable[..., Array]


@functools.cache
def _scipys() -> _SciPys:
    """Return the transforms of SciPy's private module. If this SciPy has no such module, wrap its
    public functions.

    For 16 numbers a public function takes 3.8 us, of which the transform takes 0.7 (AMD EPYC).
    """
    try:
        from scipy.fft._pocketfft import pypocketfft as inner
    except ImportError:
        return _of_public_functions()
    return _SciPys(inner.c2c, inner.r2c, inner.c2r)


def _of_public_functions() -> _SciPys:
    from scipy import fft

    words = {(forward, of[word]): word for forward, of in _DIVISORS.items() for word in of}

    def c2c(x: Array, axes: Any, forward: bool, divisor: int, out: None, threads: int) -> Array:
        along = fft.fftn if forward else fft.ifftn
        found: Array = along(x, None, axes, words[forward, divisor], workers=threads)
        return found

    def r2c(x: Array, axes: Any, forward: bool, divisor: int, out: None, threads: int) -> Array:
        found: Array = fft.rfftn(x, None, axes, words[forward, divisor], workers=threads)
        return found

    def c2r(
        x: Array, axes: Any, n: int, forward: bool, divisor: int, out: None, threads: int
    ) -> Array:
        lengths = (*[x.shape[axis] for axis in axes[:-1]], n)
        found: Array = fft.irfftn(x, lengths, axes, words[forward, divisor], workers=threads)
        return found

    return _SciPys(c2c, r2c, c2r)


def _on_threads(size: int, run: Callable[[Array, int], Array]) -> Run:
    """Return a function that calls `run` with one thread, or all threads if `size` is large."""

    def run_alone(x: Array) -> Array:
        return run(x if x.flags.aligned else x.copy(), 1)

    def run_shared(x: Array) -> Array:
        from ..jit.launch import get_num_threads

        if (threads := get_num_threads()) < 2:
            return run_alone(x)
        with _no_fork:
            return run(x if x.flags.aligned else x.copy(), threads)

    return run_shared if size >= _SHARED else run_alone


def _dividing(run: Callable[[Array, int, int], Array], divisor: int, points: int) -> Any:
    """Return a function of (x, threads) that runs transforms of `points` numbers each, and divides
    by 1, sqrt(points) or points if `divisor` is 0, 1 or 2.

    A sum of finite numbers may overflow before it is divided. Then x is divided before the
    transform.
    """
    if not divisor:
        return lambda x, threads: run(x, 0, threads)
    factor = 1 / points if divisor == 2 else 1 / math.sqrt(points)

    def run_divided(x: Array, threads: int) -> Array:
        found = run(x, divisor, threads)
        numbers = found.reshape(-1).view(found.real.dtype)
        # Fast test: a finite sum of squares proves that all numbers are finite, but the sum may
        # overflow although they are.
        if math.isfinite(np.dot(numbers, numbers)) or np.isfinite(numbers).all():
            return found
        return run(x * numbers.dtype.type(factor), 0, threads) if np.isfinite(x).all() else found

    return run_divided


# ---- The three transforms -----------------------------------------------------------------------
# Each of the following functions returns a function that computes the result from x alone, without
# `out`, because SciPy's result is a new array in C order.


def _points(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    return math.prod([shape[axis] for axis in axes])


def _transform(axes: tuple[int, ...], norm: str, forward: bool, shape: tuple[int, ...]) -> Run:
    c2c = _scipys().c2c

    def run(x: Array, divisor: int, threads: int) -> Array:
        return c2c(x, axes, forward, divisor, None, threads)

    divisor = _DIVISORS[forward][norm]
    return _on_threads(math.prod(shape), _dividing(run, divisor, _points(shape, axes)))


_OTHER_WAY = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _transform_real(
    axes: tuple[int, ...], norm: str, onesided: bool, doubled: bool, shape: tuple[int, ...]
) -> Run:
    if not onesided:
        # SciPy's forward transform gives the sum of real numbers an imaginary part of -0.0, so that
        # the angle of a negative sum is -pi. The conjugate of the inverse transform has +0.0 there.
        back = _transform(axes, _OTHER_WAY[norm], False, shape)

        def run_whole(x: Array) -> Array:
            found: Array = back(x)
            return np.conjugate(found, out=found)

        return run_whole
    r2c, inner = _scipys().r2c, _inner(axes[-1], shape[axes[-1]])

    def run(x: Array, divisor: int, threads: int) -> Array:
        found = r2c(x, axes, True, divisor, None, threads)
        if doubled:
            found[inner] *= 2
        return found

    divisor = _DIVISORS[True][norm]
    return _on_threads(math.prod(shape), _dividing(run, divisor, _points(shape, axes)))


def _to_real(axes: tuple[int, ...], norm: str, n: int, halved: bool, shape: tuple[int, ...]) -> Run:
    c2r, inner = _scipys().c2r, _inner(axes[-1], n)

    def run(x: Array, divisor: int, threads: int) -> Array:
        if halved:
            x = x.copy()
            x[inner] *= 0.5
        return c2r(x, axes, n, False, divisor, None, threads)

    divisor, size = _DIVISORS[False][norm], math.prod(shape) // shape[axes[-1]] * n
    return _on_threads(size, _dividing(run, divisor, _points(shape, axes[:-1]) * n))


def _inner(axis: int, n: int) -> Any:
    """Return the index, along axis, of the numbers of a half spectrum that have a mirror image."""
    return (..., slice(1, (n + 1) // 2), *[slice(None)] * (-1 - axis))


@small("fft.transforms.transform")
def _make_transform(facts: CallFacts) -> Run:
    axes, norm, forward = facts.numbers
    return _transform(axes, norm, forward, facts.shape)


@small("fft.transforms.transform_real")
def _make_transform_real(facts: CallFacts) -> Run:
    axes, norm, onesided, doubled = facts.numbers
    shape = facts.shapes[0]
    assert shape is not None
    return _transform_real(axes, norm, onesided, doubled, shape)


@small("fft.transforms.to_real")
def _make_to_real(facts: CallFacts) -> Run:
    axes, norm, n, halved = facts.numbers
    shape = facts.shapes[0]
    assert shape is not None
    return _to_real(axes, norm, n, halved, shape)
