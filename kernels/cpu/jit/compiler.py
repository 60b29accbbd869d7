"""Numba's compiler, with the disk cache in fastdist's directory.

Loading a cached kernel takes about 2 ms; compiling it takes 60 to 400 ms. Numba's default directory
is `__pycache__` next to the source, which is in site-packages.
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
from .source_stamp import module_stamp, text_stamp
from .waiting import compiling

# Typed as Any, because different versions of Numba annotate different parts.
_caching: Any = numba.core.caching
_CFunc: Any = numba.core.ccallback.CFunc
_linalg: Any = numba.np.linalg

_SEAL_BYTES: Final = hashlib.sha256().digest_size


def _import_without_scipy() -> None:
    """Import numba.np.arraymath without its import of scipy.linalg, which only tests for SciPy.

    SciPy is installed, because fastdist requires it. Numba's own linear algebra kernels import
    scipy.linalg when they are compiled. fastdist's kernels do not need scipy.linalg, and its import
    takes 80 ms.
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
        # The source comes from linecache: generated code has no file if no directory is writable.
        source = "".join(linecache.getlines(py_file)).encode()
        self._stamp = text_stamp(source, py_func.__module__) + module_stamp("jit.compiler")
        self._line = py_func.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(cache_directory("numba") or shipped_directory("numba"))

    def ensure_cache_path(self) -> None:
        pass  # cache_directory has checked the folder's owner

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        # Environments with different versions of Numba share the directory.
        return f"{self._line}-{numba.__version__}"

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        return cls(py_func, py_file)


class _CacheImpl(_caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class _CacheFile(_caching.IndexDataCacheFile):  # type: ignore[misc]
    """An index and its data files. Each file ends with a hash of its content and of the sources. A
    file that is incomplete, or was written for other sources or by another version of Numba, counts
    as missing.

    A data file also has the key of its kernel. Two processes that save at the same time may use the
    same file number, and an index is written before its data file. So a file may hold another
    kernel than the one that the index lists.

    Without the hash, unpickling an incomplete file, or one of another version of Numba, could raise
    nearly any exception, and a damaged file could give broken code. The hash is at the end, because
    unpickling stops before it: readers that do not know the hash can read the file.
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
            raise FileNotFoundError(name)  # the caller then compiles
        return pickle.loads(content)

    def _read(self, path: str) -> bytes | None:
        """Return the file's content if the file is complete and has the right owner, else None. The
        file is read only once, because another process may replace it at any moment.
        """
        try:
            # The hash does not prove who wrote the file, because anyone can compute it.
            # cache_directory checks the folder's owner. But the folder may have been writable for
            # others earlier, and may still hold their files, so the file's owner is checked as
            # well.
            content = read_own_file(path, or_roots=self._is_shipped)
        except OSError:
            return None  # the file does not exist, or is a symbolic link
        if content is None:
            return None
        written, seal = content[:-_SEAL_BYTES], content[-_SEAL_BYTES:]
        return written if seal == _seal(written, self._source_stamp) else None


class _ShippedFile(_CacheFile):
    """A file that was shipped in an image: it may belong to root, and is never written here."""

    _is_shipped = True


class _Places:
    """The folders that may contain a function's code: the user's cache, and one from an image."""

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
        # Numba's own key pickles the closure. A pickled compiled function or intrinsic contains a
        # random name, so no other process would find the stored code.
        return sig, codegen.magic_tuple(), repr(_closure_of(self._py_func))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except (OSError, EOFError, ValueError, KeyError, pickle.UnpicklingError):
            return None  # not a valid file: compile, and overwrite it

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:
            self.disable()  # the disk is full or gone: the next process compiles again


def _has_places() -> bool:
    return cache_directory("numba") is not None or shipped_directory("numba") is not None


def _closure_of(function: Any) -> Any:
    """Return the content of a function's closure, to distinguish functions of the same source."""
    inside = []
    for cell in function.__closure__ or ():
        value = cell.cell_contents
        part = getattr(value, "py_func", getattr(value, "_defn", value))
        inside.append(_closure_of(part) if hasattr(part, "__closure__") else repr(part))
    return function.__qualname__, inside


def compiled(
    serves: str = "", *, inline: bool = False, alone: bool = True, **options: Any
) -> Callable[..., Any]:
    """Return a decorator like numba.njit, with nogil, NumPy's division, and this module's cache.

    Raises  ValueError for a kernel without `serves`, the name of its op in messages
    Note    alone=False is for helpers that only compiled functions call, because Python cannot call
            them; `inline` is for helpers that are always inlined; helpers need no `serves`
    """
    if not (serves or inline or not alone):
        raise ValueError('compiled("NAME OF THE OP") says what a kernel is for, in messages')

    def decorate(function: Callable[..., Any]) -> Any:
        # No fastmath by default: for `contract` (a * b + c rounded once), a function sets fastmath.
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
    """Compile a signature as the dispatcher does at a call with new types, and announce the
    wait.
    """
    with compiling(_kernel_of(serves, signature)):
        return compile_it(signature)


def _kernel_of(serves: str, signature: Any) -> str:
    return f"the kernel of {serves}{_in_dtype(signature)}"


def _in_dtype(signature: Any) -> str:
    """Return the part of a message that names a kernel's dtype: the first floating dtype among its
    arrays, or else the first dtype. For a kernel that takes addresses, it is an empty string.
    """
    arrays = [str(one.dtype) for one in tuple(signature) if isinstance(one, numba.types.Array)]
    floating = [one for one in arrays if one.startswith(("float", "complex"))]
    return f" in {(floating or arrays)[0]}" if arrays else ""


def entry_point(dispatcher: Any, signature: Any) -> Callable[..., Any]:
    """Return the builtin function that Numba compiles for one signature. A call takes 25 ns, and
    arguments are not checked.

    Note    while kernel_cache records object code, the result is the function of that object code,
            which checks its arguments
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
    """Return the function for arguments of `types`, which kernel_cache.type_of has returned."""
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
    """A compiled C function with a given signature, at `address`; messages call it `what`."""

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
        # A reference, because the code lives only as long as its library.
        self._made = made
        self.address = made.address
        self.was_cached = made.cache_hits > 0


class Loop:
    """A compiled inner loop over contiguous memory.

    `elements_per_thread` is the least number of elements for which another thread saves time.
    `what` is a description of the kernel.

    Units   `address` is the address of the loop's C function, void (i64 pointers, i64 count);
            `sizes_address` is the address of the operands' item sizes in bytes, inputs first; an
            item size is 0 for an operand that is one number, see iteration.py
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
