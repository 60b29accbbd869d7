"""Offers calls to `__torch_function__` of arguments and modes, before an op or a composite runs.

See Note [Calls that others take over] in core/torch_function.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar

from ..core.device import Device
from ..core.dtypes import DType
from ..core.errors import raise_out_of_memory
from ..core.folded_frames import fold
from ..core.torch_function import (
    NEVER_ASKED,
    NOT_TAKEN,
    mode_is_open,
    offer,
    offer_operator,
    offer_to_mode,
    takes_over,
)
from ..graph.modes import modes
from ..tensor.layout import Size
from ..tensor.subclasses import offered_as
from ..tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

# Names of parameters that take several tensors in a list or tuple.
MANY = frozenset({"coordinates", "given", "indices", "matrices", "operands", "tensors"})
# The functions that themselves search their lists for subclasses of Tensor.
LOOKING = frozenset({"cat", "stack"})
# Common argument types, none of which overrides calls.
_USUAL = frozenset({*NEVER_ASKED, DType, Device, Size, tuple, list})
# Queries about any value, and functions that make a new tensor from any data. Their calls are never
# offered.
IGNORED = frozenset({"as_tensor", "asarray", "is_storage", "is_tensor", "tensor"})


def none_overrides(values: Iterable[Any]) -> bool:
    """Return True if all values are of classes that are known not to override calls. If the result
    is False, a class may or may not override calls.
    """
    return NEVER_ASKED.issuperset(map(type, values))


def overridable(function: F) -> F:
    """Return a function that offers each call to overrides, and then runs `function`."""
    return _offered(function, _USUAL.issuperset)


def overridable_method(function: F) -> F:
    """Return a method that offers each call to overrides, and then runs a hand-written method. It
    raises TypeError if its first argument is not a Tensor.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args and not isinstance(args[0], Tensor):
            name, given = function.__name__, type(args[0]).__name__
            raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {given}")
        return function(*args, **kwargs)

    return overridable(call)  # type: ignore[return-value]


def overridable_by_modes(function: F) -> F:
    """Return a function that offers each call to the thread's mode, and then runs `function`."""
    return _offered(function, None)


def _offered(function: F, are_usual: Callable[[Iterable[type]], bool] | None) -> F:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if modes.tracers or (
                are_usual is not None and (kwargs or not are_usual(map(type, args)))
            ):
                found = (offer_to_mode if are_usual is None else offer)(call, args, kwargs)
                if found is not NOT_TAKEN:
                    return found
            return function(*args, **kwargs)
        except Exception as error:
            fold(error)
            raise

    return call  # type: ignore[return-value]


def offer_op(op: Any, operands: Sequence[Any], attributes: Sequence[Any], out: Any) -> Any:
    """Offer a call of op to overrides, as a call of `offered_as` or of its public function. Return
    a result or NOT_TAKEN.
    """
    if not mode_is_open() and none_overrides((*operands, out)):
        return NOT_TAKEN
    if not op.homes and op.offered_as is None:
        return NOT_TAKEN
    args, kwargs = arguments_of(op, operands, attributes)
    if out is not None:
        kwargs["out"] = out
    return offer(op.offered_as or op.public, args, kwargs)


def arguments_of(
    op: Any, operands: Sequence[Any], attributes: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments for op's public function: required ones by position, others by name if
    they differ from their defaults.
    """
    values = dict(zip((*op.tensors, *op.attributes), (*operands, *attributes), strict=True))
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in op.parameters.values():
        value = values[parameter.name]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            args += value
        elif parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
            args.append(value)
        elif value is not parameter.default:
            kwargs[parameter.name] = value
    return tuple(args), kwargs


def operator_of(op: Any, name: str, *, swapped: bool = False) -> Callable[..., Any]:
    """Return the general path of an operator of op, which offers calls under the operator's name.
    If `swapped` is true, the operands come in the opposite order.
    """

    def general(operands: tuple[Any, ...], numbers: tuple[Any, ...] = (), out: Any = None) -> Any:
        try:
            if mode_is_open() or not none_overrides(operands):
                args = operands[::-1] if swapped else operands
                found = offer_operator(getattr(Tensor, offered_as(name)), args, {})
                if found is not NOT_TAKEN:
                    return found
            return op.general(operands, numbers, out)
        except MemoryError as error:
            raise_out_of_memory(error)
        except Exception as error:
            fold(error)
            raise

    return general


def classes_in_lists(args: Iterable[Any]) -> set[type]:
    """Return the classes of the items in those arguments that are lists or tuples."""
    return {type(one) for value in args if isinstance(value, list | tuple) for one in value}


def any_overrides(classes: Iterable[Any]) -> bool:
    """Return whether one of the classes overrides calls."""
    return any(isinstance(kind, type) and takes_over(kind) for kind in classes)
