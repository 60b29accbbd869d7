"""Mutants of a Python module: small changes, each of which the package's tests should detect."""

from __future__ import annotations

import ast
import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# Each comparison becomes its opposite; <, <=, > and >= also gain or lose the equality.
_COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
}
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_GUARDS: Final = ("lock", "condition", "changed")
# Declarations of ops: their strings are scalar bodies, and their keywords control what is
# generated.
_DECLARE: Final = ("pointwise", "structured", "composite", "view_op")


@dataclass(frozen=True)
class Break:
    """One change: bytes from `start` to `end` of a file become `text`.

    `first` and `last` are the line numbers of the changed statement; `within` is its function.
    """

    kind: str
    start: int
    end: int
    text: str
    within: str
    first: int
    last: int

    def of(self, source: bytes) -> bytes:
        """Return the text of the file with the change."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def lines(self, source: bytes) -> tuple[str, str]:
        """Return the lines that contain the change, without and with it, each in one line."""
        low = source.rfind(b"\n", 0, self.start) + 1
        high = source.find(b"\n", self.end)
        high = len(source) if high < 0 else high
        after = source[low : self.start] + self.text.encode() + source[self.end : high]
        return _in_one_line(source[low:high]), _in_one_line(after)


def _in_one_line(text: bytes) -> str:
    return " ".join(line.strip() for line in text.decode().splitlines())


def breaks_of(source: bytes) -> list[Break]:
    """Return all mutants of a module, including some that do not compile or change nothing."""
    tree = ast.parse(source)
    found = _Finder(source)
    found.look_into(tree.body)
    return found.breaks


class _Finder:
    def __init__(self, source: bytes) -> None:
        self.breaks: list[Break] = []
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._names: list[str] = []
        self._lines = (1, 1)

    def look_into(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        inner = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
        first_inside = next((body[0] for body in inner if body), None)
        last = node.end_lineno or node.lineno
        if first_inside is not None:
            # Only the head of a compound statement counts as its lines. The head of a decorated
            # function begins at its first decorator.
            last = max(node.lineno, _first_line(first_inside) - 1)
        self._lines = (node.lineno, last)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self._names.append(node.name)
            for decorator in node.decorator_list:
                self._declaration(decorator)
            if isinstance(node, ast.FunctionDef):
                for default in (*node.args.defaults, *node.args.kw_defaults):
                    self._expression(default)
            self.look_into(node.body)
            self._names.pop()
            return
        if _is_left_alone(node):
            return
        self._break_statement(node)
        for expression in _expressions(node):
            self._expression(expression)
        for body in inner:
            self.look_into(body)
        for handler in getattr(node, "handlers", []):
            self.look_into(handler.body)
        for case in getattr(node, "cases", []):
            self.look_into(case.body)

    def _declaration(self, node: ast.expr) -> None:
        if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in _DECLARE:
            return
        own, self._lines = self._lines, (node.lineno, node.end_lineno or node.lineno)
        for one in ast.walk(node):
            match one:
                case ast.Constant(value=str() as text):
                    self._scalar_body(one, text)
                case ast.keyword(value=ast.Constant(value=bool()) as value):
                    self._break_expression(value)
        self._lines = own

    def _scalar_body(self, node: ast.Constant, text: str) -> None:
        """Change an expression in the scalar language, which has Python's syntax."""
        low, high = self._span(node)
        if self._source[low + 1 : high - 1] != text.encode():
            return  # the string has several parts or contains escapes
        try:
            tree = ast.parse(text, mode="eval")
        except SyntaxError:
            return
        inner = _Finder(text.encode())
        inner._expression(tree.body)
        for one in inner.breaks:
            if one.kind in ("arithmetic", "compare", "constant") and one.text != "(-1)":
                self._put(one.kind, low + 1 + one.start, low + 1 + one.end, one.text)

    def _break_statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Delete() | ast.Raise():
                self._add("drop", node, "pass")
            case ast.Continue() | ast.Break() | ast.Return(value=None):
                self._add("drop", node, "pass")
            case ast.Assign(targets=targets) if all(
                isinstance(target, ast.Attribute | ast.Subscript) for target in targets
            ):
                self._add("drop", node, "pass")
            case ast.Return(value=ast.expr() as value) if not _is_constant(value, None):
                self._add("nothing", value, "None")
            case ast.If(test=test) | ast.While(test=test):
                self._negate(test)
            case ast.With(items=items) if _guards(items):
                self._unguard(node, items)
            case _:
                pass

    def _unguard(self, node: ast.With, items: list[ast.withitem]) -> None:
        low, (_, high) = self._span(node)[0], self._span(items[-1].context_expr)
        rest = self._source[high : self._span(node.body[0])[0]]
        if rest.lstrip().startswith(b":"):
            self._put("unlock", low, high, "if True")

    def _expression(self, node: ast.expr | None) -> None:
        if node is None or isinstance(node, ast.JoinedStr):
            return
        self._break_expression(node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._expression(child)
            elif isinstance(child, ast.keyword) and child.arg != "strict":  # `strict=` only checks
                self._expression(child.value)
            elif isinstance(child, ast.comprehension):
                self._expression(child.iter)
                for test in child.ifs:
                    self._negate(test)
                    self._expression(test)

    def _break_expression(self, node: ast.expr) -> None:
        match node:
            case ast.Compare(ops=[op, *_]):
                for other in _COMPARISONS[type(op)]:
                    changed = copy.deepcopy(node)
                    changed.ops[0] = other()
                    self._add("compare", node, f"({ast.unparse(changed)})")
            case ast.BoolOp(op=word):
                changed_bool = copy.deepcopy(node)
                changed_bool.op = ast.Or() if isinstance(word, ast.And) else ast.And()
                self._add("and/or", node, f"({ast.unparse(changed_bool)})")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._add("not", node, f"({ast.unparse(operand)})")
            case ast.BinOp(op=sign) if type(sign) in _ARITHMETIC and not _holds_text(node):
                changed_sum = copy.deepcopy(node)
                changed_sum.op = _ARITHMETIC[type(sign)]()
                self._add("arithmetic", node, f"({ast.unparse(changed_sum)})")
            case ast.Constant(value=bool() as value):
                self._add("constant", node, str(not value))
            case ast.Constant(value=int() as number):
                self._add("constant", node, str(number + 1))
                self._add("constant", node, f"({number - 1})")
            case ast.IfExp(test=test):
                self._negate(test)
            case ast.Call(args=[argument, *_]) if not isinstance(argument, ast.Starred):
                self._add("call", node, f"({ast.unparse(argument)})")
            case ast.Call():
                self._add("call", node, "None")
            case _:
                pass

    def _negate(self, test: ast.expr) -> None:
        if isinstance(test, ast.Compare | ast.UnaryOp):
            return  # changing the comparison or the `not` has the same effect
        low, high = self._span(test)
        self._put("negate", low, high, f"(not ({ast.unparse(test)}))")

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        low = self._starts[node.lineno - 1] + node.col_offset
        return low, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _add(self, kind: str, node: ast.expr | ast.stmt, text: str) -> None:
        self._put(kind, *self._span(node), text)

    def _put(self, kind: str, start: int, end: int, text: str) -> None:
        self.breaks.append(Break(kind, start, end, text, ".".join(self._names), *self._lines))


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _expressions(node: ast.stmt) -> Iterator[ast.expr | None]:
    """Yield the expressions in a statement that may be changed; skip error messages."""
    match node:
        case ast.AnnAssign(value=value):
            yield value
        case ast.With(items=items):
            yield from (item.context_expr for item in items)
        case ast.Raise():
            return
        case ast.Expr(value=ast.Call(args=args, keywords=keywords)):
            # The call itself is not yielded: another mutant drops the whole call.
            yield from args
            yield from (keyword.value for keyword in keywords)
        case ast.Assign(value=value) | ast.AugAssign(value=value):
            yield value
        case _:
            yield from (
                child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)
            )


def _is_left_alone(node: ast.stmt) -> bool:
    """Return whether the statement is not changed, because no test could see a change of it."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Pass():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__slots__" | "__all__" | "_logger")]):
            return True
        case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
            return True
        case _:
            return False


def _is_constant(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _holds_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _guards(items: list[ast.withitem]) -> bool:
    return all(
        item.optional_vars is None
        and any(word in ast.unparse(item.context_expr).lower() for word in _GUARDS)
        for item in items
    )


def is_another_program(source: bytes, broken: bytes) -> bool:
    """Return whether the changed source compiles to a program that differs from the original."""
    try:
        tree = ast.parse(broken)
        with warnings.catch_warnings(action="ignore"):
            compile(tree, "broken", "exec")
    except (SyntaxError, ValueError):
        return False
    return ast.dump(tree) != ast.dump(ast.parse(source))
