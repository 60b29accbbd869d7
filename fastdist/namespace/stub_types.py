"""Types of parameters and results in stubs, if they are more precise than the declarations."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..dispatch.declaration import OPERAND
from ..dispatch.op import OPS, Op
from ..dispatch.pointwise import PointwiseOp
from .names import ALIASES, words

# `_KNOWN` has the names that stubs may use, and `_MEANING` replaces some other names. An annotation
# with any further name becomes Any.
_MEANING = {
    "Pair": "tuple[Tensor, Tensor]",
    "Shape": "tuple[int, ...]",
    "np.ndarray[Any, Any]": "NDArray",
}
_KNOWN = words(
    """
    Any Callable DType Device DeviceLike False Generator Indices Inputs Iterator Literal
    MemoryFormat MemoryLayout NDArray None Number Operand Sequence Size Sizes Tensor True
    TypedStorage UntypedStorage bool complex dict float int list object str tuple
    """
)
# Wider types that callers may pass: they include NumPy's integers and numbers.
_WIDER = {"int | Sequence[int]": "Sizes", "Tensor | Number": "Scalar"}
# Maps a parameter's name to its type, for declarations with Any.
_BY_NAME = {
    "alpha": "Number",
    "axis": "int | Sequence[int] | None",
    "beta": "Number",
    "device": "DeviceLike",
    "dim": "int | Sequence[int] | None",
    "dims": "Sizes",
    "dtype": "DTypeLike | None",
    "end": "Scalar",
    "fill_value": "Scalar",
    "generator": "Generator | None",
    "keepdims": "bool",
    "memory_format": "MemoryFormat | None",
    "other": "Operand",
    "shape": "Sizes",
    "size": "Sizes",
    "sizes": "Sizes",
    "start": "Scalar",
    "step": "Scalar",
    "tensors": "Sequence[Tensor]",
}
# (function, parameter) pairs for which _BY_NAME does not apply, and their types.
_EXCEPT = {
    ("__array__", "dtype"): "Any",
    ("__contains__", "element"): "Operand",
    ("__eq__", "other"): "Any",
    ("__getitem__", "index"): "Indices",
    ("__ne__", "other"): "Any",
    ("__setitem__", "index"): "Indices",
    ("__setitem__", "value"): "Operand",
    ("arange", "end"): "Scalar | None",
    ("lerp", "end"): "Operand",
    ("linspace", "end"): "Scalar",
    ("linspace", "start"): "Scalar",
    ("logspace", "end"): "Scalar",
    ("logspace", "start"): "Scalar",
    ("reshape", "shape"): "Sizes | None",
    ("roll", "dims"): "Sizes | None",
    ("tensorsolve", "dims"): "Sizes | None",
    ("tensordot", "dims"): "Any",
    ("type", "dtype"): "Any",
    ("view", "dtype"): "Any",
    ("view", "shape"): "Sizes | DType",
}
# Result types that depend on the arguments, or are more precise than the declarations.
_RESULTS = {
    "__array__": "NDArray",
    "__iter__": "Iterator[Tensor]",
    "aminmax": "return_types.aminmax",
    "cummax": "return_types.cummax",
    "cummin": "return_types.cummin",
    "histogram": "return_types.histogram",
    "kthvalue": "return_types.kthvalue",
    "mode": "return_types.mode",
    "numpy": "NDArray",
    "sort": "return_types.sort",
    "topk": "return_types.topk",
}
_OUT = "out: Tensor | None = ..."
_ALONG = "dim: int, keepdim: bool = ..., *, out: Any = ..."
_UNIQUE = "return_inverse: {0} = ..., return_counts: {0} = ..., dim: int | None = ..."
# Maps a function to its overloads: (parameters after the first, result).
_WAYS = {
    "max": [
        (f"*, {_OUT}", "Tensor"),
        (_ALONG, "return_types.max"),
        (f"other: Tensor, *, {_OUT}", "Tensor"),
    ],
    "min": [
        (f"*, {_OUT}", "Tensor"),
        (_ALONG, "return_types.min"),
        (f"other: Tensor, *, {_OUT}", "Tensor"),
    ],
    "median": [(f"*, {_OUT}", "Tensor"), (_ALONG, "return_types.median")],
    "nanmedian": [(f"*, {_OUT}", "Tensor"), (_ALONG, "return_types.nanmedian")],
    "unique": [
        ("sorted: bool = ..., " + _UNIQUE.format("Literal[False]"), "Tensor"),
        ("sorted: bool = ..., " + _UNIQUE.format("bool"), "Any"),
    ],
    "unique_consecutive": [
        (_UNIQUE.format("Literal[False]"), "Tensor"),
        (_UNIQUE.format("bool"), "Any"),
    ],
    "where": [
        ("", "tuple[Tensor, ...]"),
        (f"input: Operand, other: Operand, *, {_OUT}", "Tensor"),
    ],
}
# Maps a flag to two result types of a function that is declared to return Any: for the flag False,
# and for the flag True.
_FLAGS = {
    "as_tuple": ("Tensor", "tuple[Tensor, ...]"),
    "return_indices": ("Tensor", "tuple[Tensor, Tensor]"),
}
_MARKS: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
# Builtins whose names in stubs are hidden by functions of fastdist or methods of Tensor.
_HIDDEN = re.compile(r"(?<![\w.])(bool|int|float|complex)\b(?!:)")


def declarations(
    name: str,
    function: Any,
    inplace: str | None = None,
    *,
    first: str | None = None,
    doc: str | None = None,
) -> Iterator[str]:
    """Yield each `def` of a function, one per overload, with the function's docstring for editors.

    `first` replaces the first parameter; "self" makes it a method. For an in-place twin whose
    result type differs, `function` is the out-of-place op.
    """
    for text in _declarations(name, function, inplace, first):
        yield documented(text, doc)


def documented(text: str, doc: str | None) -> str:
    """Return the `def` of a stub with a docstring added."""
    if not doc:
        return text
    quote = 'r"""' if "\\" in doc else '"""'
    lines = [line and f"    {line}" for line in inspect.cleandoc(doc).splitlines()]
    head = text.removesuffix(" ...\n")
    end = '\n    """\n' if len(lines) > 1 else '"""\n'
    return f"{head}\n    {quote}" + "\n".join(lines).lstrip() + end


def _declarations(
    name: str, function: Any, inplace: str | None, first: str | None
) -> Iterator[str]:
    if inplace is not None:
        taken = [p for p in inspect.signature(function).parameters.values() if p.name != "out"]
        bare = ALIASES.get(name[:-1], name[:-1])
        lead, op = first or "input: Tensor", OPS.get(bare)
        yield _definition(name, [lead, *rendered(bare, taken, op, inplace)[1:]], inplace)
        return
    told = ALIASES.get(name, name)
    op = OPS.get(told) or OPS.get(getattr(function, "__name__", ""))
    parameters = list(inspect.signature(function).parameters.values())
    result = _result(told, function, op)
    if first is None and parameters:
        first = _lead(told, parameters[0], op)
    if told in _WAYS and (told, first) != ("where", "self"):
        for text, way in _WAYS[told]:
            yield _definition(name, [first or "", text], way, many=True)
        return
    flag = next((p.name for p in parameters[1:] if p.name in _FLAGS), None)
    if flag is not None and result == "Any":
        yield from _by_flag(name, first or "", parameters, flag)
        return
    yield _definition(name, [first or "", *rendered(told, parameters, op, result)[1:]], result)


def _by_flag(
    name: str, first: str, parameters: list[inspect.Parameter], flag: str
) -> Iterator[str]:
    """Yield the overloads of a function for a flag that is False, True, or unknown."""
    place = [p.name for p in parameters].index(flag)
    before, found, after = parameters[:place], parameters[place], parameters[place + 1 :]
    unset = found.replace(annotation="Literal[False]")
    given = found.replace(annotation="Literal[True]", default=inspect.Parameter.empty)
    # Keyword-only, because the parameters before the flag may be left out.
    keywords = [p.replace(kind=p.KEYWORD_ONLY) for p in (given, *after)]
    for listed, result in (
        ([*before, unset, *after], _FLAGS[flag][0]),
        ([*before, *keywords], _FLAGS[flag][1]),
        (parameters, "Any"),
    ):
        texts = rendered(name, listed, None, result)[1:]
        yield _definition(name, [first, *texts], result, many=True)


def _definition(name: str, parts: Iterable[str], result: str, *, many: bool = False) -> str:
    listed = ", ".join(part for part in parts if part)
    head = "@overload\n" if many else ""
    return f"{head}def {name}({builtin(listed)}) -> {builtin(result)}: ...\n"


def builtin(text: str) -> str:
    """Write `builtins.` before builtins that functions of fastdist or methods of Tensor hide."""
    return _HIDDEN.sub(r"builtins.\1", text)


def _lead(name: str, parameter: inspect.Parameter, op: Op | None) -> str:
    if parameter.name == "self":
        return "input: Tensor"
    if isinstance(op, PointwiseOp) and len(op.tensors) == 1:
        return f"{parameter.name}: Tensor" if op.tensors[0] == parameter.name else "n: int"
    return rendered(name, [parameter], op, "Any")[-1]


def rendered(
    name: str, parameters: list[inspect.Parameter], op: Op | None, result: str
) -> list[str]:
    """Return a function's parameters as text."""
    declared = op.parameters if op is not None else {}
    parts: list[str] = []
    star = False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        annotation = declared.get(parameter.name, parameter).annotation
        text = _taken(name, parameter, annotation, op, result)
        mark = _MARKS.get(parameter.kind, "")
        default = "" if mark or parameter.default is parameter.empty else " = ..."
        if default and (parameter.default is not None or "None" in text or text == "Any"):
            default = _default(parameter.default)
        parts.append(f"{mark}{parameter.name}: {text}{default}")
    return parts


def _default(value: Any) -> str:
    """Return a default as text: numbers, strings and None are written, other values
    become `...`.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return " = ..."
    shown = value is None or type(value) in (bool, int, float, str)
    return f" = {value!r}" if shown else " = ..."


def _taken(
    name: str, parameter: inspect.Parameter, annotation: Any, op: Op | None, result: str
) -> str:
    word = parameter.name.lstrip("_")
    if (name, word) in _EXCEPT:
        return _EXCEPT[name, word]
    if word == "out":
        return "Tensor | None" if result == "Tensor" else "Any"
    if isinstance(op, PointwiseOp) and annotation in ("Tensor", OPERAND):
        return "Operand"
    # Lists are accepted for tuples of lengths, and Python's float type for a dtype.
    text = known(annotation).replace("tuple[int, ...]", "Sequence[int]")
    for said, meant in _WIDER.items():
        text = text.replace(said, "Operand" if word == "other" and meant == "Scalar" else meant)
    if text != "Any":
        return text.replace("DType", "DTypeLike")
    if parameter.kind is parameter.VAR_POSITIONAL and word == "tensors":
        return "Tensor | Sequence[Tensor]"
    return _BY_NAME.get(word, "Any")


def _result(name: str, function: Any, op: Op | None) -> str:
    if name in _RESULTS:
        return _RESULTS[name]
    if name.endswith("_with_indices"):
        return "tuple[Tensor, Tensor]"
    if op is not None and function is op.public:
        return known(op.returns)
    annotation = getattr(function, "__annotations__", {}).get("return")
    if annotation is None and op is not None:
        return known(op.returns)
    return known(annotation)


def known(annotation: Any) -> str:
    """Return an annotation as text; Any if it has names that are not in _KNOWN."""
    text: str = (
        annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")
    )
    for word, meaning in _MEANING.items():
        text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", meaning, text)
    said = {one for one in re.findall(r"[A-Za-z_][\w.]*", text) if one[:13] != "return_types."}
    return text if text.strip() and said <= _KNOWN else "Any"
