"""A scalar body as calls of NumPy ufuncs, for small tensors.

If a body applies one ufunc to its inputs in order, its function is that ufunc. Any other body
becomes a generated function with one line per primitive, which reuses the memory of results that
are not needed again. Literals are Python numbers, which take the dtype of the other operands.

The functions at the end differ from NumPy's as PyTorch does: sign(nan) is 0, integer division by
zero raises an error, and negative powers of integers are rounded towards zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from fastdist.core.errors import DeclarationError
from fastdist.language.scalar import PRIMITIVES, Body, Call, Literal, Name, Node, walk

from ..silence import define_silent, silent
from . import bessel, orthogonal_polynomials, special

Array = Any


def fold(tree: Node) -> Node:
    """Return tree with calls of literals evaluated, and short powers as products or roots."""
    made: dict[Node, Node] = {}
    for node in walk(tree):
        made[node] = node
        if not isinstance(node, Call):
            continue
        args = [made[arg] for arg in node.args]
        made[node] = Call(node.primitive, args)
        if all(isinstance(arg, Literal) for arg in args):
            made[node] = _worked_out(node.primitive, args)
        elif node.primitive == "pow" and isinstance(args[1], Literal):
            made[node] = _short_power(args[0], float(args[1].value)) or made[node]
    return made[tree]


def _short_power(x: Node, exponent: float) -> Node | None:
    # This changes the result for x = -inf, as in PyTorch: sqrt gives NaN, pow(-inf, 0.5) gives inf.
    square = Call("square", (x,))
    if exponent == 3:
        return Call("mul", (square, x))
    short = {1: x, 2: square, 0.5: Call("sqrt", (x,)), -0.5: Call("rsqrt", (x,))}
    return short.get(exponent)


def _worked_out(primitive: str, args: Iterable[Any]) -> Node:
    dtype = np.int64 if primitive.startswith("bitwise") or primitive == "gcd" else np.float64
    # np.errstate is used instead of @silent, because this code runs only once per body, and before
    # FUNCTIONS is complete.
    with np.errstate(all="ignore"):
        value = FUNCTIONS[primitive](*[np.asarray(arg.value, dtype) for arg in args]).item()
    whole = all(isinstance(arg.value, int) for arg in args)
    # The result of integer literals stays an integer, so that integer bodies keep their dtype,
    # unless float64 cannot hold the result exactly.
    return Literal(int(value) if whole and value % 1 == 0 and abs(value) < 2**53 else value)


def small_function(body: Body) -> Callable[..., Array]:
    """Return a function (*arrays) -> new result, with the arrays in the order of body.names.

    Note    a bare ufunc returns a NumPy scalar if all inputs are 0-d
    """
    tree = fold(body.tree)
    if isinstance(tree, Call) and tree.args == tuple(Name(name) for name in body.names):
        return FUNCTIONS[tree.primitive]
    return _Writer(body, tree).define(into=False)


def into_function(body: Body) -> Callable[..., None]:
    """Return a function (out, *arrays) that casts into out; inputs may overlap out in any way."""
    return _Writer(body, fold(body.tree)).define(into=True)


class _Writer:
    """Generates the source of one function."""

    def __init__(self, body: Body, tree: Node) -> None:
        self._body, self._tree = body, tree
        self._order = list(walk(tree))
        # Literals that are passed to ufuncs: (value, sign) -> variable.
        self._constants: dict[tuple[float, float], str] = {}
        self._last_use: dict[Node, Call] = {}
        self._inputs: dict[Node, frozenset[Node]] = {}
        for node in self._order:
            args = node.args if isinstance(node, Call) else ()
            self._last_use.update((arg, node) for arg in args if isinstance(node, Call))
            own = frozenset([node] if isinstance(node, Name) else [])
            self._inputs[node] = own.union(*[self._inputs[arg] for arg in args])

    def define(self, *, into: bool) -> Callable[..., Any]:
        names: dict[str, Any] = {f"_{name}": FUNCTIONS[name] for name in FUNCTIONS}
        names |= {"_full": np.full, "_copyto": np.copyto}
        names |= {"_inf": math.inf, "_nan": math.nan, "_broadcast": np.broadcast_shapes}
        fresh = self._lines(into=into, reuse=False)
        lines = self._lines(into=into, reuse=True)
        args = ", ".join(f"x{i}" for i in range(len(self._body.names)))
        source = [f"def function({'out, ' if into else ''}{args}):"]
        if self._constants:
            names["_constants"] = _Constants(tuple(self._constants))
            given = "".join(f"{name}, " for name in self._constants.values())
            source += [f"    {given}= _constants[{self._first_value()}.dtype]"]
        if fresh == lines:
            source += [f"    {line}" for line in lines]
        else:
            # A 0-d result is a NumPy scalar. Passing this scalar as an output raises TypeError.
            source += ["    try:", *[f"        {line}" for line in lines]]
            source += ["    except TypeError:", *[f"        {line}" for line in fresh]]
        return define_silent("\n".join(source), "function", names)

    def _lines(self, *, into: bool, reuse: bool) -> list[str]:
        lines, text, memory = [], dict[Node, str](), dict[Node, str]()
        for i, name in enumerate(self._body.names):
            text[Name(name)] = f"x{i}"
        for number, node in enumerate(self._order):
            if isinstance(node, Literal):
                text[node] = _number(node.value)
            elif isinstance(node, Call):
                function = FUNCTIONS[node.primitive]
                if isinstance(function, np.ufunc) and self._body.names:
                    self._take_constants(node, text)
                args = [text[arg] for arg in node.args]
                last = node is self._tree
                if into and last and writes_anywhere(function):
                    lines.append(f"_{node.primitive}({', '.join(args)}, out=out, casting='unsafe')")
                    return lines
                lent = (
                    self._lent(node, memory) if reuse and isinstance(function, np.ufunc) else None
                )
                call = f"_{node.primitive}({', '.join([*args, lent] if lent else args)})"
                if last and not into:
                    return [*lines, f"return {call}"]
                text[node] = memory[node] = lent or f"t{number}"
                lines.append(call if lent else f"{text[node]} = {call}")
        return [*lines, self._last_line(text[self._tree], into=into)]

    def _take_constants(self, node: Call, text: dict[Node, str]) -> None:
        for arg in node.args:
            if isinstance(arg, Literal) and arg.value == arg.value:
                key = (arg.value, math.copysign(1.0, arg.value))
                text[arg] = self._constants.setdefault(key, f"c{len(self._constants)}")

    def _last_line(self, result: str, *, into: bool) -> str:
        if into:
            return f"_copyto(out, {result}, casting='unsafe')"
        if isinstance(self._tree, Name):
            return f"return {result}.copy()"
        if not self._body.names:
            return f"return _full((), {result})"
        shapes = ", ".join(f"x{i}.shape" for i in range(len(self._body.names)))
        return f"return _full(_broadcast({shapes}), {result}, x0.dtype)"

    def _lent(self, node: Call, memory: dict[Node, str]) -> str | None:
        """Return the variable of an argument that no later call uses, and that has the shape and
        dtype of the result.
        """
        for arg in node.args:
            if (
                arg in memory
                and self._last_use[arg] is node
                and gives_bool(arg) == gives_bool(node)
                # If both depend on the same inputs, both have the same shape: no other argument can
                # broadcast the result to a larger shape.
                and self._inputs[arg] == self._inputs[node]
            ):
                return memory[arg]
        return None

    def _first_value(self) -> str:
        conditions = {
            node.args[0]
            for node in self._order
            if isinstance(node, Call) and node.primitive == "where"
        }
        names = [Name(name) for name in self._body.names]
        values = [i for i, name in enumerate(names) if name not in conditions]
        return f"x{values[0] if values else 0}"


class _Constants(dict[Any, tuple[Any, ...]]):
    """The literals of a function, by the dtype of the operands.

    For floating dtypes, literals are 0-d arrays, which ufuncs convert in half the time of Python
    numbers. For integer dtypes, literals are Python numbers, so that NumPy rejects numbers that the
    dtype cannot hold.
    """

    def __init__(self, keys: tuple[tuple[float, float], ...]) -> None:
        super().__init__()
        self._values = tuple([value for value, _ in keys])

    def __missing__(self, dtype: Any) -> tuple[Any, ...]:
        if dtype.kind != "f":
            return self._values
        with np.errstate(all="ignore"):
            made = self[dtype] = tuple([np.asarray(value, dtype) for value in self._values])
        return made


def gives_bool(node: Node) -> bool:
    """Return whether node gives a bool, as comparisons do."""
    return isinstance(node, Call) and PRIMITIVES[node.primitive].result == "bool"


def writes_anywhere(function: Any) -> bool:
    """Return whether function is a ufunc that writes correctly into an `out` with any strides.

    Note    for floats, NumPy 2.4 silently writes the results of the ufuncs in _OF_CONTIGUOUS_OUT to
            wrong positions of an `out` that is not contiguous
    """
    return isinstance(function, np.ufunc) and function not in _OF_CONTIGUOUS_OUT


def gives(function: Any, dtype: Any, out_dtype: Any) -> bool:
    """Return whether the ufunc `function` gives `out_dtype` for inputs of `dtype`. Before NumPy
    2.1, rounding ufuncs convert integers to floats.
    """
    try:
        function.resolve_dtypes((*[dtype] * function.nin, out_dtype))
    except TypeError:
        return False
    return True


_OF_CONTIGUOUS_OUT: Final = frozenset({np.isfinite, np.isinf, np.isnan, np.signbit})


def _number(value: float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "_nan" if value != value else "_inf" if value > 0 else "-_inf"
    return repr(value)


_ONE: Final = _Constants(((1, 1.0),))

# --- Functions that NumPy does not have, or in which it differs from PyTorch ----------------------


@silent
def _sign(x: Array) -> Array:
    if x.dtype.kind == "b":
        return x.copy()
    return np.subtract(np.greater(x, 0), np.less(x, 0), dtype=x.dtype)


@silent
def _where(condition: Array, x: Array, y: Array) -> Array:
    """Return np.where(condition, x, y), in half the time if shapes and dtypes agree."""
    if condition.__class__ is np.ndarray and x.__class__ is np.ndarray and condition.ndim:
        shape = condition.shape
        if x.shape == shape or not x.ndim:
            if y.__class__ is np.ndarray and y.shape == shape and y.dtype == x.dtype:
                out = y.copy()
                np.putmask(out, condition, x)
                return out
            if y.__class__ is int and y == 0 and x.ndim:
                out = np.zeros(shape, x.dtype)
                np.putmask(out, condition, x)
                return out
    return np.where(condition, x, y)


@silent
def _sigmoid(x: Array) -> Array:
    # exp may overflow to inf; its reciprocal, 0, is the right result.
    t = np.negative(x)
    if t.__class__ is not np.ndarray:
        return np.reciprocal(np.add(np.exp(t), 1))
    return np.reciprocal(np.add(np.exp(t, t), _ONE[t.dtype][0], t), t)


@silent
def _rsqrt(x: Array) -> Array:
    return np.reciprocal(np.sqrt(x))


@silent
def _round(x: Array) -> Array:
    return np.rint(x) if x.dtype.kind == "f" else x.copy()


@silent
def _log10(x: Array) -> Array:
    if x.dtype != np.float32:
        return np.log10(x)
    # NumPy's float32 loop for AVX-512 is wrong by up to 2.4 ulp: 2.0000002 for 100.
    return np.log10(x, dtype=np.float64).astype(np.float32)


@silent
def _pow(x: Array, y: Array) -> Array:
    if not getattr(y, "ndim", 0) and x.dtype.kind == "f":
        # Compiled bodies and `fold` replace these powers in the same way. np.power takes 0.2 us per
        # element for a cube. Exponents are compared as Python numbers, because NumPy's comparison
        # takes as long as the power.
        exponent = float(y)
        if exponent == 3.0:
            return np.square(x) * x
        if exponent in (0.5, -0.5):
            root = np.sqrt(x)
            return root if exponent > 0.0 else np.divide(1, root, dtype=x.dtype)
    try:
        return np.power(x, y)
    except ValueError:  # a negative power of integers
        y = np.asarray(y)
    # 1 / x ** -y rounded towards zero: only x = 1 and x = -1 give results other than 0.
    odd = np.bitwise_and(y, 1) == 1
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(odd, -1, 1), 0))
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0))).astype(np.result_type(x, y))


def _refusing_zero(ufunc: Callable[..., Array]) -> Callable[..., Array]:
    def divide(x: Array, y: Array) -> Array:
        y = np.asarray(y)
        if y.dtype.kind != "f" and x.dtype.kind != "f" and not y.all():
            raise RuntimeError("ZeroDivisionError: an integer tensor was divided by zero")
        return ufunc(x, y)

    return silent(divide)


def _number_by_number(function: Callable[..., float]) -> Callable[..., Array]:
    def apply(*given: Any) -> Array:
        arrays = np.broadcast_arrays(*given)
        x = arrays[0]
        columns = [array.ravel().tolist() for array in arrays]
        result = np.fromiter(map(function, *columns), np.float64, x.size)
        # A literal of the body is a Python float, which does not affect the result's dtype.
        return result.reshape(x.shape).astype(np.result_type(*given, np.float16))

    return silent(apply)


_SAME_NAME = (
    "add square sqrt reciprocal exp exp2 expm1 log log2 log1p sin cos tan sinh cosh tanh"
    " floor ceil trunc isnan isinf isfinite signbit minimum maximum copysign hypot nextafter gcd"
    " logical_not logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor"
)
_OTHER_NAME = {
    "conj": "conjugate",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "neg": "negative",
    "abs": "absolute",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "bitwise_not": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
SCALAR_FUNCTIONS: Final[dict[str, Callable[..., float]]] = {
    "erf": math.erf,
    "erfc": math.erfc,
    "erfinv": special.erfinv,
    "lgamma": special.lgamma,
    "digamma": special.digamma,
    "polygamma": special.polygamma,
    "zeta": special.zeta,
    "erfcx": special.erfcx,
    "ndtri": special.ndtri,
    "i0e": special.i0e,
    "i1e": special.i1e,
    "bessel_j0": bessel.bessel_j0,
    "bessel_j1": bessel.bessel_j1,
    "bessel_y0": bessel.bessel_y0,
    "bessel_y1": bessel.bessel_y1,
    "scaled_modified_bessel_k0": bessel.scaled_modified_bessel_k0,
    "scaled_modified_bessel_k1": bessel.scaled_modified_bessel_k1,
    "airy_ai": bessel.airy_ai,
    **{name: getattr(orthogonal_polynomials, name) for name in PRIMITIVES if "polynomial_" in name},
    "igamma": special.igamma,
    "igammac": special.igammac,
    "gamma_slope": special.gamma_slope,
}
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{name: getattr(np, name) for name in _SAME_NAME.split()},
    **{ours: getattr(np, theirs) for ours, theirs in _OTHER_NAME.items()},
    **{name: _number_by_number(function) for name, function in SCALAR_FUNCTIONS.items()},
    **{name: _refusing_zero(getattr(np, name)) for name in ("floor_divide", "remainder", "fmod")},
    "sign": _sign,
    "where": _where,
    "sigmoid": _sigmoid,
    "rsqrt": _rsqrt,
    "round": _round,
    "log10": _log10,
    "pow": _pow,
}
if FUNCTIONS.keys() != PRIMITIVES.keys():
    raise DeclarationError(
        "the scalar language and FUNCTIONS name other primitives: "
        f"{', '.join(sorted(FUNCTIONS.keys() ^ PRIMITIVES.keys()))}; each needs a NumPy function"
    )
