"""Sample calls of Fourier transforms; real and imaginary parts are checked separately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastdist as fd
import fastdist.fft as FT
from tests.ops.cases import Case, case, plain


def parts(x: fd.Tensor) -> fd.Tensor:
    return fd.view_as_real(fd.resolve_conj(x))


def np_parts(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1)


def of_real(ours: Callable[..., Any], numpys: Callable[..., Any], *shapes: Any) -> list[Case]:
    """Return samples of a transform from real to complex numbers, one for each shape."""
    return [case(lambda x: parts(ours(x)), lambda x: np_parts(numpys(x)), one) for one in shapes]


def of_complex(ours: Callable[..., Any], numpys: Callable[..., Any], *shapes: Any) -> list[Case]:
    """Return samples of a transform from complex to complex numbers, one for each shape."""
    return [
        case(
            lambda a, b: parts(ours(fd.complex(a, b))),
            lambda a, b: np_parts(numpys(a + 1j * b)),
            one,
            one,
        )
        for one in shapes
    ]


def to_real(ours: Callable[..., Any], numpys: Callable[..., Any], *shapes: Any) -> list[Case]:
    """Return samples of a transform to real numbers: complex inputs, and one real input."""
    return [
        *[
            case(lambda a, b: ours(fd.complex(a, b)), lambda a, b: numpys(a + 1j * b), one, one)
            for one in shapes
        ],
        case(ours, numpys, shapes[0]),
    ]


def np_hfftn(x: np.ndarray, last: int, norm: str | None = None) -> np.ndarray:
    """Return the transform of half-spectra to real numbers along the last two axes."""
    other = np.fft.fft(x, axis=-2, norm=norm)
    return np.fft.hfft(other, last, norm=norm)


def np_ihfftn(x: np.ndarray, norm: str | None = None) -> np.ndarray:
    return np.fft.ifft(np.fft.ihfft(x, norm=norm), axis=-2, norm=norm)


def np_stft(x: np.ndarray, w: np.ndarray, hop: int, center: bool = False) -> np.ndarray:
    """Return the transforms of all windows, in the shape (..., frequencies, windows)."""
    if center:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(len(w) // 2,) * 2], "reflect")
    starts = range(0, x.shape[-1] - len(w) + 1, hop)
    stretches = np.stack([x[..., i : i + len(w)] * w for i in starts], -2)
    found = np.fft.fft(stretches) if x.dtype.kind == "c" else np.fft.rfft(stretches)
    return found.swapaxes(-1, -2)


def np_istft(x: np.ndarray, w: np.ndarray, hop: int) -> np.ndarray:
    """Return the signal of given transforms, whose length is the window's; nothing is padded."""
    n = len(w)
    stretches = np.fft.irfft(x.swapaxes(-1, -2), n) * w
    whole = n + hop * (x.shape[-1] - 1)
    signal, weights = np.zeros((*x.shape[:-2], whole)), np.zeros(whole)
    for i in range(x.shape[-1]):
        signal[..., i * hop : i * hop + n] += stretches[..., i, :]
        weights[i * hop : i * hop + n] += w * w
    return (signal / weights)[..., n // 2 : whole - n // 2]


CASES: dict[str, list[Case]] = {
    "fft.fft": [
        *of_real(FT.fft, np.fft.fft, (2, 5), (6,)),
        *of_real(
            lambda x: FT.fft(x, 7, 0, "ortho"), lambda x: np.fft.fft(x, 7, 0, "ortho"), (5, 2)
        ),
        *of_complex(FT.fft, np.fft.fft, (2, 5)),
        *of_complex(lambda x: FT.fft(x, 3, -2), lambda x: np.fft.fft(x, 3, -2), (5, 2)),
        *of_complex(
            lambda x: FT.fft(x, 6, norm="forward"), lambda x: np.fft.fft(x, 6, norm="forward"), (4,)
        ),
    ],
    "fft.ifft": [
        *of_real(FT.ifft, np.fft.ifft, (2, 6)),
        *of_complex(FT.ifft, np.fft.ifft, (2, 5)),
        *of_complex(
            lambda x: FT.ifft(x, 6, norm="forward"),
            lambda x: np.fft.ifft(x, 6, norm="forward"),
            (4,),
        ),
    ],
    "fft.rfft": [
        *of_real(FT.rfft, np.fft.rfft, (2, 5), (6,), (1,)),
        *of_real(lambda x: FT.rfft(x, 3, 0), lambda x: np.fft.rfft(x, 3, 0), (5, 2)),
        *of_real(
            lambda x: FT.rfft(x, 8, norm="ortho"), lambda x: np.fft.rfft(x, 8, norm="ortho"), (5,)
        ),
    ],
    "fft.irfft": [
        *to_real(FT.irfft, np.fft.irfft, (2, 4), (3,)),
        *to_real(lambda x: FT.irfft(x, 7, 0), lambda x: np.fft.irfft(x, 7, 0), (4, 2)),
        *to_real(
            lambda x: FT.irfft(x, 9, norm="ortho"), lambda x: np.fft.irfft(x, 9, norm="ortho"), (3,)
        ),
        *to_real(lambda x: FT.irfft(x, 1), lambda x: np.fft.irfft(x, 1), (2,)),
    ],
    "fft.hfft": [
        *to_real(FT.hfft, np.fft.hfft, (2, 4)),
        *to_real(
            lambda x: FT.hfft(x, 7, 0, "forward"), lambda x: np.fft.hfft(x, 7, 0, "forward"), (4, 2)
        ),
    ],
    "fft.ihfft": [
        *of_real(FT.ihfft, np.fft.ihfft, (2, 6), (5,)),
        *of_real(
            lambda x: FT.ihfft(x, 4, norm="ortho"), lambda x: np.fft.ihfft(x, 4, norm="ortho"), (6,)
        ),
    ],
    "fft.fft2": [
        *of_real(FT.fft2, np.fft.fft2, (2, 3, 4)),
        *of_complex(
            lambda x: FT.fft2(x, (2, 5)), lambda x: np.fft.fft2(x, (2, 5), (-2, -1)), (3, 4)
        ),
    ],
    "fft.ifft2": of_complex(FT.ifft2, np.fft.ifft2, (2, 3, 4)),
    "fft.rfft2": of_real(FT.rfft2, np.fft.rfft2, (2, 3, 4), (4, 5)),
    "fft.irfft2": to_real(FT.irfft2, np.fft.irfft2, (2, 3, 4)),
    "fft.hfft2": to_real(FT.hfft2, lambda x: np_hfftn(x, 6), (2, 3, 4)),
    "fft.ihfft2": of_real(FT.ihfft2, np_ihfftn, (2, 3, 4)),
    "fft.fftn": [
        *of_real(FT.fftn, np.fft.fftn, (2, 3, 4)),
        *of_complex(
            lambda x: FT.fftn(x, (3, 5), norm="ortho"),
            lambda x: np.fft.fftn(x, (3, 5), (-2, -1), norm="ortho"),
            (2, 4, 3),
        ),
        *of_complex(
            lambda x: FT.fftn(x, dim=(2, 0)), lambda x: np.fft.fftn(x, axes=(2, 0)), (2, 2, 3)
        ),
        *of_complex(lambda x: FT.fftn(x, dim=()), lambda x: x, (2, 3)),
    ],
    "fft.ifftn": of_complex(FT.ifftn, np.fft.ifftn, (2, 3, 2)),
    "fft.rfftn": [
        *of_real(FT.rfftn, np.fft.rfftn, (2, 3, 4)),
        *of_real(
            lambda x: FT.rfftn(x, (3, 5), (2, 0), "forward"),
            lambda x: np.fft.rfftn(x, (3, 5), (2, 0), "forward"),
            (4, 2, 4),
        ),
    ],
    "fft.irfftn": [
        *to_real(FT.irfftn, np.fft.irfftn, (2, 3, 3)),
        *to_real(
            lambda x: FT.irfftn(x, (3, 5), (2, 0), "ortho"),
            lambda x: np.fft.irfftn(x, (3, 5), (2, 0), "ortho"),
            (3, 2, 4),
        ),
    ],
    "fft.hfftn": [
        *to_real(
            lambda x: FT.hfftn(x, (3, 5), norm="ortho"), lambda x: np_hfftn(x, 5, "ortho"), (3, 3)
        ),
    ],
    "fft.ihfftn": of_real(
        lambda x: FT.ihfftn(x, norm="forward"), lambda x: np_ihfftn(x, "forward"), (3, 4)
    ),
    "stft": [
        case(
            lambda x, w: parts(fd.stft(x, 4, 2, window=w, center=False, return_complex=True)),
            lambda x, w: np_parts(np_stft(x, w, 2)),
            (2, 9),
            (4,),
        ),
        case(
            lambda x, w: fd.stft(x, 5, 2, window=w, return_complex=False),
            lambda x, w: np_parts(np_stft(x, w, 2, True)),
            (7,),
            (5,),
        ),
        case(
            lambda x, w: parts(
                fd.stft(x, 6, 3, 4, w, False, "reflect", True, False, return_complex=True)
            ),
            lambda x, w: np_parts(
                np_stft(x.astype(complex), np.pad(w, 1), 3) / np.sqrt(6),
            ),
            (2, 12),
            (4,),
        ),
        case(
            lambda a, b, w: parts(fd.stft(fd.complex(a, b), 4, 1, window=w, center=False)),
            lambda a, b, w: np_parts(np_stft(a + 1j * b, w, 1)),
            (6,),
            (6,),
            (4,),
        ),
        case(
            lambda x, w: parts(
                fd.stft(x, 6, 3, 4, w, center=False, align_to_window=True, return_complex=True)
            ),
            lambda x, w: np_parts(np_stft(np.pad(x, 1), np.pad(w, 1), 3)),
            (12,),
            (4,),
        ),
    ],
    "istft": [
        case(
            lambda a, b, w: fd.istft(fd.complex(a, b), 4, 2, window=w),
            lambda a, b, w: np_istft(a + 1j * b, w, 2),
            (2, 3, 4),
            (2, 3, 4),
            (4,),
            low=0.5,
        ),
        case(
            lambda a, b, w: fd.istft(fd.complex(a, b), 5, 2, window=w, length=4),
            lambda a, b, w: np_istft(a + 1j * b, w, 2)[:4],
            (3, 4),
            (3, 4),
            (5,),
            low=0.5,
        ),
        case(
            lambda a, b, w: (
                fd.istft(
                    fd.complex(a, b), 4, 1, window=w, normalized=True, return_complex=True
                ).real
            ),
            lambda a, b, w: (
                2
                * np_istft(
                    ((a + 1j * b) + np.conj(np.take(a + 1j * b, [0, 3, 2, 1], -2)))[..., :3, :] / 2,
                    w,
                    1,
                )
            ),
            (2, 4, 3),
            (2, 4, 3),
            (4,),
            low=0.5,
        ),
    ],
    "fft.fftshift": [
        case(FT.fftshift, np.fft.fftshift, (3, 4)),
        case(lambda x: FT.fftshift(x, 1), lambda x: np.fft.fftshift(x, 1), (2, 5)),
    ],
    "fft.ifftshift": [
        case(FT.ifftshift, np.fft.ifftshift, (3, 4)),
        case(lambda x: FT.ifftshift(x, (0, -1)), lambda x: np.fft.ifftshift(x, (0, -1)), (3, 2, 5)),
    ],
    "fft.fftfreq": [
        plain(
            lambda x: FT.fftfreq(5, 0.5, dtype=x.dtype, device=x.device),
            lambda x: np.fft.fftfreq(5, 0.5),
            (),
        ),
        plain(
            lambda x: FT.fftfreq(6, dtype=x.dtype, device=x.device), lambda x: np.fft.fftfreq(6), ()
        ),
    ],
    "fft.rfftfreq": [
        plain(
            lambda x, n=n: FT.rfftfreq(n, 0.5, dtype=x.dtype, device=x.device),
            lambda x, n=n: np.fft.rfftfreq(n, 0.5),
            (),
        )
        for n in (5, 6)
    ],
}
COVERED_BY = {"fft_c2c": "fft.fftn", "fft_r2c": "fft.rfftn", "fft_c2r": "fft.irfftn"}
# No transform supports half types. Functions that only move or create numbers do.
NO_HALF = {
    f"{name}-{place}"
    for name, cases in CASES.items()
    for place in range(len(cases))
    if name not in ("fft.fftshift", "fft.ifftshift", "fft.fftfreq", "fft.rfftfreq")
}
