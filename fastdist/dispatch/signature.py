"""Checks the arguments of a call against the signature, and finds the first wrong argument.

As in PyTorch's parser, the annotation of a parameter defines the kinds of values that it accepts. A
bool is not an int and an int is not a bool; a float parameter accepts bools, ints and floats. A 0-d
tensor that needs no gradient may replace a number of its kind. NumPy's numbers are converted to
Python's, so that integers do not wrap around. Calls whose argument classes passed before are not
checked again: see Note [Classes that fitted]. Before a call, neither the elements of tuples nor the
ranges of numbers are checked. If the call fails with an error of Python or NumPy, all arguments are
checked, and the error names the first argument that does not fit.
"""

from __future__ import annotations

import dis
import inspect
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from ..core.device import Device
from ..core.dtypes import DType, bool_
from ..core.errors import DTypeError, FastdistError, ShapeError, raise_out_of_memory
from ..core.folded_frames import private_cause, was_folded
from ..core.memory_format import MemoryFormat
from ..core.sequences import finite_list
from ..core.short_repr import short_repr
from ..random_numbers.generator import Generator
from ..tensor.tensor import Tensor
from .declaration import OPERAND


class ArgumentError(DTypeError, ValueError):
    """An argument of the wrong kind, or a number that no dtype holds."""


# Note [Classes that fitted]
# Checking the arguments of every call would take longer than many calls themselves. A value's class
# shows its kind, unless a Tensor replaces a number; the elements of tuples and lists are left for
# the function to check. So once all arguments of a call fit, their classes are stored in a set, and
# later calls with the same classes need one look-up in the set.


def require_kinds(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    fitted: set[Any],
    classes: tuple[Any, ...],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Check the arguments against function's signature and return them; tensors and NumPy scalars
    that stand for numbers become numbers. If the classes alone show that all arguments fit, add
    `classes` to `fitted`.

    Raises  ArgumentError for a value of the wrong kind
    """
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return args, kwargs  # the call raises Python's clear error, or a name is NumPy's
    if require_fits(function.__name__, signature.parameters, bound.arguments):
        fitted.add(classes)
        return args, kwargs
    return bound.args, bound.kwargs


def require_tensors(
    op: str,
    parameters: Mapping[str, inspect.Parameter],
    names: Sequence[str],
    operands: Sequence[Any],
) -> None:
    """Raise ArgumentError for a number where the op takes a tensor."""
    for name, operand in zip(names, operands, strict=True):
        if operand is not None and not isinstance(operand, Tensor):
            fault = _fault_of(operand, ("Tensor",), by_class=True)
            raise ArgumentError(_message(op, parameters, name, str(fault)))


def require_fits(
    name: str, parameters: Mapping[str, inspect.Parameter], given: dict[str, Any]
) -> bool:
    """Return whether the classes alone show that all arguments fit. In `given`, replace tensors
    and NumPy scalars that stand for numbers by Python numbers.

    Raises  ArgumentError for a value of the wrong kind
    """
    settled = True
    for parameter, value, wanted in _values(parameters, given):
        if value is parameters[parameter].default:
            continue
        fault = _fault_of(value, wanted, by_class=True)
        if fault is not None:
            raise ArgumentError(_message(name, parameters, parameter, fault))
        if isinstance(value, _STAND_INS) and _KINDS.keys() - _OPEN >= set(wanted):
            settled = False
            if parameters[parameter].kind is not inspect.Parameter.VAR_POSITIONAL:
                given[parameter] = value.item()
    return settled


def _values(
    parameters: Mapping[str, inspect.Parameter], given: Mapping[str, Any]
) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yield (parameter, value, accepted kinds); a `*parameter` yields one tuple for each value."""
    for name, value in tuple(given.items()):
        parameter = parameters[name]
        wanted = kinds_of(name, str(parameter.annotation))
        if parameter.kind is parameter.VAR_POSITIONAL:
            wanted = tuple(_AMONG.get(kind, kind) for kind in wanted if kind != "None")
            for one in value:
                yield name, one, wanted
        elif parameter.kind is not parameter.VAR_KEYWORD:
            yield name, value, wanted


def find_fault(
    function: str, parameters: Mapping[str, inspect.Parameter], given: Mapping[str, Any]
) -> str | None:
    """Describe the first argument that does not fit its annotation; None if all fit.

    Note    used only after a call has failed, so a number that int64 cannot hold counts as a fault
    """
    for name, value, wanted in _values(parameters, given):
        fault = _fault_of(value, wanted, by_class=False)
        if fault is None and _KINDS.keys() >= set(wanted) and _is_huge(value):
            fault = f"is out of range: {_short(value)}"
        if fault is not None:
            return _message(function, parameters, name, fault)
    return None


def _message(function: str, parameters: Mapping[str, Any], name: str, fault: str) -> str:
    position = list(parameters).index(name) + 1
    return f"{function}(): argument {name!r} (position {position}) {fault}"


_UNKNOWN = str(inspect.Parameter.empty)


@lru_cache(maxsize=1024)
def kinds_of(name: str, annotation: str) -> tuple[str, ...]:
    """Return the kinds of value that a parameter accepts. The parameter's name decides if a part of
    the annotation is not a key of `_KINDS`, as in `DeviceLike` or `int | Sequence[int]`.
    """
    if annotation == OPERAND:
        return ("Tensor",)  # errors name only the type that users pass most
    if annotation == _UNKNOWN:
        return ("Any",)
    if annotation in ("bool", "bool | None"):
        annotation = _TRUTHS.get(name, annotation)
    kinds = _kinds_in(annotation)
    if annotation == "Any" or not _KINDS.keys() >= set(kinds):
        kinds = _kinds_in(_BY_NAME.get(name, "Any"))
    return kinds


def _kinds_in(annotation: str) -> tuple[str, ...]:
    return tuple([part.strip() for part in annotation.split("|")])


def _by_name(names_of: dict[str, str]) -> dict[str, str]:
    return {name: kinds for kinds, names in names_of.items() for name in names.split()}


# By the parameter's name, its kinds if a part of its annotation is not a key of `_KINDS`.
_BY_NAME = _by_name(
    {
        "DType | None": "dtype",
        "Device | None": "device",
        "Nested | None": "dims",
        "Shape": "normalized_shape pad",
        "Sizes": "shape shifts sizes split_size_or_sections",
        "Sizes | None": "dim size",
        "Sizes | Tensor": "repeats",
        "Tensor | tuple | None": "out",
        "TensorList": "tensors",
        "Tensors | None": "indices",
        "complex": "alpha beta fill_value",
        "float": "start step",
        "float | None": "correction end high",
    }
)
# The kinds that PyTorch accepts for these bool parameters: any value, or a bool or None.
_TRUTHS = _by_name(
    {
        "Any": (
            "add_zero_attn average_attn_weights hard inplace need_weights reduce return_indices "
            "size_average"
        ),
        "bool | None": "pin_memory requires_grad stable",
    }
)


def _fault_of(value: Any, wanted: tuple[str, ...], *, by_class: bool) -> str | None:
    known = [_KINDS[kind] for kind in wanted if kind in _KINDS]
    if len(known) < len(wanted):
        return None
    if any(((by_class and kind.may_fit) or kind.fits)(value) for kind in known):
        return None
    expected = " or ".join([kind.words for kind in known])
    hint = "; make one with tensor()" if wanted == ("Tensor",) and _is_number(value) else ""
    if not by_class and _is_list(value) and not {"TensorList", "Tensors"}.isdisjoint(wanted):
        hint = _first_other(value)
    return f"must be {expected}, not {_short(value)}{hint}"


def _first_other(values: Sequence[Any]) -> str:
    """Return error text about the first value that is not a Tensor."""
    place = next(i for i, one in enumerate(values) if not isinstance(one, Tensor))
    return f": element {place} is {_short(values[place])}"


def tensors_in(function: str, name: str, given: Any) -> list[Tensor]:
    """Return the tensors of an iterable argument as a list; a Tensor is the only one.

    Raises  ArgumentError for a value that is not an iterable of Tensors
    """
    if isinstance(given, Tensor):
        return [given]
    found = finite_list(given) if isinstance(given, Iterable) else given
    if (fault := _fault_of(found, ("TensorList",), by_class=False)) is not None:
        raise ArgumentError(f"{function}(): argument {name!r} {fault}")
    return found


def _short(value: Any) -> str:
    text = "" if isinstance(value, Tensor) else short_repr(value)
    name = type(value).__name__
    return name if value is None or not text or len(text) > 40 else f"{name} {text}"


def _is_huge(value: Any) -> bool:
    return not _each(value, lambda one: not isinstance(one, int) or abs(one) >> 62 == 0)


def _each(value: Any, fits: Callable[[Any], bool]) -> bool:
    """Return whether `fits` accepts `value`, or all elements of a list or tuple at any depth.

    A list that occurs several times, or contains itself, is checked once.
    """
    waiting, seen = [value], set[int]()
    while waiting:
        one = waiting.pop()
        if not _is_list(one):
            if not fits(one):
                return False
        elif id(one) not in seen:
            seen.add(id(one))
            waiting.extend(one)
    return True


def _is_integer(value: Any) -> bool:
    if isinstance(value, Tensor):
        dtype = value._layout.dtype
        return _stands_for_a_number(value) and dtype is not bool_ and not dtype.is_floating_point
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return _stands_for_a_number(value)
    return isinstance(value, numbers.Real | np.bool_)


def _is_bool(value: Any) -> bool:
    if isinstance(value, Tensor):
        return _stands_for_a_number(value) and value._layout.dtype is bool_
    return isinstance(value, bool | np.bool_)


def _stands_for_a_number(value: Tensor) -> bool:
    return not value._layout.shape and value._edge is None


def _of(*kinds: type) -> Callable[[Any], bool]:
    """Return the function that checks whether a value is of one of these classes."""
    return lambda value: isinstance(value, kinds)


_is_list, _is_sequence = _of(tuple, list), _of(tuple, list, range)


def _are_some(value: Any) -> bool:
    return _is_sequence(value) or _is_integer(value)


def _are_sizes(value: Any) -> bool:
    return _is_integer(value) or _are_integers(value)


def _are_integers(value: Any) -> bool:
    # A range has only integers, and there may be too many to check each of them.
    return isinstance(value, range) or (_is_list(value) and all(map(_is_integer, value)))


def _are_nested_integers(value: Any) -> bool:
    return _each(value, lambda one: isinstance(one, range) or _is_integer(one))


def _are_tensors(value: Any) -> bool:
    return isinstance(value, Tensor) or _is_list_of_tensors(value)


def _is_list_of_tensors(value: Any) -> bool:
    return _is_list(value) and all(isinstance(one, Tensor) for one in value)


class _Kind(NamedTuple):
    words: str
    fits: Callable[[Any], bool]
    # A check by class only, for values that contain other values.
    may_fit: Callable[[Any], bool] | None = None


_SIZES = "an integer or a tuple of integers"
_KINDS: dict[str, _Kind] = {
    "DType": _Kind("a dtype such as fastdist.float32", _of(DType, type)),
    "Device": _Kind("a device such as 'cpu'", _of(Device, str, int)),
    "Dims": _Kind(
        _SIZES, lambda v: v is None or _are_sizes(v), lambda v: v is None or _are_some(v)
    ),
    "Generator": _Kind("a Generator", _of(Generator)),
    "MemoryFormat": _Kind("a memory format such as fastdist.channels_last", _of(MemoryFormat)),
    "Nested": _Kind(
        "an integer or tuples of integers",
        _are_nested_integers,
        _are_some,
    ),
    "None": _Kind("None", lambda v: v is None),
    "Shape": _Kind("a tuple of integers", _are_integers, _is_sequence),
    "Sizes": _Kind(_SIZES, _are_sizes, _are_some),
    "Tensor": _Kind("Tensor", _of(Tensor)),
    "TensorList": _Kind("a sequence of Tensors", _is_list_of_tensors, _is_list),
    "Tensors": _Kind("a sequence of Tensors", _are_tensors, _of(Tensor, tuple, list)),
    "bool": _Kind("a bool", _is_bool),
    "complex": _Kind("a number", lambda v: isinstance(v, complex) or _is_number(v)),
    "float": _Kind("a number", _is_number),
    "int": _Kind("an integer", _is_integer),
    "str": _Kind("a string", _of(str)),
    "tuple": _Kind("a tuple", _is_list),
    "tuple[int, ...]": _Kind(
        "a tuple of integers", lambda v: _is_list(v) and _are_integers(v), _is_sequence
    ),
}
# The kind of each value of a `*parameter`, by the parameter's kind: a value may also be a list.
_AMONG = {"TensorList": "Tensors"}
# Kinds that accept Tensors as they are, or that are not checked.
_OPEN = frozenset({"Any", "Tensor", "TensorList", "Tensors", "tuple"})
# Classes whose values are converted where a number is expected. np.float64 is not among them: it is
# a subclass of Python's float.
_STAND_INS = (Tensor, np.integer, np.float16, np.float32)

# Errors that Python and NumPy raise for arguments of the wrong kind, or if memory runs out.
UNCLEAR = (AttributeError, TypeError, ValueError, OverflowError, KeyError, Warning, MemoryError)


# PyTorch's name of a parameter, and NumPy's name of it; PyTorch accepts both names.
NUMPY_NAMES = {"dim": "axis", "keepdim": "keepdims"}


# NumPy's messages for arrays of more bytes than an address can count.
_UNCOUNTABLE = ("array is too big", "Maximum allowed dimension", "iterator is too large")


def explain(error: Exception, find_fault: Callable[[], str | None]) -> None:
    """If the cause of `error` is known and the error's message does not explain the cause, raise an
    error that does. `find_fault` returns the description of the wrong argument.

    Raises  ArgumentError, OutOfMemoryError, or ShapeError in PyTorch's words
    """
    if isinstance(error, MemoryError):
        raise_out_of_memory(error)
    fault = None if _is_clear(error) else find_fault()
    if fault is not None:
        raise ArgumentError(fault) from (private_cause(error) if _is_internal(error) else error)
    if isinstance(error, ValueError) and str(error).startswith(_UNCOUNTABLE):
        raise ShapeError(
            f"Storage size calculation overflowed: the result has more bytes than memory can have "
            f"({error})"
        ) from private_cause(error)


def _is_clear(error: BaseException) -> bool:
    """Return whether fastdist's own code raised the error, so that the message is clear."""
    if isinstance(error, FastdistError) or was_folded(error):
        return True
    last = _innermost(error)
    if last is None:
        return False
    code = last.tb_frame.f_code.co_code
    return _module_of(last).startswith("fastdist") and code[last.tb_lasti] == _RAISE


def _is_internal(error: BaseException) -> bool:
    """Return whether fastdist's code or NumPy raised an error, and not a user's class."""
    last = _innermost(error)
    return last is not None and _module_of(last).startswith(("fastdist", "numpy"))


def _innermost(error: BaseException) -> TracebackType | None:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last


def _module_of(trace: TracebackType) -> str:
    return str(trace.tb_frame.f_globals.get("__name__"))


_RAISE = dis.opmap["RAISE_VARARGS"]


def fault_of_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str | None:
    """Describe the first argument that does not fit, in a failed call; None if all fit."""
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None  # Python's own error is clear
    return find_fault(function.__name__, signature.parameters, given)
