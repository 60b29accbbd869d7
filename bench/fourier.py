"""Fourier transforms of rows, batches and images, float32 and complex64, against PyTorch's MKL.

fastdist uses SciPy's pocketfft. With 16 numbers, the overhead of the call dominates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.harness import Case, Row, compare, peer_torch, stopwatch

# x is float32, z is complex64, half is the transform of x.
STATEMENTS = {
    "fft": "F.fft(z)",
    "rfft": "F.rfft(x)",
    "irfft": "F.irfft(half)",
}
SHAPES = ((16,), (1 << 10,), (1 << 14,), (1 << 17,), (1 << 20,), (64, 1024))
IMAGES = {"fft2": "F.fft2(z)", "rfft2": "F.rfft2(x)"}
TARGET = 2.5


def run(rounds: int) -> list[Row]:
    """Compare each call without grad, some calls with their backward pass, and stft."""
    import fastdist

    torch = peer_torch()
    cases = []
    for shape, statements in [*[(s, STATEMENTS) for s in SHAPES], ((512, 512), IMAGES)]:
        for name, statement in statements.items():
            for backward in (False, True) if shape in ((16,), (64, 1024)) else (False,):
                ours = stopwatch(_work(fastdist, statement, shape, backward))
                peer = stopwatch(_work(torch, statement, shape, backward)) if torch else None
                title = f"{name} of {shape}{', backward' if backward else ''}"
                cases.append(Case(title, ours, peer, TARGET))
    for backward in (False, True):
        ours = stopwatch(_stretches(fastdist, backward))
        peer = stopwatch(_stretches(torch, backward)) if torch else None
        title = f"stft of 4 x 16000, 400 by 160{', backward' if backward else ''}"
        cases.append(Case(title, ours, peer, TARGET))
    return compare(cases, rounds)


def _drawn(library: Any, shape: tuple[int, ...], *, backward: bool) -> Any:
    import numpy as np

    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return library.tensor(x, requires_grad=backward)


def _work(
    library: Any, statement: str, shape: tuple[int, ...], backward: bool
) -> Callable[[], Any]:
    x = _drawn(library, shape, backward=backward)
    z = library.complex(x.detach(), x.detach().flip(-1)).requires_grad_(backward)
    half = library.fft.rfft(x.detach()).requires_grad_(backward)
    names = {"F": library.fft, "x": x, "z": z, "half": half}
    function: Callable[[], Any] = eval(f"lambda: {statement}", names)
    if not backward:
        return function
    ones = library.ones_like(function().detach())
    return lambda: function().backward(ones)


def _stretches(library: Any, backward: bool) -> Callable[[], Any]:
    x, window = _drawn(library, (4, 16000), backward=backward), library.hann_window(400)

    def work() -> Any:
        return library.stft(x, 400, 160, window=window, return_complex=True)

    if not backward:
        return work
    ones = library.ones_like(work().detach())
    return lambda: work().backward(ones)
