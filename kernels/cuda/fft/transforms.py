"""Discrete Fourier transforms of CUDA arrays by cuFFT through CuPy, which caches cuFFT's plans.

A plan owns its work area, and a thread uses the same plans on all its streams. So when a thread
switches streams on a device, the new stream waits for the old one.
"""

from __future__ import annotations

import threading
from typing import Any

from fastdist.core.errors import KernelError


def transform(x: Any, out: Any, axes: tuple[int, ...], norm: str, forward: bool) -> None:
    """Write the transform of complex x along axes into out, which has the same shape."""
    from cupy import fft

    with out.device:
        if out.size:
            _take_plans(out.device.id)
            if forward:
                out[...] = fft.fftn(x, axes=axes, norm=norm)
            else:
                out[...] = fft.ifftn(x, axes=axes, norm=norm)


def transform_real(
    x: Any, out: Any, axes: tuple[int, ...], norm: str, onesided: bool, doubled: bool
) -> None:
    """Write the transform of real x along axes into out. If `onesided`, only one half along the
    last of `axes` is written; it determines the other half. If `doubled`, numbers with a mirror
    image in the other half are multiplied by 2.
    """
    from cupy import fft

    with out.device:
        if not out.size:
            return
        _take_plans(out.device.id)
        if not onesided:
            out[...] = fft.fftn(x, axes=axes, norm=norm)
            return
        out[...] = fft.rfftn(x, axes=axes, norm=norm)
        if doubled:
            inner = out[_inner(axes[-1], x.shape[axes[-1]])]
            inner[...] = inner * 2


def to_real(x: Any, out: Any, axes: tuple[int, ...], norm: str, n: int, halved: bool) -> None:
    """Write the real inverse transform of x, which is one half of a spectrum, into out. out has
    length n along the last of `axes`. If `halved`, numbers of x with a mirror image in the other
    half are first multiplied by 0.5.
    """
    from cupy import fft

    with out.device:
        if not out.size:
            return
        _take_plans(out.device.id)
        if halved:
            x = x.copy()
            inner = x[_inner(axes[-1], n)]
            inner[...] = inner * 0.5
        # One axis after the other: if x is not half of the spectrum of a real input, cuFFT's
        # transform along several axes differs from the CPU's.
        if axes[1:]:
            x = fft.ifftn(x, axes=axes[:-1], norm=norm)
        out[...] = fft.irfft(x, n=n, axis=axes[-1], norm=norm)


def _inner(axis: int, n: int) -> Any:
    """Return the index, along axis, of the numbers of a half spectrum that have a mirror image."""
    return (..., slice(1, (n + 1) // 2), *[slice(None)] * (-1 - axis))


class _Thread(threading.local):
    def __init__(self) -> None:
        # Device -> the stream on which this thread last used its plans.
        self.streams: dict[int, Any] = {}


_thread = _Thread()


def _take_plans(device: int) -> None:
    """Make the current stream wait for the stream on which this thread last used its plans."""
    import cupy

    stream = cupy.cuda.get_current_stream()
    if stream.is_capturing():
        raise KernelError(
            "fft: a graph cannot keep a transform, whose plan and memory CuPy may give to others "
            "before a replay: transform before the block that is captured, or behind it"
        )
    last = _thread.streams.get(device)
    if last is not None and last.ptr != stream.ptr:
        event = cupy.cuda.Event(disable_timing=True)
        event.record(last)
        stream.wait_event(event)
    _thread.streams[device] = stream
