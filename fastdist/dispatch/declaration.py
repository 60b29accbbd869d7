"""The values that a declaration of an op may use. A wrong value raises an error at import.

Without this check a misspelt value would be silently ignored, and the op would not do what its
declaration says.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from ..core.errors import DeclarationError
from ..core.short_repr import short_repr
from ..graph.node import node_of
from ..tensor.tensor import Tensor

# Where users find an op or a composite.
HOMES: Final = {
    "function": "fastdist.NAME",
    "method": "Tensor.NAME",
    "inplace": "Tensor.NAME_, which writes the result over the tensor",
    "functional": "fastdist.nn.functional.NAME",
    "activation": "fastdist.nn.functional.NAME, which takes inplace= behind its numbers",
    "activation_": "fastdist.nn.functional.NAME_, its in-place twin",
    "fft": "fastdist.fft.NAME",
    "linalg": "fastdist.linalg.NAME",
    "special": "fastdist.special.NAME",
    "nowhere": "it is a part of others",
}
# The annotation of a tensor parameter for which other ops may pass a number; for pointwise ops.
OPERAND: Final = "Tensor | complex"
# Which dtypes an `out=` may have: see Note [Casting into out] in target.py.
OUT_WORDS: Final = {
    "same": "an out= has the result's dtype",
    "cast": "the result is cast into an out= of any dtype",
    "kept": "as cast, but a result that has the operand's dtype is not cast",
    "truth": "as same, but an out= of uint8 also takes truth values",
    "kind": "the result is cast into an out= of the same kind: complex or real",
}
# Which memory an `out=` may use: see Note [Memory of out] in target.py. The first value is for the
# first operand, the second value for all other operands. With None, `out` may share memory with the
# operand in any way; with False, it must have exactly the operand's memory, or separate memory;
# with True, it must have separate memory.
MEMORY_WORDS: Final[dict[str, tuple[bool | None, bool | None]]] = {
    "anywhere": (None, None),
    "apart": (False, False),
    "apart from first": (False, None),
    "outside": (True, True),
    "outside of first": (True, False),
    "outside of others": (False, True),
}

# The rules for the dtype of a result.
DTYPE_RULES: Final = {
    "same": "operands meet, the result keeps it",
    "number": "as same, but not for bool",
    "floating": "integers and bool go to the default dtype",
    "bool": "operands meet, the result is bool",
    "integral": "as same, but not for floating",
    "whole": "as integral, but not for bool",
    "first": "the first operand's, whatever the others are",
    "counted": "as same, but bool goes to int64",
}
# For which operands a caller may pass a number instead of a tensor.
NUMBER_RULES: Final = {
    "anywhere": "in the place of any operand",
    "everywhere": "in the place of all of them, too, as in add(2, 3)",
    "not first": "in the place of the second, as in lt(x, 2)",
    "last": "in the place of the last, as in lerp(x, y, 0.5)",
    "nowhere": "in none, as in atan2(x, y)",
}
# How an op runs on a batch whose batch axis is the first axis: see Note [Batching rules].
BATCH_WORDS: Final = {
    "": "along the axes that its attributes name, if it reads one tensor",
    "same axes": "the same of several tensors, which have the same axes",
    "last axes": "on the last axes, whatever lies before them",
    "first axis": "the same along the first axis of its first tensor, in which the batch may lie",
}


Found = TypeVar("Found")
_TENSORS = ("Tensor", "Tensor | None", OPERAND)
_WORD = re.compile(r"[^\W\d]\w*")
_BUILTIN = frozenset(vars(builtins))


def require_word(what: str, word: str, known: Iterable[str]) -> None:
    """Raise DeclarationError unless `word` is in `known`; the message calls the argument `what`."""
    known = list(known)
    if word in known:
        return
    from difflib import get_close_matches

    close = get_close_matches(str(word), known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(map(repr, known)) or "none"
    raise DeclarationError(f"{what} is {word!r}, expected one of {listed}{hint}")


def later_results(returns: str) -> int | None:
    """Return how many results follow the first, by the annotation `returns`; None for a tuple of
    any length.
    """
    return None if "..." in returns else max(returns.count("Tensor") - 1, 0)


def require_parameters(what: str, function: Callable[..., Any], known: Sequence[str]) -> None:
    """Raise DeclarationError if `function` has a parameter whose name is not in `known`."""
    for name in parameter_names(function):
        require_word(f"{what}: the name of a parameter", name, known)


def require_texts(name: str, tensors: Sequence[str], body: Any, partials: Sequence[Any]) -> None:
    """Raise DeclarationError unless `body` is a string and `partials`, if any, has one entry for
    each tensor: a string, or None where there is no gradient.
    """
    fault = ""
    if not isinstance(body, str):
        fault = f"the body is {short_repr(body)}, expected a text in the scalar language"
    elif not isinstance(partials, list | tuple):
        given = f"{'the text ' * isinstance(partials, str)}{short_repr(partials)}"
        fault = f"partials is {given}; expected a list with a text for each tensor, or no partials"
    elif wrong := [one for one in partials if not isinstance(one, str | None)]:
        expected = "expected a text, or None where there is no gradient"
        fault = f"a partial is {short_repr(wrong[0])}, {expected}"
    elif partials and len(partials) != len(tensors):
        given = f"{len(partials)} partials were given for the tensors {', '.join(tensors)}"
        fault = f"{given}; expected one for each, None where there is no gradient"
    if fault:
        raise DeclarationError(f"{name}: {fault}")


def require_numbers(
    name: str, attributes: Sequence[str], function: Callable[..., Any], texts: str
) -> None:
    """Raise DeclarationError unless each attribute is in one of the texts, and its default, if it
    has one, is a number or None.
    """
    used = frozenset(_WORD.findall(texts)) if attributes else frozenset()
    defaults = defaults_of(function)
    for attribute in attributes:
        if attribute not in used:
            raise DeclarationError(
                f"{name}: the body and the partials do not use the parameter {attribute}: use it, "
                "or leave it out; a tensor is annotated Tensor"
            )
        default = defaults.get(attribute)
        if not isinstance(default, int | float | complex | None):
            raise DeclarationError(
                f"{name}: the default of {attribute} is {short_repr(default)}, expected a number: "
                "the body computes with it"
            )


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's parameters, in the order of its signature.

    Note    inspect.signature takes 50 times as long, which would add a tenth to the import time
    """
    code = function.__code__
    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return tuple(inspect.signature(function).parameters)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of a function's parameters, faster than inspect.signature does."""
    given = function.__defaults__ or ()
    code = function.__code__
    last = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
    return dict(zip(last, given, strict=True)) | (function.__kwdefaults__ or {})


class LateSignature(inspect.Signature):
    """The signature of a declared function, made at the first access. With `has_out`, it has a
    parameter `out`.

    The import declares several hundred functions. If it made all signatures, it would take 2 % more
    time and 300 KB more memory.
    """

    __slots__ = ("_function", "_has_out")

    def __init__(self, function: Callable[..., Any], has_out: bool) -> None:
        # The base class's `__init__` needs the parameters, so `__getattr__` calls it later.
        self._function, self._has_out = function, has_out

    def __getattr__(self, name: str) -> Any:
        """Make the signature at the first access to an attribute of the base class."""
        made = inspect.signature(self._function)
        parameters = [*made.parameters.values()]
        if self._has_out:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter("out", kind, default=None, annotation="Any"))
        super().__init__(parameters, return_annotation=made.return_annotation)
        return object.__getattribute__(self, name)

    def replace(self, **changes: Any) -> inspect.Signature:  # type: ignore[override]
        """Return an inspect.Signature with the changes."""
        return inspect.Signature(
            list(self.parameters.values()), return_annotation=self.return_annotation
        ).replace(**changes)

    def __reduce__(self) -> Any:
        """Pickle as an inspect.Signature."""
        return self.replace().__reduce__()


def is_tensor(op_name: str, name: str, function: Callable[..., Any]) -> bool:
    """Return whether a parameter of function is a tensor of the op; otherwise it is an attribute.

    Raises  DeclarationError for an annotation that is not a string, that mentions Tensor in an
            unsupported form, or that uses a name unknown in the declaration's module
    """
    text = function.__annotations__.get(name)
    if text in _TENSORS:
        return True
    place = f"{op_name}: the annotation of {name}"
    expected = "expected 'Tensor' or 'Tensor | None' for a tensor, its type for an attribute"
    if name not in function.__annotations__:
        raise DeclarationError(f"{place} is missing, {expected}")
    if not isinstance(text, str):
        raise DeclarationError(
            f"{place} is {text!r}, no text, {expected}; begin the file with "
            "`from __future__ import annotations`"
        )
    names = function.__globals__
    if text not in names and text in _BUILTIN:
        return False
    try:
        meant = eval(text, names)
    except Exception as error:
        raise DeclarationError(f"{place} is {text!r}, {expected}; {error}") from error
    # An annotation that is a string within a string, such as "'Tensor'", is not supported.
    if isinstance(meant, str) or _speaks_of_tensors(meant):
        raise DeclarationError(f"{place} is {text!r}, {expected}")
    return False


def _speaks_of_tensors(meant: Any) -> bool:
    if isinstance(meant, type) and issubclass(meant, Tensor):
        return True
    return any(_speaks_of_tensors(part) for part in typing.get_args(meant))


def homes_of(name: str, text: str) -> frozenset[str]:
    """Return the words in a declaration's `homes=`, which are keys of HOMES."""
    return shared(words_of(f"{name}: a word of homes=", text, HOMES) - {"nowhere"})


def words_of(what: str, text: str, known: Iterable[str]) -> frozenset[str]:
    """Return the words of a text. Raise DeclarationError for a word that is not in `known`."""
    for word in text.split():
        require_word(what, word, known)
    return shared(frozenset(text.split()))


@functools.cache
def shared(words: frozenset[str]) -> frozenset[str]:
    """Return the same object for equal sets, which saves 216 bytes for each of hundreds of ops."""
    return words


class OutRule:
    """The rule for the `out=` of a function: a key of OUT_WORDS and a value of MEMORY_WORDS."""

    def __init__(self, name: str, dtype: str = "same", memory: str = "anywhere") -> None:
        require_word(f"{name}: out=", dtype, OUT_WORDS)
        require_word(f"{name}: memory=", memory, MEMORY_WORDS)
        self.name, self.dtype, self.memory = name, dtype, MEMORY_WORDS[memory]


# Note [PyTorch's names]
# Each op has a PyTorch name: the `known_as=` of its declaration, or else the op's own name.
# Profiles show calls, and `grad_fn` shows Nodes, under this name. `max.1` stands for PyTorch's
# `max` with the second of its gradient formulas: the event is named aten::max, and the Node
# MaxBackward1. A composite with an empty PyTorch name does not appear in profiles; only the ops
# that it calls appear. Such a composite only queries something, is another name of one op, or is
# written in Python in PyTorch as well. If PyTorch records a composite as one Node, the composite
# passes `node=`. The last Node of the composite, which users see, gets the name in `node=`.


def without_formula(known_as: str) -> str:
    """Return known_as without the number of its gradient formula."""
    return known_as.partition(".")[0]


def event_named(known_as: str) -> str:
    """Return the name of an op's profiler event."""
    return f"aten::{without_formula(known_as)}"


def event_of_function(known_as: str) -> str | None:
    """Return the name of a composite's profiler event, or None if it has no event. Names of
    functions in linalg and fft begin with `linalg_` and `fft_`.
    """
    if not known_as or known_as.startswith("is_"):
        return None
    return event_named(known_as.replace("linalg.", "linalg_").replace("fft.", "fft_"))


def node_named(known_as: str) -> str:
    """Return the name of a Node; an empty name if `known_as` is empty."""
    if not known_as:
        return ""
    word, _, formula = known_as.partition(".")
    # For example, PyTorch names the op nll_loss_forward, but its Node NllLossBackward0.
    word = word.removesuffix("_forward").title().replace("_", "")
    return f"{word}Backward{formula or 0}"


def recorded_as(name: str, found: Found, args: Sequence[Any]) -> Found:
    """Return `found`, the result of a composite for `args`. Name the last Node of each of its
    tensors `name`.
    """
    if found.__class__ is not Tensor:
        for one in found if isinstance(found, tuple) else ():
            recorded_as(name, one, args)
        return found
    edge = found._edge  # type: ignore[attr-defined]
    if edge is not None:
        for one in args:
            if one is found:  # the function returned an argument, and made no Node
                return found
        node_of(edge)._called = name
    return found
