"""`load`: what a file of `save`, ours or PyTorch's, holds."""

from __future__ import annotations

import io
import mmap as _mmap
import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from ..core.device import CPU
from ..tensor.typed_storage import TypedStorage, UntypedStorage
from .archive_reader import Archive
from .budget import Budget, brief
from .locations import restorer
from .safe_globals import UnsupportedGlobalError
from .safe_unpickler import SafeUnpickler
from .torch_names import find, own

_ZIP: Final = b"PK\x03\x04"
# What other files begin with, and what they are then.
_FOREIGN: Final = (
    (b"\x93NUMPY", "an array of NumPy's (.npy): numpy.load reads it"),
    (b"\x89HDF", "an HDF5 file: h5py reads it"),
    (b"GGUF", "a GGUF file"),
    (b"\x1f\x8b", "packed by gzip: unpack it first"),
    (b"BZh", "packed by bzip2: unpack it first"),
    (b"\xfd7zXZ", "packed by xz: unpack it first"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself: run `git lfs pull`"),
)
# The first value of PyTorch's format of before 1.6, as pickle writes it.
_LEGACY: Final = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Return what save(), ours or PyTorch's, wrote: from a path, or a file object with read() and
    seek().

    weights_only (the default): tensors, numbers, text and plain containers are read, and no code of
    the file's runs. Without it a file can run any code: only for files that you trust.
    map_location: where tensors go: a device, a dict of places, a function of (storage, place).
    mmap: a path's tensors are read as they are used; what is written to them stays here.

    Raises  pickle.UnpicklingError for a file that needs more than weights_only allows, RuntimeError
            for one that is damaged or of another kind, EOFError for an empty one
    """
    is_safe = weights_only if weights_only is not None else pickle_module is None
    if is_safe and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    is_path = isinstance(f, str | os.PathLike)
    if mmap and not is_path:
        raise ValueError(
            "f must be a file path in order to use the mmap argument, got " + type(f).__name__
        )
    if not is_path and not (hasattr(f, "read") and hasattr(f, "seek") and hasattr(f, "tell")):
        missing = "read" if not hasattr(f, "read") else "seek"
        raise AttributeError(
            f"{type(f).__name__!r} object has no attribute {missing!r}. You can only load from a "
            "path or from a file that is seekable. Please pre-load the data into a buffer like "
            "io.BytesIO and try to load from it instead."
        )
    called = f"the file {os.fspath(f)!r}" if is_path else f"the {type(f).__name__}"
    restore = restorer(map_location)
    with _opened(f) as file:
        _require_archive(file, called)
        mapped = _mapped(file) if mmap else None
        archive = Archive(file, called, mapped)
        if "constants.pkl" in archive:
            raise RuntimeError(
                f"{called} is a TorchScript archive, which holds code; save a state_dict() with "
                "PyTorch instead"
            )
        records = _Records(archive, restore)
        pickled = archive.read("data.pkl").tobytes()
        if is_safe:
            return _load_safely(pickled, records, called)
        return _load_all(pickled, records, pickle_module or pickle, pickle_load_args)


@contextmanager
def _opened(f: Any) -> Iterator[Any]:
    if isinstance(f, str | os.PathLike):
        with open(f, "rb", buffering=0) as file:
            yield file
    else:
        yield f


def _mapped(file: Any) -> _mmap.mmap:
    # Pages that are written become this process's own.
    return _mmap.mmap(file.fileno(), 0, access=_mmap.ACCESS_COPY)


def _require_archive(file: Any, called: str) -> None:
    """Raise with what the file seems to be, unless it begins as an archive does."""
    start = file.tell()
    head = file.read(64)
    file.seek(start)
    if not isinstance(head, bytes):
        raise TypeError(f"{called} gives text; open it in binary mode ('rb')")
    if head.startswith(_ZIP):
        return
    if not head:
        raise EOFError(f"Ran out of input: {called} is empty")
    for magic, what in _FOREIGN:
        if head.startswith(magic):
            raise pickle.UnpicklingError(f"{called} is no file of save(): it is {what}")
    if head[2:].startswith(_LEGACY) or head.startswith(_LEGACY):
        raise pickle.UnpicklingError(
            f"{called} is in PyTorch's format of before 1.6, which fastdist does not read; load it "
            "with PyTorch and save it again, without _use_new_zipfile_serialization=False"
        )
    if head.startswith(b"\x80"):
        what = "a plain pickle: pickle.load reads it, and runs what it says"
    elif len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32:
        what = "a safetensors file: fastdist.utils.safetensors.load_file reads it"
    elif all(byte in b"\t\n\r\f\x1b" or byte >= 32 for byte in head):
        what = f"text that begins with {head[:24].decode('utf-8', 'replace')!r}"
    else:
        what = f"something that begins with the bytes {head[:8].hex(' ')}"
    raise pickle.UnpicklingError(f"{called} is no file of save(): it is {what}")


class _Records:
    """The storages of one archive, each read once, when something first speaks of it."""

    def __init__(self, archive: Archive, restore: Any) -> None:
        self._archive = archive
        self._restore = restore
        self._known: dict[str, UntypedStorage] = {}
        self.nbytes = archive.nbytes
        order = archive.text("byteorder") if "byteorder" in archive else "little"
        if order not in ("little", "big"):
            raise ValueError(f"Unknown endianness type: {order}")
        self._is_swapped = order != sys.byteorder

    def load(self, saved_id: Any) -> Any:
        """Return the storage that a pickle's persistent id stands for."""
        if type(saved_id) is not tuple or len(saved_id) != 5 or saved_id[0] != "storage":
            raise pickle.UnpicklingError(f"a storage is not written as {brief(saved_id)}")
        _, kind, key, location, numel = saved_id
        dtype = kind.dtype if isinstance(kind, type(TypedStorage)) else None
        is_sound = dtype is not None or kind is UntypedStorage
        if not (is_sound and type(numel) is int and type(key) is str):
            raise pickle.UnpicklingError(f"a storage is not written as {brief(saved_id)}")
        size = numel * (1 if dtype is None else dtype.itemsize)
        storage = self._known.get(key)
        if storage is None:
            if type(location) is not str:
                raise pickle.UnpicklingError(f"a storage is not written as {brief(saved_id)}")
            storage = self._known[key] = self._read(key, size, location, dtype)
        if storage.nbytes() != size:
            raise RuntimeError(
                f"the storage {key!r} should hold {size} bytes, and its record in the file has "
                f"{storage.nbytes()}: the file is damaged"
            )
        if dtype is None:
            return storage
        return TypedStorage(wrap_storage=storage, dtype=dtype)

    def _read(self, key: str, size: int, location: str, dtype: Any) -> UntypedStorage:
        record = f"data/{key}"
        found = self._archive.size(record)
        if found != size:
            raise RuntimeError(
                f"the storage {key!r} should hold {size} bytes, and its record in the file has "
                f"{found}: the file is damaged"
            )
        data = self._archive.read(record)
        if self._is_swapped and dtype is not None and dtype.itemsize > 1:
            data = data.view(dtype.numpy).byteswap().view(np.uint8)
        storage = UntypedStorage.around(data, CPU)
        restored: UntypedStorage = self._restore(storage, location)
        return restored


def _load_safely(pickled: bytes, records: _Records, called: str) -> Any:
    try:
        budget = Budget(len(pickled), records.nbytes)
        return SafeUnpickler(pickled, records.load, budget).load()
    except UnsupportedGlobalError as error:
        raise pickle.UnpicklingError(
            f"Weights only load failed. {called} needs more than tensors and plain values: "
            f"WeightsUnpickler error: {error}. With weights_only=False it may load, and can run "
            "any code then: do that only if you trust who made the file"
        ) from error
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(
            f"Weights only load failed. {called} is damaged, or no save() made it: "
            f"WeightsUnpickler error: {error}"
        ) from error


def _load_all(pickled: bytes, records: _Records, pickle_module: Any, more: dict[str, Any]) -> Any:
    class Unpickler(pickle_module.Unpickler):  # type: ignore[misc]
        def persistent_load(self, saved_id: Any) -> Any:
            return records.load(saved_id)

        def find_class(self, module: str, name: str) -> Any:
            found = own(module, name)
            if found is not None:
                return found
            if module == "torch" or module.startswith("torch."):
                return find(module, name)
            return super().find_class(module, name)

    return Unpickler(io.BytesIO(pickled), **more).load()
