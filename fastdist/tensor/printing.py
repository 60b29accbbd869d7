"""Printing of tensors: values in columns, then the properties that do not have default values."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np

from ..core.dtypes import FLOAT8, WIDE
from ..core.short_repr import short_repr
from ..kernels.cpu.float8 import to_wide


class PrintOptions(NamedTuple):
    """The options for printing values.

    Note    arrays with more than `threshold` elements show only `edgeitems` elements at each end of
            an axis; if `sci_mode` is None, scientific notation is used if the values need it
    """

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES: Final = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_options = PrintOptions()
MODULE: Final = "fastdist"


def get_printoptions() -> dict[str, Any]:
    """Return the options, in the form that set_printoptions accepts."""
    return _options._asdict()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors print, in all threads. None keeps an option, but resets `sci_mode`.

    Raises  ValueError for a profile other than default, short and full
    """
    global _options
    options = _options
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(
                f"unknown profile {short_repr(profile)}; known are {', '.join(_PROFILES)}"
            )
        options = _PROFILES[profile]
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    _options = options._replace(sci_mode=sci_mode, **changes)  # type: ignore[arg-type]


def in_plain_numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return `array`, converted to float32 if its dtype is float8: tolist() of a float8 array does
    not return Python floats.
    """
    return to_wide(array) if FLOAT8 and array.dtype in FLOAT8 else array


def format_tensor(
    array: Any,
    dtype_name: str,
    device: str = "cpu",
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    *,
    class_name: str = "tensor",
    default_dtype_name: str = "float32",
    tangent: str | None = None,
) -> str:
    """Return the `repr` of a tensor.

    Note    the text is that of PyTorch, except for the prefix `fastdist.` of the dtype
    """
    options = _options
    array = in_plain_numbers(array)
    indent = len(class_name) + 1
    notes = [f"device='{device}'"] if device != "cpu" else []
    if not isinstance(array, np.ndarray):  # on the meta device, which has no values
        notes.append(f"size={array.shape}")
        usual = {default_dtype_name}
        values = "..."
    elif array.size == 0:
        if array.ndim != 1:
            notes.append(f"size={array.shape}")
        # The text of an empty tensor does not show whether the elements are integers or floats, so
        # only the default dtype is omitted.
        usual = {default_dtype_name}
        values = "[]"
    else:
        usual = {default_dtype_name, "int64", "bool"}
        usual.add("complex128" if default_dtype_name == "float64" else "complex64")
        values = format_values(array, indent, options)
    if dtype_name not in usual:
        notes.append(f"dtype={MODULE}.{dtype_name}")
    if grad_fn_name is not None:
        notes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        notes.append("requires_grad=True")
    if tangent is not None:
        notes.append(f"tangent={tangent}")
    return _with_notes(f"{class_name}({values}", notes, indent, options.linewidth) + ")"


def format_sparse(
    indices: np.ndarray,
    values: np.ndarray,
    shape: tuple[int, ...],
    dtype_name: str,
    device: str = "cpu",
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    *,
    default_dtype_name: str = "float32",
) -> str:
    """Return the `repr` of a sparse tensor, as PyTorch prints it."""
    notes = [f"device='{device}'"] if device != "cpu" else []
    notes += [f"size={tuple(shape)}", f"nnz={values.shape[0]}"]
    if dtype_name not in {default_dtype_name, "int64", "bool"}:
        notes.append(f"dtype={MODULE}.{dtype_name}")
    notes.append(f"layout={MODULE}.sparse_coo")
    if grad_fn_name is not None:
        notes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        notes.append("requires_grad=True")
    places = _part("indices=tensor(", indices)
    return (
        _with_notes(
            f"tensor({places},\n       {_part('values=tensor(', values)},\n       {notes[0]}",
            notes[1:],
            len("tensor("),
            _options.linewidth,
        )
        + ")"
    )


def _part(name: str, array: np.ndarray) -> str:
    """Return the text of the indices or the values of a sparse tensor, with lines aligned to the
    first bracket.
    """
    if array.size == 0:
        return f"{name}[], size={tuple(array.shape)})"
    return f"{name}{format_values(array, len('tensor(') + len(name), _options)})"


def format_values(array: np.ndarray, indent: int, options: PrintOptions) -> str:
    """Return the text of the values: brackets and columns. It will start at column `indent`."""
    cut = [False] * array.ndim
    if array.size > options.threshold:
        for axis, length in enumerate(array.shape):
            if length > 2 * options.edgeitems:
                ends = [*range(options.edgeitems), *range(-options.edgeitems, 0)]
                array, cut[axis] = array.take(ends, axis), True
    column: _Column = _Pairs(array, options) if array.dtype.kind == "c" else _Column(array, options)
    return _nest(array, cut, indent, column, options)


class _Column:
    """The format of all values of one tensor, and the width of a formatted value."""

    def __init__(self, array: np.ndarray, options: PrintOptions) -> None:
        self.form, self.point, self.width = "", "", 1
        shown: list[Any] = array.ravel().tolist()
        if array.dtype.kind == "f" or array.dtype in WIDE:
            shown = [value for value in shown if value and math.isfinite(value)]
            self._choose_form(shown, options)
        self.width = max([1, *(len(self._write(value)) for value in shown)])

    def text(self, value: Any) -> str:
        return self._write(value).rjust(self.width)

    def _choose_form(self, finite: list[float], options: PrintOptions) -> None:
        whole = all(value.is_integer() for value in finite)
        sizes = [abs(value) for value in finite] or [1.0]
        low, high = min(sizes), max(sizes)
        scientific = high > 1000.0 * low or high > 1e8 or low < 1e-4
        if options.sci_mode is not None and finite:
            scientific = options.sci_mode
        if scientific:
            self.form = f".{options.precision}e"
        elif whole:
            # All values are whole numbers. A point without digits shows that they are floats.
            self.form, self.point = ".0f", "."
        else:
            self.form = f".{options.precision}f"

    def _write(self, value: Any) -> str:
        if isinstance(value, float) and math.isfinite(value):
            return format(value, self.form) + self.point
        return str(value)


class _Pairs(_Column):
    """The format of complex numbers: a column for real parts and one for imaginary parts."""

    def __init__(self, array: np.ndarray, options: PrintOptions) -> None:
        self.real, self.imag = (_Column(one, options) for one in (array.real, array.imag))
        self.width = self.real.width + self.imag.width + 1

    def text(self, value: Any) -> str:
        sign = "-" if math.copysign(1.0, value.imag) < 0 and value.imag == value.imag else "+"
        imag = self.imag.text(abs(value.imag) if value.imag == value.imag else value.imag)
        return f"{self.real.text(value.real)}{sign}{imag.lstrip()}j"


def _nest(
    array: np.ndarray, cut: list[bool], indent: int, column: _Column, options: PrintOptions
) -> str:
    if array.ndim == 0:
        return column.text(array.item())
    if array.ndim == 1:
        items = [column.text(value) for value in array.tolist()]
        if cut[0]:
            items.insert(options.edgeitems, " ...")
        per_line = max(1, (options.linewidth - indent) // (column.width + 2))
        lines = [
            ", ".join(items[start : start + per_line]) for start in range(0, len(items), per_line)
        ]
        gap = "\n"
    else:
        lines = [_nest(row, cut[1:], indent + 1, column, options) for row in array]
        if cut[0]:
            lines.insert(options.edgeitems, "...")
        # The blocks of an array with n axes are separated by n - 2 empty lines.
        gap = "\n" * (array.ndim - 1)
    return "[" + f",{gap}{' ' * (indent + 1)}".join(lines) + "]"


def _with_notes(text: str, notes: list[str], indent: int, linewidth: int) -> str:
    # The constant 2 counts the closing bracket and a comma that may follow it.
    used = len(text) - (text.rfind("\n") + 1) + 2
    for note in notes:
        if used + len(note) + 2 > linewidth:
            text += f",\n{' ' * indent}{note}"
            used = indent + len(note)
        else:
            text += f", {note}"
            used += len(note) + 2
    return text
