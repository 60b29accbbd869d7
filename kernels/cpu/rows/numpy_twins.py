"""The NumPy versions of the exact kernels along rows: functions generated from the steps of a Row.

A twin takes the operands of the compiled loop, and gives the same bits; see exact_row_code.py. The
twin is used until the loop is loaded. Processes with few calls never load the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from fastdist.language.scalar import Call, Literal, Name, Node, parse

from ..pointwise import polynomials
from ..silence import define_silent, silent
from ..small.call_facts import Run, number
from .row_steps import Add, Give, If, Let, Log, Map, Pick, Put, Reduce, Row, Scan, Step, Total

Array = np.ndarray[Any, Any]
_WIDE: Final = np.dtype(np.float64)
# The scalars that a call passes, and their variables in the row's dtype and in float64.
_NUMBERS: Final = ("n", "a", "b")
_GIVEN: Final = [f"_{name}_{kind}" for kind in ("own", "wide") for name in _NUMBERS]
_UFUNCS: Final = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "square": np.square, "sqrt": np.sqrt, "abs": np.abs, "eq": np.equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "isnan": np.isnan, "isinf": np.isinf,
}  # fmt: skip


@lru_cache(maxsize=1024)
def twin(row: Row, dtype: Any, rows: int, n: int, a: float, b: float) -> Run:
    """Return the function of a tuple of operands that does the same as the loop of `row`, for this
    number of rows (or bands) of n numbers.
    """
    count, band = (int(a), int(b)) if row.has_bands else (rows, 0)
    numbers = [number(value, kind) for kind in (dtype, _WIDE) for value in (n, a, b)]
    return _maker(row, dtype)(count, n, band, *numbers)  # type: ignore[no-any-return]


@lru_cache(maxsize=256)
def _maker(row: Row, dtype: Any) -> Callable[..., Any]:
    """Return the function that makes the twins of a row for all lengths; generating it takes
    1 ms.
    """
    return _Writer(row, dtype).written()


class _Variable(str):
    """The name of a variable of the generated code, used in place of a number in a shape."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _Writer:
    """Generates the source of a function that makes twins. Values are names of variables. With
    wide=True, a variable is a float64 array; otherwise it is an array of the row's dtype. Scalars
    of rows have the shape (rows, 1), and are stored in float64.
    """

    def __init__(self, row: Row, dtype: Any) -> None:
        self.row, self.dtype = row, dtype
        self.count, self.n, self.band = map(_Variable, ("_count", "_n", "_band"))
        self.kinds = dict(row.operands)
        steps = [*row.steps, *[one for s in row.steps if isinstance(s, If) for one in s.steps]]
        made = [s.name for s in steps if isinstance(s, Reduce | Let | Log | Pick)]
        self.names = [*self.kinds, *_NUMBERS, *dict.fromkeys(made)]
        self.scope: dict[str, Any] = {
            "_take": np.take_along_axis, "_put": np.put_along_axis, "_where": np.where,
            "_inside": _inside, "_sum": np.add.reduce, "_accumulate": np.add.accumulate,
            "_fmax": np.fmax.reduce, "_log": np.log, "_tile": np.tile, "_turns": _add_turns,
            "_repeat": np.repeat,
            "_copy": np.copyto, "_wide": _WIDE, "_own": dtype, "_bands": _add_bands,
            **{f"_{name}": ufunc for name, ufunc in _UFUNCS.items()},
        }  # fmt: skip
        self.lines: list[str] = []
        self.depth = 2
        # `numbers` has the float64 variables of the rows' scalars. `made` has the variables of
        # computed subexpressions, by node and by whether the variable is float64.
        self.numbers: dict[str, str] = {}
        self.made: dict[tuple[Any, bool], str] = {}
        self.used: dict[tuple[Any, bool], set[str]] = {}

    def written(self) -> Callable[..., Any]:
        for i, (name, kind) in enumerate(self.row.operands):
            shape = {
                "rows": (self.count, self.n), "numbers": (self.count, 1),
                "wide": (self.count, 1), "places": (self.count, 1), "bands": (-1, self.n),
                "turns": (-1, self.n), "turn_sums": (-1,), "turn_numbers": (-1, 1),
                "group_numbers": (-1, 1),
            }.get(kind)  # fmt: skip
            if kind != "table":
                seen = "" if shape is None else f".reshape({shape})"
                self.line(f"{name} = _operands[{i}]{seen}")
            if kind in ("turns", "turn_numbers"):
                self.line(f"{name} = _tile({name}, ({self.count} // len({name}), 1))")
            if kind == "group_numbers":
                self.line(f"{name} = _repeat({name}, {self.count} // len({name}), 0)")
        self.take(self.row.steps)
        given = ", ".join([self.count, self.n, self.band, *_GIVEN])
        head = [f"def twins({given}):", "    def twin(_operands):"]
        text = "\n".join([*head, *self.lines, "    return twin"])
        return define_silent(text, "twins", self.scope)

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def new(self, text: str) -> str:
        """Write an assignment of the expression `text` to a new variable; return the variable."""
        name = f"_{len(self.lines)}v"
        self.line(f"{name} = {text}")
        return name

    def constant(self, value: float, wide: bool) -> str:
        name = f"_c{len(self.scope)}"
        self.scope[name] = number(value, _WIDE if wide else self.dtype)
        return name

    def changed(self, name: str) -> None:
        """Drop the subexpressions that use a name whose value has changed."""
        for key in [key for key, names in self.used.items() if name in names]:
            self.made.pop(key, None)

    def keep(self, name: str, variable: str) -> None:
        """Store a scalar of the row, in float64."""
        self.changed(name)
        self.numbers[name] = variable

    def value(self, text: str, wide: bool, out: str = "") -> str:
        """Return the variable with the value of the expression `text`, or write it to `out`."""
        tree = parse(text, self.names).tree
        if out:
            self._make(tree, wide, out)
            return out
        return self._of(tree, wide)

    def _of(self, node: Node, wide: bool) -> str:
        key = node, wide
        if key not in self.made:
            self.made[key] = self._make(node, wide)
            self.used[key] = _names_of(node)
        return self.made[key]

    def _make(self, node: Node, wide: bool, out: str = "") -> str:
        if isinstance(node, Call):
            return self._call(node, wide, out)
        if isinstance(node, Literal):
            found = self.constant(float(node.value), wide)
        elif isinstance(node, Name):
            found = self._named(node.id, wide)
        if out:
            self.line(f"_copy({out}, {found}, 'unsafe')")
        return found

    def _call(self, node: Call, wide: bool, out: str) -> str:
        args = [self._of(one, wide) for one in node.args]
        if node.primitive == "where":
            found = self.new(f"_where({', '.join(args)})")
            if out:
                self.line(f"_copy({out}, {found})")
            return found
        if node.primitive == "exp":
            match node.args[0]:
                case Call(primitive="sub", args=(_, Name(id="top"))):
                    bounded = True
                case _:
                    bounded = False
            self.scope["_exp_wide" if wide else "_exp"] = exp_of(
                _WIDE if wide else self.dtype, bounded
            )
            text = f"_exp{'_wide' * wide}({', '.join([*args, *[out] * bool(out)])})"
        else:
            text = f"_{node.primitive}({', '.join([*args, *[out] * bool(out)])})"
        if out:
            self.line(text)
            return out
        return self.new(text)

    def _named(self, name: str, wide: bool) -> str:
        if name in _NUMBERS:
            return f"_{name}_{'wide' if wide else 'own'}"
        if name in self.numbers:
            found = self.numbers[name]
            return found if wide or self.dtype == _WIDE else self.new(f"{found}.astype(_own)")
        kind = self.kinds[name]
        if wide and kind != "wide" and self.dtype != _WIDE:
            return self.new(f"{name}.astype(_wide)")
        return name

    def take(self, steps: Sequence[Step], *, again: bool = False) -> None:
        """Write steps in order; `again` means that sums are computed in float64."""
        for step in steps:
            match step:
                case Reduce(name, "sum", text):
                    terms = self._full(text, True) if again else self._terms(text)
                    total = self.new(f"_sum({terms}, 1, None, None, True, 0.0)")
                    self._keep_narrow(name, total, again)
                case Reduce(name, "top", text):
                    top = f"_fmax({self._full(text, False)}, 1, None, None, True, -_inf)"
                    self.scope["_inf"] = math.inf
                    self._keep_narrow(name, self.new(f"{top} + 0.0"), again)
                case Let(name, text, rounded):
                    self.keep(name, self._let(text, rounded))
                case Log(name, of):
                    self.keep(name, self.new(f"_log({self._named(of, True)})"))
                case Map(to, text):
                    self.value(text, False, to)
                    self.changed(to)
                case Give(to, text):
                    self.line(f"_copy({to}, {self.value(text, True)}, 'unsafe')")
                case Add(to, text):
                    value = self._full(text, False)
                    if self.kinds[to] == "bands":
                        self.line(f"_bands({to}, {value}, {self.band})")
                    else:
                        self.line(f"_turns({to}, {value})")
                case Pick(name, row, place):
                    picked = self.new(f"_take({row}, {self._place(place)}, 1)")
                    self._keep_narrow(name, picked, False)
                case Put(to, place, text):
                    value = self.value(text, True)
                    self.line(f"_put({to}, {self._place(place)}, {value}.astype(_own), 1)")
                    self.changed(to)
                case Scan(to, of, backwards):
                    turn = "[:, ::-1]" if backwards else ""
                    sums = f"_accumulate({of}{turn}, 1, _wide)"
                    self.line(f"_copy({to}{turn}, {sums}, 'unsafe')")
                case Total(to, of):
                    added = f"_accumulate({self._named(of, True)}.ravel())[-1]"
                    self.line(f"{to}[...] = {added} * _a_wide")
                case If(text, inner):
                    self._where(text, inner)
                case _:
                    raise TypeError(f"an exact kernel has no step {step!r}")

    def _let(self, text: str, rounded: bool) -> str:
        found = self.value(text, True)
        if isinstance(parse(text, self.names).tree, Literal | Name):
            found = self.new(f"_add0({found}, {self.count})")
            self.scope["_add0"] = _full
        if rounded and self.dtype != _WIDE:
            return self.new(f"{found}.astype(_own).astype(_wide)")
        return found

    def _keep_narrow(self, name: str, variable: str, is_wide: bool) -> None:
        """Store a scalar of the row that has the row's dtype."""
        if is_wide or self.dtype == _WIDE:
            self.keep(name, variable)
            return
        self.keep(name, self.new(f"{variable}.astype(_wide)"))
        key = parse(name, self.names).tree, False
        self.made[key], self.used[key] = variable, {name}

    def _terms(self, text: str) -> str:
        """Return the variable with the terms of a sum over whole rows."""
        tree = parse(text, self.names).tree
        match tree:
            case Call(
                primitive="exp", args=(Call(primitive="sub", args=(_, Name(id="top"))) as x,)
            ):
                self.scope["_exp_in_sum"] = exp_in_sum_of(self.dtype)
                return self.new(f"_exp_in_sum({self._of(x, False)})")
        return self._of(tree, False)

    def _full(self, text: str, wide: bool) -> str:
        """Return the variable with the value of `text`, which has one number for each element."""
        return self.value(text, wide)

    def _place(self, place: str) -> str:
        (wrong,) = [name for name, kind in self.kinds.items() if kind == "outside"]
        key = parse(place, self.names).tree, False
        if key not in self.made:
            self.made[key] = self.new(f"_inside({place}, {self.n}, {wrong})")
            self.used[key] = set()
        return self.made[key]

    def _where(self, text: str, steps: Sequence[Step]) -> None:
        """Write steps that change only the rows for which the expression `text` is true."""
        asked = self.value(text, True)
        names = [s.name for s in steps if isinstance(s, Reduce | Let | Log | Pick)]
        kept = {name: self.new(self.numbers[name]) for name in names if name in self.numbers}
        for name, variable in kept.items():
            self.keep(name, variable)
        before = dict(self.made), dict(self.used), dict(self.numbers)
        self.line(f"if {asked}.any():")
        self.depth += 1
        self.take(steps, again=True)
        for name, variable in kept.items():
            self.line(f"{variable} = _where({asked}, {self.numbers[name]}, {variable})")
        self.depth -= 1
        self.made, self.used, self.numbers = before
        for name in kept:
            self.keep(name, kept[name])


def _names_of(node: Node) -> set[str]:
    if isinstance(node, Name):
        return {node.id}
    if isinstance(node, Call):
        return set().union(*[_names_of(one) for one in node.args])
    return set()


def _full(value: Any, rows: int) -> Array:
    return np.array(np.broadcast_to(value, (rows, 1)))


def _inside(places: Array, n: int, wrong: Array) -> Array:
    """Return private copies of the indices into the rows; an index that is out of bounds is
    reported and replaced by 0. NumPy reads an index again after its check, see Note [Indices that
    change].
    """
    places = places.copy()
    if places.min(initial=0) < 0 or places.max(initial=0) >= n:
        is_outside = (places < 0) | (places >= n)
        wrong[...] = places[is_outside][-1]
        places[is_outside] = 0
    return places


@silent
def _in_turn(column: Array) -> Any:
    """Return the sum of numbers added in sequence; np.add.reduce would use eight partial sums."""
    return np.add.accumulate(column)[-1] + 0.0


@silent
def _add_bands(to: Array, value: Array, band: int) -> None:
    """Add the rows of each band, in sequence."""
    rows, n = value.shape
    if n == 1:
        for i in range(len(to)):
            to[i] = _in_turn(value[i * band : (i + 1) * band, 0])
        return
    whole = rows - rows % band
    if whole:
        seen = value[:whole].reshape(-1, band, n)
        np.add.reduce(seen, 1, out=to[: len(seen)], initial=0.0)
    if whole < rows:
        np.add.reduce(value[whole:], 0, out=to[whole // band], initial=0.0)


@silent
def _add_turns(to: Array, value: Array) -> None:
    """Add the rows that have the same index modulo len(to), in order."""
    seen = value.reshape(-1, len(to))
    if len(to) > 1:
        np.add.reduce(seen, 0, out=to, initial=0.0)
    else:
        to[0] = _in_turn(seen[:, 0])


@lru_cache(maxsize=8)
def exp_of(dtype: Any, bounded: bool) -> Run:
    """Return exp in NumPy operations, with the same bits as Numbers.exp of row_numbers.py."""
    is_32 = dtype.itemsize == 4
    bits, shift, bias = (np.int32, 23, 127) if is_32 else (np.int64, 52, 1023)
    top, bottom = (89.5, -104.5) if is_32 else (710.5, -746.0)
    high, low = polynomials.LN2[dtype.name]
    rounder = number(1.5 * 2.0**shift, dtype)
    start = int(rounder.view(bits))
    at_once, least = np.array(bias - start, bits), 3 - bias
    per_ln2, most, least_of_all, minus_high, minus_low = [
        number(value, dtype) for value in (1 / math.log(2), top, bottom, -high, -low)
    ]
    maximum, minimum, multiply, add, subtract = (
        np.maximum, np.minimum, np.multiply, np.add, np.subtract,
    )  # fmt: skip
    exp_of_part = _exp_of_part(dtype)

    @silent
    def exp(x: Any, out: Any = None) -> Any:
        y = maximum(x if bounded else minimum(x, most), least_of_all)
        z = multiply(y, per_ln2)
        add(z, rounder, z)
        n = subtract(z, rounder)
        r = multiply(n, minus_high)
        add(r, y, r)
        rest = multiply(n, minus_low, y)
        add(r, rest, r)
        tail = exp_of_part(r, rest)
        k = z.view(bits)
        if n.item(n.argmin()) > least and (bounded or n.item(n.argmax()) < -least):
            # One factor is enough if no number is near a limit: it gives the same bits in less
            # time.
            add(k, at_once, k)
            k <<= shift
            return multiply(tail, z, out)
        subtract(k, start, k)
        half = k >> 1
        subtract(k, half, k)
        for part in (half, k):
            part += bias
            part <<= shift
        multiply(tail, half.view(dtype), tail)
        return multiply(tail, z, out)

    return exp


@lru_cache(maxsize=4)
def exp_in_sum_of(dtype: Any) -> Run:
    """Return exp for terms of a sum, with the same bits as Numbers.exp_in_sum of row_numbers.py."""
    bits, shift, bias = (np.int32, 23, 127) if dtype.itemsize == 4 else (np.int64, 52, 1023)
    least = number(polynomials.LEAST_IN_SUM[dtype.name], dtype)
    per_ln2, ln2 = number(1 / math.log(2), dtype), number(math.log(2), dtype)
    rounder = number(1.5 * 2.0**shift + bias, dtype)
    maximum, multiply, add, subtract = np.maximum, np.multiply, np.add, np.subtract
    exp_of_part = _exp_of_part(dtype)

    @silent
    def exp(x: Any) -> Any:
        r = maximum(x, least)
        multiply(r, per_ln2, r)
        z = add(r, rounder)
        rest = subtract(z, rounder)
        subtract(r, rest, r)
        multiply(r, ln2, r)
        tail = exp_of_part(r, rest)
        k = z.view(bits)
        k <<= shift
        return multiply(tail, z, tail)

    return exp


def _exp_of_part(dtype: Any) -> Callable[[Any, Any], Any]:
    """Return the function (r, rest) for exp(r), |r| <= log(2) / 2, which overwrites both arrays."""
    series = polynomials.EXP if dtype.itemsize == 4 else polynomials.EXPM1["float64"]
    terms = [number(term, dtype) for term in reversed(series)]
    odd_first, *odds = terms[1::2][::-1]
    even_first, *evens = terms[::2][::-1]
    one, multiply, add = number(1.0, dtype), np.multiply, np.add

    def exp_of_part(r: Any, rest: Any) -> Any:
        square = multiply(r, r)
        odd, tail = multiply(square, odd_first, rest), multiply(square, even_first)
        for made, by in ((odd, odds), (tail, evens)):
            add(made, by[0], made)
            for term in by[1:]:
                multiply(made, square, made)
                add(made, term, made)
        multiply(odd, r, odd)
        add(tail, odd, tail)
        multiply(tail, square, tail)
        add(tail, r, tail)
        return add(tail, one, tail)

    return exp_of_part
