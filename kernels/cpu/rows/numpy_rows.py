"""The kernels of row_steps by NumPy, used while a loop is being compiled.

Rows are processed in blocks. Results that depend on a scalar of the row are computed in float64 and
rounded once, so they differ from the compiled loop's results in the last bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from fastdist.language.scalar import Body, parse

from ..pointwise.numpy_pointwise import small_function
from .row_steps import (
    KERNELS,
    Add,
    Columns,
    First,
    Give,
    If,
    Kind,
    Let,
    Map,
    Pick,
    Put,
    Reduce,
    Short,
    Step,
)

Array = np.ndarray[Any, Any]
Operands = Sequence[tuple[str, Kind, Array]]

_BLOCK: Final = 1 << 16  # elements, so that several float64 arrays of this size fit a cache
_VECTOR_BYTES: Final = 64
_WIDE: Final = np.float64


def run(
    name: str, arrays: Sequence[Array], rows: int, n: int, a: float = 0.0, b: float = 0.0
) -> None:
    """Do the same as the compiled loop with this name: see row_launcher. Arrays are in C order.

    Thread  any
    """
    kernel = KERNELS[name]
    operands = [(*one, array) for one, array in zip(kernel.operands, arrays, strict=True)]
    with np.errstate(all="ignore"):
        if isinstance(kernel, Short):
            _reduce_short(kernel.how, operands, rows, n, a)
        elif isinstance(kernel, Columns):
            _add_columns(kernel.texts, operands, rows, n, a)
        elif kernel.has_bands:
            for i in range(rows):
                some = slice(i * int(b), min((i + 1) * int(b), int(a)))
                _Rows(operands, some, n, a, b, i).take(kernel.steps)
        else:
            for some in _blocks(rows, n):
                _Rows(operands, some, n, a, b).take(kernel.steps)


def _blocks(rows: int, n: int) -> Iterator[slice]:
    step = max(1, _BLOCK // max(n, 1))
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def _reduce_short(how: str, operands: Operands, rows: int, n: int, a: float) -> None:
    (_, _, x), (_, _, out) = operands
    x = x.reshape(-1)[: rows * n].reshape(rows, n)
    if how == "sum":
        found = np.add.reduce(x, 1, _WIDE) * a
    else:
        found = (np.maximum if how == "top" else np.minimum).reduce(x, 1)
    np.copyto(out.reshape(-1)[:rows], found, casting="unsafe")


def _add_columns(
    texts: Sequence[tuple[str, str]], operands: Operands, rows: int, n: int, a: float
) -> None:
    totals = {to: np.zeros(n) for to, _ in texts}
    for some in _blocks(rows, n):
        of_block = _Rows(operands, some, n, a, 0.0)
        for to, text in texts:
            totals[to] += np.add.reduce(of_block.value(text), 0, _WIDE)
    for name, _, array in operands:
        if name in totals:
            np.copyto(array.reshape(-1)[:n], totals[name] * a, casting="unsafe")


class _Rows:
    """A block of rows, to which steps are applied. `values` has the block's part of each operand,
    of shape (rows, n) or (n), and float64 scalars, of shape (rows, 1), or 0-d if rows share them.
    """

    def __init__(
        self, operands: Operands, some: slice, n: int, a: float, b: float, band: int = 0
    ) -> None:
        self.values: dict[str, Array] = {
            name: np.asarray(value, _WIDE) for name, value in (("n", n), ("a", a), ("b", b))
        }
        # Outputs for scalars of rows, by the names of operands.
        self.given: dict[str, Array] = {}
        # Private copies of indices, because NumPy reads an index again after its check. See Note
        # [Indices that change].
        self.places: dict[str, Array] = {}
        self.wrong: Array | None = None
        self.shape, self.dtype = (some.stop - some.start, n), np.dtype(_WIDE)
        for name, kind, array in operands:
            flat = array.reshape(-1)
            if kind == "rows":
                self.values[name] = flat[some.start * n : some.stop * n].reshape(self.shape)
                self.dtype = array.dtype
            elif kind == "bands":
                self.given[name] = flat[band * n : (band + 1) * n]
            elif kind == "columns":
                self.values[name] = flat[:n]
            elif kind == "places":
                self.places[name] = flat[some, None].copy()
            elif kind == "outside":
                self.wrong = flat
            elif kind != "totals":
                part = self.given[name] = flat[some, None]
                self.values[name] = part.astype(_WIDE)

    def value(self, text: str) -> Array:
        """Return the value of the expression `text`, for each element or for each row."""
        if text in self.values:
            return self.values[text]
        names, function = _function_of(text, tuple(self.values))
        found: Array = function(*[self.values[name] for name in names])
        return found

    def take(self, steps: Sequence[Step]) -> None:
        """Apply steps in order."""
        values = self.values
        for step in steps:
            match step:
                case Reduce(name, how, text):
                    values[name] = _reduced(how, np.broadcast_to(self.value(text), self.shape))
                case Let(name, text, rounded):
                    found = self.value(text)
                    values[name] = found.astype(self.dtype).astype(_WIDE) if rounded else found
                case Map(to, text):
                    np.copyto(values[to], self.value(text), casting="unsafe")
                case Give(to, text):
                    np.copyto(self.given[to], self.value(text), casting="unsafe")
                case Add(to, text):
                    total = np.add.reduce(self.value(text), 0, _WIDE)
                    np.copyto(self.given[to], total, casting="unsafe")
                case Pick(name, row, place):
                    found = np.take_along_axis(values[row], self._inside(place), 1)
                    values[name] = found.astype(_WIDE)
                case Put(to, place, text):
                    np.put_along_axis(values[to], self._inside(place), self.value(text), 1)
                case First(name, row):
                    few = values[row][:, : _VECTOR_BYTES // self.dtype.itemsize]
                    mean = np.add.reduce(few, 1, _WIDE, keepdims=True) / few.shape[1]
                    values[name] = mean.astype(self.dtype).astype(_WIDE)
                case If(text, inner):
                    self._take_where(self.value(text), inner)

    def _inside(self, place: str) -> Array:
        """Return the indices into the rows; an index that is out of bounds is reported and replaced
        by 0.
        """
        at = self.places[place]
        is_outside = (at < 0) | (at >= self.shape[1])
        if not is_outside.any():
            return at
        if self.wrong is not None:
            self.wrong[0] = at[is_outside][0]
        return np.where(is_outside, 0, at)

    def _take_where(self, asked: Array, steps: Sequence[Step]) -> None:
        """Apply steps, and keep the recomputed scalars only for the rows selected by `asked`."""
        if asked.any():
            before = dict(self.values)
            self.take(steps)
            for name, old in before.items():
                if self.values[name] is not old:
                    self.values[name] = np.where(asked, self.values[name], old)


def _reduced(how: str, values: Array) -> Array:
    found: Any
    if how == "sum":
        found = np.add.reduce(values, 1, _WIDE, keepdims=True)
    elif how == "nan":
        found = np.isnan(values).any(1, keepdims=True)
    else:
        found = np.fmax.reduce(values, 1, keepdims=True, initial=-np.inf)
    return found.astype(_WIDE)  # type: ignore[no-any-return]


@lru_cache(maxsize=256)
def _function_of(text: str, known: tuple[str, ...]) -> tuple[tuple[str, ...], Callable[..., Any]]:
    """Return the known names that the expression `text` uses, and the function of their values."""
    body = parse(text, known)
    names = tuple([name for name in known if name in body.used])
    return names, small_function(Body.of(body.tree, names))
