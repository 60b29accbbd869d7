"""Says which argument of a failed call was of the wrong kind, in the user's words.

Functions check nothing that their own work would find. When that work fails with an error of
Python's or NumPy's ("'str' object has no attribute 'layout'"), the arguments are held against the
signature, and the first that does not fit is named. A call that succeeds pays nothing for this.
"""

from __future__ import annotations

import dis
import inspect
import numbers
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any, TypeVar

from ..core.device import Device
from ..core.dtypes import DType
from ..core.errors import DTypeError, FastdistError
from ..core.generator import Generator
from ..graph.modes import modes
from ..tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

# What Python and NumPy raise at arguments of the wrong kind.
UNCLEAR = (AttributeError, TypeError, ValueError, OverflowError, KeyError, Warning)


# What NumPy calls these parameters; PyTorch takes both names.
NUMPY_NAMES = {"dim": "axis", "keepdim": "keepdims"}


class ArgumentError(DTypeError, ValueError):
    """An argument of the wrong kind, or a number that nothing can hold."""


def checked(function: F, cast: Callable[..., Any] | None = None) -> F:
    """Return function with errors that name the argument at fault; cast, if there is one, may
    change the arguments of a call while modes.tracers is not zero.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except UNCLEAR as error:
            ours = _in_our_names_or_told(function, args, kwargs, error)
            if ours is None:
                raise
        # Python refused the names, so the function has not begun to run.
        return call(*ours[0], **ours[1])

    def cast_call(*args: Any, **kwargs: Any) -> Any:
        # As many frames as without: warnings count them.
        if modes.tracers and cast is not None:
            args, kwargs = cast(args, kwargs)
        try:
            return function(*args, **kwargs)
        except UNCLEAR as error:
            ours = _in_our_names_or_told(function, args, kwargs, error)
            if ours is None:
                raise
        return call(*ours[0], **ours[1])

    return wraps(function)(call if cast is None else cast_call)  # type: ignore[return-value]


def _in_our_names_or_told(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments under other names; None where the error says what is wrong.

    Raises  ArgumentError that says it, where the error does not
    """
    ours = _in_our_names(function, args, kwargs) if kwargs else None
    fault = None if ours is not None or is_clear(error) else _fault_of_call(function, args, kwargs)
    if fault is not None:
        raise ArgumentError(fault) from error
    return ours


def _in_our_names(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments with `axis` called `dim` and so on, and with `size=(2, 3)` in the place
    of `*size`; None if nothing is called otherwise.
    """
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    listed = next((p.name for p in parameters.values() if p.kind is p.VAR_POSITIONAL), None)
    if listed in kwargs and len(args) == list(parameters).index(listed):
        rest = {key: value for key, value in kwargs.items() if key != listed}
        return (*args, kwargs[listed]), rest
    names = {
        alias: name
        for name, alias in NUMPY_NAMES.items()
        if alias in kwargs and alias not in parameters and name in parameters
    }
    if not names:
        return None
    for alias, name in names.items():
        if name in kwargs:
            raise TypeError(
                f"{function.__name__}() got both {name!r} and {alias!r}, two names of one argument"
            )
    return args, {names.get(key, key): value for key, value in kwargs.items()}


def is_clear(error: BaseException) -> bool:
    """Return whether a `raise` of fastdist's own made the error, with words for the user."""
    if isinstance(error, FastdistError):
        return True
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    frame = last.tb_frame
    ours = str(frame.f_globals.get("__name__")).startswith("fastdist")
    return ours and frame.f_code.co_code[last.tb_lasti] == _RAISE


_RAISE = dis.opmap["RAISE_VARARGS"]


def _fault_of_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str | None:
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None  # Python's own error says it
    return find_fault(function.__name__, signature.parameters, given)


def find_fault(
    function: str, parameters: Mapping[str, inspect.Parameter], given: Mapping[str, Any]
) -> str | None:
    """Return what is wrong with the first argument that does not fit its annotation, or None."""
    for name, value in given.items():
        parameter = parameters[name]
        wanted = kinds_of(name, str(parameter.annotation))
        values = (value,)
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            values, wanted = value, tuple(kind for kind in wanted if kind != "None")
        for one in values:
            fault = _fault_of(one, wanted)
            if fault is not None:
                return f"{function}(): argument {name!r} {fault}"
    return None


@lru_cache(maxsize=1024)
def kinds_of(name: str, annotation: str) -> tuple[str, ...]:
    """Return the kinds of value that a parameter takes."""
    if annotation == "Any":
        return _BY_NAME.get(name, ("Any",))
    return tuple(part.strip() for part in annotation.split("|"))


# What parameters of these names take wherever their annotation leaves it open.
_BY_NAME = {
    "alpha": ("float",),
    "beta": ("float",),
    "correction": ("float", "None"),
    "device": ("Device", "None"),
    "end": ("float", "None"),
    "start": ("float",),
    "step": ("float",),
    "dim": ("Sizes", "None"),
    "dims": ("Nested", "None"),
    "fill_value": ("float",),
    "dtype": ("DType", "None"),
    "high": ("float", "None"),
    "indices": ("Tensors", "None"),
    "normalized_shape": ("Shape",),
    "out": ("Tensor", "tuple", "None"),
    "pad": ("Shape",),
    "repeats": ("Sizes", "Tensor"),
    "shape": ("Sizes",),
    "shifts": ("Sizes",),
    "size": ("Sizes", "None"),
    "sizes": ("Sizes",),
    "split_size_or_sections": ("Sizes",),
    "tensors": ("Tensors",),
}


def _fault_of(value: Any, wanted: tuple[str, ...]) -> str | None:
    known = [kind for kind in wanted if kind in _FITS]
    if len(known) < len(wanted):
        return None
    if any(_FITS[kind](value) for kind in known):
        return f"is out of range: {_short(value)}" if _is_huge(value) else None
    expected = " or ".join(_WORDS.get(kind, kind) for kind in known)
    return f"must be {expected}, not {_short(value)}"


def _short(value: Any) -> str:
    text = "" if isinstance(value, Tensor) else repr(value)
    name = type(value).__name__
    return name if value is None or not text or len(text) > 40 else f"{name} {text}"


def _is_huge(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(_is_huge(one) for one in value)
    return isinstance(value, int) and abs(value) >> 62 != 0


def _is_integer(value: Any) -> bool:
    if isinstance(value, Tensor):
        layout = value.layout
        return layout.numel == 1 and not layout.dtype.is_floating_point
    return isinstance(value, numbers.Integral)


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.layout.numel == 1
    return isinstance(value, numbers.Real)


def _are_sizes(value: Any) -> bool:
    return _is_integer(value) or _are_integers(value)


def _are_integers(value: Any) -> bool:
    return isinstance(value, tuple | list | range) and all(_is_integer(one) for one in value)


def _are_nested_integers(value: Any) -> bool:
    if isinstance(value, tuple | list | range):
        return all(_are_nested_integers(one) for one in value)
    return _is_integer(value)


def _are_tensors(value: Any) -> bool:
    if isinstance(value, Tensor):
        return True
    return isinstance(value, tuple | list) and all(_are_tensors(one) for one in value)


_FITS: dict[str, Callable[[Any], bool]] = {
    "DType": lambda value: isinstance(value, DType | type),
    "Device": lambda value: isinstance(value, Device | str | int),
    "Dims": lambda value: value is None or _are_sizes(value),
    "Generator": lambda value: isinstance(value, Generator),
    "Nested": _are_nested_integers,
    "None": lambda value: value is None,
    "Shape": _are_integers,
    "Sizes": _are_sizes,
    "Tensor": lambda value: isinstance(value, Tensor),
    "Tensors": _are_tensors,
    "bool": lambda value: isinstance(value, bool) or _is_integer(value),
    "float": _is_number,
    "int": _is_integer,
    "str": lambda value: isinstance(value, str),
    "tuple": lambda value: isinstance(value, tuple | list),
    "tuple[int, ...]": _are_integers,
}
_WORDS = {
    "DType": "a dtype such as fastdist.float32",
    "Device": "a device such as 'cpu'",
    "Dims": "an integer or a tuple of integers",
    "Generator": "a Generator",
    "Nested": "an integer or tuples of integers",
    "None": "None",
    "Shape": "a tuple of integers",
    "Sizes": "an integer or a tuple of integers",
    "Tensor": "a Tensor",
    "Tensors": "a sequence of Tensors",
    "bool": "a bool",
    "float": "a number",
    "int": "an integer",
    "str": "a string",
    "tuple": "a tuple",
    "tuple[int, ...]": "a tuple of integers",
}
