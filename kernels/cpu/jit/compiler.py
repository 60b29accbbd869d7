"""Numba's compiler with the disk cache in our own directory.

A kernel that is found there loads in about 2 ms; compiling it costs 60 to 400 ms. Numba's default
is `__pycache__` next to the source, that is site-packages.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import io
import linecache
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, Final

import numba
import numba.core.caching
import numba.core.ccallback
import numba.np.linalg
import numpy as np

from fastdist.system.cache_directory import cache_directory, shipped_directory
from fastdist.system.own_folder import read_own_file

from .kernel_cache import ENTRY, recorder
from .numba_inlining import PART
from .numba_passes import KernelCompiler
from .object_emitter import NotForObjectsError, object_of_callback, object_of_entry
from .source_stamp import sources_stamp
from .waiting import compiling

# Untyped on purpose: which parts of Numba carry types changes from version to version.
_caching: Any = numba.core.caching
_CFunc: Any = numba.core.ccallback.CFunc
_linalg: Any = numba.np.linalg

_SEAL_BYTES: Final = hashlib.sha256().digest_size


def _import_without_scipy() -> None:
    """Import the module of Numba's that imports scipy.linalg to find out whether it is there.

    It is, fastdist needs it. Numba's own kernels for matrices import it when they are compiled; of
    ours none does, and it takes 80 ms.
    """
    ensure_blas, _linalg.ensure_blas = _linalg.ensure_blas, lambda: None
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        _linalg.ensure_blas = ensure_blas


_import_without_scipy()


class _Locator(_caching._CacheLocator):  # type: ignore[misc]
    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        self._py_file = py_file
        # Not from the file: of generated code there is none where nothing can be written.
        source = "".join(linecache.getlines(py_file)).encode()
        self._stamp = hashlib.sha256(source).hexdigest()[:16] + sources_stamp()
        self._line = py_func.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(cache_directory("numba") or shipped_directory("numba"))

    def ensure_cache_path(self) -> None:
        pass  # it was looked at when it was found

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        # Environments with unlike Numbas share the directory: each would write over the other's.
        return f"{self._line}-{numba.__version__}"

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        return cls(py_func, py_file)


class _CacheImpl(_caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class _CacheFile(_caching.IndexDataCacheFile):  # type: ignore[misc]
    """An index and its data files, each with a hash of it and of the sources at its end: a torn one
    and one of other sources, or of another Numba, are as good as none.

    A data file says whose code it holds. Two processes that save at once may give both the same
    number, and an index is written before its data file: what lies under a number may be another's.

    Unpickled unseen, a file that a power cut left short, or another Numba wrote, would raise nearly
    any exception, and one with a hole in it could hand over broken code. The hash stands at the end
    because unpickling stops before it: a reader that does not know of it is not disturbed.
    """

    _is_shipped = False

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        return found[1] if found and found[0] == key else None

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[BinaryIO]:
        content = io.BytesIO()
        yield content
        with super()._open_for_write(filepath) as file:
            file.write(content.getvalue() + _seal(content.getvalue(), self._source_stamp))

    def _load_index(self) -> Any:
        content = self._read(self._index_path)
        if content is None:
            return {}
        file = io.BytesIO(content)
        version = pickle.load(file)
        return pickle.load(file)[1] if version == self._version else {}

    def _load_data(self, name: str) -> Any:
        content = self._read(self._data_path(name))
        if content is None:
            raise FileNotFoundError(name)  # what our caller takes for "compile it"
        return pickle.loads(content)

    def _read(self, path: str) -> bytes | None:
        """Return the file's content if it is complete and ours. It is read once, as another process
        may replace the file at any moment.
        """
        try:
            # The seal does not prove who wrote it, as everybody can make one. The proof is that
            # cache_directory checked the folder's owner; but the folder may have been open to
            # others once, and still hold their files.
            content = read_own_file(path, or_roots=self._is_shipped)
        except OSError:
            return None  # there is none, or a link in its place
        if content is None:
            return None
        written, seal = content[:-_SEAL_BYTES], content[-_SEAL_BYTES:]
        return written if seal == _seal(written, self._source_stamp) else None


class _ShippedFile(_CacheFile):
    """One that came with an image: root may have written it, and nobody writes to it here."""

    _is_shipped = True


class _Places:
    """Where a function's code may be: in the user's folder, and in that of an image."""

    def __init__(self, name: str, stamp: str) -> None:
        own, shipped = cache_directory("numba"), shipped_directory("numba")
        self._own = None if own is None else _CacheFile(own, name, stamp)
        self._shipped = None if shipped is None else _ShippedFile(shipped, name, stamp)

    def load(self, key: Any) -> Any:
        found = None if self._own is None else self._own.load(key)
        if found is None and self._shipped is not None:
            found = self._shipped.load(key)
        return found

    def save(self, key: Any, data: Any) -> None:
        if self._own is not None:
            self._own.save(key, data)

    def flush(self) -> None:
        if self._own is not None:
            self._own.flush()


def _seal(content: bytes, stamp: str) -> bytes:
    return hashlib.sha256(stamp.encode() + content).digest()


class _Cache(_caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _CacheImpl

    def __init__(self, py_func: Callable[..., Any]) -> None:
        super().__init__(py_func)
        self._cache_file = _Places(self._impl.filename_base, self._impl.locator.get_source_stamp())

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


def _has_places() -> bool:
    return cache_directory("numba") is not None or shipped_directory("numba") is not None


def _closure_of(function: Any) -> Any:
    """Return the closure's content, which distinguishes functions with the same source."""
    inside = []
    for cell in function.__closure__ or ():
        value = cell.cell_contents
        part = getattr(value, "py_func", getattr(value, "_defn", value))
        inside.append(_closure_of(part) if hasattr(part, "__closure__") else repr(part))
    return function.__qualname__, inside


def compiled(
    serves: str = "", *, inline: bool = False, alone: bool = True, **options: Any
) -> Callable[..., Any]:
    """Return a decorator like numba.njit: nogil, NumPy's division, and our cache.

    Raises  ValueError for a kernel without `serves`, the op by which messages name it
    Note    alone=False is for parts of compiled functions, which Python cannot call; inline for
            parts that are always inlined; neither has a name in messages
    """
    if not (serves or inline or not alone):
        raise ValueError('compiled("NAME OF THE OP") says what a kernel is for, in messages')

    def decorate(function: Callable[..., Any]) -> Any:
        # No fastmath by default: contract (a * b + c rounded once) is for whoever asks.
        options.setdefault("error_model", "numpy")
        if inline or not alone:
            return numba.njit(forceinline=inline, **PART, **options)(function)
        dispatcher = numba.njit(nogil=True, pipeline_class=KernelCompiler, **options)(function)
        if _has_places():
            dispatcher._cache = _Cache(function)
        dispatcher.serves = serves
        dispatcher.compile = functools.partial(_compile, dispatcher.compile, serves)
        return dispatcher

    return decorate


def _compile(compile_it: Callable[[Any], Any], serves: str, signature: Any) -> Any:
    """Do what a dispatcher does when it is called with types that it has not met."""
    with compiling(_kernel_of(serves, signature)):
        return compile_it(signature)


def _kernel_of(serves: str, signature: Any) -> str:
    return f"the kernel of {serves}{_in_dtype(signature)}"


def _in_dtype(signature: Any) -> str:
    """Return words for the first floating dtype among the arrays that a kernel takes, or else for
    the first dtype; nothing for a kernel that takes addresses.
    """
    arrays = [str(one.dtype) for one in tuple(signature) if isinstance(one, numba.types.Array)]
    floating = [one for one in arrays if one.startswith(("float", "complex"))]
    return f" in {(floating or arrays)[0]}" if arrays else ""


def entry_point(dispatcher: Any, signature: Any) -> Callable[..., Any]:
    """Return the builtin behind one signature: 25 ns a call, and it does not check its arguments.

    Note    where kernel_cache compiles for object code, that is loaded: its checks are the same
    Source  Numba's CompileResult.entry_point
    """
    noted = recorder()
    if noted is not None:
        with compiling(_kernel_of(dispatcher.serves, signature)):
            try:
                data = object_of_entry(dispatcher, tuple(signature), exact=noted.exact)
                return noted.load(data).function(ENTRY)
            except NotForObjectsError as why:
                noted.leave_to_numba(why)
    dispatcher.compile(signature)
    found: Callable[..., Any] = dispatcher.overloads[signature].entry_point
    return found


def entry_for(dispatcher: Any, types: Sequence[tuple[Any, ...]]) -> Callable[..., Any]:
    """Return the function for arguments of such types, as kernel_cache.type_of names them."""
    if recorder() is None:
        found: Callable[..., Any] = dispatcher
        return found
    return entry_point(dispatcher, tuple([_type_named(*one) for one in types]))


def _type_named(name: str, *more: Any) -> Any:
    types: Any = numba.types
    if name == "tuple":
        return types.Tuple(tuple([_type_named(*one) for one in more]))
    if name == "array":
        dtype, ndim, order, is_writable, is_aligned = more
        element = types.boolean if dtype == "bool" else getattr(types, dtype)
        return types.Array(element, ndim, order, readonly=not is_writable, aligned=is_aligned)
    return types.boolean if name in ("bool", "boolean") else getattr(types, name)


class Callback:
    """The C function of a signature, at its `address`; `what` it is in words."""

    def __init__(self, function: Callable[..., Any], signature: Any, what: str) -> None:
        options = {"nopython": True, "error_model": "numpy"}
        given = signature.args, signature.return_type
        made = _CFunc(function, given, {}, options, pipeline_class=KernelCompiler)
        self.was_cached = False
        self._made = self._code = None
        noted = recorder()
        with compiling(what):
            if noted is not None:
                try:
                    self._code = noted.load(object_of_callback(made, signature))
                    self.address: int = self._code.address(ENTRY)
                    return
                except NotForObjectsError as why:
                    noted.leave_to_numba(why)
            if _has_places():
                made._cache = _Cache(function)
            made.compile()
        # Kept: the code lives as long as its library.
        self._made = made
        self.address = made.address
        self.was_cached = made.cache_hits > 0


class Loop:
    """A compiled inner loop, over gapless memory.

    `elements_per_thread` is the least share for which a further thread pays, `what` is the kernel
    in words.

    Units   `address` is that of its C function, void (i64 pointers, i64 count); `sizes_address`
            that of the operands' item sizes in bytes, inputs first; of a number 0, see iteration.py
    """

    __slots__ = (
        "_callback", "_sizes", "address", "elements_per_thread", "itemsizes", "sizes_address",
        "was_cached",
    )  # fmt: skip

    def __init__(
        self,
        function: Callable[..., Any],
        itemsizes: Sequence[int],
        elements_per_thread: int,
        what: str,
    ) -> None:
        self.elements_per_thread = elements_per_thread
        self._callback = Callback(function, numba.void(numba.int64, numba.int64), what)
        self.address: int = self._callback.address
        self.was_cached: bool = self._callback.was_cached
        self.itemsizes = tuple(itemsizes)
        self._sizes = np.array(itemsizes, np.int64)
        self.sizes_address: int = self._sizes.ctypes.data
