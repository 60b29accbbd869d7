"""The permitted uses of a named object in a pickle: a reference to it, or calls in one form."""

# Note [What is made of what is named]
# In strict mode the classes of plain values may only be called in the forms that our Pickler
# writes: `range` with three numbers, for example, but not `list` with a range. A pickle may not set
# a state into the result of a rebuilding function of this package, or of a user's function: NumPy
# trusts a state that is set into an array or a dtype, and a function's result may be an object that
# other code uses. A state may be set only into an instance that the same pickle creates, and whose
# class is exported, allowed or an exception class. The method that reads the state must be written
# in Python, because classes written in C do not check it.

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from types import FunctionType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from fastdist.tensor.tensor import Tensor

from .error_parts import rebuild_error, says_how_it_pickles, set_error_state

# An item of the scan's stack: [kind, depth, cost of hashing, ...]; pickle_scan.py has the details.
Item: TypeAlias = "list[Any]"

# The kind of an item is a set of bits. These bits say which value the item is:
SINGLE, INT, FLOAT, TEXT, BYTES, BYTEARRAY, TUPLE, NAMED, MADE, ERROR = (1 << n for n in range(10))
# These bits say what may be added to the value:
ITEMS, KEYS, MEMBERS, STATE = (1 << n for n in range(10, 14))

REDUCE, NEWOBJ, NEWOBJ_EX = b"R\x81\x92"


class Use(NamedTuple):
    """The permitted use of a named object: opcodes that may call it, arguments, kind of the result.

    `takes` checks the arguments; None accepts all. With `is_bounded`, the sizes of the results
    count towards the limit in pickle_scan.py. Users' functions and classes have no such limit.
    """

    opcodes: bytes = b""
    takes: Callable[[list[Item]], bool] | None = None
    gives: int = MADE
    is_bounded: bool = True


NAME_ONLY: Final = Use()
REBUILDS: Final = Use(b"R")
# All uses, for a reader that creates only placeholders.
ANYTHING: Final = Use(b"R\x81\x92", gives=MADE | ITEMS | KEYS | MEMBERS | STATE)


def _of(*kinds: int) -> Callable[[list[Item]], bool]:
    def takes(args: list[Item]) -> bool:
        return len(args) == len(kinds) and all(
            arg[0] & kind for arg, kind in zip(args, kinds, strict=True)
        )

    return takes


def _either(*ways: Callable[[list[Item]], bool]) -> Callable[[list[Item]], bool]:
    return lambda args: any(way(args) for way in ways)


def _numbers(count: int) -> Callable[[list[Item]], bool]:
    # The numbers have a limited length: the constructors of these classes may divide, which takes
    # time quadratic in the length.
    return lambda args: (
        len(args) == count
        and all(arg[0] == INT and arg[2] <= _MOST_BYTES_OF_A_NUMBER for arg in args)
    )


def _date(size: int, *counts: int) -> Callable[[list[Item]], bool]:
    return lambda args: len(args) in counts and args[0][0] == BYTES and args[0][4] == size


def _deque(args: list[Item]) -> bool:
    return not args or (args[0][0] == TUPLE and not args[0][3] and len(args) == 2)


_MOST_BYTES_OF_A_NUMBER: Final = 4096
_ANY: Final = -1
_ONLY_NAMED: Final = (
    *("bool", "bytearray", "bytes", "dict", "float", "frozenset", "int", "list", "set", "str"),
    *("tuple", "NotImplemented", "Ellipsis"),
)
# Names that strict mode always loads. NumPy's values have their own encoding: see numpy_values.py.
_PLAIN: Final = {("builtins", name): NAME_ONLY for name in _ONLY_NAMED} | {
    ("builtins", "complex"): Use(b"R\x81", _of(FLOAT, FLOAT)),
    ("builtins", "object"): Use(b"\x81", _of()),
    ("builtins", "range"): Use(b"R", _numbers(3)),
    ("builtins", "slice"): Use(b"R", _of(_ANY, _ANY, _ANY)),
    ("collections", "OrderedDict"): Use(b"R", _of(), MADE | KEYS),
    ("collections", "deque"): Use(b"R", _deque, MADE | ITEMS),
    ("collections", "defaultdict"): Use(b"R", _either(_of(), _of(NAMED | SINGLE)), MADE | KEYS),
    ("datetime", "date"): Use(b"R", _date(4, 1)),
    ("datetime", "datetime"): Use(b"R", _date(10, 1, 2)),
    ("datetime", "timedelta"): Use(b"R", _numbers(3)),
    ("decimal", "Decimal"): Use(b"R", _of(TEXT)),
    ("fractions", "Fraction"): Use(b"R", _numbers(2)),
}
# Classes whose instances trust a state: they are written in C, or keep an array and a separate
# description of it.
_BELIEVERS: Final = (np.ndarray, np.generic, np.dtype, Tensor, Enum)
# Classes whose __init__ does not check the numbers in its arguments, or iterates over an argument.
_PARSERS: Final = (UnicodeError, SyntaxError, BaseExceptionGroup)


def plain_use(module: str, name: str) -> Use | None:
    """Return the permitted use of a plain value's class; None for all other names."""
    return _PLAIN.get((module, name))


def error_use(kind: type[BaseException]) -> Use:
    """Return the permitted use of an exception class that is neither exported nor allowed.

    Note    a pickle may call a class that defines its own pickling. Exceptions of all other classes
            are rebuilt from their parts (error_parts.py)
    """
    if not says_how_it_pickles(kind) or issubclass(kind, _PARSERS):
        return NAME_ONLY
    return Use(b"R", None, MADE | ERROR | _state_of(kind))


def free_use(found: object) -> Use:
    """Return the permitted use of an exported or allowed name."""
    if isinstance(found, type):
        takes = 0 if issubclass(found, _BELIEVERS) else ITEMS | KEYS | _state_of(found)
        return Use(b"R\x81\x92", None, MADE | takes, is_bounded=False)
    return Use(b"R", None, MADE, is_bounded=False) if callable(found) else NAME_ONLY


def rebuilder_use(rebuild: Callable[..., Any]) -> Use:
    """Return the permitted use of a function that rebuilds values of this package's encoding."""
    return _OF_ERRORS.get(rebuild, REBUILDS)


_OF_ERRORS: Final[dict[Any, Use]] = {
    rebuild_error: Use(b"R", None, MADE | ERROR),
    # A state may be set only into an exception that the pickle itself has rebuilt, not into an
    # exception that a function returned.
    set_error_state: Use(b"R", _of(ERROR, TUPLE), SINGLE),
}


def _state_of(kind: type) -> int:
    """Return STATE if a pickle may set a state into an instance of this class, else 0."""
    setters = [vars(base)["__setstate__"] for base in kind.__mro__ if "__setstate__" in vars(base)]
    is_read_by_python = all(
        isinstance(setter, FunctionType) or setter is BaseException.__setstate__
        for setter in setters
    )
    return STATE if is_read_by_python else 0
