"""Writes `tensor/methods.pyi`: what type checkers and editors know of Tensor's methods.

`python -m fastdist.namespace.stubs` writes the file; a test fails when it is stale.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..dispatch.op import OPS, Op
from ..tensor import methods
from ..tensor.methods import TensorMethods
from . import load
from .names import ALIASES

HEADER = """# Methods of Tensor that other rooms attach. Written by fastdist/namespace/stubs.py.
import builtins
from collections.abc import Callable, Sequence
from typing import Any

from ..core.dtypes import DType
from .tensor import Tensor

class TensorMethods:
"""
# Words that may stand in an annotation here; what says anything else is Any.
_KNOWN = frozenset(
    ("Tensor", "Any", "None", "bool", "int", "float", "str", "tuple", "list", "dict", "object")
) | {"Callable", "Sequence", "DType"}
_SPECIAL = ("__slots__", "__module__", "__doc__", "__dict__", "__weakref__", "__hash__")
_BOOLEAN = frozenset({"requires_grad", "is_leaf", "retains_grad"})


def path() -> Path:
    """Return where the stub lies: beside methods.py."""
    return Path(methods.__file__).with_suffix(".pyi")


def render() -> str:
    """Return the text of the stub."""
    return HEADER + "".join(_lines())


def _lines() -> Iterator[str]:
    for name in sorted(vars(TensorMethods)):
        value = vars(TensorMethods)[name]
        if name in _SPECIAL:
            continue
        if isinstance(value, property):
            yield from _property(name, value)
        elif callable(value):
            yield from _method(name, value)


def _property(name: str, value: property) -> Iterator[str]:
    assert value.fget is not None
    kind = "builtins.bool" if name in _BOOLEAN else _known(value.fget.__annotations__.get("return"))
    yield f"    @property\n    def {name}(self) -> {kind}: ...\n"
    if value.fset is not None:
        yield f"    @{name}.setter\n    def {name}(self, value: {kind}) -> None: ...\n"


def _method(name: str, function: Any) -> Iterator[str]:
    bare = "" if name.startswith("__") else name.rstrip("_")
    op = OPS.get(ALIASES.get(bare, bare))
    declared = {p.name: p for p in op.parameters} if op is not None else {}
    parameters = list(inspect.signature(function).parameters.values())
    parts: list[str] = []
    star = False
    for parameter in parameters[1:]:
        kind = parameter.kind
        if kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        parts.append(_parameter(parameter, declared))
    # What the object protocol types otherwise: __eq__ and __ne__ of object give bool.
    ignore = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
    arguments = ", ".join(["self", *parts])
    yield f"    def {name}({arguments}) -> {_returns(name, function, op)}: ...{ignore}\n"


def _parameter(parameter: inspect.Parameter, declared: dict[str, inspect.Parameter]) -> str:
    annotation = declared.get(parameter.name, parameter).annotation
    text = "Any" if annotation == "Tensor" else _known(annotation)
    if parameter.kind is parameter.VAR_POSITIONAL:
        return f"*{parameter.name}: {text}"
    if parameter.kind is parameter.VAR_KEYWORD:
        return f"**{parameter.name}: {text}"
    default = "" if parameter.default is parameter.empty else " = ..."
    return f"{parameter.name}: {text}{default}"


def _returns(name: str, function: Any, op: Op | None) -> str:
    if op is not None:
        return _known(op.returns)
    annotation = getattr(function, "__annotations__", {}).get("return")
    if annotation is not None:
        return _known(annotation)
    # The closures of operators carry no annotations: their callers are ops.
    return "Tensor" if name.startswith("__") else "Any"


def _known(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")
    text = text.replace("np.ndarray[Any, Any]", "Any") if "np." in text else text
    words = re.findall(r"[A-Za-z_]\w*", text)
    if not words or any(word not in _KNOWN for word in words):
        return "Any"
    # Methods of these names hide the builtins inside of the class.
    return re.sub(r"\b(bool|int|float)\b", r"builtins.\1", text)


if __name__ == "__main__":
    assert load.NAMES, "the ops must be attached before they can be listed"
    path().write_text(render())
