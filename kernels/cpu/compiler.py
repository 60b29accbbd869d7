"""Numba's compiler with the disk cache in our own directory.

A kernel that is found there loads in about 2 ms; compiling it costs 60 to 400 ms. Numba's own
choice would be `__pycache__` beside the source, that is site-packages.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import numba
import numba.core.caching
import numba.core.ccallback
import numpy as np
from numba.core.errors import NumbaPerformanceWarning

from fastdist.core.cache_directory import cache_directory
from fastdist.core.own_folder import is_own_file

from .held_interrupt import interrupt_held

# Untyped on purpose: which parts of Numba carry types changes from version to version.
_caching: Any = numba.core.caching
_CFunc: Any = numba.core.ccallback.CFunc

# What a compiled function may have inlined from: a change in any of these makes all of them stale.
_INLINED: Final = tuple(
    f"{name}.py"
    for name in (
        "machine",
        "vector_math",
        "polynomials",
        "special",
        "iteration",
        "compiler",
        "vectors",
    )
)

_SEAL_BYTES: Final = hashlib.sha256().digest_size


@functools.cache
def sources_stamp() -> str:
    """Return a hash of the sources that compiled functions inline."""
    folder = Path(__file__).parent
    digest = hashlib.sha256(numba.__version__.encode())
    for name in _INLINED:
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()[:16]


class _Locator(_caching._CacheLocator):  # type: ignore[misc]
    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        self._py_file = py_file
        path = Path(py_file)
        source = path.read_bytes() if path.exists() else b""
        self._stamp = hashlib.sha256(source).hexdigest()[:16] + sources_stamp()
        self._line = py_func.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(cache_directory("numba"))

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        return cls(py_func, py_file)


class _CacheImpl(_caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class _CacheFile(_caching.IndexDataCacheFile):  # type: ignore[misc]
    """An index and its data files, each with its hash at the end: a torn one is as good as none.

    A data file says whose code it holds. Two processes that save at once may give both the same
    number, and where a disk is full an index may be written without its data file: what then lies
    under a number is another's.

    Unpickled unseen, a file that a power cut left short would raise nearly any exception, and one
    with a hole in it could hand over broken code. The hash stands at the end because unpickling
    stops before it: a reader that does not know of it is not disturbed.
    """

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (self._source_stamp, key, data))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        return found[2] if found and found[:2] == (self._source_stamp, key) else None

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[BinaryIO]:
        content = io.BytesIO()
        yield content
        with super()._open_for_write(filepath) as file:
            file.write(content.getvalue() + _seal(content.getvalue()))

    def _load_index(self) -> Any:
        return super()._load_index() if _is_whole(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        if not _is_whole(self._data_path(name)):
            raise FileNotFoundError(name)  # what our caller takes for "compile it"
        return super()._load_data(name)


def _seal(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _is_whole(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            # The seal is no proof of who wrote it, as all can make one. That cache_directory has
            # found the folder to be ours is; but it may have been open to others once, and still
            # hold what they put there.
            is_ours, content = is_own_file(os.fstat(file.fileno())), file.read()
    except FileNotFoundError:
        return False
    return is_ours and content[-_SEAL_BYTES:] == _seal(content[:-_SEAL_BYTES])


class _Cache(_caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _CacheImpl

    def __init__(self, py_func: Callable[..., Any]) -> None:
        super().__init__(py_func)
        self._cache_file = _CacheFile(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        # Numba's own would pickle what a closure holds, and with a compiled function or an
        # intrinsic a name made by chance: no other process would find what is kept.
        return sig, codegen.magic_tuple(), repr(_closure_of(self._py_func))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except (OSError, EOFError, ValueError, KeyError, pickle.UnpicklingError):
            return None  # a foreign file: compile, and write over it

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:
            self.disable()  # the disk is full or went away: the next process compiles again


def _closure_of(function: Any) -> Any:
    """Return what tells a function from others of the same text."""
    inside = []
    for cell in function.__closure__ or ():
        value = cell.cell_contents
        part = getattr(value, "py_func", getattr(value, "_defn", value))
        inside.append(_closure_of(part) if hasattr(part, "__closure__") else repr(part))
    return function.__qualname__, inside


def compiled(
    *, parallel: bool = False, inline: bool = False, alone: bool = True, **options: Any
) -> Callable[..., Any]:
    """Return a decorator like numba.njit: nogil, NumPy's division, and our cache.

    Note    alone=False is for parts of compiled functions, which need no cache of their own; inline
            for those that are to be inlined always
    """

    def decorate(function: Callable[..., Any]) -> Any:
        # No fastmath by default: contract (a * b + c rounded once) is for whoever asks.
        options.setdefault("error_model", "numpy")
        if inline:
            return numba.njit(forceinline=True, **options)(function)
        dispatcher = numba.njit(nogil=True, parallel=parallel, **options)(function)
        if alone and cache_directory("numba") is not None:
            dispatcher._cache = _Cache(function)
        return dispatcher

    return decorate


def entry_point(dispatcher: Any, signature: Any) -> Callable[..., Any]:
    """Return the builtin behind one signature: 25 ns a call, and it does not check its arguments.

    Source  Numba's CompileResult.entry_point
    """
    with interrupt_held(), warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaPerformanceWarning)
        dispatcher.compile(signature)
    found: Callable[..., Any] = dispatcher.overloads[signature].entry_point
    return found


class Loop:
    """A compiled inner loop, over gapless memory.

    `elements_per_thread` is the least share for which a further thread pays.

    Units   `address` is that of its C function, void (i64 pointers, i64 count); `sizes_address`
            that of the operands' item sizes in bytes, inputs first
    """

    __slots__ = (
        "_callback", "_sizes", "address", "elements_per_thread", "sizes_address", "was_cached",
    )  # fmt: skip

    def __init__(
        self, function: Callable[..., Any], itemsizes: Sequence[int], elements_per_thread: int
    ) -> None:
        self.elements_per_thread = elements_per_thread
        signature = numba.void(numba.int64, numba.int64)
        options = {"nopython": True, "error_model": "numpy"}
        # Kept: the code lives as long as its library.
        self._callback = _CFunc(function, (signature.args, signature.return_type), {}, options)
        if cache_directory("numba") is not None:
            self._callback._cache = _Cache(function)
        with interrupt_held():
            self._callback.compile()
        self.address: int = self._callback.address
        self.was_cached: bool = self._callback.cache_hits > 0
        self._sizes = np.array(itemsizes, np.int64)
        self.sizes_address: int = self._sizes.ctypes.data
