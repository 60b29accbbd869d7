"""Ranges, evenly spaced numbers, and the identity matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.caller_warning import warn_caller
from ...core.dtypes import DType, bool_, complex_of, dtype_of, float32, float64, int64, uint64
from ...core.errors import DTypeError, ShapeError
from ...core.linspace import evenly_spaced
from ...core.memory_format import MemoryLayout
from ...core.overflow_checks import count_up
from ...devices.backend import Backend
from ...dispatch.composite import checked, composite
from ...tensor.constants import held
from ...tensor.methods import DeviceLike
from ...tensor.promotion import dtype_or_default, get_default_dtype
from ...tensor.tensor import Tensor
from .. import late_ops
from .allocation import as_number, elsewhere, fills_out, finish, new_filled, rounded, write_number
from .quick import quick_eye, quick_linspace, quick_range


@quick_range
@checked
@fills_out
def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return start, start + step, ... up to but excluding end; arange(n) starts at 0.

    Dtype   int64 if start, end and step are integers, else the default dtype
    Raises  RuntimeError for a step that is 0 or leads away from end

    Args:
        start: The first number; 0 if None.
        end: The end of the range, which is excluded; start is the end if None.
        step: The difference between successive numbers; it may be negative.
        dtype: The dtype of the result; int64 or the default dtype, as above, if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor with one axis of ceil((end - start) / step) elements.

    Example:
        >>> torch.arange(4)
        tensor([0, 1, 2, 3])
        >>> torch.arange(1, 2, 0.25)
        tensor([1.0000, 1.2500, 1.5000, 1.7500])
    """
    if start is None and end is None:
        raise TypeError("arange() needs an end: arange(end) or arange(start, end, step=1)")
    if end is None:
        start, end = 0, start
    elif start is None:
        start = 0
    start, end, step = [as_number(one) for one in (start, end, step)]
    _require_ends(start, end, step)
    whole = all(isinstance(value, int) for value in (start, end, step))
    wanted = int64 if whole else get_default_dtype()
    wanted = wanted if dtype is None else dtype_of(dtype)
    _require_number_dtype("arange", wanted)
    start, step, count = _steps(start, end, step, wanted, whole=whole)
    kind = np.float64 if wanted.is_floating_point else np.int64

    def values() -> np.ndarray[Any, Any]:
        return rounded(start + count_up(0, count, kind) * step, wanted)

    def write(backend: Backend, raw: Any) -> None:
        backend.kernel("create.ranges.arange")(raw, start, step)

    how = None if wanted.is_complex else write
    return new_filled(values, how, (count,), wanted, device, requires_grad, layout, pin_memory)


def _require_ends(start: float, end: float, step: float) -> None:
    """Raise RuntimeError for infinite ends, and for a step that is 0 or leads away from end."""
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError(
            f"upper bound and lower bound inconsistent with step sign: {start}, {end}, {step}"
        )


def _steps(
    start: float, end: float, step: float, wanted: DType, *, whole: bool
) -> tuple[float, float, int]:
    """Return start and step in the wanted dtype, and the number of elements."""
    if wanted is int64:
        # As in PyTorch, a range in int64 first converts start, end and step to int64. For smaller
        # integer dtypes, the elements are counted first, and then start and step are converted.
        start, end, step = int(start), int(end), int(step)
        whole = True
        if step == 0:
            raise ValueError("step must be nonzero: int64 makes 0 of it")
    # Integer ranges are counted by integer division: a float quotient is inexact beyond 2**53.
    count = int(-((start - end) // step)) if whole else math.ceil((end - start) / step)
    if not wanted.is_floating_point:
        # An integer dtype has integer steps, as in PyTorch: 0.5 is truncated to 0.
        start, step = int(start), int(step)
    return start, step, count


@composite(name="range", homes="function")
def range_(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return start, start + step, ... up to and including end, in the default dtype. Deprecated in
    favor of arange.

    Raises  RuntimeError for a step that is 0 or leads away from end
    """
    warn_caller(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end)."
    )
    if end is None:
        start, end = 0, start
    start, end, step = [as_number(one) for one in (start, end, step)]
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError(
            f"upper bound and lower bound inconsistent with step sign: {start}, {end}, {step}"
        )
    wanted = dtype_or_default(dtype)
    values = start + count_up(0, math.floor((end - start) / step) + 1) * step
    return finish(
        rounded(values, wanted), device, requires_grad, layout, pin_memory, is_constant=True
    )


@quick_linspace
@checked
@fills_out
def linspace(
    start: complex,
    end: complex,
    steps: int,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return `steps` evenly spaced numbers from start to end, both included.

    Raises  RuntimeError if steps is negative

    Args:
        start: The first element, a number or a 0-d tensor.
        end: The last element, which is included; smaller than start for a descending sequence.
        steps: The number of elements: 0 gives none, 1 gives start alone.
        dtype: The dtype of the result; the default dtype if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {steps}")
    wanted = dtype_of_ends("linspace", start, end, dtype)
    if steps > 1:
        _require_number_dtype("linspace", wanted)
    first, last = held(as_number(start), wanted), held(as_number(end), wanted)

    def values() -> np.ndarray[Any, Any]:
        return rounded(evenly_spaced(first, last, steps), wanted)

    def write(backend: Backend, raw: Any) -> None:
        backend.kernel("create.ranges.evenly")(raw, first, last)

    # These dtypes are computed on the CPU: C and NumPy convert numbers beyond int64 differently.
    if wanted.is_complex or wanted in (bool_, uint64):
        return finish(values(), device, requires_grad, layout, pin_memory, is_constant=True)
    return new_filled(values, write, (steps,), wanted, device, requires_grad, layout, pin_memory)


def dtype_of_ends(name: str, start: Any, end: Any, dtype: DType | None) -> DType:
    """Return dtype or, if it is None, the default dtype, as a complex dtype for a complex end.

    Raises  RuntimeError if an end is complex and dtype is real
    """
    wanted = dtype_or_default(dtype)
    if not isinstance(as_number(start), complex) and not isinstance(as_number(end), complex):
        return wanted
    if dtype is not None and not wanted.is_complex:
        raise DTypeError(
            f"{name}(): inferred dtype {complex_of(wanted)!r} can't be safely cast to passed "
            f"dtype {wanted!r}: give a complex one"
        )
    return complex_of(wanted)


def _require_number_dtype(name: str, wanted: DType) -> None:
    if wanted is bool_:
        raise DTypeError(f"\"{name}_cpu\" not implemented for 'Bool'; give an integer dtype")


@quick_eye
@checked
@fills_out
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DType | None = None,
    layout: MemoryLayout | None = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return an (n, m) matrix with ones on the main diagonal and zeros elsewhere.

    Raises  RuntimeError if n or m is negative

    Args:
        n: The number of rows, from 0 on.
        m: The number of columns; n if None.
        dtype: The dtype of the result; the default dtype if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.eye(2)
        tensor([[1., 0.],
                [0., 1.]])
    """
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"n must be greater or equal to 0, got {n} and {m}")
    wanted = dtype_or_default(dtype)
    shape = (n, n if m is None else m)

    def write(backend: Backend, raw: Any) -> None:
        row, element = shape[1], raw.dtype.itemsize
        write_number(backend, 0, raw)
        diagonal = (min(shape),), ((row + 1) * element,)
        write_number(backend, 1, backend.as_strided(raw, *diagonal))

    how = None if wanted.is_complex else write
    return new_filled(
        lambda: np.eye(*shape, dtype=wanted.numpy),
        how,
        shape,
        wanted,
        device,
        requires_grad,
        layout,
        pin_memory,
    )


# The public names, which `fastdist` exports.
__all__ = ["arange", "eye", "linspace"]


@composite(homes="function")
@fills_out
def logspace(
    start: complex,
    end: complex,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DType | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return base raised to the powers linspace(start, end, steps)."""
    wanted = dtype_of_ends("logspace", start, end, dtype)
    if steps < 0:
        raise ShapeError(f"number of steps must be non-negative, got {steps}")
    where = elsewhere(device)
    if where is not None and wanted in (float32, float64):
        found: Any = linspace(start, end, steps, dtype=wanted, device=where)
        found = late_ops.pow(float(base), found)
        return found.requires_grad_() if requires_grad else found  # type: ignore[no-any-return]
    powers = evenly_spaced(held(start, wanted), held(end, wanted), steps)
    with np.errstate(all="ignore"):
        values = np.power(powers.dtype.type(base), powers).astype(wanted.numpy)
    return finish(values, device, requires_grad, is_constant=True)
