"""Splits exceptions into parts, and rebuilds them without the code that their classes define."""

# Note [Exceptions as values]
# By default an exception is pickled as its class and its `args`, and unpickling calls the class
# with these `args`. That fails for every class whose __init__ takes other arguments than it passes
# to Exception, and loses values in slots. It also lets a sender run the __init__ of any loaded
# exception class with arguments of the sender's choice. So exceptions have their own encoding: the
# object is created by the __new__ and __init__ of its builtin base exception, and its attributes
# are restored. Objects of classes that define pickling methods are pickled by these methods.

from __future__ import annotations

import copy
import copyreg
from typing import Any, Final

from fastdist.core.errors import FastdistError, MessageError, RpcError

# The methods by which a class controls pickle and copy.
_OWN_WAYS: Final = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs__")
# Attributes that are neither in `args` nor in `__dict__`, but are arguments of the builtin
# __init__.
_NAMED_PARTS: Final[tuple[tuple[type[BaseException], tuple[str, ...]], ...]] = (
    (ImportError, ("name", "path")),
    (AttributeError, ("name",)),
    (NameError, ("name",)),
)
_MOST_COLUMNS: Final = 1 << 20
_HEAPTYPE: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE: created by a class statement


def says_how_it_pickles(kind: type[BaseException]) -> bool:
    """Return whether a class of exceptions defines its own pickling, such as __reduce__."""
    # The methods of FastdistError do not count, as they do the same as pickle's default.
    own = (base for base in _mro(kind) if not _is_builtin(base) and base is not FastdistError)
    return any(name in vars(base) for base in own for name in _OWN_WAYS)


def reduce_error(error: BaseException) -> tuple[Any, ...]:
    """Return the function and arguments to rebuild an exception, its state, and a state setter."""
    kind = type(error)
    args: Any = error.args
    if isinstance(error, OSError):
        args = OSError.__reduce__(error)[1]  # this puts the file names back into the arguments
    elif isinstance(error, BaseExceptionGroup):
        args = (error.message, tuple(error.exceptions))
    named: dict[str, Any] = {}
    for base, names in _NAMED_PARTS:
        if isinstance(error, base):
            named = {name: value for name in names if (value := getattr(error, name, None))}
    slots = {name: getattr(error, name) for name in _slots(kind) if hasattr(error, name)}
    state = (dict(error.__dict__), slots)
    return rebuild_error, (kind, args, named), state, None, None, set_error_state


def rebuild_error(
    kind: type[BaseException], args: tuple[Any, ...], named: dict[str, Any]
) -> BaseException:
    """Return an exception of this class with these `args`, whatever its own __init__ takes.

    Raises  MessageError if `kind` is not an exception class or does not fit the parts
    """
    if not isinstance(kind, type) or not issubclass(kind, BaseException):
        raise MessageError(f"{type(kind).__name__} is not a class of exceptions")
    base = _builtin_base(kind)
    if type(args) is not tuple or type(named) is not dict or not _fit(base, args):
        raise MessageError(f"the received parts of a {kind.__name__} do not fit it")
    try:
        error: BaseException = base.__new__(kind, *args)
    except (TypeError, ValueError) as failure:
        raise MessageError(f"the parts of a {kind.__name__} do not fit it: {failure}") from failure
    try:
        _builtin_init(kind)(error, *args, **named)
    except (TypeError, ValueError):
        # The class's own __init__ passed other arguments than `args` to its builtin base, whose
        # __init__ refuses `args`. So only set the attribute `args`.
        error.args = args
    if issubclass(base, BaseExceptionGroup):
        error.args = (args[0], list(args[1]))
    return error


def set_error_state(error: BaseException, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Restore the contents of an exception's instance dictionary and slots.

    Raises  MessageError for an invalid state
    """
    attributes, slots = state
    known = _slots(type(error))
    if not all(isinstance(name, str) for name in attributes) or not all(
        name in known for name in slots
    ):
        raise MessageError(f"a state that no {type(error).__name__} has")
    error.__dict__.update(attributes)
    for name, value in slots.items():
        BaseException.__setattr__(error, name, value)


def copy_error(error: BaseException) -> BaseException:
    """Return a copy of an exception with its notes and attributes, but without its traceback."""
    if says_how_it_pickles(type(error)):
        return copy.copy(error)
    rebuild, parts, state, *_, set_state = reduce_error(error)
    copied: BaseException = rebuild(*parts)
    set_state(copied, state)
    return copied


def _mro(kind: type) -> tuple[type, ...]:
    return type.__dict__["__mro__"].__get__(kind)  # type: ignore[no-any-return]


def _is_builtin(kind: type) -> bool:
    return not kind.__flags__ & _HEAPTYPE


def _builtin_base(kind: type[BaseException]) -> Any:
    """Return the builtin exception class that determines a class's memory layout."""
    base: type = kind
    while not _is_builtin(base):
        base = type.__dict__["__base__"].__get__(base)
    return base


def _builtin_init(kind: type[BaseException]) -> Any:
    """Return the first __init__ of a builtin class in the method resolution order."""
    found = (vars(base).get("__init__") for base in _mro(kind) if _is_builtin(base))
    return next(init for init in found if init is not None)


def _slots(kind: type) -> list[str]:
    return copyreg._slotnames(kind)  # type: ignore[attr-defined,no-any-return]


def _fit(base: type[BaseException], args: tuple[Any, ...]) -> bool:
    """Return whether args are safe for a builtin's __init__, which does not check all of them."""
    if issubclass(base, UnicodeError) and len(args) >= 4:
        # Python 3.11 reads these arguments without checking their number.
        whole, start, end = args[-4:-1]
        is_whole = type(whole) in (str, bytes) and type(start) is int and type(end) is int
        return is_whole and 0 <= start <= end <= len(whole)
    if issubclass(base, SyntaxError) and len(args) == 2:
        # Two of the numbers are columns: a traceback prints a caret for each column between them.
        return type(args[1]) is tuple and all(
            type(part) is not int or abs(part) <= _MOST_COLUMNS for part in args[1]
        )
    if issubclass(base, BaseExceptionGroup):
        return len(args) == 2 and type(args[1]) is tuple
    return True


def fresh(error: Exception) -> Exception:
    """Return a copy, to be raised by one call, of an error that ends all calls to a worker."""
    # Many calls in many threads fail with one error; each needs a separate traceback.
    return copy.copy(error) if isinstance(error, RpcError) else error
