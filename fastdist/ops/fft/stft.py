"""Short-time Fourier transforms and their inverse.

Source  PyTorch, aten/src/ATen/native/SpectralOps.cpp: stft, istft
"""

from __future__ import annotations

from typing import Any

from ...core.caller_warning import warn_caller
from ...core.dtypes import WORDS
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...dispatch.declaration import node_named, recorded_as
from ...interpreters.batched_tensor import unbatched
from ...tensor.axes import DimError
from ...tensor.tensor import Tensor
from ..create.creation import ones
from ..nn.padding import constant_pad, pad
from ..nn.unfold import add_patches
from ..pointwise.complex_numbers import view_as_real
from ..shape.as_strided import windows
from ..shape.splitting import narrow
from .fft import computable
from .transforms import BY_N, BY_ROOT_N, NOTHING, fft_c2c, fft_c2r, fft_r2c

_NO_WINDOW = (
    "A window was not provided: each frame is cut out sharply, {}. Give window=, such as "
    "hann_window(win_length), or ones(win_length) for just this"
)
_ONE_COMPLEX = "Cannot have onesided output if window or input is complex"


@composite()
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Return the transforms of frames of n_fft samples, times the window. Frames begin hop_length
    samples apart, by default n_fft // 4.

    center=True pads both ends by pad_mode, so that the first frame is centered on the first sample;
    normalized=True divides by sqrt(n_fft); onesided=True omits the redundant half of each transform
    Shape   (batch, samples) or (samples) -> (batch, frequencies, frames)
    Raises  RuntimeError for lengths that do not fit together
    """
    if center and align_to_window is not None:
        raise ShapeError("stft align_to_window should only be set when center = false")
    shape = input._layout.shape
    if center:
        ends = [max(n_fft, 0) // 2] * 2
        input = pad(input.reshape(*(1,) * (3 - len(shape)), *shape), ends, pad_mode)
        input = input.reshape(input._layout.shape[-len(shape) :])
    hop, length = _steps(n_fft, hop_length, win_length)
    if window is None:
        warn_caller(_NO_WINDOW.format("which lets frequencies leak into others"), once=True)
    if return_complex is None:
        given = (input, window)
        if not any(one is not None and one._layout.dtype.is_complex for one in given):
            raise ShapeError(
                "stft requires the return_complex parameter be given for real inputs, and will "
                "further require that return_complex=True in a future PyTorch release."
            )
    told = (
        f"stft(torch.{WORDS[input._layout.dtype]}Tensor{list(input._layout.shape)}, n_fft={n_fft}, "
        f"hop_length={hop}, win_length={length}, window={_told(window)}, "
        f"normalized={int(normalized)}, onesided={_flag(onesided)}, "
        f"return_complex={_flag(return_complex)}, align_to_window={_flag(align_to_window)}) : "
    )
    _require_signal(told, input, n_fft, hop, length, window)
    found = _transformed(input, n_fft, hop, length, window, normalized, onesided, align_to_window)
    if return_complex is False:
        return view_as_real(found)
    return found


def _steps(n_fft: int, hop_length: int | None, win_length: int | None) -> tuple[int, int]:
    return (n_fft >> 2 if hop_length is None else hop_length), (
        n_fft if win_length is None else win_length
    )


def _flag(value: bool | None) -> str:
    return "None" if value is None else str(int(value))


def _told(window: Tensor | None) -> str:
    if window is None:
        return "None"
    return f"torch.{WORDS[window._layout.dtype]}Tensor{{{list(window._layout.shape)}}}"


def _require_signal(
    told: str, input: Tensor, n_fft: int, hop: int, length: int, window: Tensor | None
) -> None:
    """Raise RuntimeError if input is not a signal, or if a length does not fit the signal."""
    if not input._layout.dtype.may_have_gradient:
        raise DTypeError(f"{told}expected a tensor of floating point or complex values")
    shape = input._layout.shape
    if len(shape) not in (1, 2):
        raise ShapeError(f"{told}expected a 1D or 2D tensor")
    if not 0 < n_fft <= shape[-1]:
        raise ShapeError(f"{told}expected 0 < n_fft < {shape[-1]}, but got n_fft={n_fft}")
    if hop <= 0:
        raise ShapeError(f"{told}expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise ShapeError(f"{told}expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and window._layout.shape != (length,):
        raise ShapeError(
            f"{told}expected a 1D window tensor of size equal to win_length={length}, but got "
            f"window with size {list(window._layout.shape)}"
        )


def _transformed(
    input: Tensor,
    n_fft: int,
    hop: int,
    length: int,
    window: Tensor | None,
    normalized: bool,
    onesided: bool | None,
    align_to_window: bool | None,
) -> Tensor:
    batch = input._layout.shape[:-1]
    before = (n_fft - length) // 2
    if align_to_window:
        # The first window begins at the first sample; the frame of this window may begin earlier.
        input = constant_pad(input, {len(batch): (before, n_fft - length - before)}, 0.0)
    window = _widened(window, n_fft, length, input)
    stretches: Any = windows(input, -1, n_fft, hop)
    if window is not None:
        stretches = stretches * window
    stretches = computable(stretches)
    is_complex = stretches._layout.dtype.is_complex
    if onesided is None:
        onesided = not is_complex
    divided = BY_ROOT_N if normalized else NOTHING
    if not is_complex:
        found = fft_r2c(stretches, (-1,), divided, onesided)
    elif onesided:
        raise ShapeError(_ONE_COMPLEX)
    else:
        found = fft_c2c(stretches, (-1,), divided, True)
    found = found.transpose(-1, -2)
    recorded_as(node_named("transpose.1" if batch else "squeeze.4"), found, (input,))
    return found


def _widened(window: Tensor | None, n_fft: int, length: int, like: Tensor) -> Tensor | None:
    """Return a window padded with zeros on both sides to the length n_fft."""
    if length == n_fft:
        return window
    if window is None:
        window = ones((length,), dtype=like._layout.dtype, device=like._layout.device)
    before = (n_fft - length) // 2
    return constant_pad(window, {0: (before, n_fft - length - before)}, 0.0)


@composite()
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Return the signal for which stft, with the same arguments, returns input. If there is no such
    signal, return the least-squares approximation.

    `length` truncates the signal, or pads it with zeros
    Shape   (batch, frequencies, frames) or (frequencies, frames) -> (batch, samples)
    Raises  RuntimeError if a sample is under no window, or only under windows that are 0 there
    """
    hop, width = _steps(n_fft, hop_length, win_length)
    if window is None:
        warn_caller(_NO_WINDOW.format("as no signal is by the windows in use"), once=True)
    told = (
        f"istft(CPU{WORDS[input._layout.dtype]}Type{list(input._layout.shape)}, n_fft={n_fft}, "
        f"hop_length={hop}, win_length={width}, window={_told(window)}, center={int(center)}, "
        f"normalized={int(normalized)}, onesided={_flag(onesided)}, length={length}, "
        f"return_complex={int(return_complex)}) "
    )
    onesided = _require_transforms(f"{told}: ", input, n_fft, hop, width, window, onesided)
    *batch, _, count = input._layout.shape
    stretches = _stretches(input, n_fft, normalized, onesided, window, return_complex)
    kind: Any = {"dtype": stretches._layout.dtype.to_real(), "device": input._layout.device}
    wide = _widened(window, n_fft, width, ones((), **kind))
    if wide is None:
        wide = ones((n_fft,), **kind)
    else:
        stretches = stretches * wide
    whole = n_fft + hop * (count - 1)
    start = n_fft // 2 if center else 0
    end = whole - start if length is None else start + length
    kept = min(end, whole) - start
    if kept <= 0:
        raise ShapeError(f"{told}: expected length > 0, but got length={length}: nothing is left")
    signal = narrow(_added_up(stretches, whole, hop), -1, start, kept)
    weights = _added_up((wide * wide).expand(1, count, n_fft), whole, hop)
    weights = narrow(weights, -1, start, kept)
    _require_covered(told, weights)
    signal = signal / weights
    if not batch:
        signal = signal.squeeze(0)
        recorded_as(node_named("squeeze.1"), signal, (input,))
    if end > whole:
        warn_caller(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail: see center= and hop_length="
        )
        signal = constant_pad(signal, {len(batch): (0, end - whole)}, 0.0)
    return signal


def _require_covered(told: str, weights: Tensor) -> None:
    """Raise RuntimeError if the squares of the windows over a sample sum to 0.

    Note    waits for the device
    """
    if weights.is_meta:
        return
    if bool((unbatched(weights).detach().abs() < 1e-11).any()):
        raise RuntimeError(
            f"{told}window overlap add min: 1: some samples are under no window that is not 0; "
            "let frames overlap more, or cut the signal by center=True and length="
        )


def _require_transforms(
    told: str,
    input: Tensor,
    n_fft: int,
    hop: int,
    width: int,
    window: Tensor | None,
    onesided: bool | None,
) -> bool:
    """Return whether input holds only one half of each transform.

    Raises  RuntimeError if input does not hold transforms, or if lengths do not fit together
    """
    shape = input._layout.shape
    if not input._layout.dtype.is_complex:
        raise DTypeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if len(shape) < 2:
        raise DimError(
            f"Dimension out of range (expected to be in range of [{-len(shape) - 1}, "
            f"{len(shape)}], but got -3): istft takes frequencies and frames"
        )
    if not input._layout.numel:
        raise ShapeError(f"{told}input tensor cannot be empty.")
    if len(shape) > 3:
        raise ShapeError(
            f"{told}expected a tensor with 3 or 4 dimensions, but got {len(shape) + 1}"
        )
    if onesided is None:
        onesided = shape[-2] != n_fft
    if shape[-2] != (n_fft // 2 + 1 if onesided else n_fft):
        raise ShapeError(
            f"{told}expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match n_fft{' / 2 + 1' if onesided else ''} when onesided={onesided}, but got "
            f"{shape[-2]}"
        )
    if not 0 < hop <= width:
        raise ShapeError(f"{told}expected 0 < hop_length <= win_length")
    if not 0 < width <= n_fft:
        raise ShapeError(f"{told}expected 0 < win_length <= n_fft")
    if window is not None and window._layout.shape != (width,):
        raise ShapeError(
            f"{told}Invalid window shape. window has to be 1D and length of `win_length`"
        )
    return onesided


def _stretches(
    input: Tensor,
    n_fft: int,
    normalized: bool,
    onesided: bool,
    window: Tensor | None,
    return_complex: bool,
) -> Any:
    """Return the frames (batch, frames, n_fft) whose transforms are input."""
    each = (input if len(input._layout.shape) == 3 else input.unsqueeze(0)).transpose(1, 2)
    divided = BY_ROOT_N if normalized else BY_N
    if return_complex:
        if onesided:
            raise ShapeError(_ONE_COMPLEX)
        return fft_c2c(each, (-1,), divided, False)
    if window is not None and window._layout.dtype.is_complex:
        raise DTypeError("Complex windows are incompatible with return_complex=False")
    if not onesided:
        each = narrow(each, -1, 0, n_fft // 2 + 1)
    return fft_c2r(each, (-1,), divided, n_fft)


def _added_up(stretches: Tensor, length: int, hop: int) -> Any:
    """Return signals of `length` samples: the sums of frames that begin `hop` samples apart."""
    batch, count, size = stretches._layout.shape
    columns = stretches.transpose(1, 2)
    added = add_patches(columns, (1, length), (1, size), (1, count), (1, hop), (0, 0), (1, 1))
    return added.reshape(batch, length)
