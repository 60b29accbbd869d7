"""Decides which functions and classes other workers may use here: all, or only permitted ones."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeVar

from fastdist.core.errors import ForbiddenFunctionError, MessageError
from fastdist.core.folded_frames import folds
from fastdist.core.moved_modules import current_name, current_path, own_name

from .metadata import MAX_NESTING
from .pickle_uses import Use, error_use, free_use, plain_use

OPEN: Final = "open"
STRICT: Final = "strict"

T = TypeVar("T", bound=Callable[..., Any])

# Guards the tables below. Look-ups do not take this lock: a table only gains entries or is cleared.
_rules_lock = threading.Lock()
_exported: set[tuple[str, str]] = set()
_allowed: set[str] = set()
_mode = OPEN
_nesting = MAX_NESTING
# Cache of names in calls, in open mode: the encoded name -> (module, name).
_named: dict[bytes, tuple[str, str]] = {}
_MAX_NAMED: Final = 4096


@folds
def export(function: T) -> T:
    """Decorate a function or class that other workers may name in strict mode.

    Args:
        function: The function or class.

    Example:
        >>> @rpc.export
        ... def add_one(x):
        ...     return x + 1
    """
    with _rules_lock:
        _exported.add(own_name(function))
    return function


def export_later(module: str, *names: str) -> None:
    """Export functions of a module that is loaded only when another worker names one of them."""
    with _rules_lock:
        _exported.update((module, name) for name in names)


@folds
def allow(name: str) -> None:
    """Let other workers name everything that a module defines ("pkg.mod"), or one object in it.

    Note    names that the module only imported are not included, such as `os.system`

    Args:
        name: The module, or the module and the name in it.

    Example:
        >>> rpc.allow("math.sqrt")
    """
    with _rules_lock:
        _allowed.add(current_path(name))


def set_mode(mode: str, nesting: int = MAX_NESTING) -> None:
    """Set OPEN or STRICT mode for this process, and the nesting limit of bodies in STRICT."""
    global _mode, _nesting
    if mode not in (OPEN, STRICT):
        raise ValueError(f"unknown mode {mode!r}; known: {OPEN!r}, {STRICT!r}")
    with _rules_lock:
        _mode, _nesting = mode, nesting
        _named.clear()


def max_nesting() -> int | None:
    """Return the nesting limit of bodies in strict mode; None in open mode, which has no limit."""
    return None if _mode == OPEN else _nesting


def find(module: str, name: str) -> Any:
    """Return the object that another worker named.

    Raises  ForbiddenFunctionError if strict mode does not permit the object; AttributeError or
            ImportError if the object does not exist in this process
    """
    if _mode == OPEN:
        return _look_up(module, name)
    return examine(module, name)[0]


def examine(module: str, name: str) -> tuple[Any, Use]:
    """Return the object that a body names, and its permitted uses; open mode permits all uses.

    Raises  the errors of find
    """
    plain = plain_use(module, name)
    if _mode == OPEN or plain is not None:
        found = _look_up(module, name)
        return found, free_use(found) if plain is None else plain
    module, name = current_name(module, name)
    if _is_to_come(sys.modules.get(module), name):
        __import__(module, level=0)  # waits until the importing thread has made all exports
    if (module, name) in _exported or f"{module}.{name}" in _allowed:
        found = _look_up(module, name)
        return found, free_use(found)
    found = _look_up(module, name) if module in _allowed else _without_import(module, name)
    if _is_defined_as(found, module, name):
        if module in _allowed:
            return found, free_use(found)
        if isinstance(found, type) and issubclass(found, BaseException):
            return found, error_use(found)
    raise ForbiddenFunctionError(
        f"{module}.{name} may not be used by other workers: this worker runs in strict mode; "
        f"decorate it with @rpc.export, or call rpc.allow({module!r}), on this worker"
    )


def find_function(name: bytes) -> Any:
    """Return the function that a call names as b"module:name".

    Raises  the errors of find and require_callable_by_others
    """
    known = _named.get(name)
    if known is not None:
        # The name is looked up each time, as pickle does: it may have been bound to another object.
        function = getattr(sys.modules.get(known[0]), known[1], None)
        if function is not None:
            return function
    try:
        module_name, _, attribute = name.decode().partition(":")
    except UnicodeDecodeError as error:
        raise MessageError(f"{name[:40]!r} is not the name of a function") from error
    function = find(module_name, attribute)
    require_callable_by_others(function)
    with _rules_lock:
        if _mode == OPEN and "." not in attribute:
            if len(_named) >= _MAX_NAMED:
                _named.clear()
            _named[name] = module_name, attribute
    return function


def require_callable_by_others(function: object) -> None:
    """Refuse to call objects that strict mode permits only to load: exceptions and plain types.

    Raises  ForbiddenFunctionError
    """
    if _mode == OPEN:
        return
    # If `function` is a bound method of an object that this worker made, the method's function is
    # checked. A method may also be called if the class that defines it is exported (`outer`).
    inner = getattr(function, "__func__", function)
    module = getattr(inner, "__module__", None) or ""
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    if isinstance(inner, type):
        module, name = own_name(inner)
    known = (module, name) in _exported or module in _allowed or f"{module}.{name}" in _allowed
    outer = (module, name.rpartition(".")[0]) in _exported
    if not known and not (outer and isinstance(inner, FunctionType)):
        raise ForbiddenFunctionError(
            f"{module}.{name} may not be called by other workers: this worker runs in strict mode; "
            "decorate it with @rpc.export on this worker"
        )


def _look_up(module: str, name: str) -> Any:
    found = sys.modules.get(module)
    if found is None or _is_to_come(found, name):
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


def _is_to_come(module: object, name: str) -> bool:
    """Return whether another thread is importing the module and has not defined the name yet.

    If so, an import of the module waits until that thread is done.
    """
    is_under_way = getattr(getattr(module, "__spec__", None), "_initializing", False)
    return is_under_way and name.partition(".")[0] not in vars(module)


def _is_defined_as(found: object, module: str, name: str) -> bool:
    """Return whether a module defines this function or class, rather than only imports it."""
    if isinstance(found, type):
        return own_name(found) == (module, name)
    made_by = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    return made_by == (module, name)


def _without_import(module: str, name: str) -> Any:
    """Return an attribute of a loaded module, or None, without running any code of the module.

    Note    importing a module runs code, and reading an attribute with getattr may run code. In
            strict mode both are done only for permitted names
    """
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found
