"""What other workers may run and load here: everything, or only what was exported and allowed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeVar

from fastdist.core.errors import ForbiddenFunctionError

OPEN: Final = "open"
STRICT: Final = "strict"

T = TypeVar("T", bound=Callable[..., Any])

# What strict mode always loads: plain values, and how NumPy spells its arrays and numbers.
_PLAIN: Final = frozenset(
    {
        ("builtins", name)
        for name in (
            *("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list"),
            *("object", "range", "set", "slice", "str", "tuple", "NotImplemented", "Ellipsis"),
        )
    }
    | {
        ("collections", "OrderedDict"),
        ("collections", "deque"),
        ("collections", "defaultdict"),
        ("datetime", "date"),
        ("datetime", "datetime"),
        ("datetime", "timedelta"),
        ("decimal", "Decimal"),
        ("fractions", "Fraction"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
    }
)

# Guards those below it; look-ups read without it, entries only appear, or all go.
_rules_lock = threading.Lock()
_exported: set[tuple[str, str]] = set()
_allowed: set[str] = set()
_mode = OPEN
# What calls have named in open mode, and found: the name as it came -> (module, name).
_named: dict[bytes, tuple[str, str]] = {}
_MAX_NAMED: Final = 4096


def export(function: T) -> T:
    """Decorate a function or class that other workers may name in strict mode."""
    with _rules_lock:
        _exported.add((function.__module__, function.__qualname__))
    return function


def allow(name: str) -> None:
    """Let other workers name everything in a module ("pkg.mod") or one thing ("pkg.mod.f")."""
    with _rules_lock:
        _allowed.add(name)


def set_mode(mode: str) -> None:
    """Choose between OPEN and STRICT for this process."""
    global _mode
    if mode not in (OPEN, STRICT):
        raise ValueError(f"unknown mode {mode!r}; known: {OPEN!r}, {STRICT!r}")
    with _rules_lock:
        _mode = mode
        _named.clear()


def find(module: str, name: str) -> Any:
    """Return what another worker named.

    Raises  ForbiddenFunctionError if strict mode does not let it through; AttributeError or
            ImportError if there is no such thing here
    """
    if _mode == OPEN:
        return _look_up(module, name)
    if (module, name) in _PLAIN or (module, name) in _exported:
        return _look_up(module, name)
    if module in _allowed or f"{module}.{name}" in _allowed:
        return _look_up(module, name)
    found = _without_import(module, name)
    if isinstance(found, type) and issubclass(found, BaseException):
        return found
    raise ForbiddenFunctionError(
        f"{module}.{name} may not be used by other workers: this worker runs in strict mode; "
        f"decorate it with @rpc.export, or call rpc.allow({module!r}), on this worker"
    )


def find_function(name: bytes) -> Any:
    """Return the function that a call names as b"module:name".

    Raises  as find and require_callable_by_others
    """
    known = _named.get(name)
    if known is not None:
        # Looked up each time, as by pickle: the name may have come to mean something else.
        function = getattr(sys.modules.get(known[0]), known[1], None)
        if function is not None:
            return function
    module_name, _, attribute = name.decode().partition(":")
    function = find(module_name, attribute)
    require_callable_by_others(function)
    with _rules_lock:
        if _mode == OPEN and "." not in attribute:
            if len(_named) >= _MAX_NAMED:
                _named.clear()
            _named[name] = module_name, attribute
    return function


def require_callable_by_others(function: object) -> None:
    """Refuse to run what strict mode lets others load, but not call: exceptions and plain types.

    Raises  ForbiddenFunctionError
    """
    if _mode == OPEN:
        return
    # A bound method of an object that this worker made is as free as the class it belongs to.
    inner = getattr(function, "__func__", function)
    module = getattr(inner, "__module__", None) or ""
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    known = (module, name) in _exported or module in _allowed or f"{module}.{name}" in _allowed
    outer = (module, name.rpartition(".")[0]) in _exported
    if not known and not (outer and isinstance(inner, FunctionType)):
        raise ForbiddenFunctionError(
            f"{module}.{name} may not be called by other workers: this worker runs in strict mode; "
            "decorate it with @rpc.export on this worker"
        )


def _look_up(module: str, name: str) -> Any:
    found = sys.modules.get(module)
    if found is None:
        __import__(module, level=0)
        found = sys.modules[module]
    try:
        if "." not in name:
            return getattr(found, name)
        for part in name.split("."):
            if part == "<locals>":
                raise AttributeError(
                    f"{module}.{name} is local to a function: no other worker can find it"
                )
            found = getattr(found, part)
    except AttributeError as error:
        error.add_note(
            f"Another worker sent {module}.{name} by its name, which this one looks up: define it "
            "at the top level of a module that both import, before init_rpc is called."
        )
        raise
    return found


def _without_import(module: str, name: str) -> Any:
    # Importing runs code: in strict mode only allowed modules are imported for others.
    return None if module not in sys.modules else _look_up_or_none(module, name)


def _look_up_or_none(module: str, name: str) -> Any:
    try:
        return _look_up(module, name)
    except AttributeError:
        return None
