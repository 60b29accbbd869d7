"""Compiled kernels by name: loaded from stored object code, or compiled by Numba.

The name of a kernel has three parts: a module of kernels/cpu, a function of this module that makes
the kernel (the maker), and the arguments of the maker. The module imports Numba, so the module is
imported only if the store does not have the kernel. Then one process of the host imports Numba and
compiles the kernel, and the others wait for the file that this process stores.
"""

# Note [Kernels without Numba] Importing Numba takes 0.5 s of CPU time and 100 MB, and the first
# kernel that it loads takes 0.2 s more. Object code is mapped and linked in 0.2 to 0.6 ms (AMD
# EPYC, Zen 4). A kernel that needs Numba at run time (a symbol that machine_code.py does not know)
# stays in Numba's own cache, as do all kernels on systems where can_load_objects is false.

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeVar

import numpy as np

from fastdist.core.errors import KernelError
from fastdist.instrumentation.time_ranges import time_range
from fastdist.system.unused_memory import release_unused_memory

from . import object_store
from .machine_code import MachineCode, can_execute
from .object_file import BrokenObjectError
from .object_store import Stored
from .source_stamp import can_load_objects, machine_stamp, module_stamp
from .waiting import compiling

_logger = logging.getLogger(__name__)

Kernel = TypeVar("Kernel")
# The name, in object code, of the function that callers in Python or C call.
ENTRY: Final = "fastdist_entry"
_PACKAGE: Final = __package__.rpartition(".")[0]


class Recorder:
    """Records the object code that a maker compiles, or why Numba must store the kernel instead.

    `exact` requests a function that returns NotImplemented if its arguments do not have the types
    of the signature.
    """

    def __init__(self, *, exact: bool) -> None:
        self.exact = exact
        self.codes: list[bytes] = []
        self.why_numba = ""

    def load(self, data: bytes) -> MachineCode:
        """Load object code into memory, and record it."""
        self.codes.append(data)
        return MachineCode(data)

    def leave_to_numba(self, why: object) -> None:
        """Record why a kernel cannot be stored as object code."""
        self.why_numba = str(why)


class _State(threading.local):
    # The recorders of the makers that run in this thread, innermost last.
    recorders: ClassVar[list[Recorder | None]] = []

    def __init__(self) -> None:
        self.recorders = []  # type: ignore[misc]


_state = _State()
_found: dict[tuple[Any, ...], Any] = {}


def recorder() -> Recorder | None:
    """Return the recorder of the kernel that is being compiled; None if Numba's cache stores it."""
    recorders = _state.recorders
    return recorders[-1] if recorders else None


@contextlib.contextmanager
def _recording(one: Recorder | None) -> Iterator[None]:
    _state.recorders.append(one)
    try:
        yield
    finally:
        _state.recorders.pop()


class FoundLoop:
    """A loaded inner loop over contiguous memory, with the fields of compiler.Loop."""

    __slots__ = ("_code", "_sizes", "address", "elements_per_thread", "sizes_address", "was_cached")

    def __init__(self, code: MachineCode, itemsizes: Sequence[int], share: int) -> None:
        self._code = code
        self.address: int = code.address(ENTRY)
        self.was_cached = True
        self.elements_per_thread = share
        self._sizes = np.array(itemsizes, np.int64)
        self.sizes_address: int = self._sizes.ctypes.data


def find_function(module: str, maker: str, *given: Any) -> Callable[..., Any]:
    """Return the compiled function that the maker of a module returns: maker(*given).

    `module` is relative to kernels/cpu, such as "nn.window_loops". The arguments, and their repr,
    must be the same in each process for the same kernel. The function converts numbers like
    Python's int() and float(), and raises TypeError for arrays of types other than those in its
    signature.

    Thread  any
    """
    key = module, maker, repr(given)
    found: Callable[..., Any] | None = _found.get(key)
    if found is None:
        found = _find(key, lambda made: made(*given), _function_from)
    return found


def stored_function(module: str, maker: str, *given: Any) -> Callable[..., Any] | None:
    """Return the function of find_function if no compiler is needed, else None.

    Thread  any
    """
    found: Callable[..., Any] | None = _stored((module, maker, repr(given)), _function_from)
    return found


def find_loop(module: str, maker: str, *given: Any) -> Any:
    """Return the compiler.Loop, or an equivalent FoundLoop, that maker(*given) of a module returns.

    Thread  any
    """
    key = module, maker, repr(given)
    found = _found.get(key)
    if found is None:
        found = _find(key, lambda made: made(*given), _loop_from, _notes_of_loop)
    return found


def stored_loop(module: str, maker: str, *given: Any) -> Any:
    """Return the loop of find_loop if no compiler is needed, else None.

    Thread  any
    """
    return _stored((module, maker, repr(given)), _loop_from)


def _stored(key: tuple[str, str, str], from_code: Callable[[MachineCode, str], Any]) -> Any:
    found = _found.get(key)
    if found is None and can_load_objects():
        _, _, found = _load(key, from_code, exact=False)
    return found


def find_address(module: str, maker: str) -> int:
    """Call a module's maker, which returns a compiler.Callback; return its C function's address.

    Thread  any
    """
    key = module, maker, ""
    found: int | None = _found.get(key)
    if found is None:

        def make(made: Callable[[], Any]) -> int:
            callback = made()
            _kept.append(callback)
            address: int = callback.address
            return address

        found = _find(key, make, lambda code, _: code.address(ENTRY))
    return found


_kept: list[Any] = []


def is_stored(module: str, maker: str, *given: Any) -> bool:
    """Return whether find_address, or find_loop if arguments are given, needs no compiler."""
    return _is_stored((module, maker, repr(given) if given else ""), exact=False)


def is_function_stored(module: str, maker: str, *given: Any) -> bool:
    """Return whether find_function needs no compiler."""
    return _is_stored((module, maker, repr(given)), exact=False)


def _is_stored(key: tuple[str, str, str], *, exact: bool) -> bool:
    if key in _found:
        return True
    if not (can_load_objects() and can_execute()):
        return False
    stored = object_store.read(_text_of(key, exact=exact))
    return stored is not None and bool(stored.code)


class Overloads:
    """A compiled function of a module, for any argument types. Like Numba's dispatcher, a call
    finds or compiles the version for the types of its arguments. Without `given`, `name` names this
    function. With `given`, it names a factory: factory(*given) returns the function to compile.

    Note    the loaded versions compare the types themselves, which adds 60 ns to a call
    """

    __slots__ = ("_functions", "_given", "_module", "_name")

    def __init__(self, module: str, name: str, *given: Any) -> None:
        self._module, self._name, self._given = module, name, given
        self._functions: tuple[Callable[..., Any], ...] = ()

    def __call__(self, *given: Any) -> Any:
        for function in self._functions:
            result = function(*given)
            if result is not NotImplemented:
                return result
        return self._find(given)(*given)

    def is_stored(self, *given: Any) -> bool:
        """Return whether a call with these arguments needs no compiler."""
        return _is_stored(self._key(tuple(map(type_of, given))), exact=True)

    def _key(self, types: tuple[tuple[Any, ...], ...]) -> tuple[str, str, str]:
        return self._module, self._name, repr((self._given, types))

    def _find(self, given: tuple[Any, ...]) -> Callable[..., Any]:
        types = tuple(map(type_of, given))
        key = self._key(types)
        if key in _found:
            found: Callable[..., Any] = _found[key]
            return found

        def make(found: Any) -> Callable[..., Any]:
            # The module `compiler` is imported only here, because it imports this module.
            entry_for = _maker("jit.compiler", "entry_for")
            function: Callable[..., Any] = entry_for(
                found(*self._given) if self._given else found, types
            )
            return function

        found = _find(key, make, _function_from, exact=True)
        if not can_load_objects():
            self._functions = (found,)  # Numba's dispatcher, which accepts all types
        elif _is_exact(found):
            self._functions = (*self._functions, found)
        return found


def _is_exact(function: Callable[..., Any]) -> bool:
    """Return whether a function is loaded object code, which returns NotImplemented for types
    other than those in its signature.
    """
    return type(function) is type(len) and function.__name__ == ENTRY


class Loops:
    """The compiled functions of a module, as attributes of type Overloads."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Overloads:
        found = Overloads(self._module, name)
        setattr(self, name, found)
        return found


def type_of(value: Any) -> tuple[Any, ...]:
    """Return the type of an argument as names and numbers; the compiled version depends on it.

    Raises  TypeError for an argument that compiled functions do not accept
    """
    kind = type(value)
    if kind is np.ndarray:
        flags = value.flags
        order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return "array", value.dtype.name, value.ndim, order, flags.writeable, flags.aligned
    if kind is bool or kind is np.bool_:
        return ("boolean",)
    if kind is int:
        return ("int64",)
    if kind is float:
        return ("float64",)
    if issubclass(kind, np.generic):
        return (value.dtype.name,)
    if issubclass(kind, tuple):
        return "tuple", *map(type_of, value)
    if isinstance(value, np.ndarray):
        return type_of(value.view(np.ndarray))
    raise TypeError(f"compiled kernels take arrays of NumPy and numbers, not {kind.__name__}")


def _function_from(code: MachineCode, _: str) -> Callable[..., Any]:
    return code.function(ENTRY)


def _loop_from(code: MachineCode, notes: str) -> FoundLoop:
    share, *itemsizes = map(int, notes.split())
    return FoundLoop(code, itemsizes, share)


def _notes_of_loop(loop: Any) -> str:
    return " ".join(map(str, (loop.elements_per_thread, *loop.itemsizes)))


def _no_notes(_: Any) -> str:
    return ""


def _find(
    key: tuple[str, str, str],
    make: Callable[[Any], Kernel],
    from_code: Callable[[MachineCode, str], Kernel],
    notes_of: Callable[[Any], str] = _no_notes,
    *,
    exact: bool = False,
) -> Kernel:
    """Return a stored kernel, or compile it with make(maker) and store it."""
    module, name, _ = key
    what = f"the kernel {name} of {module}"
    if not can_execute():
        raise KernelError(
            f"{what} cannot be compiled, because the system does not let this process make memory "
            "executable: allow it (MemoryDenyWriteExecute=no for a systemd service, execmem for "
            "SELinux), or set FASTDIST_START=numpy, with which NumPy computes most ops"
        )
    if not can_load_objects():
        kernel = make(_maker(module, name))
        _found[key] = kernel
        return kernel
    text, stored, loaded = _load(key, from_code, exact=exact)
    if loaded is not None:
        return loaded
    with (
        time_range("fastdist::compile_kernel", "kernel compilation"),
        compiling(what),
        object_store.locked(text),
    ):
        if key not in _found:
            _found[key] = _made(stored, text, make, from_code, notes_of, exact=exact)
        return _found[key]  # type: ignore[no-any-return]


def _load(
    key: tuple[str, str, str], from_code: Callable[[MachineCode, str], Kernel], *, exact: bool
) -> tuple[str, Stored | None, Kernel | None]:
    """Return the key of a kernel in the store, the stored file, and the kernel loaded from it."""
    with time_range("fastdist::load_kernel", "kernel load"):
        text = _text_of(key, exact=exact)
        stored = object_store.read(text)
        loaded = _loaded(stored, from_code, *key[:2])
        if loaded is not None:
            _release_once()
    return text, stored, None if loaded is None else _found.setdefault(key, loaded)


@functools.cache
def _release_once() -> None:
    """Release the memory that modules and hashed sources used until the first kernel was loaded."""
    release_unused_memory()


def _text_of(key: tuple[str, str, str], *, exact: bool) -> str:
    """Return the key of a kernel in the store: everything that its code depends on."""
    return "\n".join((*key, str(exact), module_stamp(key[0]), machine_stamp()))


def _maker(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)


def _loaded(
    stored: Stored | None,
    from_code: Callable[[MachineCode, str], Kernel],
    module: str,
    name: str,
) -> Kernel | None:
    if stored is None or not stored.code:
        return None
    try:
        return from_code(MachineCode(stored.code), stored.notes)
    except (BrokenObjectError, ValueError, OSError) as error:
        # The file's hash is correct, so the file is complete, but it is not for this system:
        # compile the kernel, and overwrite the file.
        _logger.info("%s of %s is compiled again: %s", name, module, error)
        return None


def _made(
    stored: Stored | None,
    text: str,
    make: Callable[[Any], Kernel],
    from_code: Callable[[MachineCode, str], Kernel],
    notes_of: Callable[[Any], str],
    *,
    exact: bool,
) -> Kernel:
    module, name, *_ = text.split("\n")
    if stored is not None and not stored.code:  # the kernel is in Numba's cache
        with _recording(None):
            return make(_maker(module, name))
    newer = object_store.read(text)
    if newer is not None and newer != stored:  # another process has compiled the kernel meanwhile
        loaded = _loaded(newer, from_code, module, name)
        if loaded is not None:
            return loaded
    noted = Recorder(exact=exact)
    with _recording(noted):
        kernel = make(_maker(module, name))
    if noted.why_numba or len(noted.codes) != 1:
        why = noted.why_numba or f"it is made of {len(noted.codes)} compiled functions"
        _logger.info("%s of %s needs Numba in each process: %s", name, module, why)
        object_store.write(text, Stored(b"", why))
    else:
        object_store.write(text, Stored(noted.codes[0], notes_of(kernel)))
    return kernel
