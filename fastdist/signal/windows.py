"""Window functions: weights that fade a range of samples in and out.

The functions of torch.signal.windows return symmetric windows by default. `hann_window` and the
other functions whose names end in `_window` return periodic windows by default: one more element of
such a window would equal its first element. `**more` are the options of `zeros`: dtype, layout,
device, requires_grad.

Raises  ValueError for a negative length, or for a dtype other than float32 and float64. The
        functions whose names end in `_window` accept any floating dtype, and raise RuntimeError
        instead of ValueError
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from ..core.device import Device
from ..core.dtypes import DType, float32, float64
from ..core.errors import DTypeError, ShapeError
from ..core.memory_format import strided
from ..core.overflow_checks import require_countable
from ..core.short_repr import short_repr
from ..dispatch.composite import checked
from ..ops.create.allocation import elsewhere, finish, require_ordinary
from ..ops.create.creation import full
from ..ops.create.ranges import arange
from ..tensor.promotion import dtype_or_default
from ..tensor.tensor import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]

_BLACKMAN = (0.42, 0.5, 0.08)
_NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


@checked
def bartlett(M: int, *, sym: bool = True, **more: Any) -> Tensor:
    """Return Bartlett's window, a triangle from 0 to 1 and back."""
    _require("bartlett", M, more)
    return _made(lambda np: _triangle(np, M, _steps(M, sym)), more)


@checked
def blackman(M: int, *, sym: bool = True, **more: Any) -> Tensor:
    """Return Blackman's window, a sum of three cosines."""
    _require("blackman", M, more)
    return _made(lambda np: _cosines(np, M, _steps(M, sym), _BLACKMAN), more)


@checked
def cosine(M: int, *, sym: bool = True, **more: Any) -> Tensor:
    """Return half a period of a cosine; its zeros are half a step outside the window."""
    _require("cosine", M, more)
    steps = _steps(M, sym) + 1
    return _made(lambda np: np.sin(math.pi * (np.arange(M) + 0.5) / steps), more)


@checked
def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    **more: Any,
) -> Tensor:
    """Return exp(-|n - center| / tau) for each index n; `center` is the middle by default.

    Raises  ValueError for a `tau` that is not positive, or for a `center` if `sym` is True
    """
    _require("exponential", M, more)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = _steps(M, sym) / 2 if center is None else center
    return _made(lambda np: np.exp(-np.abs(np.arange(M) - middle) / tau), more)


@checked
def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    **more: Any,
) -> Tensor:
    """Return a Gaussian with standard deviation `std` and the maximum 1 in the middle.

    Raises  ValueError for a `std` that is not positive
    """
    _require("gaussian", M, more)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    middle = _steps(M, sym) / 2
    return _made(lambda np: np.exp(-0.5 * ((np.arange(M) - middle) / std) ** 2), more)


@checked
def general_cosine(
    M: int,
    *,
    a: Sequence[float],
    sym: bool = True,
    **more: Any,
) -> Tensor:
    """Return a sum of cosines, a[0] - a[1] cos(x) + a[2] cos(2 x) ..., over one period of x.

    Raises  ValueError if `a` is empty, TypeError if `a` is not a sequence
    """
    _require("general_cosine", M, more)
    if not isinstance(a, Sequence):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return _made(lambda np: _cosines(np, M, _steps(M, sym), a), more)


@checked
def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    **more: Any,
) -> Tensor:
    """Return alpha - (1 - alpha) cos(x) over one period of x."""
    _require("general_hamming", M, more)
    weights = alpha, 1.0 - alpha
    return _made(lambda np: _cosines(np, M, _steps(M, sym), weights), more)


@checked
def hamming(M: int, *, sym: bool = True, **more: Any) -> Tensor:
    """Return Hamming's window, 0.08 at its ends."""
    _require("hamming", M, more)
    return _made(lambda np: _cosines(np, M, _steps(M, sym), (0.54, 0.46)), more)


@checked
def hann(M: int, *, sym: bool = True, **more: Any) -> Tensor:
    """Return Hann's window, (1 - cos(x)) / 2 over one period of x."""
    _require("hann", M, more)
    return _made(lambda np: _cosines(np, M, _steps(M, sym), (0.5, 0.5)), more)


@checked
def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    **more: Any,
) -> Tensor:
    """Return Kaiser's window, which is narrower for a larger beta.

    Raises  ValueError for a negative beta
    """
    _require("kaiser", M, more)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _made(lambda np: _bessel(np, M, _steps(M, sym), beta), more)


@checked
def nuttall(M: int, *, sym: bool = True, **more: Any) -> Tensor:
    """Return Nuttall's window, a sum of four cosines."""
    _require("nuttall", M, more)
    return _made(lambda np: _cosines(np, M, _steps(M, sym), _NUTTALL), more)


@checked
def bartlett_window(window_length: int, periodic: bool = True, **more: Any) -> Tensor:
    """Return Bartlett's window, a triangle from 0 to 1 and back."""
    steps = _steps_of("bartlett_window", window_length, periodic, more)
    return _made(lambda np: _triangle(np, window_length, steps), more)


@checked
def blackman_window(window_length: int, periodic: bool = True, **more: Any) -> Tensor:
    """Return Blackman's window, a sum of three cosines."""
    steps = _steps_of("blackman_window", window_length, periodic, more)
    return _made(lambda np: _cosines(np, window_length, steps, _BLACKMAN), more)


@checked
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    **more: Any,
) -> Tensor:
    """Return alpha - beta cos(x) over one period of x."""
    steps = _steps_of("hamming_window", window_length, periodic, more)
    return _made(lambda np: _cosines(np, window_length, steps, (alpha, beta)), more)


@checked
def hann_window(window_length: int, periodic: bool = True, **more: Any) -> Tensor:
    """Return Hann's window, (1 - cos(x)) / 2 over one period of x."""
    steps = _steps_of("hann_window", window_length, periodic, more)
    return _made(lambda np: _cosines(np, window_length, steps, (0.5, 0.5)), more)


@checked
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, **more: Any
) -> Tensor:
    """Return Kaiser's window, which is narrower for a larger beta."""
    steps = _steps_of("kaiser_window", window_length, periodic, more)
    return _made(lambda np: _bessel(np, window_length, steps, beta), more)


def _require(name: str, M: int, more: dict[str, Any]) -> None:
    wanted = dtype_or_default(more.get("dtype"))
    if operator.index(M) < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    require_countable(M)
    if wanted not in (float32, float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {wanted!r}")
    if more.get("layout") not in (None, strided):
        raise ValueError(
            f"{name} is implemented for strided tensors only, got: {short_repr(more['layout'])}"
        )


def _steps(M: int, sym: bool) -> int:
    """Return the number of steps in one period of a window."""
    return M - 1 if sym or M < 2 else M


def _steps_of(name: str, length: int, periodic: bool, more: dict[str, Any]) -> int:
    wanted = dtype_or_default(more.get("dtype"))
    if not wanted.is_floating_point:
        raise DTypeError(f"{name} expects floating point dtypes, got: {wanted!r}")
    if operator.index(length) < 0:
        raise ShapeError(f"{name} requires non-negative window_length, got window_length={length}")
    require_countable(length)
    if more.get("layout") not in (None, strided):
        raise ShapeError(
            f"{name} is not implemented for sparse types, got: {short_repr(more['layout'])}"
        )
    return _steps(length, not periodic)


# Note [Windows of devices]
# Each formula is written once, with the names of NumPy's functions. On the CPU it calls these
# functions. For another device it calls the methods of OnDevice, which compute on that device. All
# formulas compute in float64 and round to the dtype at the end. So the results of two devices
# differ only if their cos or exp round differently.


class OnDevice:
    """Methods with the names of the NumPy functions in the formulas, for float64 on a device."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def arange(self, count: int) -> Any:
        """Return 0, 1, ... count - 1."""
        return arange(count, dtype=float64, device=self._device)

    def full(self, count: int, value: float) -> Any:
        """Return `count` copies of a value."""
        return full((count,), value, dtype=float64, device=self._device)

    def maximum(self, x: Any, least: float) -> Any:
        """Return x with elements below `least` replaced by `least`."""
        return x.clamp(min=least)

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        # `name` is one of abs, cos, exp, i0, sin, sqrt.
        return lambda x: getattr(x, name)()


def _turns(np: Any, M: int, steps: int) -> Any:
    """Return each element's position as a fraction of the period; 0.5 for a single element."""
    return np.arange(M) / steps if M > 1 else np.full(M, 0.5)


def _cosines(np: Any, M: int, steps: int, weights: Sequence[float]) -> Any:
    if M == 1:
        return np.full(1, 1.0)
    angle = 2.0 * math.pi * _turns(np, M, steps)
    first, *more = [(-1) ** i * weight * np.cos(i * angle) for i, weight in enumerate(weights)]
    return sum(more, first)


def _triangle(np: Any, M: int, steps: int) -> Any:
    return 1.0 - np.abs(2.0 * _turns(np, M, steps) - 1.0)


def _bessel(np: Any, M: int, steps: int, beta: float) -> Any:
    height = np.sqrt(np.maximum(1.0 - (2.0 * _turns(np, M, steps) - 1.0) ** 2, 0.0))
    # As in PyTorch, the result is NaN if i0(beta) overflows float64.
    return np.i0(beta * height) / float(numpy.i0(beta))


def _made(formula: Callable[[Any], Any], more: dict[str, Any]) -> Tensor:
    wanted = dtype_or_default(more.get("dtype"))
    return _placed(formula, wanted, **{key: more[key] for key in more if key != "dtype"})


def _placed(
    formula: Callable[[Any], Any],
    wanted: DType,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Evaluate a formula on the selected device, and return the result.

    See Note [Windows of devices].
    """
    where = elsewhere(device)
    with numpy.errstate(over="ignore", invalid="ignore"):
        if where is None:
            values = numpy.asarray(formula(numpy)).astype(wanted.numpy)
            return finish(values, device, requires_grad, layout, pin_memory)
        require_ordinary(layout, pin_memory, where)
        made: Tensor = formula(OnDevice(where)).to(wanted)
    return made.requires_grad_() if requires_grad else made
