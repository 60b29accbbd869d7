"""A scalar body as one compiled inner loop per combination of dtypes, for large tensors.

The loop takes addresses and a count, so that one launcher serves all bodies. The loop only gets
contiguous memory, so that LLVM can vectorize it; the launcher packs other layouts into blocks.
Bodies have no fast-math flags: they round as NumPy's ufuncs do, with the right results for NaN, inf
and -0.0. Among the functions that bodies call, only the functions of vector_math let LLVM fuse a
product and a sum (the flag `contract`). Common subexpressions are computed once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np

from fastdist.core.dtypes import WIDE
from fastdist.language.scalar import PRIMITIVES, Call, Literal, Name, Node, walk
from fastdist.system.cache_directory import load_generated

from ..jit.kernel_cache import find_loop
from ..jit.source_stamp import can_round_float16
from ..jit.waiting import describe_kernel

_SAME: Final = "{0}"
# _UNARY are vector_math's functions of one number. The three in _NEAR, below, are valid only up to
# vector_math.FAR.
_UNARY: Final = (
    "exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "erfc", "sin", "cos", "tan",
)  # fmt: skip
_SPECIAL: Final = ("lgamma", "digamma", "erfinv", "erfcx", "ndtri", "i0e", "i1e")
_BESSEL: Final = (
    *("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"),
    *("scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "airy_ai"),
)
_SPECIAL_OF_TWO: Final = ("polygamma", "zeta", "igamma", "igammac", "gamma_slope")
_ORTHOGONAL: Final = tuple([name for name in PRIMITIVES if "polynomial_" in name])
_VECTOR: Final = (*_UNARY, "remainder", "floor_divide")
_NEAR: Final = ("sin", "cos", "tan")
# Source templates of primitives; {T} is the dtype of the values.
_ARITHMETIC: Final = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "neg": "-{0}",
    "conj": _SAME,
    "square": "{0} * {0}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "where": "select({0}, {1}, {2})",
    "logical_not": "{0} == False",
    "logical_and": "{0} & {1}",
    "logical_or": "{0} | {1}",
    "logical_xor": "{0} != {1}",
    # These keep NaN. {1} is usually a single number, so the compiled code tests it for NaN before
    # the loop: clamping 1e6 bfloat16 takes 175 us instead of 221 (AMD EPYC, Zen 4).
    "minimum": "select({1} != {1}, {1}, select({0} >= {1}, {1}, {0}))",
    "maximum": "select({1} != {1}, {1}, select({0} <= {1}, {1}, {0}))",
    "sign": "select({0} > {T}(0), {T}(1), select({0} < {T}(0), {T}(-1), {T}(0)))",
}
_INTEGER: Final = {
    **_ARITHMETIC,
    "abs": "select({0} < {T}(0), {T}(-{0}), {0})",
    "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}",
    "bitwise_not": "~{0}",
    "floor": _SAME,
    "ceil": _SAME,
    "round": _SAME,
    "trunc": _SAME,
    "isnan": "{0} != {0}",
    "isinf": "{0} != {0}",
    "isfinite": "{0} == {0}",
}
_FLOATING: Final = {
    **_ARITHMETIC,
    "div": "{0} / {1}",
    "reciprocal": "{T}(1) / {0}",
    "rsqrt": "{T}(1) / machine.sqrt({0})",
    "abs": "machine.fabs({0})",
    "round": "machine.rint({0})",
    "isnan": "{0} != {0}",
    "isinf": "machine.fabs({0}) == {T}(inf)",
    "isfinite": "machine.fabs({0}) < {T}(inf)",
    "signbit": "machine.copysign({T}(1), {0}) < {T}(0)",
    "pow": "{0} ** {1}",
    **{f: f"machine.{f}({{0}})" for f in ("sqrt", "floor", "ceil", "trunc")},
    "copysign": "machine.copysign({0}, {1})",
    **{f: f"{f}({{0}})" for f in _UNARY},
    **{f: f"{f}({{0}}, {{1}})" for f in ("remainder", "floor_divide")},
    **{f: f"np.{f}({{0}})" for f in ("exp2", "log2", "log10", "sinh", "cosh")},
    **{f"a{f}": f"np.arc{f}({{0}})" for f in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "fmod": "machine.fmod({0}, {1})",
    **{f: f"math.{f}({{0}}, {{1}})" for f in ("atan2", "hypot")},
    "nextafter": "np.nextafter({0}, {1})",
    **{f: f"special.{f}(float64({{0}}))" for f in _SPECIAL},
    **{f: f"bessel.{f}(float64({{0}}))" for f in _BESSEL},
    **{f: f"special.{f}(float64({{0}}), float64({{1}}))" for f in _SPECIAL_OF_TWO},
    **{f: f"orthogonal.{f}(float64({{0}}), float64({{1}}))" for f in _ORTHOGONAL},
}


_SHORT_POWERS: Final = {-1.0: "{T}(1) / {0}", -2.0: "{T}(1) / ({0} * {0})"}
_QUICK: Final = ("div", "reciprocal", "sqrt", "rsqrt", "copysign", "signbit")
# Functions whose compiled code is as fast as a table look-up.
_AS_A_LOOK: Final = ("exp", "expm1", "tanh")
# The least number of elements per thread. Starting threads takes 3 us; in this time, one core
# computes 30000 float32 additions or 10000 exponentials. Two threads are faster than one from 1e5
# elements on for add, and from 2e4 on for tanh (AMD EPYC, Zen 4).
_CHEAP_SHARE: Final = 65536
_COSTLY_SHARE: Final = 8192


def value_dtype(dtypes: Sequence[Any]) -> Any:
    """Return the dtype {T} of the body's values: the promoted dtype of the inputs that are not
    bool.
    """
    values = [WIDE.get(dtype, dtype) for dtype in dtypes if dtype.kind != "b"]
    return np.result_type(*values) if values else np.dtype(bool)


def can_compile(tree: Node, dtypes: Sequence[Any]) -> bool:
    """Return whether Numba can compile the body for these dtypes, with half types in float32.

    NumPy computes divisions and powers of integers, because it checks for zeros first. NumPy also
    computes bodies whose inputs are all bool, and bodies with unsigned integers wider than 8 bits,
    because Numba converts these to floats if they are combined with its own integers.
    """
    if any(dtype.kind == "u" and dtype.itemsize > 1 for dtype in dtypes):
        return False
    value = value_dtype(dtypes)
    table = _FLOATING if value.kind == "f" else _INTEGER
    if value.name not in ("float32", "float64") and value.kind not in "iu":
        return False
    for node in walk(tree):
        if isinstance(node, Call) and node.primitive not in table:
            return False
        if isinstance(node, Literal) and value.kind != "f" and not _fits(node.value, value):
            return False
    return True


def can_hold(dtypes: Sequence[Any]) -> bool:
    """Return whether compiled code may load and store these dtypes: see Note [Half types in
    memory].
    """
    return can_round_float16() or np.dtype(np.float16) not in dtypes


def _fits(number: float, dtype: Any) -> bool:
    info = np.iinfo(dtype)
    return isinstance(number, int) and info.min <= number <= info.max


def compile_loop(
    tree: Node,
    names: Sequence[str],
    dtypes: Sequence[Any],
    out_dtype: Any,
    numbers: Collection[str] = (),
) -> Any:
    """Compile the inner loop of tree with Numba; return a compiler.Loop. `names` and `dtypes` are
    the names and dtypes of the inputs. `numbers` are the names of the inputs that are 0-d although
    the output has axes.

    Thread  one at a time
    Note    1e6 float32 * 0.9 in place takes 44 us on one core of an AMD EPYC (Zen 4), and 74 us if
            the number is expanded to a block
    """
    source = Source([tree], names, dtypes, out_dtype, numbers).text()
    # A number has one address for all elements. With item size 0 the number counts as contiguous.
    itemsizes = [0 if n in numbers else d.itemsize for n, d in zip(names, dtypes, strict=True)]
    itemsizes.append(out_dtype.itemsize)
    share = _CHEAP_SHARE if _is_cheap(tree) else _COSTLY_SHARE
    what = describe_kernel(tree, out_dtype)
    # Imported late, because it imports Numba, which the rest of this module does not need.
    from ..jit.compiler import Loop

    return Loop(load_generated(source, "pointwise").loop, itemsizes, share, what)


def find_pointwise_loop(
    tree: Node,
    names: Sequence[str],
    dtypes: Sequence[Any],
    out_dtype: Any,
    numbers: Collection[str] = (),
) -> Any:
    """Return the loop of compile_loop, which is loaded without Numba if it is stored."""
    given = tree, tuple(names), tuple(dtypes), out_dtype, tuple(numbers)
    return find_loop("pointwise.numba_pointwise", "compile_loop", *given)


def _is_cheap(tree: Node) -> bool:
    calls = [node.primitive for node in walk(tree) if isinstance(node, Call)]
    return len(calls) < 8 and all(name in _INTEGER or name in _QUICK for name in calls)


def looks_up(tree: Node, dtypes: Sequence[Any], out_dtype: Any) -> bool:
    """Return whether a table look-up is faster than computing the body. A table needs a single
    input, whose half type is also the output's.
    """
    if len(dtypes) != 1 or dtypes[0] is not out_dtype or out_dtype not in WIDE:
        return False
    if isinstance(tree, Call) and tree.primitive in _AS_A_LOOK and isinstance(tree.args[0], Name):
        return False
    return not _is_cheap(tree)


class Source:
    """The source of one generated module, made from one tree, or from several for multi_tensor."""

    _memory = "LOAD_APART", "STORE_APART"

    def __init__(
        self,
        trees: Sequence[Node],
        names: Sequence[str],
        dtypes: Any,
        out_dtype: Any,
        numbers: Collection[str] = (),
    ) -> None:
        self._trees, self._names, self._dtypes, self._out = trees, names, dtypes, out_dtype
        self._numbers = numbers  # loaded once, before the loop
        # Each node once, even if several trees contain it.
        self._nodes = dict.fromkeys(node for tree in trees for node in walk(tree))
        self._value = value_dtype(dtypes)
        self._table = _FLOATING if self._value.kind == "f" else _INTEGER
        self._constants: list[str] = []
        self._text: dict[Node, str] = {}
        self._is_bool: dict[Node, bool] = {}

    def text(self) -> str:
        fetched, read = self._inputs()
        calls = [*read, *self._calls()]
        lines = [
            *self._head(),
            *(f"    p{i} = load_word(pointers + {8 * i})" for i in range(len(self._names) + 1)),
            *indented(fetched, 4),
        ]
        if self._primitives(_NEAR):
            lines += self._in_blocks(calls)
        else:
            lines += ["    for i in range(count):", *indented([*calls, self._stored()])]
        return "\n".join(lines) + "\n"

    def _head(self) -> list[str]:
        load, store = self._memory
        return [
            *(f"# {tree!r}" for tree in self._trees),
            f"# {', '.join(f'{n} {d}' for n, d in zip(self._names, self._dtypes))} -> {self._out}",
            "import math",
            "from math import inf, nan",
            "import numpy as np",
            "from numpy import float32, float64, int8, int16, int32, int64, uint8",
            "from fastdist.kernels.cpu.jit import machine",
            "from fastdist.kernels.cpu.jit.machine import load_word, select",
            "from fastdist.kernels.cpu.pointwise import bessel, special, vector_math",
            "from fastdist.kernels.cpu.pointwise import orthogonal_polynomials as orthogonal",
            *(f"load_{d} = machine.{load}[{d!r}]" for d in sorted({d.name for d in self._dtypes})),
            f"store = machine.{store}[{self._out.name!r}]",
            *self._vector_functions(),
            *self._constants,
            "",
            "",
            "def loop(pointers, count):",
        ]

    def _in_blocks(self, calls: list[str]) -> list[str]:
        """Return the loop that checks each block for angles that are so large that libm must be
        used.
        """
        looking, slow = [], []
        for line in calls:
            looking.append(line)
            slow.append(line)
            name, _, rest = line.partition(" = ")
            for primitive in _NEAR:
                call = f"{self._value}({primitive}("
                if rest.startswith(call):
                    angle = rest.removeprefix(call).removesuffix("))")
                    looking.append(f"far = far | int64(not (machine.fabs({angle}) <= limit))")
                    slow[-1] = f"{name} = {self._value}(np.{primitive}({angle}))"
        result = self._stored()
        return [
            "    limit = FAR",
            "    start = 0",
            "    while start < count:",
            "        stop = min(start + 256, count)",
            "        far = 0",
            "        for i in range(start, stop):",
            *indented(looking, 12),
            "        if far != 0:",
            "            for i in range(start, stop):",
            *indented([*slow, result], 16),
            "        else:",
            "            for i in range(start, stop):",
            *indented([*calls, result], 16),
            "        start = stop",
        ]

    def _primitives(self, among: Sequence[str]) -> list[str]:
        found = {node.primitive for node in self._nodes if isinstance(node, Call)}
        return sorted(found.intersection(among))

    def _vector_functions(self) -> list[str]:
        if self._value.kind != "f":
            return []
        table = f"vector_math.functions({self._value.name!r})"
        lines = [f"{name} = {table}[{name!r}]" for name in self._primitives(_VECTOR)]
        return [*lines, f"FAR = {self._value}(vector_math.FAR[{self._value.name!r}])"]

    def _inputs(self) -> tuple[list[str], list[str]]:
        """Return the lines that load numbers once, and the lines that load elements."""
        fetched: list[str] = []
        read: list[str] = []
        for i, (name, dtype) in enumerate(zip(self._names, self._dtypes)):
            node, lines, at = Name(name), read, "i"
            if name in self._numbers:
                lines, at = fetched, "0"
            self._text[node], self._is_bool[node] = f"x{i}", dtype.kind == "b"
            value = f"load_{dtype.name}(p{i}, {at})"
            same = dtype == self._value or dtype.kind == "b"
            lines.append(f"x{i} = {value if same else f'{self._value}({value})'}")
        return fetched, read

    def _calls(self) -> list[str]:
        lines = []
        for number, node in enumerate(self._nodes):
            if isinstance(node, Literal):
                self._constants.append(f"c{number} = {self._value}({node.value!r})")
                self._text[node], self._is_bool[node] = f"c{number}", False
            elif isinstance(node, Call):
                gives_bool = PRIMITIVES[node.primitive].result == "bool"
                text = self._template(node).format(*self._arguments(node), T=self._value)
                self._text[node], self._is_bool[node] = f"t{number}", gives_bool
                # The cast prevents Numba from widening small integers.
                lines.append(f"t{number} = {text if gives_bool else f'{self._value}({text})'}")
        return lines

    def _template(self, node: Call) -> str:
        if node.primitive == "pow" and isinstance(node.args[1], Literal):
            # A call of libm's pow takes 10 ns per number; fold has replaced the other short powers.
            quick = _SHORT_POWERS.get(float(node.args[1].value))
            return quick or self._table["pow"]
        return self._table[node.primitive]

    def _arguments(self, node: Call) -> list[str]:
        logical = node.primitive.startswith("logical")
        condition = node.primitive == "where"
        return [
            self._as_bool(arg) if logical or (condition and i == 0) else self._as_value(arg)
            for i, arg in enumerate(node.args)
        ]

    def _as_bool(self, node: Node) -> str:
        text = self._text[node]
        return text if self._is_bool[node] else f"({text} != {self._value}(0))"

    def _as_value(self, node: Node) -> str:
        text = self._text[node]
        return f"{self._value}({text})" if self._is_bool[node] else text

    def _stored(self) -> str:
        if self._out.kind == "b":
            result = self._as_bool(self._trees[0])
        else:
            result = f"{WIDE.get(self._out, self._out)}({self._text[self._trees[0]]})"
        return f"store(p{len(self._names)}, i, {result})"


def indented(lines: Sequence[str], by: int = 8) -> list[str]:
    return [" " * by + line for line in lines]
