"""Helpers for tests of code that uses fastdist: `assert_close` and `make_tensor`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .core import dtypes
from .core.device import CPU, Device
from .core.dtypes import DType
from .core.memory_format import MemoryFormat
from .core.missing import show_public
from .ops.shape.copying import to
from .tensor.tensor import Tensor, from_array

__all__ = [
    "assert_close",
    "make_tensor",
]

# The tolerances (rtol, atol) of each dtype. If the two dtypes differ, the larger tolerances apply,
# as in PyTorch.
_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Accepts tensors, numbers, and nested sequences and mappings of tensors and numbers. By default,
    `rtol` and `atol` depend on the dtype; they are 0 for integers and bool.
    Note    for sparse tensors the sum of the entries at each coordinate is compared
    """
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol must both be specified or both be unspecified")
    compare = _Comparison(
        rtol, atol, equal_nan, check_device, check_dtype, check_stride, check_layout
    )
    try:
        if not allow_subclasses and type(actual) is not type(expected):
            raise _Different(
                f"Except for scalars, type equality is required, got {_types(actual, expected)}"
            )
        compare.pair(actual, expected, "")
    except _Different as difference:
        text = str(difference)
        text = msg(text) if callable(msg) else text if msg is None else msg
        raise AssertionError(text) from None


class _Different(Exception):
    """Two values differ; the message explains the difference and the position."""


class _Comparison:
    """The tolerances of a comparison, and the properties that the comparison checks."""

    def __init__(
        self,
        rtol: float | None,
        atol: float | None,
        equal_nan: bool,
        check_device: bool,
        check_dtype: bool,
        check_stride: bool,
        check_layout: bool,
    ) -> None:
        self.check_layout = check_layout
        self.rtol, self.atol, self.equal_nan = rtol, atol, equal_nan
        self.check_device, self.check_dtype = check_device, check_dtype
        self.check_stride = check_stride

    def pair(self, actual: Any, expected: Any, where: str) -> None:
        if isinstance(actual, Mapping) and isinstance(expected, Mapping):
            if actual.keys() != expected.keys():
                raise _Different(
                    f"The keys of the mappings do not match{where}: {sorted(map(str, actual))} and "
                    f"{sorted(map(str, expected))}"
                )
            for key in actual:
                self.pair(actual[key], expected[key], f"{where}[{key!r}]")
        elif _is_sequence(actual) and _is_sequence(expected):
            if len(actual) != len(expected):
                raise _Different(
                    f"The length of the sequences mismatch{where}: {len(actual)} != {len(expected)}"
                )
            for i, (one, other) in enumerate(zip(actual, expected)):
                self.pair(one, other, f"{where}[{i}]")
        elif isinstance(actual, Tensor) and isinstance(expected, Tensor):
            self.tensors(actual, expected, where)
        elif _is_number(actual) and _is_number(expected):
            self.numbers(actual, expected, where)
        else:
            raise _Different(f"No comparison for {_types(actual, expected)}{_at(where)}")

    def tensors(self, actual: Tensor, expected: Tensor, where: str) -> None:
        a, b = actual._layout, expected._layout
        facts: list[tuple[bool, str, Any, Any]] = [
            (True, "shape", a.shape, b.shape),
            (self.check_device, "device", a.device, b.device),
            (self.check_dtype, "dtype", a.dtype, b.dtype),
            (self.check_stride, "stride()", a.strides, b.strides),
        ]
        for asked, name, one, other in facts:
            if asked and one != other:
                raise _Different(
                    f"The values for attribute '{name}' do not match: {one} != {other}.{_at(where)}"
                )
        if a.is_sparse or b.is_sparse:
            self.sparse(actual, expected, where)
            return
        self.arrays(_values(actual), _values(expected), (a.dtype, b.dtype), where, "Tensor-likes")

    def sparse(self, actual: Tensor, expected: Tensor, where: str) -> None:
        if self.check_layout and actual.layout is not expected.layout:
            raise _Different(
                f"The values for attribute 'layout' do not match: {actual.layout!r} != "
                f"{expected.layout!r}.{_at(where)}"
            )
        self.tensors(actual.to_dense(), expected.to_dense(), where)

    def numbers(self, actual: Any, expected: Any, where: str) -> None:
        if self.check_dtype and type(actual) is not type(expected):
            raise _Different(
                f"The (d)types do not match: {type(actual).__name__} != {type(expected).__name__}."
                f"{_at(where)}"
            )
        kinds = {float: (dtypes.float64,), complex: (dtypes.complex128,)}
        found = kinds.get(type(expected), ())
        self.arrays(np.asarray(actual), np.asarray(expected), found, where, "Scalars")

    def arrays(
        self, actual: Any, expected: Any, found: Sequence[DType], where: str, what: str
    ) -> None:
        tolerances = [_TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in found] or [(0.0, 0.0)]
        rtol = max(one for one, _ in tolerances) if self.rtol is None else self.rtol
        atol = max(one for _, one in tolerances) if self.atol is None else self.atol
        close = np.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=self.equal_nan)
        if not close.all():
            raise _Different(_report(actual, expected, close, rtol, atol, what) + _at(where))


def _report(actual: Any, expected: Any, close: Any, rtol: float, atol: float, what: str) -> str:
    relation = "equal" if rtol == atol == 0 else "close"
    # Differences are computed in float64 or complex128, because those of unsigned integers would
    # wrap around.
    is_complex = "c" in (actual.dtype.kind, expected.dtype.kind)
    wide = np.complex128 if is_complex else np.float64
    with np.errstate(all="ignore"):
        absolute = np.abs(actual.astype(wide) - expected.astype(wide))
        relative = absolute / np.abs(expected.astype(wide))
    if close.ndim == 0:
        return (
            f"{what} are not {relation}!\n\nExpected {expected.item()!r} but got {actual.item()!r}."
            f"\nAbsolute difference: {float(absolute)!r} (up to {atol} allowed)"
            f"\nRelative difference: {float(relative)!r} (up to {rtol} allowed)\n"
        )
    wrong, total = int(close.size - close.sum()), close.size
    lines = [
        f"{what} are not {relation}!\n",
        f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})",
    ]
    for name, values, allowed in (("absolute", absolute, atol), ("relative", relative, rtol)):
        # Search only among mismatches: with equal_nan, elements that are NaN in both tensors count
        # as equal, but their difference is NaN.
        shown = np.where(close, -1.0, np.where(np.isnan(values), np.inf, values))
        place = tuple(int(i) for i in np.unravel_index(int(shown.argmax()), shown.shape))
        lines.append(
            f"Greatest {name} difference: {float(values[place])!r} at index {place} "
            f"(up to {allowed} allowed)"
        )
    return "\n".join(lines) + "\n"


def _values(tensor: Tensor) -> np.ndarray[Any, Any]:
    array = tensor.to_numpy()
    return array.astype(np.float64) if tensor._layout.dtype.is_half else array


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex | np.generic)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _types(actual: Any, expected: Any) -> str:
    return f"{type(actual).__name__} and {type(expected).__name__}"


def _at(where: str) -> str:
    return f"\nThe failure occurred for item {where}" if where else ""


def make_tensor(
    *shape: Any,
    dtype: DType,
    device: str | Device = CPU,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: MemoryFormat | None = None,
    seed: int = 0,
) -> Tensor:
    """Return a tensor of uniformly distributed values in [low, high). Calls with the same arguments
    return the same values.

    Note    the default range is [-9, 9) for floating dtypes, [-9, 10) for signed integers, [0, 10)
            for unsigned integers and {0, 1} for bool. With `noncontiguous`, the result is every
            second element of a tensor whose last axis has twice the length
    Raises  ValueError if `noncontiguous` and a `memory_format` are both given
    """
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"noncontiguous={noncontiguous!r} and memory_format={memory_format!r}"
        )
    sizes = shape[0] if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape
    sizes = tuple(int(size) for size in sizes)
    if noncontiguous and sizes:
        sizes = (*sizes[:-1], 2 * sizes[-1])
    generator = np.random.default_rng([seed, *sizes])
    values: Any
    if dtype.is_floating_point:
        values = generator.uniform(_or(low, -9.0), _or(high, 9.0), sizes)
    elif dtype is dtypes.bool_:
        values = generator.integers(0, 2, sizes)
    else:
        first = _or(low, -9 if dtype.is_signed else 0)
        values = generator.integers(int(first), int(_or(high, 10)), sizes)
    array = np.asarray(values).astype(dtype.numpy)
    if exclude_zero:
        array[array == 0] = 1
    if noncontiguous and sizes:
        array = array[..., ::2]
    tensor = to(from_array(array), device)
    if memory_format is not None:
        tensor = tensor.clone(memory_format=memory_format)
    return tensor.requires_grad_() if requires_grad else tensor


def _or(given: float | None, default: float) -> float:
    return default if given is None else given


show_public(__name__)
