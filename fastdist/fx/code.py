"""The Python text of a graph: one line for each step."""

from __future__ import annotations

import builtins
import enum
import keyword
import math
import operator
import re
import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..core.device import Device
from ..core.dtypes import DType
from ..core.memory_format import MemoryFormat, MemoryLayout
from .names import name_of, root_module
from .node import Node

_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "matmul": "@", "eq": "==",
    "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=",
}  # fmt: skip
_UNARY = {"pos": "+", "neg": "-", "invert": "~"}
_INPLACE = {
    "iadd": "+=", "isub": "-=", "imul": "*=", "itruediv": "/=", "ifloordiv": "//=", "imod": "%=",
    "ipow": "**=", "ilshift": "<<=", "irshift": ">>=", "iand": "&=", "ior": "|=", "ixor": "^=",
    "imatmul": "@=",
}  # fmt: skip
_TAKEN = frozenset({*keyword.kwlist, *dir(builtins), "self", "torch", "operator", "math", "device"})
_NUMBERED = re.compile(r"(.*)_(\d+)$")
_ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")


@dataclass
class PythonCode:
    """The text of a function, and the objects that the text refers to."""

    src: str
    globals: dict[str, Any] = field(default_factory=dict)


class Namespace:
    """The names in a graph's code; each is unique."""

    def __init__(self) -> None:
        self._used: dict[str, Any] = {}
        self._next_number: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any) -> str:
        """Return `candidate` as a valid name; a number is appended if the name is in use."""
        name = _ILLEGAL.sub("_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = f"_{name}"
        found = _NUMBERED.match(name)
        base, number = (found[1], int(found[2])) if found else (name, 0)
        if name in self._used or name in _TAKEN:
            number = max(number, self._next_number.get(base, 0))
            while (name := f"{base}_{number + 1}") in self._used or name in _TAKEN:
                number += 1
            self._next_number[base] = number + 1
        self._used[name] = obj
        return name

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Record that a name belongs to an object."""
        self._used.setdefault(name, obj)


class Writer:
    """Writes the steps of a graph as a function `forward`."""

    def __init__(self, nodes: list[Node], root: str) -> None:
        self._nodes, self._root = nodes, root
        self.globals: dict[str, Any] = {
            "device": Device,
            "inf": math.inf,
            "math": math,
            "nan": math.nan,
            "operator": operator,
            "torch": root_module(),
        }
        self._dead = last_uses(nodes)

    def lines(self) -> tuple[list[str], list[str]]:
        """Return the parameters of the function and the lines of its body."""
        parameters: list[str] = []
        body: list[str] = []
        for node in self._nodes:
            if node.op == "placeholder":
                parameters.append(self._parameter(node, body))
            else:
                body.append(self._line(node) + self._deletions(node))
        return parameters, body or ["pass"]

    def _parameter(self, node: Node, body: list[str]) -> str:
        target = node.target
        stars = target[: len(target) - len(target.lstrip("*"))]
        bare = target[len(stars) :]
        if bare != node.name:
            body.append(f"{node.name} = {bare}")
        default = f" = {self.text(node.args[0])}" if node.args else ""
        return f"{stars}{bare}{default}"

    def _line(self, node: Node) -> str:
        if node.op == "output":
            return f"return {self.text(node.args[0])}"
        if node.op == "get_attr":
            return f"{node.name} = {_path(self._root, node.target)}"
        if node.op == "call_module":
            given = self._arguments(node.args, node.kwargs)
            return f"{node.name} = {_path(self._root, node.target)}({given})"
        if node.op == "call_method":
            given = self._arguments(node.args[1:], node.kwargs)
            return f"{node.name} = {_path(self.text(node.args[0]), node.target)}({given})"
        return f"{node.name} = {self._call(node)}"

    def _call(self, node: Node) -> str:
        name, args = getattr(node.target, "__name__", ""), node.args
        if getattr(operator, name, None) is node.target and not node.kwargs:
            if name in _BINARY and len(args) == 2:
                return f"{self._operand(args[0])} {_BINARY[name]} {self._operand(args[1])}"
            if name in _UNARY and len(args) == 1:
                return f"{_UNARY[name]}{self._operand(args[0])}"
            if name in _INPLACE and len(args) == 2:
                # `+=` rebinds its target, so the target is a new name for the operand. Later steps
                # can still read the operand under its own name.
                first = self.text(args[0])
                return f"{first}; {node.name} {_INPLACE[name]} {self.text(args[1])}"
            if name == "getitem" and len(args) == 2:
                return f"{self.text(args[0])}[{self.text(args[1])}]"
        if node.target is getattr and len(args) == 2 and str(args[1]).isidentifier():
            return _path(self.text(args[0]), args[1])
        return f"{self._function(node.target)}({self._arguments(args, node.kwargs)})"

    def _operand(self, value: Any) -> str:
        text = self.text(value)
        return f"({text})" if text.startswith("-") else text

    def _function(self, function: Any) -> str:
        name = name_of(function)
        if name.startswith("builtins."):
            return name.removeprefix("builtins.")
        if name.partition(".")[0] in ("torch", "operator", "math"):
            return name
        return self._global(name, function)

    def _global(self, hint: str, value: Any) -> str:
        base = _ILLEGAL.sub("_", hint) or "_object"
        base = f"_{base}" if base[0].isdigit() or base in _TAKEN else base
        name, number = base, 0
        used = {node.name for node in self._nodes}
        while name in used or self.globals.get(name, value) is not value:
            number += 1
            name = f"{base}_{number}"
        self.globals[name] = value
        return name

    def _arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        given = [self.text(one) for one in args]
        return ", ".join([*given, *(f"{key} = {self.text(one)}" for key, one in kwargs.items())])

    def text(self, value: Any) -> str:
        """Return an argument as Python text."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple):
            return self._tuple(value)
        if isinstance(value, list):
            return f"[{', '.join(map(self.text, value))}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{key!r}: {self.text(one)}' for key, one in value.items())}}}"
        if isinstance(value, slice):
            return f"slice({', '.join(map(self.text, (value.start, value.stop, value.step)))})"
        if isinstance(value, DType | MemoryFormat | MemoryLayout):
            return f"torch.{str(value).rpartition('.')[2]}"
        if isinstance(value, enum.Enum | type | types.FunctionType | types.BuiltinFunctionType):
            return self._function(value)
        plain = bool | int | float | complex | str | bytes | range | Device | None
        if isinstance(value, plain) or value is ...:
            return repr(value)
        return self._global(f"_{type(value).__name__}", value)

    def _tuple(self, value: tuple[Any, ...]) -> str:
        listed = f"({', '.join(map(self.text, value))}{',' if len(value) == 1 else ''})"
        if not hasattr(value, "_fields"):
            return listed
        return f"{self._global(type(value).__name__, type(value))}{listed}"

    def _deletions(self, node: Node) -> str:
        if node.op == "output":
            return ""
        dead = [one.name for one in self._dead.get(node, ())]
        if not node.users and node.op != "get_attr" and not dead:
            return ""
        return f";  {' = '.join(dead)} = None" if dead else ""


def last_uses(nodes: list[Node]) -> dict[Node, list[Node]]:
    """Map each Node to those of its inputs that no later Node reads, so that they can be freed."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for node in reversed(nodes):
        for one in node.all_input_nodes:
            if one not in seen:
                seen.add(one)
                found.setdefault(node, []).append(one)
    return found


def _path(owner: str, path: str) -> str:
    """Return code that reads `path` of `owner`, by getattr for parts that are not identifiers."""
    if not owner.isidentifier() and "." not in owner:
        owner = f"({owner})"
    for part in path.split("."):
        plain = part.isidentifier() and not keyword.iskeyword(part)
        owner = f"{owner}.{part}" if plain else f'getattr({owner}, "{part}")'
    return owner
