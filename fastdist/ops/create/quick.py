"""Fast paths for creating small tensors, for calls without the rarely used arguments.

A function of creation.py has eight keywords, is offered to modes, and handles devices. To create an
8x8 tensor, such a function takes four times as long as NumPy's own function. The functions here
serve calls with a size and at most a dtype, if no interpreter and no default device is set; zeros,
ones, empty and full also serve calls with the device of a CPU tensor. All other calls, and
erroneous ones, go to the general function.

zeros(8, 8) takes 500 ns here, and 2600 ns in the general function (AMD EPYC, Zen 3).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from ...core.device import CPU, chosen
from ...core.dtypes import DType, bool_, float32, float64, int64
from ...core.errors import raise_out_of_memory
from ...core.folded_frames import fold
from ...graph.modes import modes
from ...kernels.cpu.memory import LINES_FROM
from ...random_numbers.generator import default_generator
from ...random_numbers.philox import FEW, blocks_for, integers, permutation
from ...tensor.constants import is_plain_number
from ...tensor.layout import Layout, Shape, Size
from ...tensor.promotion import default
from ...tensor.tensor import empty_shell, wrap

F = TypeVar("F", bound=Callable[..., Any])
Array = np.ndarray[Any, Any]
# A function that makes an array from a size and a dtype.
Maker = Callable[[Any, Any], Array]
_SEVERAL: Final = frozenset({tuple, list, Size})
_INT64: Final = np.dtype(np.int64)
_FEW_STEPS: Final = 512
_FEW_ROWS: Final = 64
_INTS: Final = frozenset({int})
_NUMBERS: Final = frozenset({int, float})
# A view that needs no memory, for sizes that NumPy rejects.
_TOO_LARGE: Final[Array] = np.broadcast_to(np.int8(0), (LINES_FROM,))
_count: Callable[..., Array] = np.arange


@functools.lru_cache(maxsize=64)
def kept_layout(dtype: DType, shape: Shape) -> Layout:
    """Return the C-order layout on the CPU. Layout.of takes twice as long as this cache."""
    return Layout.of(dtype, CPU, shape)


def ones_of(size: Sequence[int], dtype: Any) -> Array:
    """Return a new array, which is filled with ones only if it is small, because quick_sizes
    discards a large array. np.ones takes twice as long.
    """
    array = np.empty(size, dtype)
    if array.nbytes < LINES_FROM:
        array.fill(1)
    return array


def quick_sizes(make: Maker) -> Callable[[F], F]:
    """Return a decorator that adds a fast path to functions of `*size`: `make` for small arrays."""

    def decorate(general: F) -> F:
        def create(*size: Any, dtype: DType | None = None, device: Any = None, **named: Any) -> Any:
            try:
                if device is not CPU and device is not None:
                    return general(*size, dtype=dtype, device=device, **named)
                if named or not size or modes.tracers or (chosen.count and device is None):
                    if device is not None:
                        named["device"] = device
                    return general(*size, dtype=dtype, **named)
                wanted = default.dtype if dtype is None else dtype
                given = size[0] if len(size) == 1 and size[0].__class__ in _SEVERAL else size
                if wanted.__class__ is not DType:
                    return general(*size, dtype=dtype, device=device)
                try:
                    array = make(given, wanted.numpy)
                except MemoryError as error:
                    raise_out_of_memory(error)
                except (TypeError, ValueError, OverflowError):
                    array = _TOO_LARGE  # the general function raises an explained error
                if array.nbytes >= LINES_FROM:
                    return general(*size, dtype=dtype, device=device)
                out = empty_shell()
                out._array, out._layout = array, kept_layout(wanted, array.shape)
                out._edge = out._extra = out._storage = None
                return out
            except Exception as error:
                fold(error)
                raise

        return _offered_as(create, general)

    return decorate


def quick_draws(draw: Callable[[int, int, int], Array]) -> Callable[[F], F]:
    """Return a decorator that adds a fast path for small float32 tensors to functions of `*size`.

    The fast path draws numbers of the CPU's default generator by draw(seed, first block, count).
    """

    def decorate(general: F) -> F:
        def create(*size: Any, **named: Any) -> Any:
            try:
                if named or modes.special or chosen.count or default.dtype is not float32:
                    return general(*size, **named)
                given = size[0] if len(size) == 1 and size[0].__class__ in _SEVERAL else size
                layout = _INTS.issuperset(map(type, given)) and _layout_of_few(float32, *given)
                if not layout:
                    return general(*size)
                seed, first = default_generator.reserve(blocks_for(layout.numel, 1))
                return wrap(draw(seed, first, layout.numel).reshape(layout.shape), layout)
            except Exception as error:
                fold(error)
                raise

        return _offered_as(create, general)

    return decorate


@functools.lru_cache(maxsize=64)
def _layout_of_few(dtype: DType, *shape: int) -> Layout | None:
    """Return the layout of a shape; None if the shape is invalid or too large for quick draws."""
    is_few = min(shape, default=0) >= 0 and 0 < math.prod(shape) <= FEW
    return Layout.of(dtype, CPU, shape) if is_few else None


def quick_like(make: Maker) -> Callable[[F], F]:
    """Return a decorator that adds a fast path to functions of `input`: `make` for small arrays."""

    def decorate(general: F) -> F:
        def create(*args: Any, **named: Any) -> Any:
            try:
                if named or len(args) != 1 or args[0].__class__ not in modes.plain:
                    return general(*args, **named)
                layout = args[0]._layout
                if (
                    not layout.contiguous
                    or layout.device is not CPU
                    or layout.is_sparse
                    or args[0]._array.nbytes >= LINES_FROM
                ):
                    return general(*args)
                out = empty_shell()
                out._array, out._layout = make(layout.shape, layout.dtype.numpy), layout
                out._edge = out._extra = out._storage = None
                return out
            except Exception as error:
                fold(error)
                raise

        return _offered_as(create, general)

    return decorate


def quick_full(general: F) -> F:
    """Return `full` with a fast path for small arrays of numbers that the dtype holds."""

    def create(*args: Any, dtype: Any = None, device: Any = None, **named: Any) -> Any:
        try:
            if device is not CPU and device is not None:
                return general(*args, dtype=dtype, device=device, **named)
            if named or len(args) != 2 or modes.tracers or (chosen.count and device is None):
                if device is not None:
                    named["device"] = device
                return general(*args, dtype=dtype, **named)
            size, value = args
            kind = value.__class__
            if dtype is None:
                wanted = default.dtype if kind is float else int64 if kind is int else bool_
                is_held = kind is bool or (kind in _NUMBERS and -1e4 < value < 1e4)
            else:
                wanted = dtype
                is_held = wanted.__class__ is DType and (
                    is_plain_number(value, wanted)
                    or (kind is float and wanted.is_floating_point and -1e4 < value < 1e4)
                )
            if not is_held or wanted.is_float8 or size.__class__ not in _SEVERAL:
                return general(*args, dtype=dtype, device=device)
            try:
                array = np.empty(size, wanted.numpy)
            except MemoryError as error:
                raise_out_of_memory(error)
            except (TypeError, ValueError, OverflowError):
                array = _TOO_LARGE  # the general function raises an explained error
            if array.nbytes >= LINES_FROM:
                return general(*args, dtype=dtype, device=device)
            array.fill(value)
            out = empty_shell()
            out._array, out._layout = array, kept_layout(wanted, array.shape)
            out._edge = out._extra = out._storage = None
            return out
        except Exception as error:
            fold(error)
            raise

    return _offered_as(create, general)


def quick_full_like(general: F) -> F:
    """Return `full_like` with a fast path as in quick_full."""

    def create(*args: Any, **named: Any) -> Any:
        try:
            if named or len(args) != 2 or args[0].__class__ not in modes.plain:
                return general(*args, **named)
            input, value = args
            layout = input._layout
            if (
                not (layout.contiguous and is_plain_number(value, layout.dtype))
                or layout.device is not CPU
                or layout.is_sparse
                or input._array.nbytes >= LINES_FROM
            ):
                return general(*args)
            out = empty_shell()
            array = np.empty(layout.shape, layout.dtype.numpy)
            array.fill(value)
            out._array, out._layout = array, layout
            out._edge = out._extra = out._storage = None
            return out
        except Exception as error:
            fold(error)
            raise

    return _offered_as(create, general)


def quick_range(general: F) -> F:
    """Return `arange` with a fast path for integer ends without a step."""

    def create(*args: Any, **named: Any) -> Any:
        try:
            if named or not 0 < len(args) < 3 or modes.tracers or chosen.count:
                return general(*args, **named)
            ends: Any = args if len(args) == 2 else (0, args[0])
            start, end = ends
            if not (start.__class__ is int is end.__class__ and 0 <= end - start <= 2048):
                return general(*args)
            if not -(1 << 62) < start < 1 << 62:
                return general(*args)
            out = empty_shell()
            array = out._array = _count(start, end, 1, _INT64)
            out._layout = kept_layout(int64, array.shape)
            out._edge = out._extra = out._storage = None
            return out
        except Exception as error:
            fold(error)
            raise

    return _offered_as(create, general)


def quick_eye(general: F) -> F:
    """Return `eye` with a fast path for small square matrices of the default dtype."""

    def create(*args: Any, **named: Any) -> Any:
        try:
            if named or len(args) != 1 or modes.tracers or chosen.count:
                return general(*args, **named)
            n = args[0]
            if n.__class__ is not int or not 0 < n <= _FEW_ROWS or default.dtype.is_complex:
                return general(*args)
            dtype = default.dtype
            array = np.zeros((n, n), dtype.numpy)
            array.ravel()[:: n + 1] = 1
            return wrap(array, kept_layout(dtype, array.shape))
        except Exception as error:
            fold(error)
            raise

    return _offered_as(create, general)


def quick_permutation(general: F) -> F:
    """Return `randperm` with a fast path for few numbers from the CPU's default generator."""

    def create(*args: Any, **named: Any) -> Any:
        try:
            if named or len(args) != 1 or modes.tracers or chosen.count:
                return general(*args, **named)
            n = args[0]
            if n.__class__ is not int or not 0 < n <= FEW // 2:
                return general(*args)
            array = permutation(*default_generator.reserve(blocks_for(n, 2)), n)
            return wrap(array, kept_layout(int64, array.shape))
        except Exception as error:
            fold(error)
            raise

    return _offered_as(create, general)


def quick_integers(general: F) -> F:
    """Return `randint` with a fast path for few int64 numbers from the CPU's default generator."""

    def create(*args: Any, **named: Any) -> Any:
        try:
            if named or not 1 < len(args) < 4 or modes.tracers or chosen.count:
                return general(*args, **named)
            low, high, size = args if len(args) == 3 else (0, *args)
            if (
                not low.__class__ is high.__class__ is int
                or size.__class__ not in _SEVERAL
                or not -(1 << 62) < low < high < 1 << 62
                or not _INTS.issuperset(map(type, size))
                or (layout := _layout_of_few(int64, *size)) is None
            ):
                return general(*args)
            seed, first = default_generator.reserve(blocks_for(layout.numel, 2))
            drawn = integers(seed, first, layout.numel, low, high)
            return wrap(drawn.reshape(layout.shape), layout)
        except Exception as error:
            fold(error)
            raise

    return _offered_as(create, general)


def quick_linspace(general: F) -> F:
    """Return `linspace` with a fast path for two ends of moderate size and few steps."""

    def create(*args: Any, **named: Any) -> Any:
        try:
            if named or len(args) != 3 or modes.tracers or chosen.count:
                return general(*args, **named)
            start, end, steps = args
            wanted = default.dtype
            if (
                not (_is_moderate(start) and _is_moderate(end) and steps.__class__ is int)
                or not 1 < steps <= _FEW_STEPS
                or not (wanted is float32 or wanted is float64)
            ):
                return general(*args)
            # The same computation as in core/linspace.py, with identical bits. For moderate ends
            # nothing overflows, so np.errstate is not needed.
            kind, gaps, half, offsets = _counted(wanted, steps)
            first, last = kind(start), kind(end)
            out = empty_shell()
            array = out._array = offsets * ((last - first) / gaps)
            head, tail = array[:half], array[half:]
            np.add(head, first, head)
            np.add(tail, last, tail)
            out._layout = kept_layout(wanted, array.shape)
            out._edge = out._extra = out._storage = None
            return out
        except Exception as error:
            fold(error)
            raise

    return _offered_as(create, general)


def _is_moderate(value: Any) -> bool:
    """Return whether value is a Python number that is 0 or has a magnitude in 1e-15 ... 1e15."""
    if value.__class__ is not float and value.__class__ is not int:
        return False
    return not value or 1e-15 < (value if value > 0 else -value) < 1e15


@functools.lru_cache(maxsize=64)
def _counted(dtype: DType, steps: int) -> tuple[Any, Any, int, Array]:
    """Return the scalar type, the number of gaps, half the number of steps, and the offsets.

    In the first half, offsets count steps from the start; in the second half, back from the end.
    """
    kind: Any = dtype.numpy.type
    offsets = np.arange(steps).astype(dtype.numpy)
    offsets[steps // 2 :] = -offsets[::-1][steps // 2 :]
    return kind, kind(steps - 1), steps // 2, offsets


def _offered_as(create: Callable[..., Any], general: F) -> F:
    """Return create with the name and signature of general.

    Modes see a call of general as a call of the returned function.
    """
    public: Any = functools.wraps(general)(create)
    general.offered_as = public  # type: ignore[attr-defined]
    return public  # type: ignore[no-any-return]
