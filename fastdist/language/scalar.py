"""The scalar language: expressions that NumPy, Numba, CUDA, autograd and the fuser use.

A body is an expression in Python's grammar over declared inputs, primitives and literals, for
example `x / (T(1) + abs(x))`. Assignments may precede the expression, to name a value that is used
twice: `t = exp(x); t / (T(1) + t)`. `T(2)` is 2 in the dtype of the inputs, and `T(2 / pi ** 0.5)`
is a constant that is computed in advance. A number without `T` is an error. Every operator is a
call of a primitive: `x ** y` is `pow(x, y)`, `x % y` is `remainder(x, y)`.

Trees are interned: two equal nodes are one object, so equality is identity. A dict whose keys are
nodes thus contains each common subexpression once. Nodes are immutable, so any thread may use them.
"""

from __future__ import annotations

import ast
import contextlib
import keyword
import math
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, Self
from typing import Literal as OneOf

from ..core.errors import ScalarSyntaxError
from ..system.forked_locks import renew_in_children

_ATTEMPTS: Final = 10  # the number of attempts to parse a text, see _statements

# Inputs with these names are conditions: they are bool, even if the body is computed in another
# dtype.
CONDITIONS: Final = frozenset({"condition", "mask"})


class Primitive(NamedTuple):
    """A function of scalars that the language defines; its name is also the name of an op."""

    name: str
    arity: int
    result: OneOf["same", "bool"] = "same"


_TABLE = {
    (1, "same"): (
        "neg abs sign conj reciprocal square sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos"
        " tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf erfc erfinv lgamma"
        " digamma erfcx ndtri i0e i1e bessel_j0 bessel_j1 bessel_y0 bessel_y1"
        " scaled_modified_bessel_k0 scaled_modified_bessel_k1 airy_ai"
        " floor ceil round trunc bitwise_not"
    ),
    (1, "bool"): "logical_not isnan isinf isfinite signbit",
    (2, "same"): (
        "add sub mul div pow floor_divide remainder fmod minimum maximum atan2 copysign hypot"
        " nextafter polygamma zeta igamma igammac gamma_slope gcd bitwise_and bitwise_or"
        " bitwise_xor bitwise_left_shift bitwise_right_shift"
        " chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v"
        " chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he"
        " laguerre_polynomial_l legendre_polynomial_p"
    ),
    (2, "bool"): "eq ne lt le gt ge logical_and logical_or logical_xor",
    (3, "same"): "where",
}
PRIMITIVES: Final[dict[str, Primitive]] = {
    name: Primitive(name, arity, "bool" if result == "bool" else "same")
    for (arity, result), names in _TABLE.items()
    for name in names.split()
}
ALIASES: Final = {"min": "minimum", "max": "maximum"}
_TAKEN: Final = frozenset({"T", *PRIMITIVES, *ALIASES})
CONSTANTS: Final = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan}
_OPERATORS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.LShift: "bitwise_left_shift",
    ast.RShift: "bitwise_right_shift",
    ast.USub: "neg",
    ast.Invert: "bitwise_not",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}


class Node:
    """A node of a body's tree: Name, Literal or Call. Nodes are interned, so `==` is `is`."""

    __slots__ = ("__weakref__",)
    _interned: ClassVar[weakref.WeakValueDictionary[Any, Any]] = weakref.WeakValueDictionary()
    _interned_lock = threading.Lock()  # guards _interned; its holder never acquires another lock

    @classmethod
    def _intern(cls, key: tuple[Any, ...], **fields: Any) -> Any:
        with Node._interned_lock:
            node = Node._interned.get((cls, *key))
            if node is None:
                node = object.__new__(cls)
                for name, value in fields.items():
                    object.__setattr__(node, name, value)
                Node._interned[(cls, *key)] = node
            return node

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{self!r} is shared and cannot be changed")

    def __repr__(self) -> str:
        return to_text(self)


class Name(Node):
    """An input of a body."""

    __slots__ = ("id",)
    id: str

    def __new__(cls, id: str) -> Self:
        node: Self = cls._intern((id,), id=id)
        return node

    def __reduce__(self) -> tuple[type[Name], tuple[str]]:
        return Name, (self.id,)


class Literal(Node):
    """A number in the dtype of the inputs."""

    __slots__ = ("value",)
    value: int | float

    def __new__(cls, value: int | float) -> Self:  # noqa: PYI041 (an int stays one)
        # The key is the repr: 0.0 and -0.0, or 1 and 1.0, are different nodes, and nan is one node.
        node: Self = cls._intern((repr(value),), value=value)
        return node

    def __reduce__(self) -> tuple[type[Literal], tuple[int | float]]:
        return Literal, (self.value,)


class Call(Node):
    """A call of a primitive with arguments."""

    __slots__ = ("args", "primitive")
    primitive: str
    args: tuple[Node, ...]

    def __new__(cls, primitive: str, args: Sequence[Node]) -> Self:
        arity = PRIMITIVES[primitive].arity
        if len(args) != arity:
            raise ScalarSyntaxError(f"{primitive!r} takes {arity} arguments, not {len(args)}")
        node: Self = cls._intern((primitive, *args), primitive=primitive, args=tuple(args))
        return node

    def __reduce__(self) -> tuple[type[Call], tuple[str, tuple[Node, ...]]]:
        return Call, (self.primitive, self.args)


class Body:
    """A parsed body. Bodies are interned by text and names, so compare them with `is`.

    Note    `names` are the declared inputs; only the inputs in `used` occur in the tree. Code that
            derives an object from a body stores it in `readings`, so that it is freed with the body
    """

    __slots__ = ("__weakref__", "names", "readings", "text", "tree", "used")
    _interned: ClassVar[weakref.WeakValueDictionary[Any, Body]] = weakref.WeakValueDictionary()
    _interned_lock = threading.Lock()  # guards _interned; its holder never acquires another lock
    text: str
    names: tuple[str, ...]
    tree: Node
    used: frozenset[str]
    readings: dict[str, Any]

    @classmethod
    def of(cls, tree: Node, names: Sequence[str]) -> Body:
        """Return the body of a tree, such as a tree that `substitute` returned."""
        text, names = to_text(tree), tuple(names)
        return _interned_body(text, names) or _new_body(text, names, tree)

    def in_used_order(self) -> Body:
        """Return a body whose names are the used inputs: kernels take one array per name."""
        names = tuple([name for name in self.names if name in self.used])
        if names == self.names:
            return self
        found: Body | None = self.readings.get("in used order")
        if found is None:
            # Stored in this body, so that code compiled from the new body is freed with this body.
            found = self.readings.setdefault("in used order", Body.of(self.tree, names))
        return found

    def __repr__(self) -> str:
        return f"Body({self.text!r}, {self.names!r})"

    def __reduce__(self) -> tuple[Callable[..., Body], tuple[str, tuple[str, ...]]]:
        return parse, (self.text, self.names)


def parse(text: str, names: Sequence[str]) -> Body:
    """Parse text into a body over the inputs `names`.

    Raises  ScalarSyntaxError with the invalid word and its column
    """
    text, names = text.strip(), tuple(names)
    return _interned_body(text, names) or _new_body(text, names, _Parser(text, names).tree())


renew_in_children(Node, "_interned_lock")
renew_in_children(Body, "_interned_lock")


def _interned_body(text: str, names: tuple[str, ...]) -> Body | None:
    with Body._interned_lock:
        return Body._interned.get((text, names))


def _new_body(text: str, names: tuple[str, ...], tree: Node) -> Body:
    made = object.__new__(Body)
    made.text, made.names, made.tree, made.readings = text, names, tree, {}
    made.used = frozenset(node.id for node in walk(tree) if isinstance(node, Name))
    assert made.used <= set(names), f"{text!r} uses more than {names}"
    with Body._interned_lock:
        return Body._interned.setdefault((text, names), made)


def walk(node: Node) -> Iterator[Node]:
    """Yield every distinct node of a tree once, arguments before their call."""
    done: set[Node] = set()
    stack = [(node, False)]
    while stack:
        node, opened = stack.pop()
        if node in done:
            continue
        if opened or not isinstance(node, Call):
            done.add(node)
            yield node
        else:
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args))


def substitute(node: Node, replacements: Mapping[str, Node]) -> Node:
    """Return the tree with each Name replaced by the node that `replacements` has for it."""
    made: dict[Node, Node] = {}
    for piece in walk(node):
        if isinstance(piece, Name):
            made[piece] = replacements.get(piece.id, piece)
        elif isinstance(piece, Call):
            made[piece] = Call(piece.primitive, [made[arg] for arg in piece.args])
        else:
            made[piece] = piece
    return made[node]


def render(node: Node, emit: Callable[[Node, list[str]], str]) -> str:
    """Call `emit` for each node of a tree bottom-up, with the node and the results for its
    arguments. Return the result for the root.

    Note    `emit` is called once for each distinct node, arguments first. So an `emit` that writes
            statements and returns variables computes common subexpressions once
    """
    made: dict[Node, str] = {}
    for piece in walk(node):
        args = piece.args if isinstance(piece, Call) else ()
        made[piece] = emit(piece, [made[arg] for arg in args])
    return made[node]


def to_text(node: Node) -> str:
    """Return a text that parses to node. It first names each node that occurs more than once."""
    uses: dict[Node, int] = {}
    for piece in walk(node):
        for arg in piece.args if isinstance(piece, Call) else ():
            uses[arg] = uses.get(arg, 0) + 1
    lines: list[str] = []

    def emit(piece: Node, args: list[str]) -> str:
        if isinstance(piece, Name):
            return piece.id
        if isinstance(piece, Literal):
            return f"T({piece.value!r})"
        assert isinstance(piece, Call)
        text = f"{piece.primitive}({', '.join(args)})"
        # Deep nesting is split too: Python's parser fails at about a hundred open parentheses.
        if uses.get(piece, 0) > 1 or text.count("(") > 50:
            lines.append(f"_{len(lines)} = {text}")
            return f"_{len(lines) - 1}"
        return text

    lines.append(render(node, emit))
    return "; ".join(lines)


def _statements(text: str) -> list[ast.stmt]:
    """Return the statements of a text.

    Python 3.11 counts the depth of syntax trees in one counter for all threads. If garbage
    collection runs while one thread builds a tree, another thread may parse, and the counter is
    then wrong. `ast.parse` raises SystemError for a valid text in this case (CPython issue 106905);
    another attempt succeeds.
    """
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(SystemError):
            return ast.parse(text).body
    return ast.parse(text).body


class _Parser:
    """Converts Python's syntax tree of a text to a tree of Nodes."""

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        self._text = text
        self._bound: dict[str, Node] = {}
        for name in names:
            if name in _TAKEN or keyword.iskeyword(name) or not name.isidentifier():
                raise ScalarSyntaxError(
                    f"{name!r} cannot name an input of the scalar body {text!r}:"
                    " it is taken, or not a name"
                )
            self._bound[name] = Name(name)

    def tree(self) -> Node:
        try:
            statements = _statements(self._text)
        except SyntaxError as error:
            word = (error.text or self._text)[max((error.offset or 1) - 1, 0) :].split(" ")[0]
            raise self._error(word, (error.offset or 1) - 1, error.msg) from None
        if not statements or not isinstance(statements[-1], ast.Expr):
            raise self._error(self._text, 0, "a body must end in an expression")
        for statement in statements[:-1]:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name):
                raise self._refuse(statement, "only `name = expression;` is allowed here")
            name = target.id
            if name in self._bound or name in _TAKEN:
                raise self._refuse(statement, f"{name!r} is already defined")
            self._bound[name] = self._node(statement.value)
        return self._node(statements[-1].value)

    def _node(self, at: ast.expr) -> Node:
        if isinstance(at, ast.Name):
            return self._name(at)
        if isinstance(at, ast.Call):
            return self._call(at)
        if isinstance(at, ast.BinOp) and type(at.op) in _OPERATORS:
            return Call(_OPERATORS[type(at.op)], (self._node(at.left), self._node(at.right)))
        if isinstance(at, ast.UnaryOp) and type(at.op) in _OPERATORS:
            return Call(_OPERATORS[type(at.op)], (self._node(at.operand),))
        if isinstance(at, ast.Compare) and all(type(op) in _OPERATORS for op in at.ops):
            if len(at.ops) > 1:
                raise self._refuse(at, "comparisons do not chain; write logical_and(a < b, b < c)")
            operands = (self._node(at.left), self._node(at.comparators[0]))
            return Call(_OPERATORS[type(at.ops[0])], operands)
        if isinstance(at, ast.Constant):
            raise self._refuse(at, f"a bare literal has no dtype; write T({self._word(at)})")
        if isinstance(at, ast.BoolOp | ast.UnaryOp):
            raise self._refuse(at, "write logical_and, logical_or or logical_not")
        if isinstance(at, ast.IfExp):
            raise self._refuse(at, "write where(condition, a, b)")
        raise self._refuse(at, f"{type(at).__name__} is not part of the scalar language")

    def _name(self, at: ast.Name) -> Node:
        node = self._bound.get(at.id)
        if node is None:
            raise self._refuse(at, f"unknown name; known: {', '.join(self._bound) or 'none'}")
        return node

    def _call(self, at: ast.Call) -> Node:
        if not isinstance(at.func, ast.Name):
            raise self._refuse(at.func, "only primitives can be called")
        if at.keywords or any(isinstance(arg, ast.Starred) for arg in at.args):
            raise self._refuse(at, "primitives take positional arguments only")
        if at.func.id == "T":
            if len(at.args) != 1:
                raise self._refuse(at, "T takes one number")
            return Literal(self._number(at.args[0]))
        name = ALIASES.get(at.func.id, at.func.id)
        primitive = PRIMITIVES.get(name)
        if primitive is None:
            from difflib import get_close_matches

            close = get_close_matches(name, PRIMITIVES, 3)
            hint = "did you mean " + " or ".join(close) + "?"
            known = "known: " + " ".join(sorted(PRIMITIVES))
            raise self._refuse(at.func, f"unknown primitive; {hint if close else known}")
        if len(at.args) != primitive.arity:
            raise self._refuse(at.func, f"takes {primitive.arity} arguments, not {len(at.args)}")
        return Call(name, [self._node(arg) for arg in at.args])

    def _number(self, at: ast.expr) -> int | float:
        if isinstance(at, ast.Constant) and type(at.value) in (int, float):
            value: int | float = at.value  # type: ignore[assignment]
            return value
        if isinstance(at, ast.Name) and at.id in CONSTANTS:
            return CONSTANTS[at.id]
        if isinstance(at, ast.UnaryOp) and isinstance(at.op, ast.USub):
            return -self._number(at.operand)
        if isinstance(at, ast.BinOp) and type(at.op) in _FOLDED:
            try:
                folded: int | float = _FOLDED[type(at.op)](
                    self._number(at.left), self._number(at.right)
                )
                return folded
            except ArithmeticError as error:
                raise self._refuse(at, str(error)) from None
        known = ", ".join(CONSTANTS)
        raise self._refuse(at, f"T takes a number, or arithmetic on numbers and {known}")

    def _word(self, at: ast.AST) -> str:
        return ast.get_source_segment(self._text, at) or self._text

    def _refuse(self, at: ast.expr | ast.stmt, why: str) -> ScalarSyntaxError:
        # ast counts columns in UTF-8 bytes of the line; the error counts characters of the whole
        # text.
        lines = self._text.splitlines(keepends=True)
        before = lines[at.lineno - 1].encode()[: at.col_offset].decode()
        return self._error(self._word(at), sum(map(len, lines[: at.lineno - 1])) + len(before), why)

    def _error(self, word: str, column: int, why: str) -> ScalarSyntaxError:
        error = ScalarSyntaxError(
            f"{word!r} at column {column + 1} of the scalar body {self._text!r}: {why}"
        )
        error.offset, error.text = column + 1, self._text
        return error


_FOLDED: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}
