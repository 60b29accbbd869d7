"""Schemas of operators that programs define, made from schema texts or function annotations."""

from __future__ import annotations

import ast
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from .core.device import Device
from .core.dtypes import DType
from .tensor.tensor import Tensor

_TYPES = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", DType: "ScalarType",
    Device: "Device", int | float | bool: "Scalar",
}  # fmt: skip
_NAME = re.compile(r"\w+(\.\w+)*::\w+(\.\w+)?")


class Schema(NamedTuple):
    """The parameters of an operator: their names, their defaults, and which are keyword-only."""

    names: tuple[str, ...]
    signature: inspect.Signature
    mutates: bool

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the values of all parameters, in declaration order.

        Raises  TypeError if an argument is missing or unknown
        """
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return tuple(bound.arguments[name] for name in self.names)

    def split(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the values of positional parameters, and a dict of keyword-only values by name."""
        kinds = [one.kind for one in self.signature.parameters.values()]
        count = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return tuple(values[:count]), dict(zip(self.names[count:], values[count:]))

    def call(self, function: Callable[..., Any], values: Sequence[Any]) -> Any:
        """Call a function with the values of all parameters, and return its result."""
        args, kwargs = self.split(values)
        return function(*args, **kwargs)


def split_name(name: str) -> tuple[str, str, str]:
    """Return the namespace, the name and the overload of "namespace::name.overload".

    Raises  ValueError if the text does not have this form
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {name}. The '
            "qualname passed to the torch.library APIs must consist of a namespace and a name, "
            "e.g. aten::sin"
        )
    namespace, _, rest = name.partition("::")
    own, _, overload = rest.partition(".")
    return namespace, own, overload or "default"


def parse_schema(text: str) -> Schema:
    """Return the Schema for a text such as "(Tensor x, *, float a=2.0) -> Tensor".

    Raises  ValueError if the text is not a schema
    """
    found = re.fullmatch(r"\s*\w*(?:\.\w+)?\s*\((.*)\)\s*->\s*(.+)", text, re.DOTALL)
    if found is None:
        raise ValueError(f'a schema reads "(Tensor x, int n=1) -> Tensor", got {text!r}')
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters: list[inspect.Parameter] = []
    for part in _parts(found[1]):
        if part == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        declared, equals, default = part.partition("=")
        name = declared.split()[-1]
        value = _value(default.strip()) if equals else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, kind, default=value))
    names = tuple(one.name for one in parameters)
    return Schema(names, inspect.Signature(parameters), "!" in found[1])


def _parts(text: str) -> list[str]:
    """Split the parameter list of a schema at its commas, except within brackets and quotes."""
    depth, quote, parts = 0, "", [""]
    for letter in text:
        if letter in ("'", '"'):
            quote = "" if quote == letter else quote or letter
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text  # the name of a constant, such as contiguous_format


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Any = (),
) -> str:
    """Return the schema of an annotated function, such as "(Tensor x, float a=2.0) -> Tensor".

    Raises  ValueError if a parameter has no annotation, or one that operators do not support

    Args:
        prototype_function: The function.
        mutates_args: The names of arguments that the function changes in place; "unknown" means
            that it may change all.
        op_name: A name to prepend to the schema.
        tags: Ignored.
    """
    hints = typing.get_type_hints(prototype_function)
    written: list[str] = []
    by_name = False
    mutated = mutates_args if isinstance(mutates_args, str) else {*mutates_args}
    for number, parameter in enumerate(inspect.signature(prototype_function).parameters.values()):
        if parameter.name not in hints:
            raise ValueError(
                f"infer_schema(func): Parameter {parameter.name} must have a type annotation."
            )
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not by_name:
            by_name = True
            written.append("*")
        kind = _type_text(hints[parameter.name], parameter.name)
        if mutated == "unknown" or parameter.name in mutated:
            kind = kind.replace("Tensor", f"Tensor(a{number}!)", 1)
        default = parameter.default
        text = "" if default is inspect.Parameter.empty else f"={_default_text(default)}"
        written.append(f"{kind} {parameter.name}{text}")
    return f"{op_name or ''}({', '.join(written)}) -> {_result_text(hints.get('return', Any))}"


def _default_text(default: Any) -> str:
    return (
        f'"{default}"'
        if isinstance(default, str)
        else str(default).rpartition(".")[2]
        if isinstance(default, DType)
        else str(default)
    )


def _type_text(hint: Any, name: str) -> str:
    if hint in _TYPES:
        return _TYPES[hint]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if type(None) in args:
        rest = [one for one in args if one is not type(None)]
        return _type_text(typing.Union[tuple(rest)], name) + "?"  # noqa: UP007 (of a tuple)
    if origin in (list, Sequence) and len(args) == 1:
        return _type_text(args[0], name) + "[]"
    raise ValueError(
        f"infer_schema(func): Parameter {name} has unsupported type {hint}. The valid types are "
        "Tensor, int, float, bool, str, dtype, device, Optional and sequences of them."
    )


def _result_text(hint: Any) -> str:
    if hint is None or hint is type(None):
        return "()"
    if typing.get_origin(hint) is tuple:
        return "(" + ", ".join(_type_text(one, "return") for one in typing.get_args(hint)) + ")"
    return _type_text(hint, "return")
